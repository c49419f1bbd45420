"""Windows in packed batches: each once, none padded."""

from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader

from conformance import CHECKS, Conformance
from seekset import MismatchError
from seekset.datasets import PackedWindowBatches, WindowDataset
from window_reference import fasta, item

CONTIGS = {f"c{number}": "ACGTTGCANC"[number % 7 :] * (1 + number % 4) for number in range(23)}


@pytest.fixture
def genome(write):
    return write(fasta(CONTIGS, width=9))


def made(path, **options):
    return WindowDataset(path, **{"window": 12, "stride": 7, "tail": "partial", "seed": 2, **options})


def parts(batch):
    """The windows of a batch: number, tokens, labels and loss mask of each."""
    ends = batch["cu_seqlens"].tolist()
    for k, number in enumerate(batch["windows"].tolist()):
        span = slice(ends[k], ends[k + 1])
        yield number, *(batch[name][span].tolist() for name in ("tokens", "labels", "loss_mask", "position_ids"))


@pytest.mark.parametrize("max_tokens", [None, 12, 40, 1000])
@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"rc_aug": True}, {"mask_n": True}, {"tail": "drop"}])
def test_every_window_comes_once_with_its_own_values(genome, max_tokens, options):
    ds = made(genome, **options)
    batches = list(ds.packed(max_tokens))
    seen = []
    for batch in batches:
        assert len(batch["tokens"]) <= (max_tokens or 12)
        assert batch["cu_seqlens"].dtype == torch.int32
        assert batch["max_seqlen"] == int(batch["cu_seqlens"].diff().max())
        for number, tokens, labels, mask, positions in parts(batch):
            seen.append(number)
            span = ds.spans_of(batch["windows"].new_tensor([number]).numpy(), 0)
            whole = ds.gather(span, None)[0].tolist()
            letters = "".join(map(chr, whole[1:-1]))
            expected = item(letters, len(whole), ignored="N" if "mask_n" in options else "")
            assert (tokens, labels, mask) == (expected["tokens"], expected["labels"], expected["loss_mask"])
            assert positions == list(range(len(whole)))
    assert sorted(seen) == list(range(len(ds)))


def test_short_windows_share_batches(genome):
    ds = made(genome)
    short = len(ds.plan.short()[0])
    batches = ds.packed(60).batches
    full = len(ds) - short
    assert full > 0
    assert short > 5
    assert len(batches) < -(-full // 5) + short / 2
    tokens = sum(len(batches[place]["tokens"]) for place in range(len(batches)))
    assert tokens / (60 * len(batches)) > 0.85


def test_full_windows_change_their_company_between_epochs(genome):
    batches = made(genome).packed(36).batches

    def company(epoch):
        batches.set_epoch(epoch)
        found = (sorted(batches[place]["windows"].tolist()) for place in range(len(batches)))
        return sorted(numbers for numbers in found if len(numbers) == 3)

    assert company(0) != company(1)


def test_what_can_not_be_packed_is_refused(genome):
    with pytest.raises(MismatchError, match="max_tokens mismatch: a window has 12 tokens, but a batch has only 11"):
        made(genome).packed(11)
    with pytest.raises(ValueError, match="can't be packed"):
        made(genome, ends="contig").packed()
    with pytest.raises(ValueError, match="give no transform"):
        made(genome, transform=_numbers).packed()
    with pytest.raises(ValueError, match="at most 2147483647"):
        made(genome).packed(2**31)


def test_a_state_brings_its_seed_along(genome):
    first = made(genome, rc_aug=True, seed=1).packed(30)
    batches = iter(first)
    next(batches)
    other = made(genome, rc_aug=True, seed=9).packed(30)
    other.load_state_dict(first.state_dict())
    for batch, resumed in zip(batches, other, strict=True):
        assert torch.equal(batch["tokens"], resumed["tokens"])


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_from_workers_are_the_same(genome, workers):
    context = {"multiprocessing_context": "spawn"} if workers else {}
    stream = made(genome, mask_n=True).packed(40)
    found = list(DataLoader(stream, batch_size=None, num_workers=workers, collate_fn=_as_is, **context))
    alone = {tuple(batch["windows"].tolist()): batch for batch in made(genome, mask_n=True).packed(40)}
    assert len(found) == len(alone)
    for batch in found:
        other = alone[tuple(batch["windows"].tolist())]
        assert batch.keys() == other.keys()
        for name, value in batch.items():
            assert torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name], name


def _as_is(batch):
    return batch


def _numbers(batch):
    return tuple(batch["windows"].tolist())


def _batches(path, **options):
    return PackedWindowBatches(made(path, rc_aug=True, **options), 30)


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_dataset_keeps(genome, check):
    getattr(Conformance(partial(_batches, genome), _numbers), check)()
