"""What is wrong with directories, ranges, options and shards of a pool: who says so, where, and what can be skipped."""

import errno
import gzip
import json
import os
import pickle
import resource
import shutil
import signal
from contextlib import contextmanager
from functools import partial
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from conformance import in_a_list
from hex_shards import ApartShards, hex_examples, write_hex
from mixed_shards import Lines, Slow, SlowRows, mixed, number, write_sources, write_text
from seekset.datasets import StreamingMixedShardDataset
from seekset.errors import FormatError, MemoryLimitError, MismatchError, SeeksetError, SeeksetWarning, StaleIndexError
from seekset.shards import PickleShards
from seekset.world import World


@pytest.fixture
def games(tmp_path):
    """Two directories of pickled shards of 3 rows."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for shard in range(2):
            write_hex(tmp_path / name / f"{shard}.pkl.gz", hex_examples(3))
    return [tmp_path / "a", tmp_path / "b"]


class Evil:
    """A pickle of it runs a command where it is read by others."""

    def __reduce__(self):
        return os.system, ("true",)


# --- directories and options ------------------------------------------------------------------------------------------


def test_directories_that_are_missing_or_empty_are_named(games, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: there is no such directory"):
        StreamingMixedShardDataset([games[0], tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r'empty: there is no shard in it; give the range "none"'):
        StreamingMixedShardDataset([games[0], tmp_path / "empty"])
    assert len(StreamingMixedShardDataset([games[0], tmp_path / "empty"], ["all", "none"])) == 6
    with pytest.raises(FileNotFoundError, match=r"source 'more': .*nowhere"):
        mixed({"more": tmp_path / "nowhere"})


@pytest.mark.parametrize(
    "ranges,message",
    [
        (["all"], "there are 1 shard ranges for 2 directories"),
        (["all", "0-2"], "b: range '0-2' is outside of the shards: there are 2, 0 to 1"),
        (["all", "2"], "b: range '2' is outside"),
        (["1-0", "all"], "a: range '1-0' is outside"),
        (["x", "all"], "a: range 'x': expected"),
        (["", "all"], "a: range '': expected"),
        (["-1", "all"], "a: range '-1': expected"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(games, ranges, message):
    with pytest.raises(ValueError, match=message):
        StreamingMixedShardDataset(games, ranges)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"pool_size": 0}, "pool_size must be at least 1, but is 0"),
        ({"pool_size": 5, "refill_threshold": 6}, "refill_threshold must be at most pool_size, 5, but is 6"),
        ({"refill_threshold": -1}, "refill_threshold must be at least 0, but is -1"),
        ({"max_memory_gb": 0}, "max_memory_gb must be above 0"),
        ({"max_examples_unaugmented": 0}, "max_examples_unaugmented must be at least 1"),
        ({"stop": "never"}, "stop must be one of"),
        ({"mixing": "shaken"}, "mixing must be one of"),
        ({"even": "odd"}, "even must be one of"),
        ({"on_error": "ignore"}, 'on_error must be "raise" or "skip"'),
        ({"open_shards": 0}, "open_shards must be at least 1"),
        ({"decoders": 0}, "decoders must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"weights": [1]}, "there are 1 weights for 2 sources"),
        ({"weights": [1, 0]}, "weights must be numbers above 0"),
        ({"weights": {"a": 1, "b": 1}}, "weights mismatch"),
    ],
)
def test_options_that_make_no_sense_are_refused(games, options, message):
    with pytest.raises(ValueError, match=message):
        StreamingMixedShardDataset(games, **options)


def test_lists_that_are_none_and_sources_given_twice_are_refused(games):
    with pytest.raises(TypeError, match="data_dirs and shard_ranges are lists"):
        StreamingMixedShardDataset(str(games[0]))
    with pytest.raises(TypeError, match="data_dirs and shard_ranges are lists"):
        StreamingMixedShardDataset(games, "all")
    with pytest.raises(ValueError, match="a is given twice"):
        StreamingMixedShardDataset([games[0], games[0]])
    with pytest.raises(TypeError, match="sources are a list or a mapping of names, not one path"):
        mixed(str(games[0]))
    with pytest.raises(ValueError, match="a' is given twice: its rows would come twice"):
        mixed([games[0], str(games[0])])
    with pytest.raises(ValueError, match="there are no sources"):
        mixed([])


def test_a_file_that_is_in_a_pool_more_than_once_is_warned_of_with_its_sources(tmp_path):
    a, b = write_sources(tmp_path, {"a": [2, 3], "b": [4]}).values()
    (b / "linked.npz").symlink_to(a / "01.npz")
    with pytest.warns(SeeksetWarning) as told:
        data = mixed({"a": a, "b": b, "c": [a / "01.npz", b / "00.npz"]}, pool_rows=5)
    assert [str(one.message) for one in told] == [
        f"{a / '01.npz'}: its rows come 3 times, because it is in sources 'a', 'b', 'c'; files like it: 2"
    ]
    assert sorted(map(number, data)) == sorted([0, 1, *[2, 3, 4] * 3, *[5, 6, 7, 8] * 2])


class SinglyButDecoded(Slow):
    """It reads rows singly, but its count gives a number and not what that takes."""

    def read_rows(self, path, rows):
        return {"x": self.read(path).columns["x"][rows]}


@pytest.mark.parametrize("reader", [Lines(), SinglyButDecoded()])
def test_global_mixing_says_what_a_reader_of_ones_own_lacks(tmp_path, reader):
    sources = write_text(tmp_path, {"a": [2]})
    message = f"or give {type(reader).__name__} a read_rows, and a count that gives a Census with decoded_bytes=0"
    with pytest.raises(MismatchError, match=message):
        mixed(sources, reader=reader, mixing="global")


def test_global_mixing_says_which_formats_read_rows_singly(tmp_path):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet", compression="none")
    with pytest.raises(MismatchError, match=r"a\.parquet: .*, or store its rows as \.npz that is not compressed, or"):
        mixed([tmp_path / "a.parquet"], mixing="global")
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(3))
    with pytest.raises(MismatchError, match=r"a\.npz: .*, or store shards uncompressed"):
        mixed([tmp_path / "a.npz"], mixing="global")


def test_global_mixing_needs_rows_that_are_read_singly(games):
    with pytest.raises(MismatchError, match=r"0\.pkl\.gz: its rows can't be read singly"):
        mixed(games, mixing="global")


# --- shards that can't be read ----------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def no_pickle(path):
    path.write_bytes(gzip.compress(b"these are words"))


def evil(path):
    path.write_bytes(gzip.compress(pickle.dumps({"examples": [Evil()]})))


def other_shape(path):
    write_hex(path, [{**one, "board": one["board"][:, :5, :5]} for one in hex_examples(3)])


def other_dtype(path):
    write_hex(path, [{**one, "board": one["board"].astype("f8")} for one in hex_examples(3)])


def other_fields(path):
    write_hex(path, [{"board": one["board"]} for one in hex_examples(3)])


BROKEN = {
    cut: (FormatError, "gzip member 0 ends early"),
    no_pickle: (FormatError, "expected a pickle"),
    evil: (FormatError, "system"),
    other_shape: (MismatchError, r"board f4\[3, 5, 5\]"),
    other_dtype: (MismatchError, r"board f8\[3, 13, 13\]"),
    other_fields: (MismatchError, "sources of one pool must be alike"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_shards_that_are_broken_or_unlike_are_found_before_training(games, damage):
    damage(games[1] / "1.pkl.gz")
    kind, message = BROKEN[damage]
    with pytest.raises(kind, match=message) as error:
        mixed({"first": games[0], "second": games[1]})
    assert str(games[1] / "1.pkl.gz") in str(error.value)
    assert "source 'second'" in str(error.value)


@pytest.mark.parametrize("damage", [cut, no_pickle, evil])
def test_shards_that_are_broken_are_skipped_and_listed(games, damage):
    damage(games[1] / "1.pkl.gz")
    data = mixed(games, on_error="skip")
    assert len(list(data)) == len(data) == 9
    [(path, reason)] = data.skipped()["shards"]
    assert path == games[1] / "1.pkl.gz"
    assert reason.startswith(str(path))


def test_a_shard_that_inflates_to_more_than_is_allowed_is_refused(games):
    with pytest.raises(MemoryLimitError, match=r"source '.*a': .*0\.pkl\.gz: it has more than 1000 bytes inflated"):
        mixed(games, reader=PickleShards(max_bytes=1000))


def worse(examples, row, **fields):
    """Examples one of which lacks a field, or has another value in it."""
    one = {name: value for name, value in {**examples[row], **fields}.items() if value is not ...}
    return [*examples[:row], one, *examples[row + 1 :]]


@pytest.mark.parametrize(
    "fields,message",
    [
        ({"board": ...}, "board"),
        ({"board": np.zeros((3, 5, 5), "f4")}, "board"),
        ({"board": np.zeros((3, 13, 13), "f8")}, "board"),
        ({"value": "won"}, "value"),
    ],
)
def test_a_row_that_is_unlike_the_rest_is_named_where_it_is_delivered(games, fields, message):
    write_hex(games[1] / "0.pkl.gz", worse(hex_examples(6), 4, **fields))
    found = set()
    for decoders, batch in ((1, None), (2, 5)):
        data = mixed(
            dict(zip("ab", games, strict=True)), pool_rows=4, decoders=decoders, batch_size=batch, max_bytes=None
        )
        data.set_epoch(2)
        with pytest.raises(FormatError, match=message) as error:
            list(data)
        found.add(str(error.value))
    [text] = found
    assert text.startswith(f"{games[1] / '0.pkl.gz'}: row 4 of source 'b' (epoch 2, stream position ")
    skipping = mixed(games, pool_rows=4, on_error="skip")
    assert len(list(skipping)) == 14
    assert skipping.skipped()["count"] == 1
    [(_, shard, row, reason)] = skipping.skipped()["rows"]
    assert (shard, row) == (games[1] / "0.pkl.gz", 4)
    assert message in reason


# --- where and when errors come ---------------------------------------------------------------------------------------


@pytest.fixture
def numbers_with_words(tmp_path):
    """Two sources of numbers in text; in three places there is a word instead."""
    sources = write_text(tmp_path, {"a": [6, 5], "b": [4, 4, 4]})
    for shard, number_there in (("a/01", "8"), ("b/00", "12"), ("b/02", "22")):
        path = tmp_path / f"{shard}.txt"
        path.write_text(" ".join("word" if word == number_there else word for word in path.read_text().split()))
    return sources


def until_error(data):
    """What comes before the error, and the error."""
    seen = []
    try:
        seen.extend(map(number, data))
    except SeeksetError as error:
        return seen, type(error), str(error)
    return seen, None, None


@pytest.mark.parametrize("pool_rows", [1, 5, 100])
def test_errors_come_at_the_same_position_whatever_the_prefetch(numbers_with_words, pool_rows):
    runs = [
        until_error(
            mixed(numbers_with_words, reader=Slow(0.02), pool_rows=pool_rows, decoders=decoders, max_bytes=None)
        )
        for decoders in (1, 2, 3)
        for _ in range(2)
    ]
    assert all(one == other for one, other in pairwise(runs))
    seen, kind, message = runs[0]
    assert kind is FormatError
    assert f"(epoch 0, stream position {len(seen)}): 'word' is no number" in message
    assert "of source '" in message
    planned = mixed(numbers_with_words, reader=Slow(), pool_rows=pool_rows, max_bytes=None).planned()
    assert len(planned[0]) == 23


@pytest.mark.parametrize("batch", [None, 4])
def test_rows_that_are_skipped_are_counted_and_listed_and_the_others_come(numbers_with_words, batch):
    made = partial(mixed, numbers_with_words, reader=Slow(), pool_rows=5, on_error="skip", batch_size=batch)
    data = made()
    rows = [x for item in data for x in np.atleast_1d(item["x"].numpy()).tolist()]
    assert sorted(rows) == sorted(set(range(23)) - {8, 12, 22})
    skipped = data.skipped()
    assert skipped["count"] == 3
    assert [(source, shard.name, row, reason) for source, shard, row, reason in skipped["rows"]] == [
        ("a", "01.txt", 2, "'word' is no number"),
        ("b", "00.txt", 1, "'word' is no number"),
        ("b", "02.txt", 3, "'word' is no number"),
    ]
    assert data.report()["rows"] == {"a": 10, "b": 10}
    assert data.report()["skipped"] == 3


SKIPPED = [("a", "01.txt", 2), ("b", "00.txt", 1), ("b", "02.txt", 3)]


def skipped_rows(data):
    return [(source, shard.name, row) for source, shard, row, _ in data.skipped()["rows"]]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("batch", [None, 4])
def test_rows_that_workers_skip_are_counted_and_listed_too(numbers_with_words, workers, batch):
    data = mixed(numbers_with_words, reader=Slow(), pool_rows=5, on_error="skip", batch_size=batch)
    for _ in range(2):
        list(DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context="fork"))
        assert skipped_rows(data) == SKIPPED
        assert {reason for *_, reason in data.skipped()["rows"]} == {"'word' is no number"}
        assert (data.skipped()["count"], data.report()["rows"]) == (3, {"a": 10, "b": 10})


@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("mixing", ["pool", "global"])
def test_what_came_and_was_skipped_before_a_state_is_told_after_it(numbers_with_words, batch, mixing):
    reader = Slow(0) if mixing == "pool" else SlowRows(0)
    rules = {"batch_size": batch, "pool_rows": 5, "mixing": mixing}
    made = partial(mixed, numbers_with_words, reader=reader, on_error="skip", **rules)
    whole = made()
    states = [json.loads(json.dumps(whole.state_dict())) for _ in whole]
    assert any("skipped" in state for state in states)
    for state in states[:-1]:
        resumed = made()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        list(resumed)
        assert resumed.report()["rows"] == whole.report()["rows"] == {"a": 10, "b": 10}
        assert resumed.skipped()["count"] == resumed.report()["skipped"] == 3
        assert skipped_rows(resumed) == SKIPPED
        assert resumed.ledger == whole.ledger
    # A pass from the start on counts from the start.
    list(resumed)
    assert resumed.skipped() == whole.skipped()


def test_reports_of_loaders_that_resume_count_from_the_start_of_the_epoch(numbers_with_words):
    def stateful():
        data = mixed(numbers_with_words, reader=Slow(0), pool_rows=5, on_error="skip")
        return data, StatefulDataLoader(
            data, 3, num_workers=2, collate_fn=in_a_list, multiprocessing_context="fork", snapshot_every_n_steps=1
        )

    _, first = stateful()
    batches = iter(first)
    for _ in range(5):
        next(batches)
    data, resumed = stateful()
    resumed.load_state_dict(first.state_dict())
    list(resumed)
    assert data.report()["rows"] == {"a": 10, "b": 10}
    assert skipped_rows(data) == SKIPPED
    assert data.ledger.delivered.count == 20


def test_a_state_of_another_rank_does_not_say_what_this_one_skipped(numbers_with_words):
    ranks = [
        partial(mixed, numbers_with_words, reader=Slow(0), on_error="skip", world=World(rank, 2)) for rank in range(2)
    ]
    whole, other = ranks[0](), ranks[1]()
    list(whole)
    items = iter(other)
    next(items), next(items)
    states = [other.state_dict() for _ in items]
    state = next(state for state in states if "skipped" in state)
    resumed = ranks[0]()
    resumed.load_state_dict(state)
    list(resumed)
    assert set(skipped_rows(resumed)) <= set(skipped_rows(whole))


@pytest.mark.parametrize(
    "skipped", [3, {}, {"rows": [-1]}, {"rows": [99]}, {"by_source": [1]}, {"digest": "7"}, {"rows": ["a"]}]
)
def test_a_state_that_says_nonsense_of_what_was_skipped_is_refused(numbers_with_words, skipped):
    data = mixed(numbers_with_words, reader=Slow(0), on_error="skip")
    sound = {"rank": 0, "worker": 0, "by_source": [1, 0], "digest": 5, "rows": [8]}
    nonsense = {**sound, **skipped} if isinstance(skipped, dict) and skipped else skipped
    with pytest.raises(MismatchError, match="state mismatch: skipped must say which rows were left out"):
        data.load_state_dict({**data.state_dict(), "skipped": nonsense})


def test_of_many_rows_that_are_skipped_the_first_few_dozen_are_listed(tmp_path):
    (tmp_path / "0.txt").write_text("word " * 50 + "7")
    data = mixed([tmp_path / "0.txt"], reader=Slow(0), on_error="skip", pool_rows=1)
    assert list(map(number, data)) == [7]
    assert data.skipped()["count"] == 50
    assert [row for _, _, row, _ in data.skipped()["rows"]] == list(range(32))


class Failing(Slow):
    """One shard can be counted, but not read; a second time, all can be looked at."""

    fault: type[Exception] = OSError

    def __init__(self, fault=OSError):
        super().__init__(0.001)
        self.fault = fault
        self.counted = False

    def read(self, path):
        if self.counted and path.name == "01.txt":
            raise self.fault("the disk is gone")
        return super().read(path)


@pytest.mark.parametrize(
    "fault,kind", [(OSError, SeeksetError), (LookupError, SeeksetError), (FormatError, FormatError)]
)
@pytest.mark.parametrize("decoders", [1, 2])
def test_what_a_reader_raises_is_raised_where_the_rows_are_delivered(tmp_path, fault, kind, decoders):
    sources = write_text(tmp_path, {"a": [3, 2], "b": [4]})
    reader = Failing(fault)
    data = mixed(sources, reader=reader, pool_rows=2, decoders=decoders)
    reader.counted = True
    seen, found, message = until_error(data)
    assert found is kind
    assert f"01.txt: row {message.partition('row ')[2][0]} of source 'a'" in message
    assert f"stream position {len(seen)}): the disk is gone" in message


def test_a_shard_that_fails_when_it_is_read_is_skipped_row_by_row(tmp_path):
    reader = Failing()
    data = mixed(write_text(tmp_path, {"a": [3, 2], "b": [4]}), reader=reader, pool_rows=2, on_error="skip")
    reader.counted = True
    assert sorted(map(number, data)) == [0, 1, 2, 5, 6, 7, 8]
    assert [(shard.name, row) for _, shard, row, _ in data.skipped()["rows"]] == [("01.txt", 0), ("01.txt", 1)]


@pytest.mark.parametrize(
    "fault", [ZeroDivisionError, MemoryError, *(partial(OSError, number) for number in (errno.EIO, errno.ENOTCONN))]
)
def test_what_is_no_fault_of_the_data_is_never_skipped(tmp_path, fault):
    reader = Failing(fault)
    data = mixed(write_text(tmp_path, {"a": [3, 2]}), reader=reader, on_error="skip")
    reader.counted = True
    with pytest.raises(SeeksetError, match="the disk is gone") as error:
        list(data)
    assert isinstance(error.value.__cause__, type(fault("")))


@contextmanager
def without_its_folder(path):
    away = path.parent.with_name("away")
    path.parent.rename(away)
    yield
    away.rename(path.parent)


@contextmanager
def without_an_end(path):
    """As a mount that has dropped: what is there can't be looked at."""
    kept = shutil.copy2(path, path.with_name("kept"))
    path.unlink()
    path.symlink_to(path)
    yield
    kept.replace(path)


