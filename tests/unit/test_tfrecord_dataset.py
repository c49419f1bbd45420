"""TFRecord files as torch datasets."""

import json
import pickle
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import seekset
from conformance import BATCH, CHECKS, Conformance, in_a_list
from frames import records
from seekset.datasets import TFRecordDataset, TFRecordIterableDataset
from seekset.errors import CorruptRecordError, FormatError, MismatchError, StaleIndexError
from seekset.loading import ResumableBatchSampler, ResumableSampler, collate
from seekset.world import World

FEATURES = {"x": ("float32", (2,)), "label": "int64", "name": "bytes", "tags": ("int64", None)}


@pytest.fixture
def shards(tmp_path):
    """Four files of payloads `0` to `13`; one of them is empty."""
    numbers = iter(range(14))
    for name, count in (("a", 5), ("b", 0), ("c", 1), ("d", 8)):
        payloads = [str(next(numbers)).encode() for _ in range(count)]
        (tmp_path / f"{name}.tfrecord").write_bytes(records(*payloads))
    return tmp_path / "*.tfrecord"


@pytest.fixture
def examples(tmp_path):
    """Two files of Examples 0 to 6: example k has k tags."""
    for name, numbers in (("a", range(3)), ("b", range(3, 7))):
        with seekset.TFRecordWriter(tmp_path / f"{name}.tfrecord") as writer:
            for k in numbers:
                values = {"x": [k, k + 0.5], "label": k, "name": f"n{k}", "tags": [k] * k}
                writer.write_example(values, kinds={"tags": "int64"})
    return tmp_path / "*.tfrecord"


@pytest.fixture
def conformance(shards):
    return Conformance(partial(TFRecordDataset, shards, seed=3), key=int)


def damage(path, offset):
    """Flip a bit of the payload of the record at an offset."""
    data = bytearray(path.read_bytes())
    data[offset + 12] ^= 1
    path.write_bytes(data)


# --- the contract of all datasets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_dataset_keeps(conformance, check):
    getattr(conformance, check)()


def test_orders_are_pure_functions_of_seed_and_epoch(conformance):
    conformance.orders_are_pure_functions_of_seed_and_epoch(shuffled=True)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_loaders_resume_at_every_batch(conformance, workers, streamed):
    conformance.stateful_loaders_resume_at_every_batch(workers, streamed=streamed)


# --- what it gives ----------------------------------------------------------------------------------------------------


def test_without_a_shuffle_records_come_in_the_order_of_sorted_files(shards):
    ds = TFRecordDataset(shards, shuffle=False)
    assert [int(payload) for payload in ds] == list(range(14))
    assert (ds[-1], ds[0]) == (b"13", b"0")
    assert ds.__getitems__([13, 0, 5, 13, -9]) == [b"13", b"0", b"5", b"13", b"5"]
    for outside in (14, -15):
        with pytest.raises(IndexError, match="out of range: there are 14 rows"):
            ds[outside]
    assert repr(ds) == "<TFRecordDataset of 4 files, 14 records, in file order>"


def test_the_shuffle_goes_over_all_files(shards):
    order = list(seekset.Permutation(14, 3, 2))
    ds = TFRecordDataset(shards, seed=3)
    ds.set_epoch(2)
    assert [int(payload) for payload in ds.__getitems__(range(14))] == order
    assert [int(payload) for payload in TFRecordIterableDataset(shards, seed=3)] == list(seekset.Permutation(14, 3))


def test_features_become_tensors(examples):
    ds = TFRecordDataset(examples, FEATURES, shuffle=False)
    item = ds[4]
    assert {name: type(value) for name, value in item.items()} == {
        "x": torch.Tensor,
        "label": torch.Tensor,
        "name": bytes,
        "tags": torch.Tensor,
    }
    assert (item["x"].tolist(), int(item["label"]), item["name"]) == ([4.0, 4.5], 4, b"n4")
    assert (item["tags"].dtype, item["tags"].tolist()) == (torch.int64, [4] * 4)
    assert [int(item["label"]) for item in ds.__getitems__([5, 0, 3])] == [5, 0, 3]


