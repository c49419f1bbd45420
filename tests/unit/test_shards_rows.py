"""Rows and what is known of them; shards by their names; readers of one's own."""

import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import seekset
from seekset.shards import (
    Census,
    FastaShards,
    Field,
    NpzShards,
    PackedShard,
    ParquetShards,
    PickleShards,
    Rows,
    TFRecordShards,
    find_shards,
    pack_shard,
    reader_for,
)
from seekset.shards.packed import census_of, read_shard
from seekset.shards.readers import OpenFiles
from seekset.shards.rows import as_rows, bounded_census

HERE = Path("a.shard")


class Letters:
    """A reader that counts and reads, and no more."""

    def count(self, _path):
        return 3

    def read(self, _path):
        return {"x": np.arange(6).reshape(3, 2), "y": np.array([0.5, 1.5, 2.5], dtype=">f4")}


class Words(Letters):
    def read(self, _path):
        return ["a", {"b": 1}, None]


def test_rows_are_columns_or_objects():
    with pytest.raises(ValueError, match="not both and not neither"):
        Rows()
    with pytest.raises(ValueError, match="not both and not neither"):
        Rows(columns={}, objects=[])


def test_a_part_of_rows_has_its_own_bad_rows():
    rows = Rows(objects=list("abcde"), bad={0: "first", 3: "fourth"})
    assert (rows.part(1, 5).objects, rows.part(1, 5).bad) == (list("bcde"), {2: "fourth"})
    for start, end in ((-1, 2), (3, 2), (0, 6)):
        with pytest.raises(IndexError, match="out of range: there are 5 rows"):
            rows.part(start, end)


def test_columns_of_a_reader_become_little_endian_and_contiguous():
    rows = as_rows({"x": np.asfortranarray(np.arange(6).reshape(3, 2)), "y": np.arange(3, dtype=">i2")}, HERE)
    assert [(field.name, field.dtype, field.shape) for field in rows.fields] == [("x", "<i8", (2,)), ("y", "<i2", ())]
    assert all(column.flags.c_contiguous for column in rows.columns.values())
    again = as_rows(Rows(columns={"x": np.arange(6)[::2]}, bad={1: "b"}), HERE)
    assert (again.columns["x"].tolist(), again.columns["x"].flags.c_contiguous, again.bad) == (
        [0, 2, 4],
        True,
        {1: "b"},
    )


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "a reader gave no column"),
        ({"x": 1}, "column 'x': expected numbers with a row on the first axis, found int64 of shape ()"),
        ({"x": ["a"]}, "column 'x': expected numbers with a row on the first axis, found <U1 of shape (1,)"),
        ({"x": [1], "y": []}, "columns have one length, but 'x' has 1 rows and 'y' has 0"),
        ("ab", "a reader gives Rows, a mapping of columns or a sequence of objects, but gave str"),
        (None, "a reader gives Rows, a mapping of columns or a sequence of objects, but gave NoneType"),
    ],
)
def test_what_a_reader_must_not_give_is_told(given, message):
    with pytest.raises(seekset.MismatchError, match=f"^{re.escape(f'a.shard: {message}')}$"):
        as_rows(given, HERE)


def test_a_reader_of_ones_own_needs_two_methods():
    census = census_of(Letters(), HERE)
    assert (census.rows, census.fields) == (3, (Field("x", "<i8", (2,)), Field("y", "<f4", ())))
    assert read_shard(Letters(), HERE, (1, 3)).columns["x"].tolist() == [[2, 3], [4, 5]]
    packed = pack_shard(Letters(), HERE, (1, 3))
    assert (len(packed), packed.fields, packed.bad) == (2, census.fields, {})
    assert packed.ends[-1] == len(packed.content) <= census.packed_bytes
    with pytest.raises(ValueError, match="these rows are columns"):
        packed.objects()


def test_objects_are_packed_one_by_one():
    packed = pack_shard(Words(), HERE)
    assert (packed.objects(), packed.fields) == (["a", {"b": 1}, None], None)
    census = census_of(Words(), HERE)
    assert (census.rows, census.fields, census.packed_bytes) == (3, None, len(packed.content))
    empty = PackedShard(b"", np.array([], np.uint64), {}, None)
    assert (len(empty), empty.objects()) == (0, [])


def test_a_reader_that_counts_otherwise_than_it_reads_is_told():
    class Wrong(Letters):
        def count(self, _path):
            return 4

    with pytest.raises(seekset.FormatError, match=r"^a\.shard: the reader counted 4 rows, but read 3$"):
        census_of(Wrong(), HERE)


def test_the_bound_of_a_row_holds_for_any_values():
    fields = (Field("x", "<i8", (2,)), Field("y", "<f4", ()))
    assert bounded_census(3, fields).row_bytes == 1 + 16 + 1 + 4
    noise = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (3, 2)), np.array([0.1, -2e30, 3e-40], np.float32)
    _, ends = seekset._core.pack_rows(list(noise), 3)
    assert np.diff(ends, prepend=np.uint64(0)).max() <= 22


