"""Models of Hugging Face as encoders, against the same models run one sequence at a time."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, T5EncoderModel

from seekset.datasets import PackedDataset
from seekset.errors import MismatchError, SeeksetError
from seekset.inference.encoders import as_array, describe, load_encoder, residues
from seekset.sequences import SequenceIndex
from seekset.tokens import TokenTable
from tiny_models import tiny_bert, tiny_bpe, tiny_esm, tiny_t5

SEQUENCES = ["MKTAYIAKQRQISFVKSHFSRQ", "MKVLAAGIVGLCAKAY", "LAGX", "MKV", "M", ""]


@pytest.fixture(scope="module")
def esm(tmp_path_factory):
    return tiny_esm(tmp_path_factory.mktemp("models") / "esm")


@pytest.fixture
def esm_copy(esm, tmp_path):
    """A copy of the model's folder, for a test to spoil."""
    return shutil.copytree(esm, tmp_path / "copy")


@pytest.fixture
def index(write):
    fasta = "".join(f">{k}\n{sequence}\n" for k, sequence in enumerate(SEQUENCES))
    return SequenceIndex.create([write(fasta.encode())])


def padded(encoder, sequences):
    """The batch that a worker would make."""
    facts = describe(encoder)
    assert facts.layout == "padded"
    if facts.tokens is None:
        return {"sequences": sequences}
    rows = [[*facts.tokens.prefix, *facts.tokens.encode(text), *facts.tokens.suffix] for text in sequences]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [facts.tokens.pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": mask}


def alone(folder, sequence, *, layer=None, kind=AutoModel):
    """The vectors of a sequence's residues, from the model and its own tokenizer."""
    ids = AutoTokenizer.from_pretrained(folder)(sequence, return_tensors="pt")
    with torch.no_grad():
        found = kind.from_pretrained(folder).eval()(
            input_ids=ids["input_ids"], attention_mask=ids["attention_mask"], output_hidden_states=True
        )
    return (found.last_hidden_state if layer is None else found.hidden_states[layer])[0]


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-5)


# --- ESM ------------------------------------------------------------------------------------------------------------


def test_vectors_are_the_means_of_one_sequence_at_a_time(esm, index):
    encoder = load_encoder(str(esm), device="cpu")
    facts = describe(encoder)
    seen = 0
    for batch in PackedDataset(index, tokens=facts.tokens, layout=facts.layout, max_tokens=64):
        vectors = as_array(encoder(batch), batch, facts)
        for vector, row in zip(vectors, batch["rows"].tolist(), strict=True):
            sequence = index.fetch_many([row])[0]
            close(vector, alone(esm, sequence)[1:-1].mean(0) if sequence else np.zeros(16))
            seen += 1
    assert seen == len(SEQUENCES)


def test_per_token_there_is_a_vector_for_each_residue(esm):
    encoder = load_encoder(str(esm), device="cpu", per_token=True)
    batch = padded(encoder, SEQUENCES)
    facts = describe(encoder)
    vectors = as_array(encoder(batch), batch, facts, per_token=True)
    counts = residues(batch, facts)
    assert counts.tolist() == list(map(len, SEQUENCES))
    for part, sequence in zip(np.split(vectors, np.cumsum(counts)[:-1]), SEQUENCES, strict=True):
        close(part, alone(esm, sequence)[1:-1])


@pytest.mark.parametrize("layer", [0, 1, 2, -1, -3])
def test_any_layer_can_be_taken(esm, layer):
    encoder = load_encoder(str(esm), device="cpu", layer=layer)
    found = encoder(padded(encoder, SEQUENCES[:2]))
    for vector, sequence in zip(found, SEQUENCES[:2], strict=True):
        close(vector, alone(esm, sequence, layer=layer)[1:-1].mean(0))


def test_a_layer_that_is_not_there_is_named_with_those_that_are(esm):
    for layer in (3, -4):
        message = f"there is no layer {layer}; there are 0 (the embeddings) to 2, and -1 is the last"
        with pytest.raises(MismatchError) as caught:
            load_encoder(str(esm), device="cpu", layer=layer)
        assert str(caught.value) == f"{esm}: {message}"


