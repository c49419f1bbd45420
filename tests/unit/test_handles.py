"""Handles: closing, pickling, threads, processes and mappings."""

import concurrent.futures
import contextlib
import copy
import os
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

import seekset

FILE = b">a one\nMKVLA\nAG\n>b\nMK\n"


# --- closing --------------------------------------------------------------------------------------------------------


def test_with_closes_the_handle(opened):
    with opened(FILE) as fa:
        assert fa.fetch("b") == "MK"
    assert repr(fa) == f"<Fasta {str(fa.path)!r}, closed>"


USES = {
    "len": len,
    "iter": list,
    "in": lambda fa: "a" in fa,
    "[id]": lambda fa: fa["a"],
    "[row]": lambda fa: fa[0],
    "fetch": lambda fa: fa.fetch("a"),
    "fetch_many": lambda fa: fa.fetch_many(["a"]),
    "gather": lambda fa: fa.gather([0]),
    "gather_windows": lambda fa: fa.gather_windows([0], [0], [1]),
    "lengths": lambda fa: fa.lengths,
    "index_path": lambda fa: fa.index_path,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_handle_says_so(opened, use):
    fa = opened(FILE)
    use(fa)
    fa.close()
    with pytest.raises(ValueError, match=r"x\.fa is closed"):
        use(fa)


def test_a_record_of_a_closed_handle_says_so(opened):
    fa = opened(FILE)
    record = fa["a"]
    fa.close()
    for use in (lambda: record.sequence, lambda: record.description, lambda: len(record), lambda: record[0]):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_closing_twice_is_closing_once(opened):
    fa = opened(FILE)
    fa.close()
    fa.close()
    assert "closed" in repr(fa)


def test_closing_lets_go_of_the_file(opened):
    fa = opened(FILE)
    assert mappings(fa.path) == 1
    fa.close()
    assert mappings(fa.path) == 0
    assert mappings(fa.path.with_name("x.fa.sidx")) == 0
    assert fa.path not in open_files()


def test_closing_one_handle_leaves_another_open(write):
    path = write(FILE)
    one, two = seekset.Fasta(path), seekset.Fasta(path)
    one.close()
    assert two.fetch("b") == "MK"


def test_a_view_of_the_lengths_outlives_its_handle(opened):
    fa = opened(FILE)
    lengths = fa.lengths
    fa.close()
    assert lengths.tolist() == [7, 2]


def open_files():
    """The files that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists them is gone by now
            found.append(descriptor.readlink())
    return found


# --- one mapping per file -------------------------------------------------------------------------------------------


def mappings(path):
    """How often this process has mapped a file."""
    return sum(line.endswith(f" {path}") for line in Path("/proc/self/maps").read_text().splitlines())


def test_fifty_readers_cost_one_mapping_per_file(write):
    path = write(FILE)
    handles = [seekset.Fasta(path) for _ in range(50)]
    assert [handle.fetch("b") for handle in handles] == ["MK"] * 50
    assert mappings(path) == 1
    assert mappings(path.with_name("x.fa.sidx")) == 1


def test_readers_of_the_same_file_by_other_names_share_its_mapping(write, tmp_path):
    path = write(FILE)
    (tmp_path / "link.fa").symlink_to(path)
    handles = [seekset.Fasta(path), seekset.Fasta(tmp_path / "link.fa", index=tmp_path / "x.fa.sidx")]
    assert [handle.fetch("b") for handle in handles] == ["MK"] * 2
    assert mappings(path) == 1


def test_pread_maps_no_data(opened):
    fa = opened(FILE, io="pread")
    assert fa.fetch("b") == "MK"
    assert mappings(fa.path) == 0


# --- pickling -------------------------------------------------------------------------------------------------------


def test_a_pickled_handle_reads_the_same_file(opened):
    fa = opened(FILE)
    again = pickle.loads(pickle.dumps(fa))
    assert again.path == fa.path
    assert again.fetch_many(list(again)) == ["MKVLAAG", "MK"]


def test_a_pickled_handle_opens_its_file_when_it_is_used(opened):
    fa = opened(FILE)
    data = pickle.dumps(fa)
    fa.close()
    fa.path.rename(fa.path.with_name("away.fa"))
    again = pickle.loads(data)
    assert repr(again) == f"<Fasta {str(fa.path)!r}, not open yet>"
    fa.path.with_name("away.fa").rename(fa.path)
    assert again.fetch("b") == "MK"


def test_a_handle_pickles_by_its_arguments(write, tmp_path):
    fa = seekset.Fasta(write(b">a\nAC\n>a\nGG\n"), duplicates="first", io="pread", index=tmp_path / "other.sidx")
    again = pickle.loads(pickle.dumps(fa))
    assert again.fetch_many([0, 1]) == ["AC", "GG"]
    assert again.index_path == tmp_path / "other.sidx"
    assert mappings(fa.path) == 0


def test_rebuild_is_among_the_arguments_that_are_pickled(opened):
    fa = opened(FILE, rebuild=True)
    fa = seekset.Fasta(fa.path, rebuild=False)
    again = pickle.loads(pickle.dumps(fa))
    fa.index_path.unlink()
    with pytest.raises(seekset.StaleIndexError, match="there is none"):
        len(again)


def test_relative_paths_mean_the_same_in_another_folder(write, tmp_path, monkeypatch, names):
    monkeypatch.chdir(write(FILE).parent)
    data = pickle.dumps(seekset.Fasta("x.fa", index="other.sidx"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(data)
    assert again.fetch("b") == "MK"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert names() == ["elsewhere", "other.sidx", "x.fa"]


def write_records(path, *payloads):
    with seekset.TFRecordWriter(path, index=False) as file:
        for payload in payloads:
            file.write(payload)


@pytest.fixture(params=["x.fa", "x.fa.gz", "x.tfrecord"])
def rewritten(request, tmp_path, bgzip):
    """`rewritten(b"MK")` is a handle of a file with these letters in its last record, in the place of one before."""

    def rewritten(letters):
        path = tmp_path / request.param
        new = tmp_path / f"new.{path.name}"
        if path.suffix == ".tfrecord":
            write_records(new, b"MKVLA", letters)
        else:
            content = b">a one\nMKVLA\nAG\n>b\n" + letters + b"\n"
            new.write_bytes(bgzip.bytes(content) if path.suffix == ".gz" else content)
        new.replace(path)
        return (seekset.TFRecordFile if path.suffix == ".tfrecord" else seekset.Fasta)(path)

    return rewritten


def test_a_pickled_handle_refuses_another_file_of_the_same_size(rewritten):
    """Rows, and what was counted of them, mean nothing there."""
    handle = rewritten(b"MK")
    data = pickle.dumps(handle)
    assert len(pickle.loads(data)) == 2
    time = handle.path.stat().st_mtime_ns
    rewritten(b"GG")
    os.utime(handle.path, ns=(time, time))
    again = pickle.loads(data)
    for _ in range(2):
        with pytest.raises(
            seekset.StaleIndexError,
            match=rf"{handle.path}: it is another file .* expected \d+ bytes, 2 records.* again",
        ):
            len(again)
    # One that was never opened here hands on what it was given.
    with pytest.raises(seekset.StaleIndexError, match="it is another file than when it was handed over"):
        len(pickle.loads(pickle.dumps(pickle.loads(data))))


def test_a_pickled_handle_takes_a_copy_whatever_its_time(rewritten):
    handle = rewritten(b"MK")
    data = pickle.dumps(handle)
    rewritten(b"MK")
    os.utime(handle.path, (1, 1))
    again = pickle.loads(data)
    assert len(again) == 2
    assert len(pickle.loads(pickle.dumps(again))) == 2


def test_a_handle_whose_file_was_replaced_can_not_be_pickled(rewritten):
    handle = rewritten(b"MK")
    rewritten(b"GG")
    with pytest.raises(seekset.StaleIndexError, match="it has changed since it was opened"):
        pickle.dumps(handle)


def test_a_pickled_file_of_records_refuses_an_index_that_lists_them_otherwise(tmp_path):
    write_records(tmp_path / "a", b"0", b"1", b"2")
    index = tmp_path / "a.idx"
    seekset.create_tfrecord_index(tmp_path / "a")
    data = pickle.dumps(seekset.TFRecordFile(tmp_path / "a"))
    index.unlink()
    assert pickle.loads(data)[2] == b"2"  # as they lie
    seekset.create_tfrecord_index(tmp_path / "a")
    index.write_text("\n".join(index.read_text().splitlines()[::-1]))
    with pytest.raises(seekset.StaleIndexError, match="it is another file than when it was handed over"):
        pickle.loads(data)[2]


def test_a_closed_handle_stays_closed_in_its_pickle_and_its_copy(opened):
    fa = opened(FILE)
    fa.close()
    for again in (pickle.loads(pickle.dumps(fa)), copy.copy(fa)):
        assert "closed" in repr(again)
        with pytest.raises(ValueError, match=r"x\.fa is closed"):
            again.fetch("b")


def test_a_record_pickles_with_its_handle(opened):
    again = pickle.loads(pickle.dumps(opened(FILE)["a"]))
    assert (again.id, again.description, again.sequence, again.row) == ("a", "a one", "MKVLAAG", 0)


def test_a_copy_is_a_handle_of_its_own(opened):
    fa = opened(FILE)
    again = copy.copy(fa)
    fa.close()
    assert again.fetch("b") == "MK"


# --- threads --------------------------------------------------------------------------------------------------------


def protein(rng):
    return "".join(rng.choices("ACDEFGHIKLMNPQRSTVWY", k=rng.randrange(200)))


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("name", ["x.fa", "x.fa.gz"])
def test_many_threads_may_read_one_handle(write, bgzip, name, io):
    rng = random.Random(5)
    texts = [protein(rng) for _ in range(2000)]
    data = "".join(f">{k}\n{text}\n" for k, text in enumerate(texts)).encode()
    fa = seekset.Fasta(write(bgzip.bytes(data) if name.endswith(".gz") else data, name), io=io)

    def read(seed):
        rows = random.Random(seed).choices(range(2000), k=100)
        singles = [fa.fetch(str(row)) for row in rows] == [texts[row] for row in rows]
        batch = bytes(fa.gather(rows * 10).values).decode() == "".join(texts[row] for row in rows) * 10
        return singles and batch

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(40))) == [True] * 40


def test_threads_may_fill_parts_of_one_array(opened):
    fa = opened(b"".join(b">%d\n%b\n" % (k, b"%c" % (65 + k) * 50_000) for k in range(16)))
    out = np.zeros((16, 50_000), np.uint8)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: fa.gather([k], out=out[k]), range(16)))
    assert (out == np.arange(65, 81, dtype=np.uint8)[:, None]).all()


def test_threads_that_use_an_unpickled_handle_at_once_open_it_once(opened):
    again = pickle.loads(pickle.dumps(opened(FILE)))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: again.fetch("b"), range(50))) == ["MK"] * 50


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(write):
    """A file of which a gather of all rows is worth more than one thread."""
    return write(b"".join(b">%d\n%b\n" % (k, bytes([65 + k % 20]) * 40) for k in range(5000)))


START_METHODS = """
    import multiprocessing, sys
    import numpy as np
    import seekset

    ROWS = np.arange(5000)[::-1].copy()

    def answer(fa, record):
        return int(fa.gather(ROWS).values.sum()), fa.fetch("7", 0, 3), record.sequence

    def child(fa, record, send):
        send.send(answer(fa, record))

    def ask(context, fa):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(fa, fa["9"], send), daemon=True)
        process.start()
        assert receive.poll(200), "the child hangs"
        received = receive.recv()
        process.join(200)
        return received, process.exitcode

    if __name__ == "__main__":
        path, method, before = sys.argv[1:]
        seekset.set_threads(4)
        fa = seekset.Fasta(path)
        if before == "used":
            fa.gather(ROWS)
        answers = [ask(multiprocessing.get_context(method), fa) for _ in range(2)]
        assert answers == [(answer(fa, fa["9"]), 0)] * 2, answers
        print("the children read what the parent reads")
