"""Chunk files become one HDF5 file: every sequence once, in the order asked for, or an error and no file."""

import os
import re
import subprocess
from itertools import pairwise

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seekset
from seekset.errors import FormatError, MismatchError
from seekset.inference import hdf5
from seekset.inference.aggregate import write_embeddings
from seekset.inference.checkpoint import ChunkStore
from seekset.inference.results import Failure, Result, Span

# By length: c (9), a and d (5), e (2), b (1). Input: a b c of one file, d e of the other.
ONE = b">a\nMKVLA\n>b first\nM\n>c\nMKVLAMKVL\n"
TWO = b">d\nMKVLA\n>e\nMK\n"
BY_LENGTH = ["c", "a", "d", "e", "b"]
INPUT = ["a", "b", "c", "d", "e"]
# What may be replaced: it begins as an HDF5 file does.
BEFORE = b"\x89HDF\r\n\x1a\nbefore"
LENGTHS = {"a": 5, "b": 1, "c": 9, "d": 5, "e": 2}


@pytest.fixture
def index(write, tmp_path):
    return seekset.SequenceIndex.create([write(ONE, "one.fa"), write(TWO, "two.fa")], tmp_path / "index.sidx")


@pytest.fixture
def store(tmp_path):
    return ChunkStore(tmp_path / "chunks", run="4f1d")


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "embeddings.h5"


def vector(row, width=3):
    """The vector of a row of the index."""
    return [row + 0.25 * column for column in range(width)]


def pieces(start, rows, dtype=np.float32, failures=(), width=3):
    """A result from piece `start` on, which has vectors for these rows."""
    vectors = np.array([vector(row, width) for row in rows], dtype).reshape(-1, width)
    size = len(rows) + len(failures)
    return Result(Span(start, start + size), np.array(rows, np.int64), vectors, None, list(failures))


def failed(piece, row):
    told = [Failure(piece, row, BY_LENGTH[row], "nan")]
    return Result(Span(piece, piece + 1), np.zeros(0, np.int64), np.zeros((0, 0), np.float32), failures=told)


def tokens(start, rows, counts, width=3):
    """A result by token: token t of a row is its vector + 100 t."""
    vectors = [
        np.add(vector(row, width), 100 * token) for row, n in zip(rows, counts, strict=True) for token in range(n)
    ]
    vectors = np.array(vectors, np.float32).reshape(-1, width)
    return Result(Span(start, start + len(rows)), np.array(rows, np.int64), vectors, np.array(counts, np.int64))


def read(path):
    with h5py.File(path) as file:
        data = {name: file[name][()] for name in file}
        data["sequence_ids"] = file["sequence_ids"].asstr()[()].tolist()
        return data, dict(file.attrs)


def ids_of(path):
    return read(path)[0]["sequence_ids"]


@pytest.fixture
def complete(store):
    """All five, in two files, in an order of the plan's own."""
    store.write(pieces(0, [4, 0, 2]))
    store.write(pieces(3, [3, 1]))
    return store


# --- what is in the file --------------------------------------------------------------------------------------------


