"""The census of shards: what is counted, what is kept of it, and when it is counted anew."""

import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

import seekset
from hex_shards import ApartShards, hex_examples, write_hex
from seekset.shards import Census, FastaShards, PickleShards, TFRecordShards, take_census
from seekset.shards.cache import CACHE_NAME
from seekset.shards.census import digest_of


class Counting:
    """A reader that notes what it was asked for."""

    identity = "counting/1"

    def __init__(self):
        self.asked = []

    def count(self, path):
        self.asked.append(path.name)
        size = path.stat().st_size
        if size == 0:
            raise seekset.FormatError(f"{path}: expected bytes, found none")
        return Census(size, None, 1, size, 0)

    def read(self, path):
        return list(path.read_bytes())


@pytest.fixture
def reader():
    return Counting()


@pytest.fixture
def shards(tmp_path):
    """Three shards of one, two and three bytes, in a folder of their own."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for size in (1, 2, 3):
        (folder / f"{size}.shard").write_bytes(b"x" * size)
    return sorted(folder.iterdir())


def rows(counted):
    return [shard.census.rows for shard in counted[0]]


def test_shards_come_in_the_order_given_with_all_that_is_known(tmp_path):
    paths = [write_hex(tmp_path / f"{size}.pkl.gz", hex_examples(size)) for size in (5, 2)]
    np.savez(tmp_path / "a.npz", x=np.arange(9))
    shards, faults = take_census([*paths, tmp_path / "a.npz", paths[0]])
    assert ([shard.census.rows for shard in shards], faults) == ([5, 2, 9, 5], [])
    for shard in shards:
        stat = shard.path.stat()
        assert (shard.size, shard.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
        assert shard.digest == digest_of(shard.path)
    assert shards[0].census == PickleShards().count(paths[0])


@pytest.mark.parametrize("reader", [PickleShards(), ApartShards()])
def test_pickles_are_counted_side_by_side_in_threads_or_processes(tmp_path, reader):
    rng = np.random.default_rng(0)
    for number in range(4):
        (tmp_path / f"{number}.pkl").write_bytes(pickle.dumps([{"x": rng.random(50_000)}] * (number + 1)))
    paths = sorted(tmp_path.glob("*.pkl"))
    told = []
    counted = take_census(paths, reader, processes=2, progress=lambda *amounts: told.append(amounts))
    assert rows(counted) == [1, 2, 3, 4]
    sizes = [path.stat().st_size for path in paths]
    assert told == [(done, sum(sizes)) for done in np.cumsum(sizes)]


def test_what_is_known_is_not_counted_again(shards, reader):
    assert rows(take_census(shards, reader)) == [1, 2, 3]
    assert sorted(reader.asked) == ["1.shard", "2.shard", "3.shard"]
    assert rows(take_census(shards, reader)) == [1, 2, 3]
    assert len(reader.asked) == 3
    assert sorted(path.name for path in shards[0].parent.iterdir() if path not in shards) == [CACHE_NAME]


def test_a_shard_that_changed_is_counted_again(shards, reader):
    take_census(shards, reader)
    shards[1].write_bytes(b"longer")
    os.utime(shards[2], ns=(1, 1))
    assert rows(take_census(shards, reader)) == [1, 6, 3]
    assert sorted(reader.asked[3:]) == ["2.shard", "3.shard"]


class Growing(Counting):
    """A reader whose shards are written to while it counts."""

    def count(self, path):
        counted = super().count(path)
        path.write_bytes(path.read_bytes() + b"y")
        return counted


def test_nothing_is_kept_of_a_shard_that_changed_while_it_was_counted(shards):
    [shard], _ = take_census(shards[:1], Growing())
    assert shard.census.rows == 1
    with pytest.raises(seekset.StaleIndexError, match="it has changed since its rows were counted"):
        shard.check()
    assert not (shards[0].parent / CACHE_NAME).exists()


def write_records(path, count):
    """TFRecords, in place of those that were there."""
    with seekset.TFRecordWriter(path, index=False, compression="gzip" if path.suffix == ".gz" else None) as file:
        for row in range(count):
            file.write(b"%d" % row)


def write_fasta(path, count):
    """FASTA records, in the bytes of those that were there."""
    path.write_text("".join(f">{row}\nMK\n" for row in range(count)))


@pytest.mark.parametrize(
    "reader, name, write",
    [
        (TFRecordShards(), "a.tfrecord", write_records),
        (TFRecordShards(), "a.tfrecord.gz", write_records),
        (FastaShards(), "a.fa", write_fasta),
    ],
)
def test_a_reader_counts_a_shard_as_it_is_now(tmp_path, reader, name, write):
    path = tmp_path / name
    for count in (4, 7, 3):
        write(path, count)
        assert rows(take_census([path], reader)) == [count]
        assert len(reader.read(path)) == count
        assert rows(take_census([path])) == [count]  # what was kept for others


def test_readers_have_their_own_entries_side_by_side(shards, reader):
    other = Counting()
    other.identity = "counting/2"
    for _ in range(2):
        take_census(shards, reader)
        take_census(shards, other)
    assert len(reader.asked) == len(other.asked) == 3


def test_nothing_is_kept_of_a_reader_that_does_not_say_which_it_is(shards, reader):
    reader.identity = None
    take_census(shards, reader)
    take_census(shards, reader)
    assert len(reader.asked) == 6
    assert not (shards[0].parent / CACHE_NAME).exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:50],
        lambda _: "",
        lambda _: "\0\0",
        lambda _: "[]",
        lambda _: '{"version": 2}',
        lambda _: '{"version": 2, "shards": []}',
        lambda _: "[" * 100_000,
        lambda text: text.replace('"version": 2', '"version": 1'),
        lambda text: text.replace('"rows": 1', '"rows": -1'),
        lambda text: text.replace('"fields": null', '"fields": 7'),
        lambda text: re.sub(r'"census": {[^}]*}', '"census": 3', text),
        lambda text: re.sub(r'"counting/1": {', '"other": {', text),
        lambda text: json.dumps({**json.loads(text), "shards": {"1.shard": 3, "2.shard": {"counting/1": []}}}),
    ],
)
def test_a_damaged_cache_is_as_good_as_none_and_is_mended(shards, reader, damage):
    take_census(shards, reader)
    cache = shards[0].parent / CACHE_NAME
    sound = cache.read_text()
    cache.write_text(damage(sound))
    assert rows(take_census(shards, reader)) == [1, 2, 3]
    assert len(reader.asked) > 3
    asked = len(reader.asked)
    assert rows(take_census(shards, reader)) == [1, 2, 3]
    assert len(reader.asked) == asked


def test_entries_of_shards_that_are_gone_go_with_them(shards, reader):
    take_census(shards, reader)
    shards[0].unlink()
    shards[1].write_bytes(b"new")
    take_census(shards[1:], reader)
    assert sorted(json.loads((shards[0].parent / CACHE_NAME).read_text())["shards"]) == ["2.shard", "3.shard"]


def test_a_part_of_a_folder_adds_to_what_is_there(shards, reader):
    for shard in shards:
        take_census([shard], reader)
    assert rows(take_census(shards, reader)) == [1, 2, 3]
    assert len(reader.asked) == 3


def test_the_cache_goes_to_the_users_folder_where_it_can_not_lie_beside(shards, reader, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (shards[0].parent / CACHE_NAME).mkdir()  # in the way, even of root
    take_census(shards, reader)
    take_census(shards, reader)
    assert len(reader.asked) == 3
    [kept] = (tmp_path / "cache" / "seekset" / "shards").iterdir()
    assert kept.suffix == ".json"
    assert sorted(path.name for path in shards[0].parent.iterdir()) == [CACHE_NAME, *(shard.name for shard in shards)]


def test_where_no_cache_can_be_written_shards_are_counted_each_time(shards, reader, tmp_path, monkeypatch):
    (tmp_path / "cache").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (shards[0].parent / CACHE_NAME).mkdir()
    for _ in range(2):
        assert rows(take_census(shards, reader)) == [1, 2, 3]
    assert len(reader.asked) == 6


def test_the_cache_may_be_read_by_all_who_may_read_new_files(shards, reader):
    take_census(shards, reader)
    shards[0].with_name("new").touch()
    assert (shards[0].parent / CACHE_NAME).stat().st_mode == shards[0].with_name("new").stat().st_mode


def take_in_process(paths):
    assert len(take_census(paths, Counting())[0]) == len(paths)


def test_several_processes_may_count_at_once(tmp_path):
    paths = []
    for number in range(40):
        paths.append(tmp_path / f"{number:02}.shard")
        paths[-1].write_bytes(b"x" * (number + 1))
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=take_in_process, args=(paths[part::4],)) for part in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert not list(tmp_path.glob("*.part"))
    assert rows(take_census(paths, Counting())) == list(range(1, 41))


# --- errors ---------------------------------------------------------------------------------------------------------


def test_the_first_shard_that_can_not_be_read_is_told(shards, reader):
    shards[1].write_bytes(b"")
    shards[2].write_bytes(b"")
    for _ in range(3):
        with pytest.raises(seekset.FormatError, match=r"2\.shard: expected bytes, found none"):
            take_census(shards, reader)
    assert reader.asked.count("1.shard") == 1  # what was found before is kept


def test_shards_that_can_not_be_read_are_skipped_and_listed(shards, reader):
    shards[1].write_bytes(b"")
    missing = shards[0].with_name("missing.shard")
    counted = take_census([*shards, missing], reader, on_error="skip")
    assert rows(counted) == [1, 3]
    assert [path for path, _ in counted[1]] == [shards[1], missing]
    assert counted[1][0][1] == f"{shards[1]}: expected bytes, found none"
    assert str(missing) in counted[1][1][1]


class Failing(Counting):
    """A reader that fails at a shard of two bytes, without a word of where."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def count(self, path):
        if path.stat().st_size in (2, 2 << 20):
            raise self.error
        return super().count(path)


