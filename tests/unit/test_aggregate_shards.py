"""HDF5 files of several ranks become one: every id once, or an error that names ids and files, and no file."""

import re

import h5py
import numpy as np
import pytest

from seekset.errors import DuplicateIdError, FormatError, MismatchError
from seekset.inference import shards as module
from seekset.inference.aggregate import aggregate_shards


@pytest.fixture
def shard(tmp_path):
    """`shard(0, "a b")` is the file of a rank with these ids; the vectors of rank r are r, r + 1, …"""

    def shard(rank, ids, width=2, dtype=np.float32, **options):
        ids = ids.split() if isinstance(ids, str) else ids
        path = tmp_path / f"shard_{rank}.h5"
        with h5py.File(path, "w") as file:
            vectors = np.add.outer(np.arange(len(ids)), np.full(width, rank)).astype(dtype)
            file.create_dataset("embeddings", data=vectors, **options)
            file.create_dataset("sequence_ids", data=ids, dtype=h5py.string_dtype(), **options)
        return path

    return shard


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "all.h5"


def read(path):
    with h5py.File(path) as file:
        return file["sequence_ids"].asstr()[()].tolist(), file["embeddings"][()]


def test_shards_are_joined_in_the_order_given(shard, out):
    paths = [shard(3, "c a"), shard(0, ["é☃"]), shard(1, "x y z")]
    assert aggregate_shards(paths, out, expected=iter(["a", "c", "x", "y", "z", "é☃"])) == out
    ids, vectors = read(out)
    assert ids == ["c", "a", "é☃", "x", "y", "z"]
    np.testing.assert_array_equal(vectors, np.float32([[3, 3], [4, 4], [0, 0], [1, 1], [2, 2], [3, 3]]))
    assert vectors.dtype == np.float32


def test_empty_shards_are_taken_as_such(shard, out, tmp_path):
    idle = tmp_path / "shard_9.h5"
    with h5py.File(idle, "w") as file:
        file["embeddings"] = np.zeros((0, 0))
        file["sequence_ids"] = np.zeros(0)
    aggregate_shards([idle, shard(0, "a b", dtype=np.float16), shard(1, [], width=7)], out)
    ids, vectors = read(out)
    assert ids == ["a", "b"]
    assert vectors.dtype == np.float16
    aggregate_shards([idle], out, expected=[])
    assert read(out)[1].shape == (0, 0)
    aggregate_shards([], out)
    assert read(out)[1].shape == (0, 0)


def test_ids_of_fixed_size_and_compressed_shards_are_read(shard, out, tmp_path):
    path = tmp_path / "fixed.h5"
    with h5py.File(path, "w") as file:
        file["embeddings"] = np.ones((2, 2), np.float32)
        file["sequence_ids"] = np.array([b"long id", b"b"])
    aggregate_shards([path, shard(0, "c d e", chunks=True, compression="gzip")], out)
    assert read(out)[0] == ["long id", "b", "c", "d", "e"]


def test_more_than_a_window_is_copied(shard, out, monkeypatch):
    monkeypatch.setattr(module, "WINDOW_BYTES", 16)
    monkeypatch.setattr(module, "_BLOCK", 3)
    aggregate_shards([shard(0, "a b c d e"), shard(1, "f g")], out, expected=list("gfedcba"))
    ids, vectors = read(out)
    assert ids == list("abcdefg")
    assert vectors[:, 0].tolist() == [0, 1, 2, 3, 4, 1, 2]


def test_an_id_that_comes_twice_is_named_with_its_files(shard, out):
    one, two = shard(0, "a b"), shard(1, "c b a")
    told = f"2 ids come again: 'b' in {one} and {two}, 'a' in {one} and {two}"
    with pytest.raises(DuplicateIdError, match=re.escape(told)):
        aggregate_shards([one, two], out)
    with pytest.raises(DuplicateIdError, match=f"'x' in {re.escape(str(shard(2, 'x x')))} and"):
        aggregate_shards([shard(2, "x x")], out)
    assert list(out.parent.iterdir()) == []


def test_ids_whose_hashes_collide_are_compared(shard, out, monkeypatch):
    monkeypatch.setattr(module, "hash", len, raising=False)
    aggregate_shards([shard(0, "a b"), shard(1, "c dd")], out, expected=["dd", "c", "b", "a"])
    assert read(out)[0] == ["a", "b", "c", "dd"]
    with pytest.raises(DuplicateIdError, match="1 ids come again: 'dd'"):
        aggregate_shards([shard(0, "a b dd"), shard(1, "c dd")], out)


def test_ids_missing_and_ids_too_many_are_named(shard, out):
    one, two = shard(0, "a b"), shard(1, "c d")
    out.write_bytes(b"\x89HDF\r\n\x1a\nbefore")
    told = f"2 ids are missing: 'x', 'y'; 1 ids are not among those expected: 'd' in {two}"
    with pytest.raises(MismatchError, match=re.escape(told)):
        aggregate_shards([one, two], out, expected=["c", "x", "b", "a", "y"])
    with pytest.raises(MismatchError, match=r"4 ids are not among those expected: 'a' in .*"):
        aggregate_shards([one, two], out, expected=[])
    many = [f"s{number}" for number in range(100)]
    with pytest.raises(MismatchError, match=r"100 ids are missing: 's0', .*'s9' and 90 more$"):
        aggregate_shards([one], out, expected=["a", "b", *many])
    assert out.read_bytes() == b"\x89HDF\r\n\x1a\nbefore"
    assert list(out.parent.iterdir()) == [out]


