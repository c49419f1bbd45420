"""TFRecord, FASTA and Parquet shards: the rows of each, one by one and all together."""

import errno
import gzip
import pickle
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seekset
from seekset.shards import FastaShards, Field, ParquetShards, TFRecordShards
from seekset.shards.packed import pack_shard
from seekset.shards.parquet import _opened

PAYLOADS = [seekset.encode_example({"x": [row, row + 0.5], "label": row, "name": f"row {row}"}) for row in range(5)]
FEATURES = {"x": ("float32", (2,)), "label": "int64"}


@pytest.fixture(params=[None, "gzip"])
def records(request, tmp_path):
    """A TFRecord file of examples, plain and compressed."""
    path = tmp_path / ("a.tfrecord.gz" if request.param else "a.tfrecord")
    with seekset.TFRecordWriter(path, compression=request.param, index=False) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    return path


# --- TFRecord -------------------------------------------------------------------------------------------------------


def test_payloads_are_objects(records):
    reader = TFRecordShards()
    assert reader.read(records).objects == PAYLOADS
    assert reader.read_rows(records, [4, 0, 4]).objects == [PAYLOADS[4], PAYLOADS[0], PAYLOADS[4]]
    census = reader.count(records)
    assert (census.rows, census.fields, census.decoded_bytes) == (5, None, 0)
    assert census.packed_bytes >= sum(map(len, PAYLOADS))
    assert census.row_bytes >= max(map(len, PAYLOADS))


def test_examples_are_columns(records):
    reader = TFRecordShards(FEATURES)
    rows = reader.read(records)
    assert rows.fields == reader.count(records).fields == (Field("x", "<f4", (2,)), Field("label", "<i8", ()))
    assert rows.columns["x"].tolist() == [[row, row + 0.5] for row in range(5)]
    assert reader.read_rows(records, [3, 1]).columns["label"].tolist() == [3, 1]
    assert (reader.count(records).rows, reader.count(records).row_bytes) == (5, 1 + 8 + 1 + 8)


def test_the_longest_payload_counts_wherever_it_lies(tmp_path):
    path = tmp_path / "a.tfrecord"
    with seekset.TFRecordWriter(path) as writer:
        for row in range(1000):
            writer.write(bytes(5000 if row == 7 else 10))
    census = TFRecordShards().count(path)
    assert (census.row_bytes, census.packed_bytes) == (64 + 5000, 64 * 1000 + 5000 + 999 * 10)


def test_examples_are_measured_if_wanted(records):
    reader = TFRecordShards(FEATURES, measure=True)
    packed = pack_shard(reader, records)
    census = reader.count(records)
    assert (census.row_bytes, census.packed_bytes) == (
        np.diff(packed.ends, prepend=np.uint64(0)).max(),
        packed.ends[-1],
    )
    assert census.row_bytes < TFRecordShards(FEATURES).count(records).row_bytes
    assert reader.identity != TFRecordShards(FEATURES).identity
    assert pickle.loads(pickle.dumps(reader)).count(records) == census


def test_rows_are_those_of_the_file_whatever_an_index_lists(tmp_path):
    path = tmp_path / "a.tfrecord"
    with seekset.TFRecordWriter(path) as writer:
        for payload in PAYLOADS:
            writer.write(payload)
    lines = (tmp_path / "a.tfrecord.idx").read_text().splitlines(keepends=True)
    (tmp_path / "a.tfrecord.idx").write_text(lines[2])
    assert TFRecordShards().read(path).objects == PAYLOADS


def test_damaged_records_are_bad_rows(tmp_path):
    path = tmp_path / "a.tfrecord"
    with seekset.TFRecordWriter(path, index=False) as writer:
        for payload in (PAYLOADS[0], b"no example", PAYLOADS[2]):
            writer.write(payload)
    rows = TFRecordShards(FEATURES).read_rows(path, [2, 1, 0])
    assert list(rows.bad) == [1]
    assert rows.bad[1].startswith(f"{path}: ")
    assert rows.columns["x"].tolist() == [[2, 2.5], [0, 0], [0, 0.5]]
    content = bytearray(path.read_bytes())
    content[20] ^= 255
    path.write_bytes(content)
    rows = TFRecordShards(verify="full").read(path)
    assert list(rows.bad) == [0]
    assert "checksum" in rows.bad[0]
    assert rows.objects == [None, b"no example", PAYLOADS[2]]


@pytest.mark.parametrize("features", [{}, {"name": "bytes"}, {"x": ("float32", None)}, {"x": ("float32", (None, 2))}])
def test_features_that_are_no_columns_are_refused_at_once(features):
    with pytest.raises(seekset.MismatchError, match="feature"):
        TFRecordShards(features)