VANISHING = {
    without_its_folder: (StaleIndexError, "it has gone since its rows were counted"),
    without_an_end: (SeeksetError, "Too many levels of symbolic links"),
}


@pytest.mark.parametrize("vanishing", VANISHING)
@pytest.mark.parametrize("rules", [{"pool_rows": 1}, {"pool_rows": 1, "decoders": 2}, {"mixing": "global"}])
def test_shards_that_vanish_end_the_epoch_and_a_state_goes_on_once_they_are_back(tmp_path, vanishing, rules):
    sources = write_sources(tmp_path, {"a": [3, 2], "b": [4]})
    made = partial(mixed, sources, batch_size=1, on_error="skip", **rules)
    whole, data, seen = [number(batch) for batch in made()], made(), []
    kind, message = VANISHING[vanishing]
    with vanishing(tmp_path / "b" / "00.npz"), pytest.raises(kind, match=message):
        seen.extend(map(number, data))
    assert data.skipped() == {"count": 0, "rows": [], "shards": []}
    resumed = made()
    resumed.load_state_dict(data.state_dict())
    assert seen + [number(batch) for batch in resumed] == whole


class Replacing(Slow):
    """While a shard is read, it is replaced by another, in whose middle the reader then is."""

    mended = False

    def read(self, path):
        if self.mended and path.name == "01.txt":
            path.write_text("other words")
            raise FormatError(f"{path}: cut short")
        return super().read(path)