@pytest.mark.parametrize("fields", [None, (), (Field("x", "<f4", (3, 13)), Field("y", "|b1", ()))])
def test_a_census_comes_back_from_json(fields):
    census = Census(7, fields, 100, 700, 5, ("metadata",), ("policy",))
    assert Census.from_json(json.loads(json.dumps(census.to_json()))) == census


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": "7"},
        {"rows": True},
        {"packed_bytes": None},
        {"fields": 3},
        {"fields": [["x"]]},
        {"fields": [["x", "<f4", ["a"]]]},
        {"fields": [["x", "object", []]]},
        {"fields": [["x", "nothing", []]]},
        {"fields": [[1, "<f4", []]]},
        {"dropped": None},
        {"absent": 3},
    ],
)
def test_what_is_no_census_is_refused(change):
    with pytest.raises(ValueError, match=r"^this is no census: "):
        Census.from_json({**Census(7, None, 100, 700, 5).to_json(), **change})


# --- shards by their names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, reader",
    [
        ("a.pkl", "PickleShards"),
        ("shuffled_0001.pkl.gz", "PickleShards"),
        ("A.PICKLE", "PickleShards"),
        ("a.npz", "NpzShards"),
        ("a.tfrecord", "TFRecordShards"),
        ("a.tfrecord.gz", "TFRecordShards"),
        ("train.tfrecord-00003-of-00010", "TFRecordShards"),
        ("a.fa", "FastaShards"),
        ("a.fasta.gz", "FastaShards"),
        ("a.fa.bgz", "FastaShards"),
        ("a.faa.BGZF", "FastaShards"),
        ("a.parquet", "ParquetShards"),
    ],
)
def test_readers_are_found_by_the_end_of_a_name(name, reader):
    assert type(reader_for(f"some/{name}")).__name__ == reader


@pytest.mark.parametrize("reader", [PickleShards(), NpzShards(), TFRecordShards(), FastaShards(), ParquetShards()])
def test_all_that_a_reader_reads_is_found_in_a_folder(tmp_path, reader):
    for number, suffix in enumerate(reader.suffixes):
        (tmp_path / f"{number}{suffix}").touch()
        assert type(reader_for(f"a{suffix}")) is type(reader)
    assert find_shards(tmp_path) == find_shards(tmp_path, reader) == sorted(tmp_path.iterdir())


def test_all_readers_pickle():
    for name in ("a.pkl", "a.npz", "a.tfrecord", "a.fa", "a.parquet"):
        reader = reader_for(name)
        assert repr(pickle.loads(pickle.dumps(reader))) == repr(reader)


def test_a_name_that_nobody_knows_lists_those_that_are_known():
    with pytest.raises(
        seekset.MismatchError, match=r"^a\.txt: no reader knows this .* \.pkl, .*\.npz.*; give one with reader="
    ):
        reader_for("a.txt")


def test_shards_of_a_folder_come_sorted_by_name_without_what_lies_beside(tmp_path):
    for name in (
        "b10.pkl",
        "b9.pkl.gz",
        "a.npz",
        "a.tfrecord",
        "a.tfrecord.idx",
        ".hidden.pkl",
        "notes.txt",
        "a.fa.sidx",
    ):
        (tmp_path / name).touch()
    assert [path.name for path in find_shards(tmp_path)] == ["a.npz", "a.tfrecord", "b10.pkl", "b9.pkl.gz"]
    assert [path.name for path in find_shards([tmp_path / "b*", tmp_path / "a.npz"])] == [
        "a.npz",
        "b10.pkl",
        "b9.pkl.gz",
    ]


def test_a_reader_says_which_files_of_a_folder_are_its_shards(tmp_path):
    class Text(Letters):
        suffixes = (".txt",)

    for name in ("a.txt", "b.txt", "c.pkl"):
        (tmp_path / name).touch()
    assert [path.name for path in find_shards(tmp_path, Text())] == ["a.txt", "b.txt"]


def test_a_folder_without_shards_is_a_file_not_found_error_with_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        find_shards(tmp_path)
    assert error.value.filename == str(tmp_path)


@pytest.fixture
def opened(tmp_path):
    """Files by number, and what was opened of them."""
    numbers = []
    files = OpenFiles(lambda path: numbers.append(int(path.name)) or object())
    for number in range(33):
        (tmp_path / str(number)).touch()
    return numbers, lambda number: files[tmp_path / str(number)]


def test_few_files_are_open_at_a_time(opened):
    numbers, file = opened
    first = file(0)
    for number in range(1, 32):
        assert file(number) is not first
    assert file(0) is first
    assert file(32) is not first  # for which 1 was let go of, which was used least
    assert file(0) is first
    file(1)
    assert numbers == [*range(33), 1]


def test_a_file_that_is_another_now_is_opened_again(opened, tmp_path):
    numbers, file = opened
    first = file(0)
    (tmp_path / "0").write_bytes(b"longer")
    assert file(0) is not first
    os.utime(tmp_path / "0", ns=(1, 1))
    file(0)
    (tmp_path / "new").write_bytes(b"REGNOL")
    os.utime(tmp_path / "new", ns=(1, 1))
    (tmp_path / "new").rename(tmp_path / "0")
    assert file(0) is file(0)
    assert numbers == [0] * 4


def test_nothing_of_it_imports_torch_and_seekset_does_not_import_it(run):
    run("""
        import sys, seekset
        seekset.Fasta, seekset.TFRecordFile
        assert not any(name.startswith("seekset.shards") for name in sys.modules)
        from seekset import shards
        for name in shards.__all__:
            getattr(shards, name)
        assert "torch" not in sys.modules and "pyarrow" not in sys.modules
    """)