def test_readers_with_other_features_are_told_apart():
    identities = {TFRecordShards(features).identity for features in (None, FEATURES, {"x": ("float32", (2,))})}
    assert len({*identities, TFRecordShards(verify="full").identity}) == 4
    assert TFRecordShards(FEATURES).identity == TFRecordShards(dict(reversed(FEATURES.items()))).identity


def test_a_file_that_ends_within_a_record_is_told(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"\5\0\0")
    with pytest.raises(seekset.FormatError, match=re.escape(str(tmp_path / "a.tfrecord"))):
        TFRecordShards().count(tmp_path / "a.tfrecord")


# --- FASTA ----------------------------------------------------------------------------------------------------------


def test_fasta_records_are_dicts(write):
    path = write(b">a first\nACGT\nAC\n>b\nGG\n>a\nT\n")
    reader = FastaShards()
    expected = [{"id": "a", "sequence": "ACGTAC"}, {"id": "b", "sequence": "GG"}, {"id": "a", "sequence": "T"}]
    assert reader.read(path).objects == expected
    assert reader.read_rows(path, [2, 0]).objects == [expected[2], expected[0]]
    census = reader.count(path)
    assert (census.rows, census.fields, census.decoded_bytes) == (3, None, 0)
    assert census.packed_bytes > 9
    with pytest.raises(IndexError):
        reader.read_rows(path, [3])


def test_fasta_that_bgzip_compressed_is_read(write, bgzip):
    path = bgzip(write(b">a\nACGT\n>b\nGG\n"))
    assert [row["sequence"] for row in FastaShards().read(path).objects] == ["ACGT", "GG"]


def test_what_is_no_fasta_is_told(write):
    with pytest.raises(seekset.FormatError):
        FastaShards().count(write(gzip.compress(b">a\nAC\n"), "x.fa"))


# --- Parquet --------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path):
    """`parquet(table)` writes a table in row groups of three."""

    def parquet(columns, **options):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=3, **options)
        return path

    return parquet


BOARDS = pa.FixedSizeListArray.from_arrays(
    pa.FixedSizeListArray.from_arrays(pa.array(np.arange(40.0, dtype="f4")), 2), 2
)


def test_numbers_and_lists_of_a_fixed_size_are_columns(parquet):
    path = parquet({"x": np.arange(10, dtype=np.int16), "board": BOARDS, "won": [True, False] * 5})
    reader = ParquetShards()
    rows = reader.read(path)
    assert rows.fields == reader.count(path).fields
    assert rows.fields == (Field("x", "<i2", ()), Field("board", "<f4", (2, 2)), Field("won", "|b1", ()))
    assert np.array_equal(rows.columns["board"], np.arange(40).reshape(10, 2, 2))
    wanted = [9, 0, 3, 3, 8]
    some = reader.read_rows(path, wanted)
    assert all(np.array_equal(some.columns[name], column[wanted]) for name, column in rows.columns.items())
    assert (reader.count(path).rows, len(reader.read_rows(path, []))) == (10, 0)
    with pytest.raises(IndexError):
        reader.read_rows(path, [10])


@pytest.mark.parametrize("statistics", [True, False])
def test_nulls_are_zeros_with_a_flag_in_every_part(parquet, statistics):
    lists = pa.array([None, [3, 4], [5, None], [7, 8]], pa.list_(pa.int8(), 2))
    path = parquet({"x": [1.5, None, 2.5, 3.5], "y": lists, "z": [1, 2, 3, 4]}, write_statistics=statistics)
    reader = ParquetShards()
    rows = reader.read(path)
    assert (
        [field.name for field in reader.count(path).fields] == ["x", "y", "z", "has_x", "has_y"] == list(rows.columns)
    )
    assert rows.bad == {2: "column 'y': expected 2 numbers, found nulls among them"}
    assert rows.columns["x"].tolist() == [1.5, 0, 0, 3.5]
    assert rows.columns["y"].tolist() == [[0, 0], [3, 4], [0, 0], [7, 8]]
    assert rows.columns["has_x"].tolist() == [True, False, False, True]
    assert rows.columns["has_y"].tolist() == [False, True, False, True]
    part = reader.read_rows(path, [3])
    assert (list(part.columns), part.columns["has_y"].tolist(), part.bad) == (list(rows.columns), [True], {})


def test_a_row_with_a_null_at_any_depth_is_bad_and_moves_no_value(parquet):
    whole = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    boards = [whole, [None, whole[1]], None, [[[1, 2], None], whole[1]], [whole[0], [[5, None], [7, 8]]], whole]
    kind = pa.list_(pa.list_(pa.list_(pa.int64(), 2), 2), 2)
    path = parquet({"board": pa.array(boards, kind), "x": range(6)})
    told = "column 'board': expected 8 numbers, found nulls among them"
    zeros = np.zeros((2, 2, 2)).tolist()
    rows = ParquetShards().read(path)
    assert rows.bad == dict.fromkeys((1, 3, 4), told)
    assert rows.columns["board"].tolist() == [whole, zeros, zeros, zeros, zeros, whole]
    assert rows.columns["has_board"].tolist() == [True, False, False, False, False, True]
    some = ParquetShards().read_rows(path, [5, 3, 0])
    assert (some.columns["board"].tolist(), some.bad) == ([whole, zeros, whole], {1: told})


