"""The TFRecord commands, run as people run them: in a process of their own."""

import gzip
import subprocess
import sys
import zlib

import pytest

import seekset
from frames import header, lines, record, records, unchecked

PAYLOADS = [b"one", b"", b"three"]
WHOLE = records(*PAYLOADS)


@pytest.fixture
def cli(tmp_path):
    """`cli("tfrecord-index", ...)` runs a command in tmp_path and gives what came out."""

    def run(*words, stdin=b""):
        command = [sys.executable, "-m", "seekset", *map(str, words)]
        done = subprocess.run(command, cwd=tmp_path, input=stdin, capture_output=True, timeout=300, check=False)
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    return run


@pytest.fixture
def path(write):
    return write(WHOLE, "x.tfrecord")


def table(text):
    return [line.split("\t") for line in text.splitlines()]


def test_an_index_is_written_beside_its_file(cli, path, names):
    done = cli("tfrecord-index", "x.tfrecord")
    assert (done.returncode, done.stderr) == (0, "")
    heads, row = table(done.stdout)
    assert heads == ["file", "records", "speed", "index"]
    assert (row[0], row[1], row[3]) == ("x.tfrecord", "3", "x.tfrecord.idx")
    assert path.with_name("x.tfrecord.idx").read_text() == lines(*PAYLOADS)
    assert names() == ["x.tfrecord", "x.tfrecord.idx"]


def test_an_index_goes_where_it_is_told(cli, path, names, tmp_path):
    assert cli("tfrecord-index", "-q", "x.tfrecord", "-o", "other.idx").stdout == ""
    assert (tmp_path / "other.idx").read_text() == lines(*PAYLOADS)
    assert names() == ["other.idx", "x.tfrecord"]


@pytest.mark.parametrize("patterns", [["*.tfrecord"], ["a.tfrecord", "b.tfrecord"], ["."], ["[ab].*", "a.tfrecord"]])
def test_many_files_have_one_table(cli, write, names, patterns):
    write(WHOLE, "b.tfrecord")
    write(b"", "a.tfrecord")
    done = cli("tfrecord-index", *patterns, "--jobs", "2")
    assert [row[:2] for row in table(done.stdout)[1:]] == [["a.tfrecord", "0"], ["b.tfrecord", "3"]]
    assert names() == ["a.tfrecord", "a.tfrecord.idx", "b.tfrecord", "b.tfrecord.idx"]


def test_stdin_is_indexed_without_seeking(cli, tmp_path, names):
    done = cli("tfrecord-index", "-", stdin=WHOLE)
    assert (done.returncode, done.stdout, done.stderr) == (0, lines(*PAYLOADS), "")
    done = cli("tfrecord-index", "-", "-o", "out.idx", "--verify", "full", stdin=WHOLE)
    assert table(done.stdout) == [["file", "records", "index"], ["-", "3", "out.idx"]]
    assert (tmp_path / "out.idx").read_text() == lines(*PAYLOADS)
    assert names() == ["out.idx"]


def test_bad_bytes_from_stdin_print_nothing_but_an_error(cli, names):
    done = cli("tfrecord-index", "-", stdin=WHOLE + b"junk")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("seekset: <stdin>: record 3, byte 56: expected a header of 12 bytes, found 4 bytes")
    assert cli("tfrecord-index", "-", "-o", "out.idx", stdin=WHOLE[:-1]).returncode == 1
    assert names() == []


def test_a_pipe_is_indexed_while_it_is_filled(tmp_path):
    command = [sys.executable, "-m", "seekset", "tfrecord-index", "-"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for _ in range(1000):
            process.stdin.write(WHOLE)
        process.stdin.close()
        assert process.stdout.read().decode() == lines(*PAYLOADS * 1000)
    assert process.returncode == 0


def test_a_bad_file_does_not_keep_others_from_their_index(cli, path, write, names):
    write(bytes(64), "bad.tfrecord")
    done = cli("tfrecord-index", "missing.tfrecord", "*.tfrecord", "none*")
    assert done.returncode == 1
    missing, none, bad = done.stderr.splitlines()
    assert missing == "seekset: missing.tfrecord: No such file or directory"
    assert none == "seekset: none*: no file matches"
    assert bad.startswith("seekset: bad.tfrecord: record 0, byte 0: the length's checksum does not fit")
    assert bad.endswith("give verify=None (tfrecord-index --verify none)")
    assert [row[0] for row in table(done.stdout)] == ["file", "x.tfrecord"]
    assert names() == ["bad.tfrecord", "x.tfrecord", "x.tfrecord.idx"]


def test_what_is_verified_can_be_chosen(cli, write, names):
    write(unchecked(*PAYLOADS), "x.tfrecord")
    assert cli("tfrecord-index", "x.tfrecord").returncode == 1
    assert cli("tfrecord-index", "x.tfrecord", "--verify", "none").returncode == 0
    damaged = bytearray(WHOLE)
    damaged[12] ^= 1
    write(damaged, "x.tfrecord")
    assert cli("tfrecord-index", "x.tfrecord").returncode == 0
    done = cli("tfrecord-index", "x.tfrecord", "--verify", "full")
    assert "record 0, byte 0: the payload's checksum does not fit" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "x.idx", "a.tfrecord", "b.tfrecord"],
        ["-o", "x.idx", "a.tfrecord", "missing.tfrecord"],
        ["-", "a.tfrecord"],
        [],
        ["--jobs", "0", "a.tfrecord"],
    ],
)
def test_wrong_use_is_exit_code_2(cli, write, words):
    write(b"", "a.tfrecord")
    write(b"", "b.tfrecord")
    assert cli("tfrecord-index", *words).returncode == 2