class FailingApart(Failing):
    holds_gil = True


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("kind", [Failing, FailingApart])
def test_what_a_reader_raises_says_at_which_shard(shards, kind, on_error):
    shards[1].write_bytes(bytes(2 << 20))  # enough for a process to be started
    with pytest.raises(KeyError, match="k") as error:
        take_census(shards, kind(KeyError("k")), on_error=on_error)
    assert error.value.__notes__[-1] == f"{shards[1]}: raised while its rows were counted by {kind.__name__}"


class Ends(Counting):
    """A reader whose process is ended at a shard of two megabytes."""

    holds_gil = True

    def __init__(self, number):
        super().__init__()
        self.number = number

    def count(self, path):
        if path.stat().st_size == 2 << 20:
            os.kill(os.getpid(), self.number)
        return super().count(path)


def test_a_shard_is_not_skipped_because_its_process_was_ended_from_outside(shards):
    shards[1].write_bytes(bytes(2 << 20))
    with pytest.raises(seekset.SeeksetError, match=r"2\.shard: the process that read it was ended by SIGKILL"):
        take_census(shards, Ends(signal.SIGKILL), on_error="skip")
    counted, [(path, reason)] = take_census(shards, Ends(signal.SIGSEGV), on_error="skip")
    assert (len(counted), path) == (2, shards[1])
    assert reason == f"{path}: the process that read it was ended by SIGSEGV"


