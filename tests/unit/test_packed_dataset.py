"""Packed batches as a torch dataset."""

import json
import pickle
import warnings
from functools import partial
from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import seekset
from conformance import CHECKS, RANKS, WORKERS, Conformance, in_a_fresh_process
from seekset.datasets import PackedDataset
from seekset.errors import MismatchError, SeeksetWarning, StaleIndexError
from seekset.ledger import Ledger
from seekset.loading import ResumableSampler
from seekset.plan import Plan
from seekset.sequences import SequenceIndex
from seekset.world import World
from sequences import check_packed, write_fasta

LENGTHS = ([40, 7, 0, 61, 12, 1], [], [33, 33, 33, 5, 90, 2, 18, 64], [50, 51, 52, 53, 70, 71, 60, 61, 62, 63, 30, 31])
COUNT = sum(map(len, LENGTHS))


@pytest.fixture
def index(tmp_path):
    """A sequence index of four files, one of which is empty."""
    paths = [
        write_fasta(tmp_path / f"{name}.fa", lengths, seed=3) for name, lengths in zip("abcd", LENGTHS, strict=True)
    ]
    SequenceIndex.create(paths, tmp_path / "all.sidx").close()
    return tmp_path / "all.sidx"


def batches_of(index, **options):
    return PackedDataset(index, max_tokens=100, rank=0, world_size=1, **options).batches


def rows_of(batch):
    return tuple(batch["rows"].tolist())


@pytest.fixture
def conformance(index):
    return Conformance(partial(batches_of, index, seed=3), key=rows_of, unshuffled={"seed": None})


# --- the contract of all datasets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_dataset_keeps(conformance, check):
    getattr(conformance, check)()


def test_orders_are_pure_functions_of_seed_and_epoch(conformance):
    conformance.orders_are_pure_functions_of_seed_and_epoch(shuffled=True)


def test_without_a_seed_the_order_is_the_plans(index):
    Conformance(partial(batches_of, index), rows_of).orders_are_pure_functions_of_seed_and_epoch(shuffled=False)


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("streamed", [True, False])
def test_stateful_loaders_resume_at_every_batch(conformance, workers, streamed):
    conformance.stateful_loaders_resume_at_every_batch(workers, streamed=streamed)


# --- what is in a batch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overflow", ["truncate", "split"])
def test_batches_hold_what_the_files_hold(index, overflow):
    overlap = 4 if overflow == "split" else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeeksetWarning)
        ds = PackedDataset(index, max_tokens=50, max_length=48, overflow=overflow, overlap=overlap)
    batches = list(ds)
    for batch in batches:
        check_packed(batch, ds.index, max_length=48)
        assert len(batch["input_ids"]) <= 50
        assert batch["input_ids"].dtype == batch["position_ids"].dtype == batch["rows"].dtype == torch.int64
        assert batch["cu_seqlens"].dtype == torch.int32
        assert batch["input_ids"].is_contiguous()
    assert {row for batch in batches for row in batch["rows"].tolist()} == set(range(COUNT))


def test_padded_batches_have_a_mask(index):
    ds = PackedDataset(index, max_tokens=200, layout="padded")
    seen = []
    for batch in ds:
        ids, mask = batch["input_ids"], batch["attention_mask"]
        assert ids.shape == mask.shape == (batch["num_sequences"], batch["max_seqlen"])
        assert ids.numel() <= 200
        lengths = mask.sum(dim=1).tolist()
        assert lengths == [ds.index.entry(row).length + 2 for row in batch["rows"].tolist()]
        assert (ids[~mask.bool()] == 1).all()
        assert (ids[:, 0] == 0).all()
        assert [ids[at, length - 1].item() for at, length in enumerate(lengths)] == [2] * len(lengths)
        seen += batch["rows"].tolist()
    assert sorted(seen) == list(range(COUNT))


def test_a_whole_batch_is_one_item_of_the_view(index):
    ds = PackedDataset(index, max_tokens=100, seed=1)
    loader = DataLoader(ds.batches, batch_size=None, sampler=ResumableSampler(ds.batches))
    assert [rows_of(batch) for batch in loader] == [rows_of(batch) for batch in ds]
    assert rows_of(ds.batches[-1]) == rows_of(ds.batches[len(ds.batches) - 1])
    with pytest.raises(IndexError, match="out of range"):
        ds.batches[len(ds.batches)]


def test_an_index_without_sequences_has_no_batches(tmp_path):
    index = SequenceIndex.create([write_fasta(tmp_path / "none.fa", [])], tmp_path / "none.sidx")
    ds = PackedDataset(index)
    assert (len(ds), list(ds), ds.whole) == (0, [], Ledger())


