"""Windows as items: tokens, labels, masks, strands, and what every dataset keeps."""

import itertools
import multiprocessing
import pickle
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from conformance import CHECKS, Conformance
from seekset import MismatchError, SeeksetWarning, TokenTable, _core
from seekset.datasets import Stream, WindowDataset
from seekset.loading import ResumableBatchSampler, collate
from window_reference import BOS, EOS, PAD, as_lists, fasta, item, letters, reverse_complement, spans

CONTIGS = {"chr1": "ACGTTGCAAC" * 4, "chr2": "GGatTTACAN", "tiny": "AC", "chrM": "ACGnN" * 5}


@pytest.fixture
def genome(write):
    return write(fasta(CONTIGS, width=7))


def in_order(path, **options):
    return WindowDataset(path, **{"window": 12, "stride": 7, "shuffle": False, **options})


def test_items_are_those_of_the_reference(genome):
    for tail in ("drop", "anchor", "partial"):
        ds = in_order(genome, tail=tail)
        rule = {"window": 12, "content": 10, "stride": 7, "tail": tail}
        expected = [
            item(letters[slice(*span)], 12) for letters in CONTIGS.values() for span in spans(len(letters), **rule)
        ]
        assert [as_lists(ds[place]) for place in range(len(ds))] == expected
        assert [as_lists(found) for found in ds.__getitems__(range(len(ds)))] == expected


def test_dtypes_and_shapes_are_what_models_take(genome):
    found = in_order(genome)[0]
    assert {name: (value.dtype, value.shape) for name, value in found.items()} == {
        "tokens": (torch.int64, (12,)),
        "labels": (torch.int64, (12,)),
        "loss_mask": (torch.float32, (12,)),
        "position_ids": (torch.int64, (12,)),
    }
    for dtype in (torch.uint8, torch.int32):
        narrow = in_order(genome, dtype=dtype)[3]
        assert narrow["tokens"].dtype == narrow["labels"].dtype == dtype
        assert as_lists(narrow) == as_lists(in_order(genome)[3])


def test_special_tokens_may_be_left_out(genome):
    ds = in_order(genome, include_bos=False, include_eos=False)
    assert ds.plan.content == 12
    assert as_lists(ds[0]) == item(CONTIGS["chr1"][:12], 12, header=(), footer=())
    assert as_lists(in_order(genome, include_eos=False)[0]) == item(CONTIGS["chr1"][:11], 12, footer=())


def test_special_tokens_at_the_ends_of_contigs_only(genome):
    ds = in_order(genome, ends="contig")
    assert as_lists(ds[0]) == item(CONTIGS["chr1"][:11], 12, footer=())
    assert as_lists(ds[1]) == item(CONTIGS["chr1"][7:19], 12, header=(), footer=())
    assert ds.place(1)[2:4] == (7, 19)
    last = ds.place(len(ds) - 1)
    assert last.contig == "chrM"
    assert as_lists(ds[len(ds) - 1]) == item(CONTIGS["chrM"][14:], 12, header=())
    tiny = next(place for place in range(len(ds)) if ds.place(place).contig == "tiny")
    assert as_lists(ds[tiny]) == item("AC", 12)


def seen_letters(ds):
    return {(window.contig, at) for window in map(ds.place, range(len(ds))) for at in range(window.start, window.end)}


@pytest.mark.parametrize("tail", ["anchor", "partial"])
@pytest.mark.parametrize(
    "options", [{}, {"rc_aug": True}, {"include_bos": False}, {"include_eos": False, "rc_aug": True}]
)
def test_without_a_stride_windows_with_the_ends_of_contigs_see_every_letter(write, tail, options):
    lengths = range(1, 40)
    path = write(fasta({f"c{length}": letters(length) for length in lengths}))
    ds = WindowDataset(path, window=7, ends="contig", tail=tail, shuffle=False, **options)
    assert len(seen_letters(ds)) == sum(lengths)
    assert (ds.plan.stride, ds.plan.unseen) == (6 if tail == "anchor" else ds.plan.content, 0)
    ended = [ds.place(place) for place in range(len(ds))]
    assert {window.contig for window in ended if window.end == int(window.contig[1:])} == set(
        map("c{}".format, lengths)
    )