def test_a_shard_is_not_skipped_because_memory_has_run_out(shards):
    for kind in (Failing, FailingApart):
        shards[1].write_bytes(bytes(2 << 20))
        with pytest.raises(MemoryError, match="none left"):
            take_census(shards, kind(MemoryError("none left")), on_error="skip")


@pytest.mark.parametrize("message", ["expected more", "{path}: expected more"])
def test_errors_of_our_kinds_name_the_shard_once(shards, message):
    with pytest.raises(seekset.FormatError) as error:
        take_census(shards, Failing(seekset.FormatError(message.format(path=shards[1]))))
    assert str(error.value) == f"{shards[1]}: expected more"


def test_more_shards_are_counted_than_files_may_be_open(tmp_path, run):
    for number in range(120):
        write_records(tmp_path / f"{number:03}.tfrecord", 1)
        write_fasta(tmp_path / f"{number:03}.fa", 2)
    printed = run("""
        import resource
        from pathlib import Path
        from seekset.shards import find_shards, take_census

        resource.setrlimit(resource.RLIMIT_NOFILE, (110, 110))
        counted, faults = take_census(find_shards("."), on_error="skip")
        print(sum(shard.census.rows for shard in counted), faults)
    """)
    assert printed == "360 []\n"


@pytest.mark.parametrize("name", ["a.tfrecord", "a.fa", "a.npz", "a.pkl", "a.parquet"])
def test_a_shard_is_not_skipped_because_no_more_files_may_be_open(tmp_path, run, name):
    (tmp_path / name).touch()
    printed = run(
        """
        import errno, os, resource, sys
        import pyarrow.parquet, seekset.publishing
        from seekset.shards import reader_for, take_census

        reader = reader_for(sys.argv[1])
        taken = [os.dup(0)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, taken[0] + 1))
        try:
            take_census([sys.argv[1]], on_error="skip", progress=False)
        except OSError as error:
            print(errno.errorcode[error.errno])
        """,
        name,
    )
    assert printed == "EMFILE\n"