def test_repacking_changes_what_is_together_and_nothing_else(tmp_path):
    index = SequenceIndex.create([write_fasta(tmp_path / "a.fa", [9] * 40 + [20] * 30)], tmp_path / "a.sidx")
    ds = PackedDataset(index, max_tokens=64, seed=5, repack_each_epoch=True)
    epochs = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        batches = list(ds)
        for batch in batches:
            check_packed(batch, index)
        epochs.append({frozenset(rows_of(batch)) for batch in batches})
        assert sorted(chain(*map(rows_of, batches))) == list(range(70))
        assert ds.ledger == ds.whole
    assert epochs[0] != epochs[1] != epochs[2]
    fresh = PackedDataset(index, max_tokens=64, seed=5, repack_each_epoch=True)
    fresh.set_epoch(1)
    assert {frozenset(rows_of(batch)) for batch in fresh} == epochs[1]
    assert Conformance(partial(_repacked, index.path), rows_of).streams_resume_at_every_item() is None


def _repacked(path):
    return PackedDataset(path, max_tokens=64, seed=5, repack_each_epoch=True).batches


# --- exactly once -----------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    files=st.lists(st.lists(st.integers(0, 70), max_size=12), min_size=1, max_size=3),
    seed=st.none() | st.integers(0, 2**63 - 1),
)
def test_all_rows_come_once_for_all_ranks_and_workers(tmp_path_factory, files, seed):
    folder = tmp_path_factory.mktemp("files")
    paths = [write_fasta(folder / f"{k}.fa", lengths) for k, lengths in enumerate(files)]
    index = SequenceIndex.create(paths, folder / "all.sidx")
    for ranks in RANKS:
        for workers in WORKERS:
            total, rows = Ledger(), []
            for rank in range(ranks):
                ds = PackedDataset(index, max_tokens=90, seed=seed, rank=rank, world_size=ranks)
                for worker in range(max(workers, 1)):
                    mine = _of_worker(ds, World(rank, ranks, worker, max(workers, 1)))
                    rows += [row for batch in mine for row in rows_of(batch)]
                    total += mine.ledger
            assert sorted(rows) == list(range(len(index)))
            assert total == ds.whole == Ledger.of(range(len(index)))


def _of_worker(ds, world):
    """The same dataset as a worker of a loader sees it."""
    worker = PackedDataset(ds.index, plan=ds.plan, seed=_seed(ds), rank=world.rank, world_size=world.size)
    worker._share = type(worker._share)(len(ds.batches), world, "none")
    return _Kept(worker)


class _Kept(list):
    def __init__(self, ds):
        super().__init__(ds)
        self.ledger = ds.ledger


def _seed(ds):
    return ds.batches._order.seed if ds.batches._order.shuffle else None


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_real_workers_keep_one_ledger(index, workers):
    total = Ledger()
    for rank in range(2):
        ds = PackedDataset(index, max_tokens=100, seed=2, rank=rank, world_size=2)
        loader = DataLoader(ds, batch_size=None, num_workers=workers, multiprocessing_context="fork")
        for _ in range(2):  # a second time begins anew
            rows = [row for batch in loader for row in rows_of(batch)]
            assert ds.ledger == Ledger.of(rows)
        total += ds.ledger
    assert total == ds.whole


def test_a_ledger_goes_on_where_a_run_resumes(index):
    ds = PackedDataset(index, max_tokens=100, seed=2)
    batches = iter(ds)
    next(batches)
    state = json.loads(json.dumps(ds.state_dict()))
    fresh = PackedDataset(index, max_tokens=100, seed=2)
    fresh.load_state_dict(state)
    assert fresh.ledger.count == ds.ledger.count > 0
    list(fresh)
    assert fresh.ledger == fresh.whole


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_ledger_goes_on_through_loaders(index, workers):
    options = {"batch_size": None, "num_workers": workers}
    options |= {"multiprocessing_context": "fork"} if workers else {}
    loader = StatefulDataLoader(PackedDataset(index, max_tokens=100, seed=2), **options)
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    fresh = PackedDataset(index, max_tokens=100, seed=2)
    resumed = StatefulDataLoader(fresh, **options)
    resumed.load_state_dict(state)
    list(resumed)
    assert fresh.ledger == fresh.whole


def test_one_ranks_state_does_for_all(index):
    """Trainers save what the first rank says: positions are the same on all, and ledgers follow from them."""
    ranks = [PackedDataset(index, max_tokens=100, seed=2, rank=rank, world_size=2) for rank in range(2)]
    batches = iter(ranks[0])
    next(batches), next(batches)
    total = Ledger()
    for rank in range(2):
        resumed = PackedDataset(index, max_tokens=100, seed=2, rank=rank, world_size=2)
        resumed.load_state_dict(ranks[0].state_dict())
        list(resumed)
        total += resumed.ledger
    assert total == resumed.whole