def test_what_it_says_of_itself_is_what_esm_is(esm):
    facts = describe(load_encoder(str(esm), device="cpu"))
    assert facts.tokens == TokenTable.named("esm")
    assert (facts.arrays, facts.layout, facts.dim, facts.max_length) == ("torch", "padded", 16, 1022)


@pytest.mark.parametrize("position_embedding_type", ["absolute", "rotary"])
def test_the_longest_sequence_that_is_allowed_fits_the_positions(tmp_path, position_embedding_type):
    """ESM's positions begin after the padding's number, so that 22 are 20 tokens, and 18 residues."""
    folder = tiny_esm(tmp_path / "short", max_position_embeddings=22, position_embedding_type=position_embedding_type)
    encoder = load_encoder(str(folder), device="cpu")
    assert encoder.max_length == 18
    assert encoder(padded(encoder, ["M" * 18])).isfinite().all()


@pytest.mark.parametrize("dtype, tolerance", [("fp32", 1e-5), ("bf16", 0.2), ("fp16", 0.02)])
def test_means_are_float32_whatever_the_model_computes_in(esm, dtype, tolerance):
    encoder = load_encoder(str(esm), device="cpu", dtype=dtype)
    batch = padded(encoder, SEQUENCES[:3])
    found = encoder(batch)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, load_encoder(str(esm), device="cpu")(batch), atol=tolerance)
    by_token = load_encoder(str(esm), device="cpu", dtype=dtype, per_token=True)
    assert by_token(batch).dtype == {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]


def test_options_of_the_model_are_passed_on(esm):
    encoder = load_encoder(str(esm), device="cpu", arguments={"attn_implementation": "eager"})
    assert encoder._model.config._attn_implementation == "eager"


# --- other tokenizers -----------------------------------------------------------------------------------------------


def test_a_tokenizer_that_wants_blanks_between_letters_is_a_table(tmp_path):
    folder = tiny_bert(tmp_path / "bert")
    encoder = load_encoder(str(folder), device="cpu")
    table = describe(encoder).tokens
    assert (table.prefix, table["L"], table["J"], table.suffix, table.pad) == ([2], 5, 1, [3], 0)
    assert encoder.max_length == 62
    for vector, sequence in zip(encoder(padded(encoder, SEQUENCES)), SEQUENCES, strict=True):
        close(vector, alone(folder, " ".join(sequence))[1:-1].mean(0) if sequence else np.zeros(16))


def test_a_model_with_tokens_of_several_letters_gets_text(tmp_path):
    folder = tiny_bpe(tmp_path / "bpe")
    encoder = load_encoder(str(folder), device="cpu")
    facts = describe(encoder)
    assert (facts.tokens, facts.max_length) == (None, None)
    sequences = ["ACGTACGTAC", "GTA", "C", ""]
    batch = padded(encoder, sequences)
    for vector, sequence in zip(as_array(encoder(batch), batch, facts), sequences, strict=True):
        close(vector, alone(folder, sequence)[1:-1].mean(0) if sequence else np.zeros(16))
    # 13 positions, of which the first is the padding's: 12 tokens, 10 of them of the sequence.
    close(encoder({"sequences": ["ACGT" * 50]})[0], encoder({"sequences": ["ACGT" * 10]})[0])


def test_tokens_of_several_letters_are_not_residues(tmp_path):
    folder = tiny_bpe(tmp_path / "bpe")
    with pytest.raises(MismatchError, match="makes tokens of several letters: there are no vectors per residue"):
        load_encoder(str(folder), device="cpu", per_token=True)


def test_of_an_encoder_with_a_decoder_the_encoder_is_taken(tmp_path):
    folder = tiny_t5(tmp_path / "t5")
    encoder = load_encoder(str(folder), device="cpu")
    table = describe(encoder).tokens
    assert (table.prefix, table["A"], table.suffix, encoder.max_length) == ([], 3, [1], None)
    for vector, sequence in zip(encoder(padded(encoder, SEQUENCES[:4])), SEQUENCES[:4], strict=True):
        close(vector, alone(folder, " ".join(sequence), kind=T5EncoderModel)[:-1].mean(0))


# --- fingerprints ---------------------------------------------------------------------------------------------------