def test_a_name_that_no_reader_knows_is_told(shards):
    with pytest.raises(seekset.MismatchError, match="no reader knows this kind of shard"):
        take_census(shards)


def test_no_shards_are_no_census():
    assert take_census([]) == ([], [])


@pytest.mark.parametrize("options", [{"on_error": "ignore"}, {"processes": 0}, {"processes": -1}])
def test_options_that_are_none_are_refused(shards, reader, options):
    with pytest.raises(ValueError, match="must be"):
        take_census(shards, reader, **options)


def test_a_shard_that_changed_since_is_told_by_name(shards, reader):
    [shard], _ = take_census(shards[:1], reader)
    shard.check()
    shards[0].write_bytes(b"xyz")
    with pytest.raises(
        seekset.StaleIndexError, match=f"^{re.escape(str(shards[0]))}: it has changed .* expected 1 bytes"
    ):
        shard.check()


@pytest.mark.parametrize("gone", ["the file", "its folder", "its folder, for a file"])
def test_a_shard_that_is_gone_has_changed(shards, reader, gone):
    [shard], _ = take_census(shards[:1], reader)
    if gone == "the file":
        shards[0].unlink()
    else:
        shards[0].parent.rename(shards[0].parent.with_name("elsewhere"))
    if gone.endswith("for a file"):
        shards[0].parent.touch()
    with pytest.raises(seekset.StaleIndexError, match=f"^{re.escape(str(shards[0]))}: it has gone since"):
        shard.check()


def test_a_shard_that_can_not_be_looked_at_is_an_error_of_the_system(shards, reader):
    [shard], _ = take_census(shards[:1], reader)
    shards[0].unlink()
    shards[0].symlink_to(shards[0])
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        shard.check()


def replace(path, content):
    """Put another file in the place of one, with its time."""
    stat = path.stat()
    path.with_name("new").write_bytes(content)
    os.utime(path.with_name("new"), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.with_name("new").replace(path)


def test_a_shard_that_was_replaced_by_one_of_its_size_and_time_is_told_by_its_ends(shards, reader):
    [shard], _ = take_census(shards[2:], reader)
    replace(shards[2], b"xxx")
    shard.check()  # a copy is as good, wherever it lies
    shard.check()
    replace(shards[2], b"xxy")
    with pytest.raises(seekset.StaleIndexError, match="its size and time are the same, but its first or last bytes"):
        shard.check()


def test_a_shard_that_was_pickled_is_the_same_elsewhere(shards, reader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [shard], _ = take_census(["shards/3.shard"], reader)
    pickled = pickle.dumps(shard)
    shutil.copytree("shards", tmp_path / "other" / "shards")
    monkeypatch.chdir(tmp_path / "other")
    copy = pickle.loads(pickled)
    copy.check()
    assert copy == shard
    replace(tmp_path / "other" / "shards" / "3.shard", b"yxx")
    with pytest.raises(seekset.StaleIndexError, match=r"^shards/3\.shard: it has changed"):
        pickle.loads(pickled).check()


def test_a_digest_is_of_both_ends(tmp_path):
    path = tmp_path / "a"
    digests = []
    for content in (b"", b"a", b"a" * 4096, b"a" * 4097, b"a" * 9000, b"b" + b"a" * 8999, b"a" * 8999 + b"b"):
        path.write_bytes(content)
        digests.append(digest_of(path))
    assert len(set(digests)) == len(digests)
    path.write_bytes(b"a" * 4500 + b"b" + b"a" * 4499)
    assert digest_of(path) == digests[4]  # whose middle is not looked at
    assert re.fullmatch("[0-9a-f]{16}", digests[0])


def test_ctrl_c_ends_the_counting(tmp_path, program):
    (tmp_path / "slow_reader.py").write_text("""
import time
from pathlib import Path

class Slow:
    holds_gil = True

    def count(self, path):
        Path("began").touch()
        time.sleep(600)
""")
    (tmp_path / "a.shard").write_bytes(bytes(2 << 20))
    command = program("""
        import signal
        from seekset.shards import take_census
        from slow_reader import Slow
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
        take_census(["a.shard"], Slow())
    """)
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "began").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")
