"""Sequences of an index as text, in the order asked for."""

import json
import pickle
from itertools import chain

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import seekset.datasets.indexed
from seekset import get_worker_indices
from seekset.datasets import IndexBasedDataset
from seekset.errors import MismatchError, SeeksetWarning, StaleIndexError
from seekset.sequences import SequenceIndex
from sequences import sequences_of, write_fasta

LENGTHS = ([40, 7, 0, 61, 12, 1], [33, 33, 33, 5, 90, 2, 18, 64])
ROWS = [13, 0, 7, 7, 3, 12, 1, 9, 2, 0]


@pytest.fixture(params=("all.sidx", "all.json"))
def index(request, tmp_path):
    paths = [write_fasta(tmp_path / f"{name}.fa", lengths, seed=3) for name, lengths in zip("ab", LENGTHS, strict=True)]
    SequenceIndex.create(paths, tmp_path / request.param).close()
    return tmp_path / request.param


def expected(index, rows, max_length=1024):
    opened = SequenceIndex.load(index)
    plain = sequences_of(opened.files)
    entries = [opened.entry(row) for row in rows]
    return [
        {"id": entry.id, "sequence": plain[str(entry.file_path), entry.id][:max_length], "file": str(entry.file_path)}
        for entry in entries
    ]


@pytest.mark.parametrize("max_length", [None, 1024, 33, 1])
def test_items_come_in_the_order_of_the_indices(index, max_length):
    ds = IndexBasedDataset(index, ROWS, max_length=max_length)
    assert len(ds) == len(ROWS)
    assert list(ds) == expected(index, ROWS, max_length) == list(ds)


def test_sequences_that_are_cut_without_being_asked_for_are_told(tmp_path):
    index = SequenceIndex.create([write_fasta(tmp_path / "a.fa", [1025, 1024, 2000, 7], seed=3)], tmp_path / "all.sidx")
    said = "2 of 3 sequences are longer than max_length, which is 1024 unless given, and are cut; max_length=None keeps"
    with pytest.warns(SeeksetWarning, match=said) as warned:
        found = [len(item["sequence"]) for item in IndexBasedDataset(index, [0, 1, 3])]
    assert (found, warned[0].filename) == ([1024, 1024, 7], __file__)
    assert [len(item["sequence"]) for item in IndexBasedDataset(index, [0, 1, 3], max_length=None)] == [2000, 1025, 7]
    assert [len(item["sequence"]) for item in IndexBasedDataset(index, [0], max_length=9)] == [9]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_workers_get_every_nth_and_the_order_holds(index, workers):
    ds = IndexBasedDataset(index, ROWS)
    loader = DataLoader(ds, batch_size=None, num_workers=workers, multiprocessing_context="fork" if workers else None)
    assert list(loader) == expected(index, ROWS)


def test_ranks_together_get_everything(index):
    parts = [list(IndexBasedDataset(index, get_worker_indices(index, rank, 3))) for rank in range(3)]
    assert [len(part) for part in parts] == [5, 5, 4]
    assert sorted(item["id"] for item in chain(*parts)) == sorted(item["id"] for item in expected(index, range(14)))


def test_reading_is_bounded_in_rows_and_letters(index, monkeypatch):
    asked = []
    fetch_many = SequenceIndex.fetch_many
    monkeypatch.setattr(SequenceIndex, "fetch_many", lambda *a, **k: asked.append(len(a[1])) or fetch_many(*a, **k))
    monkeypatch.setattr(seekset.datasets.indexed, "_ROWS_AT_ONCE", 4)
    monkeypatch.setattr(seekset.datasets.indexed, "_LETTERS_AT_ONCE", 70)
    ds = IndexBasedDataset(index, range(14))
    first = next(iter(ds))
    assert (first, asked) == (expected(index, [0])[0], [1])  # 90 letters are too many, but one comes
    asked.clear()
    assert list(ds) == expected(index, range(14))
    assert max(asked) == 4
    assert sum(asked) == 14


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_resuming_at_every_item(index, workers):
    options = {"batch_size": None, "num_workers": workers, "multiprocessing_context": "fork" if workers else None}
    whole = expected(index, ROWS)
    loader = StatefulDataLoader(IndexBasedDataset(index, ROWS), **options)
    items = iter(loader)
    states = []
    for item in whole:
        assert next(items) == item
        states.append(loader.state_dict())
    places = range(len(whole) - 1) if workers == 0 else (0, 4)
    for place in places:
        resumed = StatefulDataLoader(IndexBasedDataset(index, ROWS), **options)
        resumed.load_state_dict(states[place])
        assert list(resumed) == whole[place + 1 :], f"after {place + 1}"


def test_states_are_json_and_datasets_pickle(index):
    ds = IndexBasedDataset(index, ROWS)
    items = iter(ds)
    next(items)
    state = json.loads(json.dumps(ds.state_dict()))
    again = pickle.loads(pickle.dumps(IndexBasedDataset(index, ROWS)))
    again.load_state_dict(state)
    assert list(again) == list(items)


def test_a_state_of_other_rows_is_refused(index):
    state = IndexBasedDataset(index, ROWS).state_dict()
    for other in (IndexBasedDataset(index, ROWS[::-1]), IndexBasedDataset(index, ROWS, max_length=5)):
        with pytest.raises(MismatchError, match="state mismatch: files"):
            other.load_state_dict(state)


@pytest.mark.parametrize("rows", [range(0, 14, 3), range(13, -1, -1), [5], [4, 4, 4], [0, 1, 3], []])
def test_rows_at_one_distance_are_kept_as_such(index, rows):
    ds = IndexBasedDataset(index, rows)
    assert list(ds) == expected(index, rows)
    assert isinstance(ds.data._indices, range) == (isinstance(rows, range))
    assert len(pickle.dumps(ds.data._indices)) < 200


def test_an_index_that_was_replaced_is_not_taken_for_the_other(index):
    handed_over = pickle.dumps(IndexBasedDataset(index, ROWS))
    other = write_fasta(index.parent / "other.fa", range(20))
    SequenceIndex.create([other], index, force=True).close()
    with pytest.raises(StaleIndexError, match="another index than when it was handed over"):
        list(pickle.loads(handed_over))


def test_rows_that_are_none_are_refused(index):
    for rows in ([14], [-15], [0, 99]):
        with pytest.raises(IndexError, match="out of range: there are 14 rows"):
            IndexBasedDataset(index, rows)
    with pytest.raises(TypeError, match="integers"):
        IndexBasedDataset(index, [0.5])
    assert list(IndexBasedDataset(index, [])) == []


def test_missing_and_changed_files_are_errors_before_the_first_item(index):
    (index.parent / "b.fa").unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.fa"):
        IndexBasedDataset(index, [0])
    write_fasta(index.parent / "b.fa", [3])
    with pytest.raises(StaleIndexError, match=r"b\.fa"):
        IndexBasedDataset(index, [0])