class ReplacingRows(Replacing, SlowRows):
    """The same, with rows that can be read singly."""


@pytest.mark.parametrize("mixing, kind", [("pool", Replacing), ("global", ReplacingRows)])
def test_what_is_read_of_a_shard_that_is_replaced_meanwhile_is_no_fault_of_its_bytes(tmp_path, mixing, kind):
    reader = kind(0)
    data = mixed(write_text(tmp_path, {"a": [3, 2]}), reader=reader, mixing=mixing, on_error="skip")
    reader.mended = True
    with pytest.raises(StaleIndexError, match=r"01\.txt: row \d of source 'a' .*it has changed since"):
        list(data)


KILLED = """
import os, signal
from seekset.shards import PickleShards


class Killed(PickleShards):
    holds_gil = True
    identity = "killed/1"

    def __init__(self, number):
        super().__init__()
        self.number = number

    def read(self, path):
        if path.name == "1.pkl.gz":
            os.kill(os.getpid(), self.number)
        return super().read(path)

    def __reduce__(self):
        return Killed, (self.number,)
"""


def test_rows_are_skipped_where_a_shard_crashes_its_process_and_not_where_the_system_ends_it(
    games, tmp_path, monkeypatch
):
    (tmp_path / "killed_readers.py").write_text(KILLED)
    monkeypatch.syspath_prepend(tmp_path)
    from killed_readers import Killed

    crashing = mixed(games, reader=Killed(signal.SIGSEGV), on_error="skip", batch_size=1)
    assert sum(len(batch["board"]) for batch in crashing) == crashing.skipped()["count"] == 6
    killed = mixed(games, reader=Killed(signal.SIGKILL), on_error="skip", batch_size=1)
    with pytest.raises(SeeksetError, match=r"1\.pkl\.gz: row \d of .*the process that read it was ended by SIGKILL"):
        list(killed)
    assert killed.skipped()["count"] == 0


