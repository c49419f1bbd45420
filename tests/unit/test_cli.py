"""The command line, run as people run it: in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pysam
import pytest

import seekset

PROTEINS = b">seq_1 one\nMTKIALSDFG\nHKQWE\n>seq_2\nMKV\n>seq:3-4\nACGTN\n"


@pytest.fixture
def cli(tmp_path):
    """`cli("get", ...)` runs a command in tmp_path and gives what came out."""

    def run(*words, stdin=None):
        command = [sys.executable, "-m", "seekset", *map(str, words)]
        return subprocess.run(
            command, cwd=tmp_path, input=stdin, capture_output=True, text=True, timeout=300, check=False
        )

    return run


@pytest.fixture
def proteins(tmp_path):
    path = tmp_path / "p.fa"
    path.write_bytes(PROTEINS)
    return path


def test_index_writes_an_index_beside_each_file_and_says_so(cli, proteins, tmp_path):
    (tmp_path / "q.fa").write_bytes(b">a\nAC\n")
    done = cli("index", "p.fa", "q.fa")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split("\t")[:3] for line in done.stdout.splitlines()] == [
        ["file", "records", "letters"],
        ["p.fa", "3", "23"],
        ["q.fa", "1", "2"],
    ]
    assert (tmp_path / "p.fa.sidx").exists()
    assert (tmp_path / "q.fa.sidx").exists()
    assert "was there" in cli("index", "p.fa").stdout


def test_index_tells_machines_in_json(cli, proteins):
    facts = json.loads(cli("index", "--json", "--verify", "p.fa").stdout)
    assert (facts["records"], facts["letters"], facts["built"], facts["index_path"]) == (3, 23, True, "p.fa.sidx")


def test_index_goes_where_it_is_told(cli, proteins, tmp_path):
    assert cli("index", "-q", "--index", "elsewhere.sidx", "p.fa").stdout == ""
    assert (tmp_path / "elsewhere.sidx").exists()
    assert not (tmp_path / "p.fa.sidx").exists()


def test_one_output_for_several_files_is_a_sequence_index(cli, proteins, tmp_path):
    (tmp_path / "q.fa").write_bytes(b">a\nACGTACG\n")
    done = cli("index", "--verify", "-o", "x.sidx", "p.fa", "q.fa")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "index\tfiles\tsequences\ttokens\tshortest\tmedian\tlongest",
        "x.sidx\t2\t4\t30\t3\t6.0\t15",
    ]
    index = seekset.SequenceIndex.load(tmp_path / "x.sidx")
    assert index.ids(range(4)) == ["seq_1", "a", "seq:3-4", "seq_2"]
    assert (tmp_path / "p.fa.sidx").exists()


def test_a_sequence_index_is_json_if_its_name_says_so(cli, proteins, tmp_path):
    facts = json.loads(cli("index", "--json", "-o", "x.json", "p.fa").stdout)
    assert facts == {
        "index": "x.json",
        "files": 1,
        "sequences": 3,
        "tokens": 23,
        "shortest": 3,
        "median": 5.0,
        "longest": 15,
    }
    assert json.loads((tmp_path / "x.json").read_text())["total_tokens"] == 23


def test_a_sequence_index_may_be_of_one_file(cli, proteins, tmp_path):
    assert cli("index", "-q", "-o", "x.sidx", "p.fa").stdout == ""
    assert len(seekset.SequenceIndex.load(tmp_path / "x.sidx")) == 3
    done = cli("index", "--index", "x.sidx", "p.fa")
    assert done.returncode == 1
    assert "an index over many FASTA files" in done.stderr


def test_a_sequence_index_that_is_made_anew_says_why(cli, proteins):
    cli("index", "-o", "x.json", "p.fa")
    proteins.write_bytes(PROTEINS + b">new\nM\n")
    assert "made anew" in cli("index", "-o", "x.json", "p.fa").stderr
    proteins.write_bytes(PROTEINS)
    assert cli("index", "-q", "-o", "x.json", "p.fa").stderr == ""


def test_ids_of_two_records_are_refused_if_asked(cli, proteins, tmp_path):
    (tmp_path / "q.fa").write_bytes(b">seq_2\nACGTACG\n")
    done = cli("index", "--unique", "-o", "x.sidx", "p.fa", "q.fa")
    assert done.returncode == 1
    assert "id 'seq_2' names two records" in done.stderr
    assert "q.fa" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["--unique", "p.fa"], ["--index", "y.sidx", "-o", "x.sidx", "p.fa"], ["--index", "x.sidx", "p.fa", "p.fa"]],
)
def test_options_of_one_kind_of_index_are_not_for_the_other(cli, proteins, words):
    assert cli("index", *words).returncode == 2


def test_a_bad_file_keeps_a_sequence_index_from_being_made(cli, proteins, tmp_path):
    (tmp_path / "bad.fa").write_bytes(b">a\nA\0C\n")
    for bad in ("bad.fa", "missing.fa", "p.fa"):
        done = cli("index", "-o", "x.sidx", "p.fa", bad)
        assert done.returncode == 1
        assert bad in done.stderr
        assert not (tmp_path / "x.sidx").exists()


def test_index_into_a_folder_that_is_not_there_is_an_error(cli, proteins):
    done = cli("index", "-o", "missing/x.sidx", "p.fa")
    assert (done.returncode, done.stderr) == (1, "seekset: missing/x.sidx: No such file or directory\n")


def test_index_of_a_bad_file_is_one_line_and_exit_code_1(cli, tmp_path):
    (tmp_path / "bad.fa").write_bytes(b">a\nA\0C\n")
    done = cli("index", "bad.fa")
    assert done.returncode == 1
    expected = "seekset: bad.fa: line 2, byte 4: expected letters in a sequence line, found a NUL byte\n"
    assert (done.stdout, done.stderr) == ("", expected)
    assert list(tmp_path.iterdir()) == [tmp_path / "bad.fa"]


def test_one_bad_file_does_not_keep_the_others_from_their_index(cli, proteins, tmp_path):
    (tmp_path / "bad.fa").write_bytes(b">a\nA\0C\n")
    (tmp_path / "worse.fa").write_bytes(b"AC\n")
    (tmp_path / "q.fa").write_bytes(b">a\nAC\n")
    (tmp_path / "empty").mkdir()
    done = cli("index", "p.fa", "bad.fa", "missing.fa", "q.fa", "worse.fa", "empty")
    assert done.returncode == 1
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["file", "p.fa", "q.fa"]
    assert done.stderr.splitlines() == [
        "seekset: missing.fa: No such file or directory",
        "seekset: empty: there is no FASTA file in this folder",
        "seekset: bad.fa: line 2, byte 4: expected letters in a sequence line, found a NUL byte",
        "seekset: worse.fa: line 1, byte 0: expected '>' before any other text, found 'A'",
    ]
    assert (tmp_path / "q.fa.sidx").exists()


def test_debug_shows_the_traceback(cli, tmp_path):
    (tmp_path / "bad.fa").write_bytes(b"A\n")
    assert "Traceback" in cli("--debug", "index", "bad.fa").stderr


def test_repeated_ids_are_indexed_with_a_word_about_them(cli, tmp_path):
    (tmp_path / "twice.fa").write_bytes(b">a\nA\n>a\nC\n")
    done = cli("index", "twice.fa")
    assert (done.returncode, done.stderr) == (0, "seekset: twice.fa: 1 record has an id that an earlier one has\n")
    (tmp_path / "twice.fa").write_bytes(b">a\nA\n>a\nC\n>a\nG\n")
    assert cli("index", "twice.fa").stderr == "seekset: twice.fa: 2 records have an id that an earlier one has\n"


def test_faidx_writes_what_samtools_writes(cli, proteins, tmp_path):
    done = cli("faidx", "p.fa")
    assert (done.returncode, done.stdout) == (0, "p.fa.fai\n")
    ours = (tmp_path / "p.fa.fai").read_bytes()
    pysam.faidx(str(proteins))
    assert ours == (tmp_path / "p.fa.fai").read_bytes()


def test_faidx_says_which_of_its_options_takes_repeated_names(cli, tmp_path):
    (tmp_path / "twice.fa").write_bytes(b">a\nAC\n>a\nGGG\n")
    assert "faidx --like-samtools" in cli("faidx", "twice.fa").stderr
    assert cli("faidx", "--like-samtools", "twice.fa").returncode == 0


def test_faidx_refuses_what_samtools_drops_unless_asked(cli, tmp_path):
    path = tmp_path / "twice.fa"
    path.write_bytes(b">a\nAC\n>a\nGGG\n>b\n>c\nT\n")
    refused = cli("faidx", "twice.fa")
    assert refused.returncode == 1
    assert "line 5, byte 13" in refused.stderr
    assert "--like-samtools" in refused.stderr
    assert not (tmp_path / "twice.fa.fai").exists()
    done = cli("faidx", "--like-samtools", "twice.fa")
    assert done.returncode == 0
    assert "1 record was left out" in done.stderr
    ours = (tmp_path / "twice.fa.fai").read_bytes()
    pysam.faidx(str(path))
    assert ours == (tmp_path / "twice.fa.fai").read_bytes()


@pytest.mark.parametrize(
    "regions, expected",
    [
        (["seq_2"], ">seq_2\nMKV\n"),
        (["seq_1:9-12"], ">seq_1:9-12\nFGHK\n"),
        (["seq_1:13-"], ">seq_1:13-\nQWE\n"),
        (["seq_1:15"], ">seq_1:15\nE\n"),
        (["seq_1:1,0-1,1"], ">seq_1:1,0-1,1\nGH\n"),
        (["seq_2:2-99"], ">seq_2:2-99\nKV\n"),
        (["seq:3-4"], ">seq:3-4\nACGTN\n"),
        (["seq:3-4:2-3", "seq_2"], ">seq:3-4:2-3\nCG\n>seq_2\nMKV\n"),
    ],
)
def test_get_prints_records_and_regions(cli, proteins, regions, expected):
    done = cli("get", "p.fa", *regions)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_get_is_what_samtools_faidx_prints(cli, proteins):
    regions = ["seq_1", "seq_1:3-12", "seq_2:2-2"]
    pysam.faidx("-o", str(proteins.with_name("out")), str(proteins), *regions)
    assert cli("get", "p.fa", *regions).stdout == proteins.with_name("out").read_text()


def test_get_wraps_and_reverses(cli, proteins):
    assert cli("get", "-w", "4", "p.fa", "seq_1").stdout == ">seq_1\nMTKI\nALSD\nFGHK\nQWE\n"
    assert cli("get", "-i", "-w", "2", "p.fa", "seq:3-4").stdout == ">seq:3-4/rc\nNA\nCG\nT\n"


def test_get_reads_regions_from_a_file_or_stdin(cli, proteins):
    assert cli("get", "-r", "-", "p.fa", stdin="seq_2\n\nseq_1:1-2\n").stdout == ">seq_2\nMKV\n>seq_1:1-2\nMT\n"


@pytest.mark.parametrize(
    "region, message",
    [
        ("seq_9", "there is no record with the id 'seq_9'; the nearest are 'seq_1', 'seq_2'"),
        ("seq_2:0-2", "positions count from 1, and '0-2' has a 0"),
        ("seq_2:3-2", "it ends at 2, before it starts at 3; is seq_2:2-3 meant?"),
        ("seq_2:4-9", "starts behind the end: 'seq_2' has 3 letters"),
    ],
)
def test_get_of_what_is_not_there_prints_nothing_but_an_error(cli, proteins, region, message):
    done = cli("get", "p.fa", "seq_1", region)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_get_refuses_an_id_that_names_two_records_unless_asked(cli, tmp_path):
    (tmp_path / "twice.fa").write_bytes(b">a\nAC\n>b\nG\n>a\nT\n")
    refused = cli("get", "twice.fa", "a")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "twice.fa: id 'a' names two records, the first at record 0, line 1, byte 0, another at" in refused.stderr
    assert "get --duplicates first" in refused.stderr
    assert cli("get", "--duplicates", "first", "twice.fa", "a").stdout == ">a\nAC\n"


def test_get_and_stats_use_an_index_elsewhere(cli, proteins, tmp_path):
    assert cli("index", "-q", "--index", "there.sidx", "p.fa").returncode == 0
    before = (tmp_path / "there.sidx").stat().st_mtime_ns
    assert cli("get", "--index", "there.sidx", "p.fa", "seq_2").stdout == ">seq_2\nMKV\n"
    assert cli("stats", "--index", "there.sidx", "p.fa").stdout.splitlines()[1].startswith("p.fa\t3\t23")
    assert (tmp_path / "there.sidx").stat().st_mtime_ns == before
    assert not (tmp_path / "p.fa.sidx").exists()
    assert cli("stats", "--index", "there.sidx", "p.fa", "p.fa").returncode == 2


@pytest.mark.parametrize("command", [["get", "q.fa", "a"], ["stats", "q.fa"]])
def test_a_named_index_of_another_file_is_refused_and_stays(cli, proteins, tmp_path, command):
    (tmp_path / "q.fa").write_bytes(b">a\nAC\n")
    assert cli("index", "-q", "p.fa").returncode == 0
    before = (tmp_path / "p.fa.sidx").read_bytes()
    done = cli(*command, "--index", "p.fa.sidx")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("seekset: q.fa: its index p.fa.sidx can't be used: ")
    assert "`seekset index --index p.fa.sidx q.fa` makes it anew" in done.stderr
    assert (tmp_path / "p.fa.sidx").read_bytes() == before


@pytest.mark.parametrize("command", [["get", "q.fa", "a"], ["stats", "q.fa"]])
def test_a_named_index_that_is_missing_is_made(cli, tmp_path, command):
    (tmp_path / "q.fa").write_bytes(b">a\nAC\n")
    done = cli(*command, "--index", "new.sidx")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "new.sidx").exists()
    assert not (tmp_path / "q.fa.sidx").exists()


@pytest.mark.parametrize("command", [["get", "--index", "missing/x.sidx", "p.fa", "seq_2"],
                                     ["stats", "--index", "missing/x.sidx", "p.fa"]])  # fmt: skip
def test_a_warning_is_one_line_on_stderr(cli, proteins, command):
    done = cli(*command)
    assert done.returncode == 0
    assert done.stderr.startswith("seekset: missing/x.sidx can't be written (")
    assert done.stderr.count("\n") == 1


def test_a_bgzip_file_without_its_end_is_told_by_every_command(cli, tmp_path, bgzip):
    (tmp_path / "cut.fa.gz").write_bytes(bgzip.bytes(PROTEINS)[:-28])
    told = (
        "seekset: cut.fa.gz: the empty block that ends every BGZF file is missing: the file may have been cut short\n"
    )
    for command in (["index"], ["stats"], ["faidx"], ["get", "--"]):
        done = cli(*command, "cut.fa.gz", *(["seq_2"] if command[0] == "get" else []))
        assert (done.returncode, done.stderr) == (0, told)
    assert cli("faidx", "-q", "cut.fa.gz").stderr == ""


def test_get_of_nothing_is_a_usage_error(cli, proteins):
    assert cli("get", "p.fa").returncode == 2


def test_a_missing_file_is_said_in_one_line(cli):
    done = cli("get", "missing.fa", "a")
    assert (done.returncode, done.stderr) == (1, "seekset: missing.fa: No such file or directory\n")


def test_stats_are_those_of_the_lengths(cli, proteins):
    facts = json.loads(cli("stats", "--json", "p.fa").stdout)
    assert facts == {
        "file": "p.fa", "records": 3, "letters": 23, "shortest": 3, "median": 5.0, "mean": 7.7, "n50": 15, "longest": 15
    }  # fmt: skip


def test_stats_of_an_empty_file_are_zero(cli, tmp_path):
    (tmp_path / "empty.fa").write_bytes(b"")
    assert cli("stats", "empty.fa").stdout.splitlines()[1] == "empty.fa\t0\t0\t0\t0\t0\t0\t0"


def test_one_bad_file_does_not_hide_the_stats_of_the_others(cli, proteins, tmp_path):
    (tmp_path / "bad.fa").write_bytes(b"AC\n")
    done = cli("stats", "missing.fa", "p.fa", "bad.fa")
    assert done.returncode == 1
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["file", "p.fa"]
    assert done.stderr.splitlines() == [
        "seekset: missing.fa: No such file or directory",
        "seekset: bad.fa: line 1, byte 0: expected '>' before any other text, found 'A'",
    ]


def test_a_file_that_may_not_be_read_is_said_in_one_line(program, proteins, tmp_path):
    tmp_path.chmod(0o755)
    proteins.chmod(0)
    source = """
        import contextlib, os
        from seekset.cli import cli, main

        with contextlib.suppress(FileNotFoundError):
            cli(["get", "missing.fa", "a"], standalone_mode=False)  # imports what nobody may not be able to
        if os.geteuid() == 0:  # root may read everything, so be nobody
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        main()
    """
    command = program(source, "get", "p.fa", "seq_2")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (1, "seekset: p.fa: Permission denied\n")


def test_stats_draws_a_picture(cli, proteins, tmp_path):
    assert cli("stats", "--plot", "lengths.png", "p.fa").returncode == 0
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")


def test_a_reader_that_goes_away_ends_the_command_without_a_word(proteins, tmp_path):
    # More than a pipe may hold: whoever writes it waits for its reader, and so meets its end.
    most = int(Path("/proc/sys/fs/pipe-max-size").read_text())
    (tmp_path / "long.fa").write_bytes(b">a\n" + b"ACGT" * most + b"\n")
    ours, its = os.pipe()
    command = [sys.executable, "-m", "seekset", "get", "long.fa", "a"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=its, stderr=subprocess.PIPE) as process:
        os.close(its)
        assert os.read(ours, 3) == b">a\n"
        os.close(ours)
        _, told = process.communicate(timeout=300)
    assert (process.returncode, told) == (141, b"")  # as if SIGPIPE had ended it, as it would end `cat`


COMMAND = """
    import signal
    from seekset.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    main()
