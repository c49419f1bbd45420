"""TFRecord files that are written: byte for byte, whole or not at all."""

import gzip
import subprocess
import zlib

import pytest

import seekset
from frames import lines, records

PAYLOADS = [b"one", b"", b"three" * 1000]


def write_all(path, **options):
    with seekset.TFRecordWriter(path, **options) as out:
        for payload in PAYLOADS:
            out.write(payload)


def test_records_and_their_index(tmp_path, names):
    path = tmp_path / "x.tfrecord"
    write_all(path)
    assert path.read_bytes() == records(*PAYLOADS)
    assert path.with_name("x.tfrecord.idx").read_text() == lines(*PAYLOADS)
    assert names() == ["x.tfrecord", "x.tfrecord.idx"]
    assert list(seekset.TFRecordFile(path, verify="full")) == PAYLOADS


def test_no_records(tmp_path):
    with seekset.TFRecordWriter(tmp_path / "x.tfrecord"):
        pass
    assert (tmp_path / "x.tfrecord").read_bytes() == b""
    assert (tmp_path / "x.tfrecord.idx").read_bytes() == b""


def test_without_an_index(tmp_path, names):
    write_all(str(tmp_path / "x.tfrecord"), index=False)
    assert names() == ["x.tfrecord"]


@pytest.mark.parametrize("compression, inflate", [("gzip", gzip.decompress), ("zlib", zlib.decompress)])
def test_all_of_a_file_is_compressed_and_has_no_index(tmp_path, names, compression, inflate):
    path = tmp_path / "x.tfrecord"
    write_all(path, compression=compression)
    packed = path.read_bytes()
    assert inflate(packed) == records(*PAYLOADS)
    assert len(packed) < 300
    assert names() == ["x.tfrecord"]


def test_examples_are_records(tmp_path):
    path = tmp_path / "x.tfrecord"
    with seekset.TFRecordWriter(path) as out:
        out.write_example({"x": [0.5], "none": []}, kinds={"none": "int64"})
        out.write_sequence_example({"id": 7}, {"words": [["a"], []]})
        out.write(bytearray(b"any"))
        out.write(memoryview(b"bytes"))
        assert out.records == 4
    tf = seekset.TFRecordFile(path)
    assert tf[0] == seekset.encode_example({"x": [0.5], "none": []}, kinds={"none": "int64"})
    assert tf[1] == seekset.encode_sequence_example({"id": 7}, {"words": [["a"], []]})
    assert tf[2:] == [b"any", b"bytes"]


def test_nothing_is_there_before_the_end_and_nothing_if_the_block_raises(tmp_path, write, names):
    write(b"what was there", "x.tfrecord")
    out = seekset.TFRecordWriter(tmp_path / "x.tfrecord")
    out.write(b"payload")
    assert (tmp_path / "x.tfrecord").read_bytes() == b"what was there"
    out.close()
    assert (tmp_path / "x.tfrecord").read_bytes() == records(b"payload")

    def fail():
        with seekset.TFRecordWriter(tmp_path / "x.tfrecord") as out:
            out.write(b"another")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert (tmp_path / "x.tfrecord").read_bytes() == records(b"payload")
    assert names() == ["x.tfrecord", "x.tfrecord.idx"]


def test_a_writer_that_is_let_go_leaves_nothing(tmp_path, names):
    out = seekset.TFRecordWriter(tmp_path / "x.tfrecord")
    out.write(b"payload")
    del out
    assert names() == []


def test_a_closed_writer_takes_nothing_more(tmp_path):
    out = seekset.TFRecordWriter(tmp_path / "x.tfrecord")
    out.close()
    out.close()
    with pytest.raises(ValueError, match="the writer is closed"):
        out.write(b"payload")
    assert repr(out).endswith("closed>")


def test_a_bad_value_leaves_the_writer_as_it_was(tmp_path):
    path = tmp_path / "x.tfrecord"
    with seekset.TFRecordWriter(path) as out:
        out.write(b"one")
        with pytest.raises(TypeError, match="a payload is bytes, not str"):
            out.write("text")
        with pytest.raises(seekset.MismatchError, match="empty list"):
            out.write_example({"x": []})
        out.write(b"two")
    assert path.read_bytes() == records(b"one", b"two")


def test_what_can_not_be_written_to_is_refused(tmp_path, write):
    missing = tmp_path / "missing" / "x.tfrecord"
    for path, wrong in ((missing, FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(wrong) as caught:
            seekset.TFRecordWriter(path)
        assert caught.value.filename == str(path)
    with pytest.raises(seekset.MismatchError, match='compression must be "gzip", "zlib" or None, not "bzip2"'):
        seekset.TFRecordWriter(tmp_path / "x.tfrecord", compression="bzip2")
    write(b"a diary", "x.tfrecord.idx")
    with pytest.raises(seekset.MismatchError, match=r"x\.tfrecord\.idx: there is a file already"):
        seekset.TFRecordWriter(tmp_path / "x.tfrecord")
    assert (tmp_path / "x.tfrecord.idx").read_bytes() == b"a diary"


FULL = """
    import resource, signal, seekset
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    out = seekset.TFRecordWriter("x.tfrecord", compression=None, index=True)
    try:
        for _ in range(100):
            out.write(bytes(100_000))
    except OSError as error:
        print(error.errno)
    for again in (lambda: out.write(b"x"), out.close):
        try:
            again()
        except seekset.MismatchError as error:
            print(error)
"""


def test_a_file_that_could_not_be_written_whole_is_given_up(run, tmp_path):
    found = run(FULL).splitlines()
    given_up = "x.tfrecord: a record could not be written, so the file was given up"
    assert found == ["27", given_up, given_up]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py"]


FORKED = """
    import os, seekset

    out = seekset.TFRecordWriter("x.tfrecord")
    out.write(b"one")
    for end in ("let go", "discard", "write", "close"):
        pid = os.fork()
        if pid == 0:
            try:
                if end == "let go":
                    del out
                elif end == "discard":
                    out.__exit__(SystemExit, SystemExit(), None)
                else:
                    getattr(out, end)(*([b"two"] if end == "write" else []))
            except ValueError as error:
                print(error)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0, end
    out.write(b"two")
    out.close()
"""


def test_a_forked_child_leaves_the_file_to_its_parent(run, tmp_path):
    run(FORKED)
    assert (tmp_path / "x.tfrecord").read_bytes() == records(b"one", b"two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py", "x.tfrecord", "x.tfrecord.idx"]


def test_the_file_is_readable_by_whom_the_umask_allows(program, tmp_path):
    command = program('import seekset; seekset.TFRecordWriter("x.tfrecord").close()')
    subprocess.run(command, cwd=tmp_path, umask=0o027, check=True)
    assert (tmp_path / "x.tfrecord").stat().st_mode & 0o777 == 0o640