def test_a_fingerprint_is_that_of_the_files_wherever_they_lie(esm, esm_copy, tmp_path):
    first = load_encoder(str(esm), device="cpu").fingerprint
    assert load_encoder(str(esm_copy), device="cpu").fingerprint == first
    other = tiny_esm(tmp_path / "other", seed=1)
    assert load_encoder(str(other), device="cpu").fingerprint != first


def test_large_weights_are_sampled_from_their_start_to_their_end(tmp_path):
    from seekset.inference.encoders.weights import digest_of

    weights, size = tmp_path / "model.safetensors", 3 << 20
    weights.write_bytes(bytes(size))
    digests = [digest_of(tmp_path)]
    for at in (0, (1 << 20) - 1, size - 1):
        weights.write_bytes(bytes(at) + b"x" + bytes(size - at - 1))
        digests.append(digest_of(tmp_path))
    weights.write_bytes(bytes(size + 1))
    digests.append(digest_of(tmp_path))
    (tmp_path / "README.md").write_text("nothing that vectors depend on")
    assert digest_of(tmp_path) == digests[-1]
    assert len(set(digests)) == 5


# --- what can't be loaded -------------------------------------------------------------------------------------------


def refused(spec, **options):
    with pytest.raises(SeeksetError) as caught:
        load_encoder(str(spec), device="cpu", **options)
    text = str(caught.value)
    assert text.startswith(str(spec))
    assert "\n" not in text
    return text


def test_weights_that_are_pickled_are_loaded_only_if_asked_for(esm_copy):
    expected = load_encoder(str(esm_copy), device="cpu")
    torch.save(expected._model.state_dict(), esm_copy / "pytorch_model.bin")
    (esm_copy / "model.safetensors").unlink()
    assert "the model can't be loaded" in (text := refused(esm_copy))
    assert text.endswith("(weights in other formats are loaded if unsafe_weights is asked for)")
    encoder = load_encoder(str(esm_copy), device="cpu", unsafe_weights=True)
    close(encoder(padded(encoder, SEQUENCES)), expected(padded(expected, SEQUENCES)))


def test_code_that_comes_with_a_model_is_run_only_if_asked_for(esm_copy, tmp_path):
    ran = tmp_path / "ran"
    (esm_copy / "own.py").write_text(
        f"open({str(ran)!r}, 'w').close()\n"
        "from transformers import EsmConfig, EsmModel\n"
        "class OwnConfig(EsmConfig):\n    model_type = 'own'\n"
        "class OwnModel(EsmModel):\n    config_class = OwnConfig\n"
    )
    config = json.loads((esm_copy / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (esm_copy / "config.json").write_text(json.dumps(config))
    refused(esm_copy)
    assert not ran.exists()
    encoder = load_encoder(str(esm_copy), device="cpu", trust_remote_code=True)
    assert ran.exists()
    assert encoder.dim == 16


def test_weights_that_are_missing_are_not_made_up(esm_copy):
    config = json.loads((esm_copy / "config.json").read_text())
    (esm_copy / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    text = refused(esm_copy)
    assert text.endswith("the model can't be loaded: no weights fit encoder.layer.2.LayerNorm.bias and 15 more")
    (esm_copy / "config.json").write_text(json.dumps({**config, "intermediate_size": 48}))
    assert "no weights fit encoder.layer.0.intermediate.dense.bias and 5 more" in refused(esm_copy)


def test_a_tokenizer_with_more_tokens_than_the_model_is_an_error(tmp_path):
    folder = tiny_esm(tmp_path / "esm")
    other = tiny_bert(tmp_path / "bert")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(other / name, folder / name)
    assert refused(folder).endswith("its tokenizer has ids up to 32, but the model knows 30 tokens")


def test_what_is_no_model_is_told(esm, esm_copy, tmp_path):
    assert refused(tmp_path / "missing").endswith("missing: there is no such folder")
    assert refused(esm / "config.json").endswith(
        "config.json is a file; a model is a folder with its configuration, weights and tokenizer"
    )
    assert "the tokenizer can't be loaded" in refused(tmp_path)
    assert refused(esm, dtype="int8").endswith("dtype must be fp32, bf16 or fp16, but is 'int8'")
    weights = esm_copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "the model can't be loaded: SafetensorError" in refused(esm_copy)