@pytest.mark.parametrize("decoders", [1, 2])
@pytest.mark.parametrize("how", [SystemExit, GeneratorExit])
def test_a_reader_that_would_end_its_thread_is_told_as_an_error(tmp_path, how, decoders):
    reader = Failing(how)
    data = mixed(write_text(tmp_path, {"a": [3, 2], "b": [4]}), reader=reader, on_error="skip", decoders=decoders)
    reader.counted = True
    _, kind, message = until_error(data)
    assert kind is SeeksetError
    assert f"): {how.__name__}: the disk is gone" in message


@contextmanager
def no_file_can_be_opened():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("decoders", [1, 2, 3])
def test_a_process_that_cannot_be_started_is_told_where_rows_are_delivered_and_skips_none(games, decoders):
    data = mixed(games, reader=ApartShards(), pool_rows=3, decoders=decoders, on_error="skip", batch_size=1)
    with (
        no_file_can_be_opened(),
        pytest.raises(SeeksetError, match=r"stream position 0\): a process to read shards could not .* Too many open"),
    ):
        next(iter(data))
    assert sum(len(batch["board"]) for batch in data) == 12


@pytest.mark.parametrize("decoders", [1, 2])
def test_no_row_is_skipped_because_no_more_files_may_be_open(games, decoders):
    data = mixed(games, pool_rows=3, decoders=decoders, on_error="skip", batch_size=1)
    with no_file_can_be_opened(), pytest.raises(SeeksetError, match="Too many open files"):
        list(data)
    assert sum(len(batch["board"]) for batch in data) == 12
    assert data.skipped()["rows"] == []