# --- verify ---------------------------------------------------------------------------------------------------------


def test_sound_files_have_no_faults(cli, path, write):
    write(b"", "empty.tfrecord")
    done = cli("tfrecord", "verify", "*.tfrecord")
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout) == [
        ["file", "records seen", "faults"],
        ["empty.tfrecord", "0", "0"],
        ["x.tfrecord", "3", "0"],
    ]


def test_every_fault_is_told_with_file_record_and_offset(cli, write):
    payloads = [b"%d" % k for k in range(10)]
    data = bytearray(records(*payloads))
    for at in (2 * 17 + 12, 5 * 17 + 9, 8 * 17 + 15):
        data[at] ^= 0x40
    write(data, "a.tfrecord")
    write(WHOLE + header(99) + b"cut", "b.tfrecord")
    done = cli("tfrecord", "verify", "a.tfrecord", "b.tfrecord")
    assert done.returncode == 1
    told = done.stdout.splitlines()
    for line, place in zip(
        told,
        [
            "a.tfrecord: record 2, byte 34: the payload's checksum does not fit",
            "a.tfrecord: record 5, byte 85: the length's checksum does not fit",
            "a.tfrecord: record 8, byte 136: the payload's checksum does not fit",
            "b.tfrecord: record 3, byte 56: expected 99 bytes of payload",
        ],
        strict=False,
    ):
        assert line.startswith(place)
    assert told[4:] == ["file\trecords seen\tfaults", "a.tfrecord\t10\t3", "b.tfrecord\t4\t1"]


def test_a_file_that_cannot_be_read_does_not_hide_the_faults_of_the_others(cli, path, write):
    write(WHOLE[:12] + b"ONE" + WHOLE[15:], "bad.tfrecord")
    write(gzip.compress(WHOLE)[:-1], "cut.tfrecord.gz")
    done = cli("tfrecord", "verify", "x.tfrecord", "cut.tfrecord.gz", "missing.tfrecord", "bad.tfrecord", "none*")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "seekset: missing.tfrecord: No such file or directory",
        "seekset: none*: no file matches",
    ]
    bad, cut, *rows = done.stdout.splitlines()
    assert bad.startswith("bad.tfrecord: record 0, byte 0: the payload's checksum does not fit")
    assert cut.startswith("cut.tfrecord.gz: byte ")
    assert "cut short" in cut
    assert rows == ["file\trecords seen\tfaults", "bad.tfrecord\t3\t1", "cut.tfrecord.gz\t0\t1", "x.tfrecord\t3\t0"]


def test_quietly_only_faults_are_told(cli, write):
    write(records(b"x"), "a.tfrecord")
    assert cli("tfrecord", "verify", "-q", "a.tfrecord").stdout == ""
    write(record(b"x")[:-1] + b"\xee", "a.tfrecord")
    assert len(cli("tfrecord", "verify", "-q", "a.tfrecord").stdout.splitlines()) == 1


def test_a_missing_file_is_said_in_one_line(cli):
    for words in (["tfrecord", "verify"], ["tfrecord-index"]):
        done = cli(*words, "missing.tfrecord")
        assert (done.returncode, done.stderr) == (1, "seekset: missing.tfrecord: No such file or directory\n")


# --- show -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def examples(tmp_path):
    with seekset.TFRecordWriter(tmp_path / "e.tfrecord", index=False) as writer:
        writer.write_example({"x": [0.5, 1.5], "name": b"first\x00", "many": list(range(20))})
        writer.write_example({"x": [2.5], "name": "[red]", "many": [7]})


def test_the_features_of_an_example_are_shown(cli, examples):
    head, *rows = cli("tfrecord", "show", "e.tfrecord", "0").stdout.splitlines()
    assert head.startswith("record 0 of 2, byte 0, ")
    assert sorted(row.split("\t") for row in rows[1:]) == [
        ["many", "int64", "20", "0 1 2 3 4 5 6 7 …"],
        ["name", "bytes", "1", r"b'first\x00'"],
        ["x", "float32", "2", "0.5 1.5"],
    ]
    assert "18 19" in cli("tfrecord", "show", "--all", "e.tfrecord", "0").stdout
    assert "b'[red]'" in cli("tfrecord", "show", "e.tfrecord", "--", "-1").stdout