@pytest.mark.parametrize("tail", ["drop", "anchor", "partial"])
def test_letters_that_windows_with_the_ends_of_contigs_leave_out_are_told(write, tail):
    path = write(fasta({f"c{length}": letters(length) for length in range(1, 40)}))
    with pytest.warns(
        SeeksetWarning, match=r"are in no window: the stride of 9 is larger than a window's content of 6"
    ):
        ds = WindowDataset(path, window=7, stride=9, ends="contig", tail=tail, shuffle=False)
    assert ds.plan.unseen == sum(range(1, 40)) - len(seen_letters(ds)) > 0


def test_a_stride_of_all_letters_but_those_of_the_first_window_leaves_none_out(write):
    path = write(fasta({"c": letters(60)}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = WindowDataset(path, window=12, stride=11, ends="contig", shuffle=False)
    assert len(seen_letters(ds)) == 60


def test_a_reversed_window_begins_where_its_contig_ends(genome):
    ds = in_order(genome, ends="contig", rc_aug=True, seed=3)
    seen = set()
    for place in range(len(ds)):
        window, letters = ds.place(place), CONTIGS[ds.place(place).contig]
        begins, finishes = window.start == 0, window.end >= len(letters)
        if window.reverse and begins != finishes:
            tokens = ds[place]["tokens"].tolist()
            assert (tokens[0] == BOS) == finishes
            assert (EOS in tokens) == begins
            seen.add(finishes)
    assert seen == {True, False}


def test_masked_letters_do_not_count(genome):
    for options, ignored in [
        ({"mask_n": True}, "nN"),
        ({"mask_lowercase": True}, "acgtn"),
        ({"mask_n": True, "mask_lowercase": True}, "acgtnN"),
    ]:
        ds = in_order(genome, **options)
        for place in range(len(ds)):
            window = ds.place(place)
            letters = CONTIGS[window.contig][window.start : window.end]
            assert as_lists(ds[place]) == item(letters, 12, ignored=ignored), (options, window)


def test_reverse_complements_are_drawn_from_seed_epoch_and_window(genome):
    plain, ds = in_order(genome), in_order(genome, rc_aug=True, seed=5)
    drawn = []
    for epoch in range(4):
        ds.set_epoch(epoch)
        drawn.append([ds.place(place).reverse for place in range(len(ds))])
        for place, reverse in enumerate(drawn[-1]):
            window = ds.place(place)
            letters = CONTIGS[window.contig][window.start : window.end]
            expected = item(reverse_complement(letters) if reverse else letters, 12)
            assert as_lists(ds[place]) == expected
            assert window[:4] == plain.place(place)[:4]
    assert len({tuple(flags) for flags in drawn}) == 4
    assert {True, False} == set(itertools.chain(*drawn))
    shuffled = WindowDataset(genome, window=12, stride=7, rc_aug=True, seed=5)
    by_window = {shuffled.place(place)[1:4]: shuffled.place(place).reverse for place in range(len(shuffled))}
    ds.set_epoch(0)
    assert by_window == {ds.place(place)[1:4]: ds.place(place).reverse for place in range(len(ds))}


def test_regions_are_read_on_their_strand(genome, write):
    bed = write(b"chr1\t3\t9\tx\t0\t-\nchr1\t3\t9\tx\t0\t+\n", "r.bed")
    ds = in_order(genome, regions=bed)
    letters = CONTIGS["chr1"][3:9]
    assert [as_lists(ds[place]) for place in (0, 1)] == [item(reverse_complement(letters), 12), item(letters, 12)]
    with pytest.raises(ValueError, match="regions have no ends of contigs"):
        in_order(genome, regions=bed, ends="contig")


def test_compressed_genomes_give_the_same(genome, bgzip):
    assert [as_lists(found) for found in in_order(bgzip(genome))] == [as_lists(found) for found in in_order(genome)]


def test_tables_that_lack_what_is_asked_for_are_refused(genome):
    bare = TokenTable({"A": 5, "C": 6, "G": 7, "T": 8}, specials={"unk": 9})
    with pytest.raises(MismatchError, match="has no pad id"):
        in_order(genome, tokens=bare)
    with pytest.raises(MismatchError, match="has no bos id: give include_bos=False"):
        in_order(genome, tokens="nucleotide", include_bos=True)
    assert in_order(genome, tokens="nucleotide").plan.content == 12
    with pytest.raises(MismatchError, match="no room for letters"):
        in_order(genome, window=2)
    for options in ({"ends": "both"}, {"dtype": torch.float32}):
        with pytest.raises(ValueError, match="must be"):
            in_order(genome, **options)
    with pytest.raises(IndexError, match="out of range"):
        in_order(genome)[10_000]


def test_transforms_take_the_place_of_items(genome):
    ds = in_order(genome, transform=lambda found: int(found["tokens"].sum()))
    assert ds[0] == int(in_order(genome)[0]["tokens"].sum())
    assert ds.__getitems__([0, 1]) == [ds[0], ds[1]]


def test_tables_of_one_two_and_three_windows_are_shuffled(write):
    for count in (1, 2, 3):
        path = write(fasta({f"c{number}": "ACGT" * (number + 1) for number in range(count)}), f"{count}.fa")
        ds = WindowDataset(path, window=20)
        assert sorted(ds.place(place).contig for place in range(len(ds))) == [f"c{k}" for k in range(count)]


# --- batches ---


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"mask_n": True}, {"dtype": torch.uint8}])
def test_batches_from_workers_are_what_items_are(genome, workers, options):
    ds = WindowDataset(genome, window=12, stride=7, rc_aug=True, **options)
    sampler = ResumableBatchSampler(ds, 3)
    context = {"multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(ds, batch_sampler=sampler, collate_fn=collate, num_workers=workers, **context)
    found = list(loader)
    assert [len(batch["tokens"]) for batch in found[:-1]] == [3] * (len(found) - 1)
    rows = [{name: value[k] for name, value in batch.items()} for batch in found for k in range(len(batch["tokens"]))]
    assert [as_lists(row) for row in rows] == [as_lists(ds[place]) for place in range(len(ds))]
    assert all(value.dtype == ds[0][name].dtype for name, value in found[0].items())


def test_torchs_own_collate_stacks_items(genome):
    ds = in_order(genome)
    batch = next(iter(DataLoader(ds, batch_size=4)))
    assert batch["tokens"].tolist() == [ds[place]["tokens"].tolist() for place in range(4)]


def _first_token_sums(ds, queue):
    queue.put([int(ds[place]["tokens"].sum()) for place in range(len(ds))])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_however_started_read_the_same(genome, method):
    ds = WindowDataset(genome, window=12, stride=7, seed=1)
    expected = [int(ds[place]["tokens"].sum()) for place in range(len(ds))]
    context = torch.multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_first_token_sums, args=(ds, queue))
    process.start()
    assert queue.get(timeout=60) == expected
    process.join()


