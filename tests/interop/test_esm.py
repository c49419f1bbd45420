"""Packed batches and Hugging Face's ESM: the same embeddings as sequence by sequence."""

import itertools

import pytest
import torch
from transformers import EsmConfig, EsmModel

from seekset.datasets import PackedDataset
from seekset.sequences import SequenceIndex
from sequences import write_fasta

LENGTHS = [61, 44, 44, 30, 17, 9, 5, 2, 1, 80, 0, 33]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=33,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        pad_token_id=1,
        mask_token_id=32,
        position_embedding_type="rotary",
        token_dropout=True,
        max_position_embeddings=1026,
    )
    return EsmModel(config, add_pooling_layer=False).eval()


@pytest.fixture
def index(tmp_path):
    return SequenceIndex.create([write_fasta(tmp_path / "a.fa", LENGTHS, seed=9)], tmp_path / "a.sidx")


def embed_alone(model, ids):
    with torch.no_grad():
        return model(input_ids=ids[None], attention_mask=torch.ones_like(ids[None])).last_hidden_state[0]


def unpack(batch):
    ends = batch["cu_seqlens"].tolist()
    return [slice(*span) for span in itertools.pairwise(ends)]


def test_a_packed_batch_has_the_embeddings_of_its_sequences(model, index):
    """Attention within each sequence alone, and positions from 0 in each: what a varlen kernel does."""
    seen = 0
    for batch in PackedDataset(index, max_tokens=128, seed=0):
        ids, spans = batch["input_ids"], unpack(batch)
        within = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        for span in spans:
            within[span, span] = True
        together = _packed(model, ids, batch["position_ids"], within)
        for span in spans:
            alone = embed_alone(model, ids[span])
            torch.testing.assert_close(together[span], alone, rtol=1e-4, atol=1e-5)
            seen += 1
    assert seen == len(LENGTHS)


def _packed(model, ids, positions, within):
    with torch.no_grad():
        embedded = model.embeddings(input_ids=ids[None], attention_mask=torch.ones_like(ids[None]))
        mask = torch.zeros(within.shape).masked_fill(~within, torch.finfo(torch.float32).min)
        found = model(inputs_embeds=embedded, attention_mask=mask[None, None], position_ids=positions[None])
        return found.last_hidden_state[0]


def test_a_padded_batch_has_the_embeddings_of_its_sequences(model, index):
    seen = 0
    for batch in PackedDataset(index, max_tokens=256, layout="padded"):
        with torch.no_grad():
            found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        for ids, mask, embedding in zip(batch["input_ids"], batch["attention_mask"].bool(), found, strict=True):
            torch.testing.assert_close(embedding[mask], embed_alone(model, ids[mask]), rtol=1e-4, atol=1e-5)
            seen += 1
    assert seen == len(LENGTHS)