class Raises:
    """A transform, or augmentation, that raises for one row until it is mended."""

    def __init__(self, row):
        self.row = row

    def __call__(self, item, generator=None):
        if self.row in np.atleast_1d(item["x"]):
            raise ZeroDivisionError("not this one")
        return item


@pytest.mark.parametrize("what", ["transform", "augment"])
@pytest.mark.parametrize("batch", [None, 2])
def test_what_a_transform_raises_leaves_the_state_before_its_rows(numbers_with_words, what, batch):
    made = partial(mixed, numbers_with_words, reader=Slow(), on_error="skip", batch_size=batch, pool_rows=5)

    def rows(item):
        return np.atleast_1d(item["x"]).tolist()

    whole = made()
    expected = list(map(rows, whole))
    for row in chain(*expected):
        raises = Raises(row)
        data, seen = made(**{what: raises}), []
        with pytest.raises(ZeroDivisionError, match="not this one"):
            seen.extend(map(rows, data))
        raises.row = None
        resumed = made(**{what: raises})
        resumed.load_state_dict(data.state_dict())
        assert seen + list(map(rows, resumed)) == expected
        assert resumed.skipped()["count"] == whole.skipped()["count"] > 0
        assert resumed.ledger.delivered == whole.ledger.delivered


@pytest.mark.parametrize("base", [Slow, Lines])
@pytest.mark.parametrize("batch", [None, 4])
def test_a_reading_that_fails_leaves_the_rows_of_an_earlier_one_of_the_same_shard_alone(tmp_path, base, batch):
    class Once(base):
        """The shard of source a can be read once, from when it has been counted on."""

        left = 1000

        def read(self, path):
            if path.parent.name == "a":
                self.left -= 1
                if self.left < 0:
                    raise OSError("gone")
            return super().read(path)

    reader = Once()
    rules = {"stop": "cycle_until_all_exhausted", "weights": [1, 1], "pool_rows": 10, "refill_threshold": 9}
    sources = write_text(tmp_path, {"a": [6], "b": [60]})
    data = mixed(sources, reader=reader, on_error="skip", batch_size=batch, **rules)
    reader.left = 1
    items = [item for part in data for item in (part["x"] if base is Slow else part)] if batch else list(data)
    keys = [int(item["x"] if isinstance(item, dict) else item) for item in items]
    assert sorted(keys) == list(range(66))
    assert data.skipped()["count"] == len(data.planned()[0]) - 66


def test_objects_that_cannot_be_read_are_named_too(tmp_path):
    class Gone(Lines):
        gone = False

        def read(self, path):
            if self.gone and path.name == "01.txt":
                raise OSError("gone")
            return super().read(path)

    reader = Gone()
    sources = write_text(tmp_path, {"a": [3, 2], "b": [2]})
    raising, skipping = (mixed(sources, reader=reader, on_error=how) for how in ("raise", "skip"))
    reader.gone = True
    with pytest.raises(SeeksetError, match=r"01\.txt: row \d of source 'a' \(epoch 0, stream position \d\): gone"):
        list(raising)
    assert sorted(skipping) == ["0", "1", "2", "5", "6"]


def test_rows_that_are_read_singly_and_fail_are_named(tmp_path):
    sources = write_sources(tmp_path, {"a": [3, 2]})
    data = mixed(sources, mixing="global")
    path = sources["a"] / "01.npz"
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[:200] = b"\0" * 200
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(SeeksetError, match=r"01\.npz: row \d of source 'a' \(epoch 0, stream position \d\)"):
        list(data)
    skipping = mixed(sources, mixing="global", on_error="skip")
    assert sorted(map(number, skipping)) == [0, 1, 2]
    assert skipping.skipped()["count"] == 2