def test_batches_are_collated_as_torch_does_or_as_they_were_decoded(examples):
    fixed = {name: FEATURES[name] for name in ("x", "label", "name")}
    ds = TFRecordDataset(examples, fixed, shuffle=False)
    sampler = ResumableBatchSampler(ds, 4)
    for collate_fn in (None, collate):
        first, second = DataLoader(ds, batch_sampler=sampler, collate_fn=collate_fn)
        assert first["x"].tolist() == [[0, 0.5], [1, 1.5], [2, 2.5], [3, 3.5]]
        assert (first["x"].dtype, first["label"].dtype) == (torch.float32, torch.int64)
        assert (second["label"].tolist(), second["name"]) == ([4, 5, 6], [b"n4", b"n5", b"n6"])
    ragged = TFRecordDataset(examples, {"tags": ("int64", None)}, shuffle=False)
    batch = next(iter(DataLoader(ragged, batch_size=4, collate_fn=collate)))
    assert batch["tags"].values.tolist() == [1, 2, 2, 3, 3, 3]
    assert batch["tags"].offsets.tolist() == [0, 0, 1, 3, 6]


def test_items_are_transformed(examples):
    ds = TFRecordDataset(examples, {"label": "int64"}, shuffle=False, transform=lambda item: int(item["label"]) * 10)
    assert (ds[3], ds.__getitems__([1, 6])) == (30, [10, 60])
    stream = TFRecordIterableDataset(examples, shuffle=False, transform=len)
    assert len(list(stream)) == len(stream) == 7
    assert next(iter(DataLoader(ds, batch_size=3, collate_fn=collate))).tolist() == [0, 10, 20]


def test_ranks_share_a_stream(shards):
    ranks = [TFRecordIterableDataset(shards, world=World(rank, 3), even="drop") for rank in range(3)]
    delivered = [[int(payload) for payload in rank] for rank in ranks]
    assert [len(rank) for rank in delivered] == [4, 4, 4]
    assert len({number for rank in delivered for number in rank}) == 12


# --- state ------------------------------------------------------------------------------------------------------------


def test_states_hold_seed_and_epoch(shards):
    ds = TFRecordDataset(shards, seed=9)
    ds.set_epoch(4)
    fresh = TFRecordDataset(shards)
    fresh.load_state_dict(ds.state_dict())
    assert fresh.__getitems__(range(14)) == ds.__getitems__(range(14))
    with pytest.raises(MismatchError, match="state mismatch: rows was 14 and is 8 here"):
        TFRecordDataset(shards.parent / "d.tfrecord").load_state_dict(ds.state_dict())


def test_states_of_other_files_with_as_many_records_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(records(b"0", b"1"))
    a, b = (TFRecordDataset(tmp_path / name) for name in ("a", "b"))
    for there, here in (
        (a, b),
        (ResumableSampler(a), ResumableSampler(b)),
        (ResumableBatchSampler(a, 2), ResumableBatchSampler(b, 2)),
        (TFRecordIterableDataset(tmp_path / "a"), TFRecordIterableDataset(tmp_path / "b")),
    ):
        with pytest.raises(MismatchError, match=r"state mismatch: files was 'a, \w{16}' and is 'b, \w{16}' here"):
            here.load_state_dict(json.loads(json.dumps(there.state_dict())))


