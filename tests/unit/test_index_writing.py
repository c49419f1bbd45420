"""How an index gets onto the disk: whole or not at all, readable by whom the umask allows, in little memory."""

import errno
import subprocess

import numpy as np
import pyarrow as pa
import pytest

import seekset
from seekset import _core

SMALL = b">a\nMK\n>b\nVL\n"
BAD = b">a\n" + b"MK\n" * 1000 + b"\0\n"


# --- nothing is left behind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("work, made", [(seekset.Fasta, "x.fa.sidx"), (seekset.faidx, "x.fa.fai")])
def test_success_leaves_the_index_and_nothing_else(write, names, work, made):
    work(write(SMALL))
    assert names() == ["x.fa", made]


@pytest.mark.parametrize("work", [seekset.Fasta, seekset.faidx])
def test_failure_leaves_nothing(write, names, work):
    path = write(BAD)
    with pytest.raises(seekset.FormatError):
        work(path)
    assert names() == ["x.fa"]


def test_failure_leaves_the_index_that_was_there(write, names, tmp_path):
    path = write(SMALL)
    seekset.Fasta(path).close()
    before = (tmp_path / "x.fa.sidx").read_bytes()
    path.write_bytes(BAD)
    with pytest.raises(seekset.FormatError):
        seekset.Fasta(path)
    assert names() == ["x.fa", "x.fa.sidx"]
    assert (tmp_path / "x.fa.sidx").read_bytes() == before


@pytest.mark.parametrize("work, made", [(seekset.Fasta, "x.fa.sidx"), (seekset.faidx, "x.fa.fai")])
def test_the_names_beside_a_file_are_replaced_whatever_they_hold(write, tmp_path, work, made):
    path = write(SMALL)
    work(path)
    whole = (tmp_path / made).read_bytes()
    (tmp_path / made).write_bytes(b"mine")
    work(path)
    assert (tmp_path / made).read_bytes() == whole


@pytest.mark.parametrize("cut", [0, 30], ids=["whole", "damaged"])
@pytest.mark.parametrize(
    "work",
    [
        lambda path, table: seekset.Fasta(path, index=table),
        lambda path, table: seekset.SequenceIndex.create([path], table),
        lambda path, table: seekset.SequenceIndex.create([path], path.with_name("other.sidx")).save(table),
    ],
    ids=["Fasta", "create", "save"],
)
def test_a_table_of_somebody_else_is_an_arrow_file_too_and_stays(write, tmp_path, work, cut):
    path, table = write(SMALL), tmp_path / "mine.arrow"
    with pa.ipc.new_file(table, pa.schema([("x", pa.int64())])) as out:
        out.write(pa.record_batch({"x": [1, 2]}))
    mine = table.read_bytes()[: -cut or None]
    table.write_bytes(mine)
    with pytest.raises(seekset.MismatchError, match=r"mine\.arrow: there is a file already, and it is no "):
        work(path, table)
    assert table.read_bytes() == mine


def test_a_damaged_index_at_a_place_that_was_named_is_built_again(write, tmp_path):
    path, named = write(SMALL), tmp_path / "named.sidx"
    seekset.Fasta(path, index=named).close()
    whole = named.read_bytes()
    for damaged in (whole[:-30], whole[:2000], b"ARR", b""):
        named.write_bytes(damaged)
        seekset.Fasta(path, index=named).close()
        assert named.read_bytes() == whole


def test_a_writer_that_is_killed_leaves_nothing(write, names, program, killed):
    write(b"".join(b">%d\nA\n" % number for number in range(3_000_000)), "slow.fa")
    killed(program("import seekset; seekset.Fasta('slow.fa')"))
    assert names() == ["program.py", "slow.fa"]


@pytest.mark.parametrize("work", [lambda path, index: seekset.Fasta(path, index=index), seekset.faidx])
def test_what_is_no_index_stays_at_a_place_that_was_named(write, tmp_path, work):
    path, named = write(SMALL), write(b"mine", "named")
    with pytest.raises(seekset.MismatchError, match="named: there is a file already, and it is no "):
        work(path, named)
    assert named.read_bytes() == b"mine"