def test_a_plain_pickle_reads_the_same(genome):
    ds = WindowDataset(genome, window=12, stride=7)
    copy = pickle.loads(pickle.dumps(ds))
    assert [as_lists(found) for found in copy] == [as_lists(found) for found in ds]


# --- the contract ---


def _make(path, **options):
    return WindowDataset(path, **{"window": 12, "stride": 7, "rc_aug": True, "seed": 4, **options})


def _key(found):
    """Windows of this genome may have the same letters, but not these."""
    return tuple(found["tokens"].tolist())


@pytest.fixture
def conformance(write):
    return Conformance(partial(_make, write(fasta({"a": letters(90), "b": "ACC", "c": "TTG"}))), _key)


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_dataset_keeps(conformance, check):
    getattr(conformance, check)()


@pytest.mark.parametrize("workers, streamed", list(itertools.product((0, 2), (True, False))))
def test_resuming_with_torchdata(conformance, workers, streamed):
    conformance.stateful_loaders_resume_at_every_batch(workers, streamed=streamed)


def test_states_of_other_windows_are_refused(genome):
    state = in_order(genome).state_dict()
    for other in (in_order(genome, stride=5), in_order(genome, rc_aug=True), in_order(genome, include="chr1")):
        with pytest.raises(MismatchError, match="state mismatch"):
            other.load_state_dict(state)
    stream = Stream(in_order(genome))
    with pytest.raises(MismatchError, match="state mismatch"):
        Stream(in_order(genome, stride=5)).load_state_dict(stream.state_dict())