def test_nulls_that_make_up_for_each_other_are_seen(parquet):
    kind = pa.list_(pa.list_(pa.int64(), 2), 2)
    rows = ParquetShards().read(parquet({"x": pa.array([[[1, 2], None], [None, [3, 4]]], kind)}))
    assert list(rows.bad) == [0, 1]
    assert not rows.columns["x"].any()


def test_a_flag_must_not_have_the_name_of_a_column(parquet):
    with pytest.raises(seekset.FormatError, match="column 'x' has nulls, and 'has_x' is a column itself"):
        ParquetShards().count(parquet({"x": [1, None], "has_x": [1, 0]}))


def test_a_column_of_anything_else_makes_rows_objects(parquet):
    path = parquet({"x": [1, 2, 3, 4], "name": ["a", "b", None, "d"], "list": [[1], [], [2, 3], None]})
    reader = ParquetShards()
    assert reader.read_rows(path, [3, 0]).objects == [
        {"x": 4, "name": "d", "list": None},
        {"x": 1, "name": "a", "list": [1]},
    ]
    census = reader.count(path)
    assert (census.rows, census.fields) == (4, None)
    assert census.packed_bytes >= census.row_bytes > 0


def test_the_longest_object_counts(parquet):
    census = ParquetShards().count(parquet({"name": ["a"] * 99 + ["b" * 10_000]}))
    assert census.row_bytes > 10_000
    assert census.packed_bytes < 100 * 1000 + 10_000


def test_columns_of_parquet_are_measured_if_wanted(parquet):
    path = parquet({"x": [1, 2, 1000, 4], "y": [0.5, None, 1.5, 0.0]})
    reader = ParquetShards(measure=True)
    packed = pack_shard(reader, path)
    census = reader.count(path)
    assert (census.row_bytes, census.packed_bytes) == (
        np.diff(packed.ends, prepend=np.uint64(0)).max(),
        packed.ends[-1],
    )
    assert census.row_bytes < ParquetShards().count(path).row_bytes
    assert pickle.loads(pickle.dumps(reader)).count(path) == census


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet file at all", b"PAR1" + bytes(20) + b"PAR1"])
def test_what_is_no_parquet_is_told(write, content):
    path = write(content, "a.parquet")
    for work in (ParquetShards().count, ParquetShards().read):
        with pytest.raises(seekset.FormatError, match=f"^{re.escape(f'{path}: expected a Parquet file: ')}"):
            work(path)


def test_damage_within_a_parquet_file_is_told(parquet):
    path = parquet({"x": np.random.default_rng(0).random(100_000)}, compression="zstd")
    content = bytearray(path.read_bytes())
    content[1000:1100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(seekset.FormatError, match=r"a\.parquet: expected a Parquet file"):
        ParquetShards().read(path)


def test_missing_files_are_real_file_not_found_errors(tmp_path):
    for reader in (ParquetShards(), FastaShards(), TFRecordShards()):
        with pytest.raises(FileNotFoundError):
            reader.count(tmp_path / "missing")


def test_without_pyarrow_the_error_says_what_to_install(parquet, run):
    path = parquet({"x": [1]})
    printed = run(
        """
        import sys
        sys.modules["pyarrow"] = None
        from seekset.shards import ParquetShards
        try:
            ParquetShards().count(sys.argv[1])
        except ImportError as error:
            print(error)
        """,
        path,
    )
    assert printed == f"{path}: Parquet is read by pyarrow, which is not installed: pip install 'seekset[parquet]'\n"
    assert sys.modules["pyarrow"] is pa


@pytest.mark.parametrize(
    "error, kind",
    [
        (OSError(errno.EIO, "Input/output error"), OSError),
        (pa.ArrowMemoryError("malloc of size 64 failed"), MemoryError),
        (OSError("Corrupt snappy compressed data."), seekset.FormatError),
        (pa.ArrowInvalid("Unexpected end of stream"), seekset.FormatError),
    ],
)
def test_what_the_system_says_while_parquet_is_read_is_no_fault_of_the_file(tmp_path, error, kind):
    """Such as of a mount that drops: a fault of the file could be skipped."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(kind) as raised, _opened(tmp_path / "a.parquet"):
        raise error
    assert isinstance(raised.value, seekset.FormatError) == (kind is seekset.FormatError)