def test_sequences_are_in_input_order_with_their_vectors(complete, index, out):
    assert write_embeddings(complete, index, out, attributes={"model": "kmer", "layer": 3}) == out
    data, attributes = read(out)
    assert sorted(data) == ["embeddings", "lengths", "rows", "sequence_ids"]
    assert data["sequence_ids"] == INPUT
    assert data["lengths"].tolist() == [LENGTHS[name] for name in INPUT]
    assert data["rows"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(data["embeddings"], np.float32([vector(BY_LENGTH.index(name)) for name in INPUT]))
    assert attributes == {"model": "kmer", "layer": 3, "order": "input", "sequences": 5, "failed": 0}


def test_sequences_are_by_length_if_asked(complete, index, out):
    data, attributes = read(write_embeddings(complete, index, out, order="length"))
    assert data["sequence_ids"] == BY_LENGTH
    assert data["lengths"].tolist() == [9, 5, 5, 2, 1]
    assert data["rows"].tolist() == [2, 0, 3, 4, 1]
    np.testing.assert_array_equal(data["embeddings"], np.float32([vector(row) for row in range(5)]))
    assert attributes["order"] == "length"


def test_types_and_layout_are_those_of_the_format(complete, index, out):
    with h5py.File(write_embeddings(complete, index, out)) as file:
        assert file["embeddings"].dtype == np.dtype("<f4")
        assert file["embeddings"].chunks == (5, 3)
        assert h5py.check_string_dtype(file["sequence_ids"].dtype) == ("utf-8", None)
        assert file["lengths"].dtype == file["rows"].dtype == np.dtype("<i8")


def test_an_index_that_does_not_know_rows_gives_the_same(complete, index, out, tmp_path):
    index.save(tmp_path / "index.json")
    loaded = seekset.SequenceIndex.load(tmp_path / "index.json")
    assert (loaded.rows == -1).all()
    write_embeddings(complete, index, out)
    write_embeddings(complete, loaded, out.with_name("other.h5"))
    assert out.read_bytes() == out.with_name("other.h5").read_bytes()
    data, _ = read(write_embeddings(complete, loaded, out, order="length"))
    assert data["rows"].tolist() == [2, 0, 3, 4, 1]


def test_the_same_results_in_other_files_give_the_same_bytes(complete, index, out, tmp_path):
    other = ChunkStore(tmp_path / "others", run="4f1d")
    for piece, row in enumerate([4, 0, 2, 3, 1]):
        other.write(pieces(piece, [row]))
    write_embeddings(complete, index, out)
    write_embeddings(other, index, out.with_name("other.h5"))
    assert out.read_bytes() == out.with_name("other.h5").read_bytes()


def test_half_precision_is_kept_and_can_be_asked_for(store, index, out):
    store.write(pieces(0, [0, 1, 2, 3, 4], np.float16))
    assert read(write_embeddings(store, index, out))[0]["embeddings"].dtype == np.float16
    assert read(write_embeddings(store, index, out, dtype="float32"))[0]["embeddings"].dtype == np.float32
    store.write(pieces(0, [0, 1, 2, 3, 4], np.float32))
    data, _ = read(write_embeddings(store, index, out, dtype="float16", order="length"))
    np.testing.assert_array_equal(data["embeddings"], np.float16([vector(row) for row in range(5)]))


def test_vectors_beyond_half_precision_are_not_written_as_infinite(store, index, out):
    result = pieces(0, [0, 1, 2, 3, 4])
    result.vectors[3, 1] = -70_000
    store.write(result)
    with pytest.raises(MismatchError, match="up to 70000 don't fit float16"):
        write_embeddings(store, index, out, dtype="float16")
    assert list(out.parent.iterdir()) == []
    assert read(write_embeddings(store, index, out))[0]["embeddings"].min() == -70_000


def test_a_vector_that_several_files_have_is_that_of_the_first_by_name(store, index, out):
    store.write(pieces(0, [0, 1, 2, 3, 4]))
    late = pieces(2, [2, 3])
    late.vectors[:] = 99
    store.write(late)
    data, _ = read(write_embeddings(store, index, out, order="length"))
    np.testing.assert_array_equal(data["embeddings"], np.float32([vector(row) for row in range(5)]))


def test_failed_sequences_are_left_out_and_counted(store, index, out):
    store.write(pieces(0, [4, 0, 2], failures=[Failure(1, 3, "e", "nan")]))
    store.write(failed(4, 1))
    data, attributes = read(write_embeddings(store, index, out))
    assert data["sequence_ids"] == ["b", "c", "d"]
    assert data["rows"].tolist() == [1, 2, 3]
    assert (attributes["sequences"], attributes["failed"]) == (5, 2)
    store.write(pieces(1, [3]))
    data, attributes = read(write_embeddings(store, index, out))
    assert data["sequence_ids"] == ["b", "c", "d", "e"]
    assert attributes["failed"] == 1


def test_a_run_in_which_all_failed_gives_an_empty_file(store, index, out):
    for row in range(5):
        store.write(failed(row, row))
    data, attributes = read(write_embeddings(store, index, out))
    assert data["embeddings"].shape == (0, 0)
    assert data["sequence_ids"] == []
    assert data["lengths"].shape == data["rows"].shape == (0,)
    assert attributes["failed"] == 5


def test_no_sequences_give_an_empty_file(store, write, tmp_path, out):
    index = seekset.SequenceIndex.create([write(b"", "none.fa")], tmp_path / "none.sidx")
    for order in ("input", "length"):
        assert read(write_embeddings(store, index, out, order=order))[0]["embeddings"].shape == (0, 0)


def test_ids_may_be_any_text_and_come_twice(store, write, tmp_path, out):
    fasta = write(">é☃\nMKVL\n>x|1\nMKV\n>x|1\nMK\n".encode())
    index = seekset.SequenceIndex.create([fasta], tmp_path / "index.sidx")
    store.write(pieces(0, [2, 1, 0]))
    assert ids_of(write_embeddings(store, index, out)) == ["é☃", "x|1", "x|1"]


# --- by token -------------------------------------------------------------------------------------------------------


def test_vectors_by_token_are_found_by_offsets(store, index, out):
    store.write(tokens(0, [4, 0, 2], [1, 9, 0]))
    store.write(tokens(3, [3, 1], [2, 5]))
    data, _ = read(write_embeddings(store, index, out))
    assert data["sequence_ids"] == INPUT
    assert data["offsets"].tolist() == [0, 5, 6, 15, 15, 17]
    assert data["embeddings"].shape == (17, 3)
    for at, name in enumerate(INPUT):
        found = data["embeddings"][data["offsets"][at] : data["offsets"][at + 1]]
        row = BY_LENGTH.index(name)
        np.testing.assert_array_equal(found, tokens(0, [row], [len(found)]).vectors)


def test_windows_cut_sequences_anywhere(store, index, out, monkeypatch):
    store.write(tokens(0, [4, 0, 2, 3, 1], [1, 9, 5, 2, 5]))
    write_embeddings(store, index, out)
    whole = read(out)[0]["embeddings"]
    for window in (12, 24, 48, 96):
        monkeypatch.setattr(hdf5, "WINDOW_BYTES", window)
        np.testing.assert_array_equal(read(write_embeddings(store, index, out))[0]["embeddings"], whole)


def test_by_token_with_failures_told_by_who_knows_no_vectors(store, index, out):
    store.write(failed(0, 4))
    store.write(tokens(1, [0, 2, 3, 1], [9, 5, 2, 5]))
    data, attributes = read(write_embeddings(store, index, out))
    assert data["offsets"].tolist() == [0, 5, 14, 19, 21]
    assert attributes["failed"] == 1


def test_by_token_without_any(store, index, out):
    empty = Result(Span(0, 5), np.arange(5), np.zeros((0, 3), np.float32), np.zeros(5, np.int64))
    store.write(empty)
    data, _ = read(write_embeddings(store, index, out))
    assert data["embeddings"].shape == (0, 3)
    assert data["offsets"].tolist() == [0] * 6


def test_files_by_token_and_by_sequence_don_t_mix(store, index, out):
    store.write(pieces(0, [4, 0, 2]))
    by_token = store.write(tokens(3, [3, 1], [2, 5]))
    with pytest.raises(
        MismatchError, match=f"{by_token.name}: it has a vector for each token, expected one for each seq"
    ):
        write_embeddings(store, index, out)
    with pytest.raises(MismatchError, match="it has a vector for each sequence, expected one for each token"):
        write_embeddings(store, index, out, per_token=True)


# --- what doesn't fit -----------------------------------------------------------------------------------------------


def test_missing_sequences_are_named_and_nothing_is_written(store, index, out):
    out.write_bytes(BEFORE)
    store.write(pieces(0, [4, 0, 2]))
    with pytest.raises(MismatchError, match=r"2 of 5 sequences have neither a vector nor a failure: 'a', 'e'$"):
        write_embeddings(store, index, out)
    assert out.read_bytes() == BEFORE
    assert list(out.parent.iterdir()) == [out]


def test_of_many_missing_ones_ten_are_named(store, write, tmp_path, out):
    fasta = write(b"".join(b">s%d\nMK\n" % number for number in range(100)))
    index = seekset.SequenceIndex.create([fasta], tmp_path / "index.sidx")
    with pytest.raises(MismatchError, match=r"100 of 100 sequences .*: 's0', .*'s9' and 90 more$"):
        write_embeddings(store, index, out)


def test_a_damaged_file_is_told_if_its_sequences_are_missing(complete, index, out):
    path = min(complete.folder.iterdir())
    os.truncate(path, path.stat().st_size - 4)
    with pytest.raises(MismatchError, match=f"3 of 5 .*: 'c', 'd', 'b'; .*{path.name}: the checksum"):
        write_embeddings(complete, index, out)
    assert path.exists()
    complete.write(pieces(0, [4, 0, 2, 3, 1]))
    assert ids_of(write_embeddings(complete, index, out)) == INPUT


def test_files_of_other_runs_are_not_taken(store, index, out):
    ChunkStore(store.folder, run="other").write(pieces(0, [0, 1, 2, 3, 4]))
    told = (
        r"5 of 5 sequences .*; files of another run: 1, the first is .*/chunks/000000000000-000000000005.safetensors$"
    )
    with pytest.raises(MismatchError, match=told):
        write_embeddings(store, index, out)


@pytest.mark.parametrize(
    "other, told",
    [(pieces(3, [3, 1], width=4), "vectors of 4 float32"), (pieces(3, [3, 1], np.float16), "vectors of 3 float16")],
)
def test_files_with_other_vectors_are_both_named(store, index, out, other, told):
    first, second = store.write(pieces(0, [4, 0, 2])), store.write(other)
    with pytest.raises(
        MismatchError, match=f"{re.escape(str(second))} has {told}, {re.escape(str(first))} of 3 float32"
    ):
        write_embeddings(store, index, out)


def test_rows_beyond_the_index_are_refused(store, index, out):
    path = store.write(pieces(0, [0, 1, 2, 3, 4, 5]))
    with pytest.raises(MismatchError, match=f"{path.name}: it is about row 5 of an index of 5"):
        write_embeddings(store, index, out)
    path.unlink()
    store.write(pieces(0, [0, 1, 2, 3, 4], failures=[Failure(5, 77, "z", "nan")]))
    with pytest.raises(MismatchError, match="z: it is about row 77 of an index of 5"):
        write_embeddings(store, index, out)


def test_choices_are_checked_first(store, index, out):
    with pytest.raises(ValueError, match="order must be"):
        write_embeddings(store, index, out, order="random")
    with pytest.raises(ValueError, match="dtype must be"):
        write_embeddings(store, index, out, dtype="int8")


@pytest.mark.parametrize(
    "target, kind, told",
    [
        ("nowhere/out.h5", FileNotFoundError, "there is no such folder: '{}/nowhere'"),
        ("mine.fa/out.h5", NotADirectoryError, "it is a file, but a folder is needed: '{}/mine.fa'"),
        ("folder", IsADirectoryError, "'{}/folder'"),
        ("mine.fa", MismatchError, "{}/mine.fa: it is there, is no HDF5 file, and is not replaced"),
        ("pipe", MismatchError, "{}/pipe: it is there, is no HDF5 file, and is not replaced"),
    ],
)
def test_a_target_that_cant_be_is_told_before_anything_is_read(complete, index, tmp_path, target, kind, told):
    (tmp_path / "mine.fa").write_bytes(b">a\nMKV\n")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    read = []
    with pytest.raises(kind, match=re.escape(told.format(tmp_path))):
        write_embeddings(complete, index, tmp_path / target, progress=lambda *numbers: read.append(numbers))
    assert read == []
    assert (tmp_path / "mine.fa").read_bytes() == b">a\nMKV\n"


def test_an_empty_file_is_replaced(complete, index, tmp_path):
    (tmp_path / "empty.h5").touch()
    assert write_embeddings(complete, index, tmp_path / "empty.h5").stat().st_size > 0


def test_a_damaged_index_is_refused(complete, index, out):
    path = index.path
    data = bytearray(path.read_bytes())
    at = data.index(np.array([9, 5, 5, 2, 1], "<u8").tobytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=re.escape(str(path))):
        write_embeddings(complete, seekset.SequenceIndex.load(path), out)


# --- large, killed, without room ------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.data())
def test_any_cut_and_any_window_give_every_sequence_once(scratch, data):
    count = data.draw(st.integers(1, 40))
    letters = data.draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    fasta = scratch(b"".join(b">s%d\n%s\n" % (at, b"M" * size) for at, size in enumerate(letters)))
    index = seekset.SequenceIndex.create([fasta])
    plan = data.draw(st.permutations(range(count)))
    cuts = sorted(data.draw(st.sets(st.integers(1, count), max_size=5)) | {0, count})
    lost = data.draw(st.sets(st.sampled_from(range(count)), max_size=3))
    store = ChunkStore(fasta.with_suffix(".chunks"), run="")
    for start, end in pairwise(cuts):
        kept = [plan[piece] for piece in range(start, end) if piece not in lost]
        failures = [Failure(piece, plan[piece], "", "") for piece in range(start, end) if piece in lost]
        store.write(pieces(start, kept, failures=failures))
    before, hdf5.WINDOW_BYTES = hdf5.WINDOW_BYTES, data.draw(st.integers(1, 500))
    try:
        out = write_embeddings(store, index, fasta.with_suffix(".h5"))
    finally:
        hdf5.WINDOW_BYTES = before
    found, _ = read(out)
    rows = {int(index.rows[row]): row for row in range(count) if row not in {plan[piece] for piece in lost}}
    assert found["sequence_ids"] == [f"s{at}" for at in sorted(rows)]
    np.testing.assert_array_equal(
        found["embeddings"], np.float32([vector(rows[at]) for at in sorted(rows)]).reshape(-1, 3)
    )


def test_more_files_than_may_be_open_are_read(store, write, tmp_path, out, run):
    fasta = write(b"".join(b">s%d\nMK\n" % number for number in range(300)))
    seekset.SequenceIndex.create([fasta], tmp_path / "index.sidx").close()
    for piece in range(300):
        store.write(pieces(piece, [299 - piece]))
    source = """
        import resource, sys
        from pathlib import Path
        import seekset
        from seekset.inference.aggregate import write_embeddings
        from seekset.inference.checkpoint import ChunkStore
        chunks, index, out = map(Path, sys.argv[1:])
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        write_embeddings(ChunkStore(chunks, run="4f1d"), seekset.SequenceIndex.load(index), out)
    """
    run(source, store.folder, tmp_path / "index.sidx", out)
    np.testing.assert_array_equal(read(out)[0]["embeddings"], np.float32([vector(row) for row in range(300)]))


@pytest.mark.parametrize("room", [1000, 3_000, 20_000, 60_000, 130_000])
def test_without_room_nothing_is_left_and_what_was_there_stays(store, write, tmp_path, out, run, room):
    fasta = write(b"".join(b">s%d\nMK\n" % number for number in range(500)))
    seekset.SequenceIndex.create([fasta], tmp_path / "index.sidx").close()
    for start in range(0, 500, 50):
        store.write(pieces(start, range(start, start + 50), width=64))
    out.write_bytes(BEFORE)
    source = """
        import errno, os, resource, sys
        from pathlib import Path
        import seekset
        from seekset.inference.aggregate import write_embeddings
        from seekset.inference.checkpoint import ChunkStore
        chunks, index, out, room = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            write_embeddings(ChunkStore(chunks, run="4f1d"), seekset.SequenceIndex.load(index), out)
        except OSError as error:
            print(errno.errorcode[error.errno], str(out.parent) in str(error))
        open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd != "3"
                      and os.path.exists(f"/proc/self/fd/{fd}")]
        print([name for name in open_files if ".part" in name])
    """
    assert run(source, store.folder, tmp_path / "index.sidx", out, room) == "EFBIG True\n[]\n"
    assert out.read_bytes() == BEFORE
    assert list(out.parent.iterdir()) == [out]


def test_what_a_killed_aggregation_left_is_swept_by_the_next(complete, index, out, program, tmp_path):
    source = """
        import os, signal, sys
        from pathlib import Path
        from seekset.inference.hdf5 import EmbeddingsFile
        with EmbeddingsFile.written(Path(sys.argv[1])):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run(program(source, out), check=False)
    assert [path.suffix for path in out.parent.iterdir()] == [".part"]
    write_embeddings(complete, index, out)
    assert list(out.parent.iterdir()) == [out]


def test_progress_is_told_in_bytes(complete, index, out):
    told = []
    write_embeddings(complete, index, out, progress=lambda *numbers: told.append(numbers))
    chunks = sum(path.stat().st_size for path in complete.folder.iterdir())
    assert told[1] == (chunks, chunks)
    assert told[2:] == [(60, 60)]