LETTERS = st.text("ACGTNacgtn", max_size=70)


@given(
    contigs=st.lists(LETTERS, min_size=1, max_size=5),
    window=st.integers(3, 20),
    stride=st.integers(1, 25),
    tail=st.sampled_from(["drop", "anchor", "partial"]),
    width=st.integers(1, 30),
)
@pytest.mark.filterwarnings("ignore::seekset.SeeksetWarning")
def test_any_windows_of_any_contigs(scratch, contigs, window, stride, tail, width):
    path = scratch(fasta({f"c{number}": letters for number, letters in enumerate(contigs)}, width=width))
    ds = WindowDataset(path, window=window, stride=stride, tail=tail, shuffle=False)
    rule = {"window": window, "content": window - 2, "stride": stride, "tail": tail}
    expected = [item(letters[slice(*span)], window) for letters in contigs for span in spans(len(letters), **rule)]
    assert [as_lists(found) for found in ds.__getitems__(range(len(ds)))] == expected
    assert PAD in ds[0]["labels"].tolist() if expected else len(ds) == 0


@pytest.fixture
def little_shared_memory(monkeypatch):
    """Shared memory has room for a few numbers only, as in many containers."""
    share = torch.Tensor.share_memory_

    def share_few(tensor):
        if tensor.numel() > 3:
            raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")
        return share(tensor)

    monkeypatch.setattr(torch.Tensor, "share_memory_", share_few)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_plan_without_room_in_shared_memory_is_shared_as_a_file(genome, little_shared_memory, context):
    ds = in_order(genome)
    assert not ds.plan.ends.flags.writeable  # unlike shared memory
    expected = [as_lists(ds[place]) for place in range(len(ds))]
    loader = DataLoader(ds, batch_size=None, num_workers=2, multiprocessing_context=context)
    assert [as_lists(found) for found in loader] == expected
    copied = pickle.loads(pickle.dumps(ds))
    del ds, loader
    assert [as_lists(found) for found in copied] == expected


def test_no_room_anywhere_is_told(genome, little_shared_memory, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: Path("/dev/full").open("wb"))  # noqa: SIM115
    with pytest.raises(OSError, match="No space left on device: 32 bytes that all processes share"):
        in_order(genome)


def test_processes_are_not_left_behind(genome):
    ds, before = in_order(genome), multiprocessing.active_children()
    list(DataLoader(ds, batch_size=2, num_workers=2, multiprocessing_context="fork", collate_fn=collate))
    assert multiprocessing.active_children() == before


@pytest.mark.parametrize("unknown", [1, 9])
def test_letters_whose_id_is_a_special_one_do_not_count(write, unknown):
    """Else the mask follows from where letters lie, and tokens are not looked at for it."""
    table = TokenTable({"A": 4, "C": 5}, specials={"bos": 2, "eos": 3, "pad": 1, "unk": unknown}, fold_case=True)
    ds = WindowDataset(write(b">a\nACNNA\n"), window=8, tokens=table, shuffle=False, tail="partial")
    assert ds[0]["labels"].tolist() == [4, 5, unknown, unknown, 4, 3, 1, 1]
    counts = float(unknown != 1)
    assert ds[0]["loss_mask"].tolist() == [1, 1, counts, counts, 1, 0, 0, 0]


def test_a_mask_of_more_labels_than_can_be_counted_is_a_memory_error():
    """Two rows of so many labels are 100,000 labels modulo 2**64: those would be memory that nobody wrote."""
    with pytest.raises(MemoryError):
        _core.letters_mask(np.array([0, 0]), np.array([1, 1]), 2**63 + 50_000)