"""


@pytest.mark.parametrize("before", ["used", "fresh"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_handles_work_in_children_of_every_start_method(run, many, method, before):
    assert run(START_METHODS, many, method, before) == "the children read what the parent reads\n"


FORKS = """
    import os, signal, sys, threading, warnings
    import numpy as np
    import seekset

    warnings.simplefilter("ignore")  # newer Pythons warn of forks among threads, which is what is tried here
    seekset.set_threads(3)
    path = sys.argv[1]
    fa = seekset.Fasta(path)
    rows = np.arange(5000)
    expected = int(fa.gather(rows).values.sum())
    stop = threading.Event()

    def work():
        while not stop.is_set():
            fa.gather(rows)
            seekset.Fasta(path).close()

    def child():
        signal.alarm(200)  # ends a child that hangs
        same = int(fa.gather(rows).values.sum()) == expected
        again = int(seekset.Fasta(path).gather(rows).values.sum()) == expected
        os._exit(0 if same and again else 1)

    workers = [threading.Thread(target=work) for _ in range(2)]
    [worker.start() for worker in workers]
    codes = []
    for _ in range(30):
        pid = os.fork()
        if pid == 0:
            child()
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    stop.set()
    [worker.join() for worker in workers]
    print(set(codes))
"""


def test_children_forked_in_the_middle_of_gathers_read_too(run, many):
    assert run(FORKS, many) == "{0}\n"