def test_an_epoch_that_is_set_meanwhile_is_the_next_one(index):
    ds = PackedDataset(index, max_tokens=100, seed=2)
    first = list(map(rows_of, ds))
    ds.set_epoch(1)
    second = list(map(rows_of, ds))
    ds.set_epoch(0)
    batches = iter(ds)
    begun = [rows_of(next(batches)) for _ in range(3)]
    ds.set_epoch(1)
    assert begun + [rows_of(batch) for batch in batches] == first
    assert [rows_of(batch) for batch in ds] == second


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_loaders_of_whole_batches_resume_after_every_batch_in_a_fresh_process(index, workers):
    states = []
    loader = _stateful(index, workers)
    whole = []
    for batch in loader:
        whole.append(rows_of(batch))
        states.append(json.loads(json.dumps(loader.state_dict())))
    rests = in_a_fresh_process(_rests, index, workers, states[:-1])
    assert rests == [whole[done:] for done in range(1, len(whole))]
    assert sorted(chain(*whole)) == list(range(COUNT))


def _stateful(index, workers):
    options = {"multiprocessing_context": "fork"} if workers else {}
    ds = PackedDataset(index, max_tokens=100, seed=2, rank=0, world_size=1)
    return StatefulDataLoader(ds, batch_size=None, num_workers=workers, **options)


def _rests(index, workers, states):
    rests = []
    for state in states:
        loader = _stateful(index, workers)
        loader.load_state_dict(state)
        rests.append([rows_of(batch) for batch in loader])
        assert loader.dataset.ledger == loader.dataset.whole
    return rests


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_ranks_have_as_many_tokens(tmp_path):
    draw = torch.Generator().manual_seed(0)
    lengths = (torch.randn(6000, generator=draw) * 0.6 + 4.5).exp().clamp(5, 1000).int().tolist()
    index = SequenceIndex.create([write_fasta(tmp_path / "many.fa", lengths)], tmp_path / "many.sidx")
    for seed in (None, 0, 1):
        tokens = []
        for rank in range(4):
            ds = PackedDataset(index, max_tokens=1024, rank=rank, world_size=4, seed=seed)
            assert len(ds) >= 100
            tokens.append(sum(int(ds.plan.tokens[number]) for number in _numbers(ds)))
        assert max(tokens) - min(tokens) <= 0.01 * max(tokens)


def _numbers(ds):
    """The numbers of the plan's batches that a rank gets."""
    return ds.batches._order.rows(ds._share.places()).tolist()


