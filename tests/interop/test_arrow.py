"""Beside pyarrow and polars: an index is an Arrow file, which they open as it is."""

import json

import polars as pl
import pyarrow as pa
import pytest

import reference
import seekset

LONG = "ACGTTGCAAC" * 14_000
# even, CRLF, uneven, empty, uneven over more than 64 KiB
FILE = (
    ">é one\nMKVLA\nAG\n>b\r\nMK\r\nMK\r\n>c\nM\nKV\nL\n>d\n>e long\nA\n".encode()
    + reference.wrap(LONG[1:], 7_001)
    + b">f\nACGT"
)
COLUMNS = {
    "id": ["é", "b", "c", "d", "e", "f"],
    "length": [7, 4, 4, 0, 140_000, 4],
    "header_offset": [0, 17, 29, 39, 42, 140_071],
    "sequence_offset": [8, 21, 32, 42, 50, 140_074],
    "line_bases": [5, 2, 0, 0, 0, 4],
    "line_bytes": [6, 4, 0, 0, 0, 5],
}
# Letters before every 64 KiB of the long record: the bytes less the line ends among them.
MARKS = [[], [], [], [], [65_536 - 10, 131_072 - 19], []]


@pytest.fixture
def index(opened):
    return opened(FILE).index_path


def test_pyarrow_opens_an_index_over_a_memory_map(index):
    with pa.memory_map(str(index)) as file:
        table = pa.ipc.open_file(file).read_all()
        table.validate(full=True)
        assert {name: table[name].to_pylist() for name in COLUMNS} == COLUMNS
        assert table["marks"].to_pylist() == MARKS
        assert sum(column.null_count for column in table.columns) == 0


def test_pyarrow_opens_an_index_without_a_copy(index):
    with pa.memory_map(str(index)) as file:
        before = pa.total_allocated_bytes()
        table = pa.ipc.open_file(file).read_all()
        assert pa.total_allocated_bytes() == before
        assert table.num_rows == 6


def test_the_types_of_the_columns(index):
    schema = pa.ipc.open_file(index).schema
    assert {field.name: str(field.type) for field in schema} == {
        "id": "large_string",
        "length": "uint64",
        "header_offset": "uint64",
        "sequence_offset": "uint64",
        "line_bases": "uint32",
        "line_bytes": "uint32",
        "marks": "list<item: uint64 not null>",
        "check": "uint32",
        "id_check": "uint32",
        "lookup_hash": "uint32",
        "lookup_row": "uint64",
    }


def test_fingerprint_and_version_are_in_the_metadata(index):
    data = index.with_name("x.fa").stat()
    metadata = {key.decode(): value.decode() for key, value in pa.ipc.open_file(index).schema.metadata.items()}
    assert metadata["seekset.kind"] == "fasta"
    assert metadata["seekset.version"] == "1"
    assert metadata["seekset.file_size"] == str(data.st_size)
    assert metadata["seekset.file_mtime_ns"] == str(data.st_mtime_ns)
    assert metadata["seekset.data_size"] == str(len(FILE))


def test_the_lookup_names_every_row_once_by_rising_hash(index):
    table = pa.ipc.open_file(index).read_all()
    assert sorted(table["lookup_row"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert table["lookup_hash"].to_pylist() == sorted(table["lookup_hash"].to_pylist())


@pytest.mark.parametrize("read", [pl.read_ipc, lambda path: pl.scan_ipc(path).collect()], ids=["read", "scan"])
def test_polars_opens_an_index(index, read):
    frame = read(index)
    assert frame.select(list(COLUMNS)).to_dict(as_series=False) == COLUMNS
    assert frame["marks"].to_list() == MARKS


def test_polars_answers_questions_about_an_index(index):
    longest = pl.scan_ipc(index).filter(pl.col("length") > 5).sort("length").select("id").collect()
    assert longest["id"].to_list() == ["é", "e"]


def test_an_empty_index_is_an_arrow_file_too(opened):
    index = opened(b"").index_path
    table = pa.ipc.open_file(index).read_all()
    table.validate(full=True)
    assert table.num_rows == 0
    assert pl.read_ipc(index).height == 0


SEQUENCES = {
    "id": ["b", "a", "é"],
    "length": [5, 2, 2],
    "file": [1, 0, 0],
    "row": [0, 0, 1],
    "byte_offset": [0, 0, 6],
}


@pytest.fixture
def sequences(write, tmp_path):
    files = [write(">a\nMK\n>é\nMK\n".encode(), "1.fa"), write(b">b\nMKVLA\n", "2.fa")]
    return seekset.create_sequence_index(files, tmp_path / "all.sidx")


def test_pyarrow_opens_a_sequence_index_without_a_copy(sequences):
    with pa.memory_map(str(sequences)) as file:
        before = pa.total_allocated_bytes()
        table = pa.ipc.open_file(file).read_all()
        assert pa.total_allocated_bytes() == before
        table.validate(full=True)
        assert {name: table[name].to_pylist() for name in SEQUENCES} == SEQUENCES
        assert [str(field.type) for field in table.schema] == [
            "large_string", "uint64", "uint32", "uint64", "uint64", "uint32", "uint32",
        ]  # fmt: skip
        assert table.schema.metadata[b"seekset.kind"] == b"sequences"
        files = json.loads(table.schema.metadata[b"seekset.files"])
        assert [file["size"] for file in files] == [13, 9]


def test_polars_reads_a_sequence_index(sequences):
    frame = pl.read_ipc(sequences)
    assert frame.select(list(SEQUENCES)).to_dict(as_series=False) == SEQUENCES
    assert frame.group_by("file").agg(pl.col("length").sum()).sort("file")["length"].to_list() == [4, 5]