def test_expected_is_not_one_text(shard, out):
    with pytest.raises(TypeError, match="expected must be ids"):
        aggregate_shards([shard(0, "a b")], out, expected="ab")


@pytest.mark.parametrize("other", [{"width": 3}, {"dtype": np.float16}])
def test_shards_with_other_vectors_are_both_named(shard, out, other):
    one, two = shard(0, "a"), shard(1, "b", **other)
    with pytest.raises(
        MismatchError, match=f"{re.escape(str(two))} has vectors of .*{re.escape(str(one))} of 2 float32"
    ):
        aggregate_shards([one, two], out)


def broken(tmp_path, **datasets):
    path = tmp_path / "broken.h5"
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            file[name] = data
    return path


IDS = np.array([b"a", b"b"])
VECTORS = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "datasets, told",
    [
        ({"embeddings": VECTORS}, "it has no dataset 'sequence_ids', but 'embeddings'"),
        ({"sequence_ids": IDS}, "it has no dataset 'embeddings', but 'sequence_ids'"),
        ({}, "it has no dataset 'embeddings', but none"),
        ({"embeddings/more": VECTORS, "sequence_ids": IDS}, "it has no dataset 'embeddings'"),
        ({"embeddings": VECTORS[:1], "sequence_ids": IDS}, r"sequence_ids have the shape \(2,\), embeddings \(1, 3\)"),
        ({"embeddings": VECTORS[0, :2], "sequence_ids": IDS}, r"embeddings are float32 of shape \(2,\)"),
        ({"embeddings": np.ones((2, 3), int), "sequence_ids": IDS}, "embeddings are int64"),
        ({"embeddings": VECTORS, "sequence_ids": np.arange(2)}, "sequence_ids are int64, expected text"),
        ({"embeddings": VECTORS, "sequence_ids": np.array([b"a", b"\xff"])}, "an id after row 0 is no UTF-8"),
        ({"embeddings": np.float32(1), "sequence_ids": IDS}, r"sequence_ids have the shape \(2,\), embeddings \(\)"),
    ],
)
def test_files_that_are_no_shards_are_refused(shard, out, tmp_path, datasets, told):
    path = broken(tmp_path, **datasets)
    with pytest.raises(FormatError, match=f"{re.escape(str(path))}: {told}"):
        aggregate_shards([shard(0, "x y", width=3), path], out)


@pytest.mark.parametrize("layout", [{"chunks": (10, 2)}, {"chunks": (10, 2), "compression": "gzip"}, {}])
def test_a_shard_that_was_not_written_to_its_end_is_refused(out, tmp_path, layout):
    path = tmp_path / "shard_0.h5"
    with h5py.File(path, "w") as file:
        vectors = file.create_dataset("embeddings", (10**6 if layout else 20, 2), np.float32, **layout)
        if layout:
            vectors[:10] = 1
        ids = file.create_dataset("sequence_ids", vectors.shape[:1], "S8", chunks=(10,))
        ids[:10] = b"x"
    with pytest.raises(FormatError, match="embeddings was not written to its end"):
        aggregate_shards([path], out)


def test_what_is_no_hdf5_file_is_refused_and_what_is_missing_told(shard, out, tmp_path):
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    with pytest.raises(FormatError, match=f"{re.escape(str(text))}: it is no HDF5 file"):
        aggregate_shards([text], out)
    cut = shard(0, [f"s{number}" for number in range(1000)])
    cut.write_bytes(cut.read_bytes()[:-5000])
    with pytest.raises(FormatError, match=f"{re.escape(str(cut))}: it is no HDF5 file"):
        aggregate_shards([cut], out)
    with pytest.raises(FileNotFoundError, match=r"nothing\.h5"):
        aggregate_shards([tmp_path / "nothing.h5"], out)
    assert list(out.parent.iterdir()) == []


def test_a_shard_is_not_written_over(shard):
    path = shard(0, "a b")
    with pytest.raises(MismatchError, match="it is one of the shards"):
        aggregate_shards([path], path)
    assert read(path)[0] == ["a", "b"]


def test_a_target_that_cant_be_is_told_before_shards_are_read(shard, tmp_path):
    # What shards hold is looked at later: this one is none.
    broken = tmp_path / "shard_9.h5"
    broken.write_text("not HDF5")
    shards = [shard(0, "a b"), broken]
    with pytest.raises(FileNotFoundError, match=f"there is no such folder: '{re.escape(str(tmp_path))}/nowhere'"):
        aggregate_shards(shards, tmp_path / "nowhere" / "all.h5")
    (tmp_path / "mine.fa").write_text(">a\nMKV\n")
    with pytest.raises(MismatchError, match=r"mine.fa: it is there, is no HDF5 file, and is not replaced"):
        aggregate_shards(shards, tmp_path / "mine.fa")
    assert (tmp_path / "mine.fa").read_text() == ">a\nMKV\n"
