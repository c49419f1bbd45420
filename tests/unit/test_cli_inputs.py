"""What commands take for the files that they read: the same forms everywhere, and what is said of other things."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import seekset
from seekset.files import find_fastas

PROTEINS = b">seq_1 one\nMTKIALSDFG\nHKQWE\n>seq_2\nMKV\n>-dash\nACGTN\n"
OTHERS = b">x\nMKVV\n"


@pytest.fixture
def cli(tmp_path, write):
    """`cli("get", ...)` runs a command in a folder with two FASTA files, `all.sidx` over both, and a folder of them."""
    write(PROTEINS, "p.fa")
    write(OTHERS, "q.fa")
    (tmp_path / "empty").mkdir()
    (tmp_path / "sub").mkdir()
    write(PROTEINS, "sub/p.fa")
    write(OTHERS, "sub/q.fa")
    seekset.SequenceIndex.create([tmp_path / "p.fa", tmp_path / "q.fa"], tmp_path / "all.sidx").close()

    def run(*words, stdin=None):
        command = [sys.executable, "-m", "seekset", *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, stdin=stdin, capture_output=True, text=True, timeout=300, check=False
        )

    return run


def counted(command, done):
    """How many records a command saw."""
    assert (done.returncode, done.stderr) == (0, "")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    if command == "report":
        return told[0]["lengths"]["records"]
    return sum(one["sequences"] if "sequences" in one else one["records"] for one in told)


@pytest.mark.parametrize("command", ["index", "stats", "plan", "report"])
def test_commands_take_files_globs_and_indexes_and_all_but_reports_folders(cli, command):
    for words, records in ((["p.fa"], 3), (["p.fa", "q.fa"], 4), (["sub/*.fa"], 4), (["sub/*.fa", "p.fa"], 7)):
        assert counted(command, cli(command, "--json", *words)) == records
    for words, records in ((["all.sidx"], 4), (["p.fa.sidx"], 3)):
        assert counted(command, cli(command, "--json", *words)) == records
    if command != "report":  # of which a folder is one of shards
        assert counted(command, cli(command, "--json", "sub")) == 4


def test_an_index_stands_for_its_files(cli, tmp_path):
    assert find_fastas(tmp_path / "all.sidx") == [tmp_path / "p.fa", tmp_path / "q.fa"]
    assert find_fastas([tmp_path / "all.sidx", tmp_path / "p.fa"]) == [tmp_path / "p.fa", tmp_path / "q.fa"]
    assert cli("get", "p.fa.sidx", "seq_2").stdout == ">seq_2\nMKV\n"
    done = cli("get", "all.sidx", "seq_2")
    found = f"it is an index of 2 FASTA files: give one of them, such as {tmp_path / 'p.fa'}"
    assert (done.returncode, done.stderr) == (1, f"seekset: all.sidx: {found}\n")
    (tmp_path / "alone.sidx").write_bytes((tmp_path / "p.fa.sidx").read_bytes())
    assert "expected the FASTA file that it is the index of beside it" in cli("get", "alone.sidx", "seq_2").stderr
    assert cli("plan", "-q", "-o", "some.plan", "all.sidx").returncode == 0
    assert cli("stats", "some.plan").stderr == ("seekset: some.plan: expected a FASTA file or an index, found a plan\n")


@pytest.mark.parametrize("words", [["plan", "all.sidx"], ["report", "all.sidx", "--json"]])
def test_an_index_whose_files_changed_is_refused(cli, tmp_path, words):
    (tmp_path / "q.fa").write_bytes(OTHERS + b">y\nA\n")
    done = cli(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "q.fa: it has changed since it was indexed" in done.stderr
    assert "create the sequence index all.sidx again" in done.stderr
    (tmp_path / "q.fa").unlink()
    done = cli(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "q.fa: No such file or directory; the index all.sidx is about it" in done.stderr


@pytest.mark.parametrize("command", [["index"], ["index", "-o", "x.sidx"], ["stats"], ["get"], ["plan"], ["faidx"]])
def test_what_can_be_read_once_only_is_refused_with_a_remedy(cli, tmp_path, names, command):
    os.mkfifo(tmp_path / "pipe.fa")
    before = names()
    region = ["seq_2"] if command == ["get"] else []
    with (tmp_path / "p.fa").open() as stdin:
        for path in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "pipe.fa"):
            done = cli(*command, path, *region, stdin=stdin)
            assert (done.returncode, done.stdout) == (1, "")
            assert f"{path}: " in done.stderr
            assert "not a regular file" in done.stderr or "write the bytes to a file first" in done.stderr
    assert names() == before
    assert not list(Path("/dev").glob("stdin.*"))


def test_a_name_of_what_is_open_gets_no_index_from_python(tmp_path, write):
    with write(PROTEINS).open() as file:
        with pytest.raises(OSError, match="write the bytes to a file first"):
            seekset.Fasta(f"/dev/fd/{file.fileno()}")
        assert len(seekset.Fasta(f"/dev/fd/{file.fileno()}", index=tmp_path / "x.sidx")) == 3


@pytest.mark.parametrize(
    "words, said",
    [
        (["tfrecord-index", "empty"], "empty: there is no file with .tfrecord in its name in this folder"),
        (["tfrecord", "verify", "empty"], "empty: there is no file with .tfrecord in its name in this folder"),
        (["index", "empty"], "empty: there is no FASTA file in this folder"),
        (["stats", "*.faa"], "*.faa: no file matches"),
        (["pool", "inspect", "p.fa"], "p.fa: expected a directory of shards, found a file"),
        (["report", "p.fa", "sub", "--json"], "p.fa: expected a directory of shards, found a file"),
    ],
)
def test_what_is_there_is_not_called_missing(cli, words, said):
    done = cli(*words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"seekset: {said}\n")


def test_an_index_over_many_files_is_none_for_one(cli, tmp_path):
    before = (tmp_path / "all.sidx").read_bytes()
    for command in (["stats", "p.fa"], ["get", "p.fa", "seq_2"]):
        done = cli(*command, "--index", "all.sidx")
        found = "expected the index of one FASTA file, found another file; give another --index"
        assert (done.returncode, done.stderr) == (1, f"seekset: all.sidx: {found}\n")
    assert (tmp_path / "all.sidx").read_bytes() == before


def test_ids_that_begin_with_a_dash_are_asked_for_behind_two(cli):
    for word in ("-dash", "-1", "--dash"):
        done = cli("get", "p.fa", word)
        assert done.returncode == 2
        assert f"there is no option {word}; " in done.stderr
        assert f"`seekset get FILE -- {word}`" in done.stderr
    assert cli("get", "p.fa", "--", "-dash").stdout == ">-dash\nACGTN\n"


NOBODY = """
    import importlib, os, pkgutil
    import seekset.cli, seekset.report
    from seekset import Plan, SequenceIndex

    for package in (seekset.cli, seekset.report):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    import concurrent.futures.thread, importlib.metadata, seekset.fasta, seekset.indexing
    if os.geteuid() == 0:  # root may write everywhere, so be nobody
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
    seekset.cli.main()
"""


@pytest.mark.parametrize(
    "words, code, remedy",
    [
        (["index", "p.fa"], 1, "Permission denied; --index names another place for the index of one file"),
        (["stats", "p.fa"], 0, "; give --index a place that can be written"),
        (["get", "p.fa", "seq_2"], 0, "; give --index a place that can be written"),
        (["plan", "p.fa"], 0, "; `seekset index -o PATH p.fa` makes one to give instead, at a place that can be"),
        (["report", "p.fa", "--json"], 0, "; `seekset index -o PATH p.fa` makes one to give instead, at a place"),
    ],
)
def test_where_no_index_can_be_written_the_remedy_is_one_the_command_has(program, write, tmp_path, words, code, remedy):
    write(PROTEINS, "p.fa")
    command = program(NOBODY, *words)
    tmp_path.chmod(0o555)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    tmp_path.chmod(0o755)
    assert done.returncode == code
    assert remedy in done.stderr
    assert done.stderr.count("\n") == 1