def test_a_payload_that_is_no_example_is_shown_as_bytes(cli, path, write):
    assert cli("tfrecord", "show", "x.tfrecord", "2").stdout.splitlines() == [
        "record 2 of 3, byte 35, 5 bytes of payload",
        "00000000  74 68 72 65 65                                   three",
    ]
    assert cli("tfrecord", "show", "x.tfrecord", "1").stdout == "record 1 of 3, byte 19, 0 bytes of payload\n"
    write(records(bytes(1000)), "long.tfrecord")
    assert len(cli("tfrecord", "show", "long.tfrecord", "0").stdout.splitlines()) == 1 + 32
    assert len(cli("tfrecord", "show", "--all", "long.tfrecord", "0").stdout.splitlines()) == 1 + 63


def test_a_row_that_is_not_there_is_a_usage_error(cli, path):
    done = cli("tfrecord", "show", "x.tfrecord", "3")
    assert done.returncode == 2
    assert "row 3 is out of range: there are 3 rows, 0 to 2" in done.stderr


# --- decompress -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_file_is_made_plain(cli, write, names, pack, tmp_path):
    write(pack(WHOLE), "y.tfrecord.gz")
    done = cli("tfrecord", "decompress", "y.tfrecord.gz", "--index")
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout) == [["file", "plain", "bytes"], ["y.tfrecord.gz", "y.tfrecord", str(len(WHOLE))]]
    assert (tmp_path / "y.tfrecord").read_bytes() == WHOLE
    assert (tmp_path / "y.tfrecord.idx").read_text() == lines(*PAYLOADS)
    assert names() == ["y.tfrecord", "y.tfrecord.gz", "y.tfrecord.idx"]


def test_a_plain_file_goes_where_it_is_told_and_replaces_nothing(cli, write, tmp_path):
    write(gzip.compress(WHOLE), "y.gz")
    write(b"mine", "out")
    done = cli("tfrecord", "decompress", "y.gz", "-o", "out")
    assert (done.returncode, (tmp_path / "out").read_bytes()) == (1, b"mine")
    assert done.stderr == "seekset: out: there is a file already; overwrite=True (--replace) replaces it\n"
    assert cli("tfrecord", "decompress", "-q", "-f", "y.gz", "-o", "out").stdout == ""
    assert (tmp_path / "out").read_bytes() == WHOLE


def test_a_compressed_file_is_never_its_own_result(cli, write, tmp_path):
    packed = gzip.compress(WHOLE)
    write(packed, "y")
    done = cli("tfrecord", "decompress", "-f", "y", "-o", "y")
    assert (done.returncode, done.stderr) == (1, "seekset: y: it is the compressed file itself; give another path\n")
    done = cli("tfrecord", "decompress", "-f", "y")
    assert done.returncode == 1
    assert done.stderr.startswith("seekset: y: its name has no .gz or .zlib to leave out; say where the plain file")
    assert (tmp_path / "y").read_bytes() == packed


@pytest.mark.parametrize("name", ["x.tfrecord", "x.tfrecord.gz"])
def test_a_plain_file_is_told_from_a_compressed_one_whatever_its_name(cli, write, names, name):
    write(WHOLE, name)
    done = cli("tfrecord", "decompress", name)
    message = f"seekset: {name}: byte 0: expected a file that is compressed with gzip or zlib, found one that is not\n"
    assert (done.returncode, done.stderr) == (1, message)
    assert names() == [name]


def test_a_damaged_compressed_file_leaves_nothing(cli, write, names):
    write(gzip.compress(WHOLE)[:-1], "y.gz")
    done = cli("tfrecord", "decompress", "y.gz", "--index")
    assert done.returncode == 1
    assert "y.gz: byte" in done.stderr
    assert "cut short" in done.stderr
    assert names() == ["y.gz"]


def test_indexing_a_compressed_file_offers_to_decompress_it(cli, write, names):
    write(gzip.compress(WHOLE), "y.tfrecord.gz")
    done = cli("tfrecord-index", "y.tfrecord.gz")
    assert done.returncode == 1
    assert "DALI" in done.stderr
    assert "seekset tfrecord decompress" in done.stderr.replace("\n", " ")
    assert names() == ["y.tfrecord.gz"]


def test_a_compressed_file_is_verified(cli, write, names):
    write(gzip.compress(WHOLE), "good.tfrecord.gz")
    assert cli("tfrecord", "verify", "good.tfrecord.gz").returncode == 0
    write(gzip.compress(WHOLE[:12] + b"ONE" + WHOLE[15:]), "bad.tfrecord.gz")
    done = cli("tfrecord", "verify", "bad.tfrecord.gz")
    assert done.returncode == 1
    assert "record 0, byte 0: the payload's checksum" in done.stdout
    assert names() == ["bad.tfrecord.gz", "good.tfrecord.gz"]