"""


def test_ctrl_c_ends_an_index_command_and_leaves_nothing_half_done(cli, program, interrupted, tmp_path):
    path = tmp_path / "slow.fa"
    path.write_bytes(b"".join(b">%d\nA\n" % number for number in range(3_000_000)))
    _, code = interrupted(program(COMMAND, "index", "slow.fa"))
    assert code == 130
    # Whoever is quick enough may have finished the index by then; half of one is never there.
    left = {path.name for path in tmp_path.iterdir()} - {"slow.fa", "program.py"}
    assert left <= {"slow.fa.sidx"}
    assert cli("index", "--verify", "-q", "slow.fa").returncode == 0


def test_demo_refuses_a_folder_of_other_files(cli, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "genome.fa").write_bytes(PROTEINS)
    done = cli("demo", "--folder", "mine")
    assert done.returncode == 2
    assert "mine holds files that the demo did not make (genome.fa is one)" in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == {"genome.fa": PROTEINS}


def test_demo_takes_a_folder_that_is_new_or_empty_or_its_own(tmp_path):
    from seekset.demo.folder import claim

    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/er"):
        claim(tmp_path / name)
        (tmp_path / name / "genome.fa").write_bytes(b">made by the demo\n")
        claim(tmp_path / name)


def test_demo_says_how_much_it_writes(cli):
    assert "200 MB" in cli("demo", "--help").stdout


def test_version_is_the_packages(cli):
    import seekset

    assert cli("--version").stdout == f"seekset {seekset.__version__}\n"