def test_a_file_that_was_replaced_by_a_longer_one_is_another(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(records(b"0", b"1"))
    state = TFRecordDataset(path).state_dict()
    path.write_bytes(records(b"0", b"11"))
    with pytest.raises(MismatchError, match="state mismatch: files was 'a, "):
        TFRecordDataset(path).load_state_dict(state)


def test_a_file_that_was_made_anew_is_another_though_it_has_as_many_bytes_and_records(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(records(b"0", b"1"))
    state = TFRecordDataset(path).state_dict()
    path.write_bytes(records(b"0", b"2"))
    with pytest.raises(MismatchError, match="state mismatch: files was 'a, "):
        TFRecordDataset(path).load_state_dict(state)
    path.write_bytes(records(b"0", b"1"))
    TFRecordDataset(path).load_state_dict(state)


def test_an_index_that_lists_records_otherwise_makes_other_rows(tmp_path):
    path, index = tmp_path / "a.tfrecord", tmp_path / "a.tfrecord.idx"
    path.write_bytes(records(*(b"%d" % k for k in range(6))))
    stream = TFRecordIterableDataset(path, shuffle=False)
    items = iter(stream)
    assert [next(items), next(items)] == [b"0", b"1"]
    state = stream.state_dict()
    # That of the file as it is changes nothing, and where there is none, states of it are as good.
    seekset.create_tfrecord_index(path)
    indexed = TFRecordIterableDataset(path, shuffle=False)
    indexed.load_state_dict(state)
    assert list(indexed) == [b"2", b"3", b"4", b"5"]
    lines = index.read_text().splitlines()
    for own in (lines[::-1], [*lines[:4], lines[5], lines[4]], [lines[0], *lines[:5]]):
        index.write_text("\n".join(own))
        other = TFRecordIterableDataset(path, shuffle=False)
        with pytest.raises(MismatchError, match=r"state mismatch: files was 'a\.tfrecord, "):
            other.load_state_dict(state)
        again = TFRecordIterableDataset(path, shuffle=False)
        again.load_state_dict(begun := other.state_dict())
        assert again.state_dict() == begun


def test_states_are_those_of_the_same_files_in_another_folder(shards, tmp_path):
    state = TFRecordDataset(shards, seed=5).state_dict()
    assert state["files"].startswith("a.tfrecord and 3 more, ")
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in sorted(tmp_path.glob("*.tfrecord")):
        path.rename(moved / path.name)
    ds = TFRecordDataset(moved)
    ds.load_state_dict(state)
    assert ds.state_dict() == state


def test_what_is_no_row_and_what_are_no_features_are_refused(shards):
    ds = TFRecordDataset(shards)
    with pytest.raises(TypeError, match="a row is asked for by its number, not by str"):
        ds["a"]
    for rows, kind in ((slice(0, 3), "slice"), (3, "int"), ("a", "str")):
        for read in (ds.__getitems__, ds.files[0].get_many, partial(ds.files[0].examples, features={})):
            with pytest.raises(TypeError, match=f"rows must be a list or an array of integers, not {kind}"):
                read(rows)
    with pytest.raises(TypeError, match="features must map names to what they are, not be str"):
        TFRecordDataset(shards, "x")


def test_files_that_are_named_twice_are_read_once(shards):
    file = shards.parent / "a.tfrecord"
    assert len(TFRecordDataset([file, shards, file])) == 14


def test_what_is_no_state_is_refused(shards):
    for here in (TFRecordDataset(shards), TFRecordIterableDataset(shards)):
        with pytest.raises(MismatchError, match="state mismatch: expected what state_dict gave, found NoneType"):
            here.load_state_dict(None)


@pytest.mark.parametrize("name", ["seed", "epoch"])
@pytest.mark.parametrize("value", [None, -1, True, 2**63, "x"])
def test_states_without_a_seed_or_an_epoch_are_refused_and_change_nothing(shards, name, value):
    here = TFRecordDataset(shards, seed=3)
    state = {**here.state_dict(), "seed": 4, "epoch": 5, name: value}
    with pytest.raises(MismatchError, match=f"state mismatch: {name} must be a whole number from 0 on, found "):
        here.load_state_dict({key: value for key, value in state.items() if value is not None})
    assert (here.state_dict()["seed"], here.epoch) == (3, 0)


def test_samplers_of_torchdata_do_not_skip_twice(shards):
    """The position is the sampler's: one that the dataset kept, too, would be skipped twice."""
    for make_sampler in (lambda _: None, ResumableSampler):
        ds = TFRecordDataset(shards)
        ds.set_epoch(2)
        loader = StatefulDataLoader(ds, batch_size=BATCH, sampler=make_sampler(ds), collate_fn=in_a_list)
        batches = iter(loader)
        next(batches)
        state, rest = loader.state_dict(), list(batches)
        ds = TFRecordDataset(shards)
        loader = StatefulDataLoader(ds, batch_size=BATCH, sampler=make_sampler(ds), collate_fn=in_a_list)
        loader.load_state_dict(state)
        assert list(loader) == rest


def test_datasets_pickle(examples):
    ds = TFRecordDataset(examples, FEATURES, seed=5)
    ds.set_epoch(1)
    copy = pickle.loads(pickle.dumps(ds))
    assert [item["name"] for item in copy] == [item["name"] for item in ds]
    copy.set_epoch(2)
    assert ds.epoch == 1


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_may_be_started_in_any_way(examples, method):
    ds = TFRecordDataset(examples, {"label": "int64"}, shuffle=False)
    loader = DataLoader(ds, batch_size=4, num_workers=1, multiprocessing_context=method)
    assert [batch["label"].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_refuse_a_file_that_was_replaced_before_they_opened_it(shards, method):
    """Records of another file would come under the numbers that this one's were counted by."""
    ds = TFRecordDataset(shards, shuffle=False)
    loader = DataLoader(
        ds, batch_size=1, num_workers=1, multiprocessing_context=method, collate_fn=partial(in_a_list_after, shards)
    )
    with pytest.raises(StaleIndexError, match=r"d\.tfrecord: it is another file .* make the dataset again"):
        list(loader)


def in_a_list_after(shards, items):
    """Replace a file with one of its size before its first record is read."""
    if items == [b"5"]:
        path = shards.parent / "d.tfrecord"
        path.unlink()
        path.write_bytes(records(b"x", b"y", b"z", b"w", *(b"%d" % k for k in range(10, 14))))
    return in_a_list(items)


# --- records that are not sound ---------------------------------------------------------------------------------------


def test_a_corrupt_record_is_named(shards):
    damage(shards.parent / "d.tfrecord", 68)
    ds = TFRecordDataset(shards, shuffle=False, verify="full")
    for read in (
        lambda: ds[10],
        lambda: ds.__getitems__([0, 10]),
        lambda: list(TFRecordIterableDataset(shards, verify="full")),
    ):
        with pytest.raises(CorruptRecordError, match=r"d\.tfrecord: record 4, byte 68"):
            read()


@pytest.mark.parametrize("workers", [0, 2])
def test_corrupt_records_are_left_out_and_counted_if_asked(shards, workers):
    damage(shards.parent / "a.tfrecord", 34)
    damage(shards.parent / "d.tfrecord", 68)
    options = {"shuffle": False, "verify": "full", "on_error": "skip"}
    context = "fork" if workers else None
    ds = TFRecordDataset(shards, **options)
    loader = DataLoader(ds, batch_size=4, num_workers=workers, collate_fn=in_a_list, multiprocessing_context=context)
    batches = [[int(payload) for payload in batch] for batch in loader]
    assert batches == [[0, 1, 3], [4, 5, 6, 7], [8, 9, 11], [12, 13]]
    found = ds.skipped()
    assert found.count == 2
    places = [(place.path.name, place.record, place.offset) for place in found.places]
    assert places == [("a.tfrecord", 2, 34), ("d.tfrecord", 4, 68)]
    stream = TFRecordIterableDataset(shards, **options)
    loader = DataLoader(stream, batch_size=None, num_workers=workers, multiprocessing_context=context)
    assert sorted(map(int, loader)) == [0, 1, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13]
    assert stream.data.skipped() == found


def test_a_stream_resumes_behind_a_record_that_was_left_out(shards):
    damage(shards.parent / "a.tfrecord", 34)
    make = partial(TFRecordIterableDataset, shards, shuffle=False, verify="full", on_error="skip")
    whole = list(make())
    for done in range(len(whole)):
        stream = make()
        items = iter(stream)
        for _ in range(done):
            next(items)
        fresh = make()
        fresh.load_state_dict(stream.state_dict())
        assert list(fresh) == whole[done:]


def test_a_record_that_is_asked_for_alone_is_never_left_out(shards):
    damage(shards.parent / "a.tfrecord", 34)
    ds = TFRecordDataset(shards, shuffle=False, verify="full", on_error="skip")
    with pytest.raises(CorruptRecordError):
        ds[2]
    assert ds.__getitems__([2]) == []


def test_a_batch_of_which_nothing_is_left_is_empty_or_says_so(shards):
    damage(shards.parent / "d.tfrecord", 68)
    ds = TFRecordDataset(shards, shuffle=False, verify="full", on_error="skip")
    with pytest.raises(FormatError, match=r"d\.tfrecord: record 4, byte 68: neither .* TFRecordIterableDataset"):
        list(DataLoader(ds, batch_size=1))
    whole = list(DataLoader(ds, batch_size=1, collate_fn=collate))
    assert (len(whole), whole[9:12]) == (14, [[b"9"], [], [b"11"]])
    assert list(DataLoader(ds, batch_size=1, collate_fn=in_a_list))[10] == []


def test_a_batch_of_columns_of_which_nothing_is_left_has_no_rows(examples):
    (examples.parent / "c.tfrecord").write_bytes(records(b"\xff no example"))
    ds = TFRecordDataset(examples, FEATURES, shuffle=False, on_error="skip")
    last = list(DataLoader(ds, batch_size=1, collate_fn=collate))[7]
    assert (tuple(last["x"].shape), tuple(last["label"].shape), last["name"]) == ((0, 2), (0,), [])
    with pytest.raises(FormatError, match=r"c\.tfrecord: record 0, byte 0: neither"):
        list(DataLoader(ds, batch_size=1))
    changed = TFRecordDataset(examples, FEATURES, shuffle=False, on_error="skip", transform=dict)
    assert list(DataLoader(changed, batch_size=1, collate_fn=collate))[7] == []


def test_payloads_that_are_no_examples_are_named_or_left_out(examples):
    path = examples.parent / "c.tfrecord"
    path.write_bytes(records(b"\xff no example"))
    with pytest.raises(FormatError, match=r"c\.tfrecord: record 0"):
        TFRecordDataset(examples, FEATURES, shuffle=False).__getitems__([0, 7])
    ds = TFRecordDataset(examples, FEATURES, shuffle=False, on_error="skip")
    assert [int(item["label"]) for item in ds.__getitems__([6, 7, 0])] == [6, 0]
    assert ds.skipped().places[0][:2] == (path, 0)


def test_features_that_no_record_has_are_not_left_out(examples):
    ds = TFRecordDataset(examples, {"nothing": "int64"}, on_error="skip", shuffle=False)
    with pytest.raises(MismatchError, match=r"a\.tfrecord.*nothing"):
        ds.__getitems__([0, 1])


def test_arguments_that_are_none_are_refused(shards):
    with pytest.raises(ValueError, match='on_error must be "raise" or "skip", not \'ignore\''):
        TFRecordDataset(shards, on_error="ignore")
    with pytest.raises(FileNotFoundError):
        TFRecordDataset(shards.parent / "nothing-*")
    with pytest.raises(ValueError, match="seed must be at least 0"):
        TFRecordDataset(shards, seed=-1)