@pytest.mark.parametrize("even, counts", [("none", {2, 3}), ("drop", {2}), ("pad", {3})])
def test_ranks_can_have_as_many_batches(index, even, counts):
    plan = Plan.create(SequenceIndex.load(index), max_tokens=100)
    assert len(plan) % 3, "they would divide anyway"
    lengths = set()
    for rank in range(len(plan) // 2):
        ds = PackedDataset(index, plan=plan, rank=rank, world_size=len(plan) // 2, even=even)
        lengths.add(len(list(ds)))
        assert len(ds) in lengths
    assert lengths == counts


def test_ranks_that_get_nothing_are_told(index):
    with pytest.warns(SeeksetWarning, match="every rank is idle"):
        ds = PackedDataset(index, max_tokens=100, rank=3, world_size=50, drop_last=True)
    assert list(ds) == []


def test_more_ranks_than_sequences(tmp_path):
    index = SequenceIndex.create([write_fasta(tmp_path / "a.fa", [5, 9])], tmp_path / "a.sidx")
    parts = [list(PackedDataset(index, max_tokens=12, rank=rank, world_size=7)) for rank in range(7)]
    assert sorted(map(len, parts)) == [0] * 5 + [1, 1]


# --- handing over -----------------------------------------------------------------------------------------------------


def test_a_dataset_pickles_by_its_index(index):
    ds = PackedDataset(index, max_tokens=100, seed=4)
    ds.set_epoch(2)
    again = pickle.loads(pickle.dumps(ds))
    assert [rows_of(batch) for batch in again] == [rows_of(batch) for batch in ds]


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_batches_come_from_workers_as_they_are(index, layout):
    ds = PackedDataset(index, max_tokens=200, seed=4, layout=layout)
    loader = DataLoader(ds, batch_size=None, num_workers=1, multiprocessing_context="fork")
    for received, here in zip(loader, ds, strict=True):
        assert list(received) == list(here)
        for name, value in here.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(received[name], value)
                assert received[name].dtype == value.dtype
            else:
                assert received[name] == value


def test_spawned_workers_read_the_same(index):
    ds = PackedDataset(index, max_tokens=100, seed=4)
    loader = DataLoader(ds, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert sorted(map(rows_of, loader)) == sorted(map(rows_of, ds))
    assert ds.ledger == ds.whole


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rank": 2, "world_size": 2}, "rank must be from 0 to 1"),
        ({"rank": -1, "world_size": 2}, "rank must be from 0 to 1"),
        ({"rank": 0, "world_size": 0}, "world size must be at least 1"),
        ({"rank": 0}, "both rank and world_size"),
        ({"drop_last": True, "even": "pad"}, "can't go with"),
        ({"even": "some"}, "even must be"),
        ({"repack_each_epoch": True}, "give one"),
        ({"max_tokens": 60, "max_length": None}, "60"),
        ({"layout": "round"}, "layout"),
        ({"overflow": "wrap"}, "overflow"),
        ({"max_length": 60, "overflow": "error"}, "60"),
    ],
)
def test_what_does_not_fit_is_said_before_any_step(index, options, message):
    with pytest.raises(ValueError, match=message):
        PackedDataset(index, **options)


def test_a_table_must_be_given_and_known(index):
    with pytest.raises(TypeError, match="not None"):
        PackedDataset(index, tokens=None)
    with pytest.raises(ValueError, match="protein"):
        PackedDataset(index, tokens="protein")


def test_a_table_without_padding_has_no_padded_batches(index):
    table = seekset.TokenTable({letter: k for k, letter in enumerate("LAGVSERTIDPKQNFYMHWCXBZUO")})
    with pytest.raises(MismatchError, match="no pad id"):
        PackedDataset(index, tokens=table, layout="padded")
    plan = Plan.create(SequenceIndex.load(index), tokens=table, layout="padded")
    with pytest.raises(MismatchError, match="no pad id"):
        PackedDataset(index, tokens=table, plan=plan)


def test_a_plan_of_another_index_is_refused(index, tmp_path):
    other = SequenceIndex.create([write_fasta(tmp_path / "other.fa", [4, 5])], tmp_path / "other.sidx")
    plan = Plan.create(other)
    with pytest.raises(MismatchError, match="index"):
        PackedDataset(index, plan=plan)
    plan.save(tmp_path / "other.plan")
    with pytest.raises(MismatchError, match=r"other\.plan"):
        PackedDataset(index, plan=tmp_path / "other.plan")


def test_a_plan_goes_with_no_other_rules_and_no_other_specials(index):
    plan = Plan.create(SequenceIndex.load(index), max_tokens=100)
    with pytest.raises(ValueError, match="max_tokens can't be given"):
        PackedDataset(index, plan=plan, max_tokens=200)
    with pytest.raises(MismatchError, match="counts 2 special tokens"):
        PackedDataset(index, plan=plan, tokens="bytes")


def test_a_missing_file_is_named_with_the_index(index):
    (index.parent / "a.fa").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.fa.*all\.sidx|all\.sidx.*a\.fa"):
        PackedDataset(index)


def test_a_changed_file_is_stale(index):
    write_fasta(index.parent / "a.fa", [40, 8])
    with pytest.raises(StaleIndexError, match=r"a\.fa"):
        PackedDataset(index)


def test_a_file_that_changes_later_is_stale(index):
    ds = PackedDataset(index, max_tokens=100)
    next(iter(ds))
    write_fasta(index.parent / "a.fa", [40, 8])
    write_fasta(index.parent / "c.fa", [40, 8])
    with pytest.raises(StaleIndexError):
        list(ds)


def test_after_a_state_was_refused_every_sequence_comes_once(index):
    ds = PackedDataset(index, max_tokens=100, seed=1)
    batches = iter(ds)
    next(batches), next(batches)
    here = PackedDataset(index, max_tokens=100, seed=1, repack_each_epoch=True)
    with pytest.raises(MismatchError, match="repack was False and is True here"):
        here.load_state_dict(ds.state_dict())
    assert sum(batch["num_sequences"] for batch in here) == COUNT
    assert here.ledger == here.whole


def test_a_state_of_another_plan_is_refused(index):
    state = PackedDataset(index, max_tokens=100, seed=0).state_dict()
    with pytest.raises(MismatchError, match="state mismatch"):
        PackedDataset(index, max_tokens=120, seed=0).load_state_dict(state)
    ranks = [PackedDataset(index, max_tokens=100, seed=0, rank=0, world_size=size).batches for size in (1, 3)]
    with pytest.raises(MismatchError, match="ranks was 1 and is 3 here"):
        ranks[1].load_state_dict(ranks[0].state_dict())


def test_cut_sequences_are_counted(index):
    cut = sum(length > 39 for lengths in LENGTHS for length in lengths)
    with pytest.warns(SeeksetWarning, match=f"{cut} sequences"):
        PackedDataset(index, max_tokens=100, max_length=39)