FULL = """
    import resource, seekset
    work = seekset.{work}
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        work("x.fa")
    except OSError as error:
        print(error.errno)
"""


@pytest.mark.parametrize("work, made", [("Fasta", "x.fa.sidx"), ("faidx", "x.fa.fai")])
def test_a_disk_that_is_full_is_the_systems_error_and_leaves_what_was_there(write, run, names, tmp_path, work, made):
    write(b"".join(b">record_%d\nMK\n" % k for k in range(5000)))
    write(b"old", made)
    assert run(FULL.format(work=work)) == f"{errno.EFBIG}\n"
    assert names() == ["program.py", "x.fa", made]
    assert (tmp_path / made).read_bytes() == b"old"


# --- who may read it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask, mode", [("022", 0o644), ("077", 0o600), ("002", 0o664), ("000", 0o666)])
def test_what_is_written_is_readable_by_whom_the_umask_allows(write, bgzip, run, tmp_path, umask, mode):
    bgzip(write(SMALL))
    run(
        """
        import os, sys, seekset
        os.umask(int(sys.argv[1], 8))
        seekset.Fasta("x.fa.gz")
        seekset.faidx("x.fa.gz")
        """,
        umask,
    )
    made = ["x.fa.gz.sidx", "x.fa.gz.gzi", "x.fa.gz.fai"]
    assert {name: (tmp_path / name).stat().st_mode & 0o777 for name in made} == dict.fromkeys(made, mode)


# --- several at once ------------------------------------------------------------------------------------------------

AT_ONCE = """
    import seekset
    seekset.Fasta
    print("ready", flush=True)
    input()
    for _ in range(5):
        with seekset.Fasta("x.fa") as fa:
            assert fa.fetch("19999") == "MK", fa
            assert len(fa) == 20_000
    print("done")
"""


def test_processes_that_index_one_file_at_once_all_end_with_a_whole_index(write, program, names, tmp_path):
    path = write(b"".join(b">%d\nM\nK\n" % k for k in range(20_000)))
    command = program(AT_ONCE)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=300) for process in processes] == [("done\n", "")] * 4
    assert names() == ["program.py", "x.fa", "x.fa.sidx"]
    whole = _core.Fasta(path, build=False)
    whole.verify()
    assert whole.origin == ("found", None)


def test_a_handle_stays_valid_when_its_index_is_built_again(write):
    path = write(SMALL)
    fa = seekset.Fasta(path)
    fa.index_path.unlink()
    seekset.Fasta(path).close()
    assert fa.fetch_many(["b", "a"]) == ["VL", "MK"]


# --- memory ---------------------------------------------------------------------------------------------------------

ALLOWED = 400 << 20

# The allocator reserves a gigabyte whatever is asked of it, so what is in use is looked at, not what could be.
PRIVATE = """
    import threading, seekset

    def private():
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("RssAnon:"))

    def watch():
        while not done.wait(0.005):
            seen.append(private())

    seekset.set_threads(2)
    before, seen, done = private(), [], threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    fa = seekset.Fasta("x.fa")
    seen.append(private())
    done.set()
    watcher.join()
    print(len(fa), max(seen) - before)
"""


def tiny_records(count):
    """Records such as b">00000042\\nA\\n", millions of them in no time."""
    rows = np.tile(np.frombuffer(b">00000000\nA\n", np.uint8), (count, 1))
    for place in range(8):
        rows[:, 8 - place] += (np.arange(count) // 10**place % 10).astype(np.uint8)
    return rows.tobytes()


def test_indexing_takes_little_memory_however_many_records_there_are(write, run, tmp_path):
    write(tiny_records(6_000_000))
    records, private = map(int, run(PRIVATE, MIMALLOC_PURGE_DELAY="0").split())  # what is free counts as free at once
    assert records == 6_000_000
    assert private < ALLOWED
    # The index alone would not fit into what was allowed.
    assert (tmp_path / "x.fa.sidx").stat().st_size > ALLOWED
