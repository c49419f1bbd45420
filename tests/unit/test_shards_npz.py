"""Shards that numpy wrote: read by rows where they are not compressed; what is damaged or hostile is refused."""

import io
import pickle
import re
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seekset
from seekset.shards import Field, NpzShards, pack_shard

READER = NpzShards()
COLUMNS = {
    "board": np.random.default_rng(0).random((7, 3, 4)).astype(np.float32),
    "value": np.arange(7, dtype=np.int16),
    "won": np.arange(7) % 2 == 0,
}


@pytest.fixture(params=[np.savez, np.savez_compressed])
def path(request, tmp_path):
    """A shard, stored and compressed."""
    request.param(tmp_path / "a.npz", **COLUMNS)
    return tmp_path / "a.npz"


def written(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(members, **options):
    """An archive of these members, whatever they are."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy(array, **change):
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=True, **change)
    return file.getvalue()


def test_columns_equal_what_numpy_loads(path):
    rows = READER.read(path)
    with np.load(path) as loaded:
        assert list(rows.columns) == loaded.files
        for name, column in rows.columns.items():
            assert column.dtype == loaded[name].dtype
            assert np.array_equal(column, loaded[name])
            assert column.flags.c_contiguous
            assert type(column) is np.ndarray


def test_rows_are_read_in_any_order(path):
    rows = READER.read_rows(path, np.array([6, 0, 6, -1]))
    assert all(np.array_equal(rows.columns[name], column[[6, 0, 6, 6]]) for name, column in COLUMNS.items())
    assert len(READER.read_rows(path, [])) == 0
    with pytest.raises(IndexError, match="row 7 is out of range"):
        READER.read_rows(path, [7])


def test_rows_outlive_the_file(path):
    rows = READER.read(path)
    path.write_bytes(bytes(path.stat().st_size))
    assert np.array_equal(rows.columns["value"], COLUMNS["value"])


def test_a_bounded_count_reads_headers_and_tells_whether_rows_are_read_by_themselves(tmp_path):
    np.savez(tmp_path / "a.npz", **COLUMNS)
    np.savez_compressed(tmp_path / "b.npz", **COLUMNS)
    bounded = NpzShards(measure=False)
    stored, compressed = bounded.count(tmp_path / "a.npz"), bounded.count(tmp_path / "b.npz")
    assert stored.rows == compressed.rows == 7
    assert stored.fields == (Field("board", "<f4", (3, 4)), Field("value", "<i2", ()), Field("won", "|b1", ()))
    assert stored.row_bytes == 49 + 3 + 2
    assert (stored.packed_bytes, stored.decoded_bytes) == (7 * 54, 0)
    assert compressed.decoded_bytes > 7 * 51
    assert pickle.loads(pickle.dumps(bounded)).count(tmp_path / "a.npz") == stored


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_count_measures_what_rows_take_packed(tmp_path, save):
    # More rows than a piece has; of which one takes 1 + 800 bytes, and the others 1 + 200 bits.
    x = np.ones((30_000, 200), "f4")
    x[29_000] = np.linspace(0.1, 0.2, 200, dtype="f8").astype("f4")
    save(tmp_path / "a.npz", x=x)
    census = READER.count(tmp_path / "a.npz")
    packed = pack_shard(READER, tmp_path / "a.npz")
    assert (census.row_bytes, census.packed_bytes) == (801, 29_999 * 26 + 801)
    assert census.packed_bytes == len(packed.content)
    assert census.unpacked_bytes == 801


def test_only_the_rows_that_are_wanted_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((16, 1 << 20), np.uint8))
    tracemalloc.start()
    rows = READER.read_rows(tmp_path / "a.npz", [3])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows.columns["x"].shape == (1, 1 << 20)
    assert peak < 3 << 20


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [">f4", "<f8", ">i2", "|u1", "?", "<c8", "<f2"])
def test_any_order_and_any_numbers(tmp_path, order, dtype):
    array = np.asarray(np.arange(24).reshape(4, 2, 3), dtype=dtype, order=order)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", x=array)
        rows = READER.read(tmp_path / "a.npz")
        assert rows.columns["x"].dtype.str == array.dtype.newbyteorder("<").str
        assert np.array_equal(rows.columns["x"], array)
        assert np.array_equal(READER.read_rows(tmp_path / "a.npz", [3, 1]).columns["x"], array[[3, 1]])


def test_arrays_without_rows_and_rows_without_values(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((0, 3)), y=np.zeros(0, np.int8))
    assert (READER.count(tmp_path / "a.npz").rows, len(READER.read(tmp_path / "a.npz"))) == (0, 0)
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 0)))
    assert READER.read_rows(tmp_path / "a.npz", [2]).columns["x"].shape == (1, 0)


def test_strings_and_single_values_are_dropped(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(2), version=3, names=np.array(["a", "b"]))
    assert READER.count(tmp_path / "a.npz").dropped == ("version", "names")
    assert list(READER.read(tmp_path / "a.npz").columns) == ["x"]


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(2))
    assert READER.count(tmp_path / "a.npz").rows == 2
    np.savez(tmp_path / "a.npz", x=np.arange(5))
    assert READER.read(tmp_path / "a.npz").columns["x"].tolist() == [0, 1, 2, 3, 4]


LARGE = npy(np.zeros(3)).replace(b"(3,)", b"(9,)")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "expected a zip archive of arrays, as numpy.savez writes it: "),
        (b"no archive", "expected a zip archive of arrays, as numpy.savez writes it: "),
        (zipped({}), "expected arrays of numbers with a row on the first axis, found none"),
        (zipped({"a.txt": b"text"}), "expected arrays of numbers with a row on the first axis, found none"),
        (zipped({"x.npy": b"text"}), "'x.npy': expected an array as numpy writes it: "),
        (zipped({"x.npy": npy(np.arange(3))[:20]}), "'x.npy': expected an array as numpy writes it: "),
        (zipped({"x.npy": npy(np.array([{}], dtype=object))}), "'x.npy' holds objects, which would be pickles"),
        (zipped({"x.npy": npy(np.zeros(2, [("a", "O")]))}), "'x.npy' holds objects, which would be pickles"),
        (zipped({"x.npy": LARGE}), "'x.npy': expected 128 bytes and float64 of shape (9,) after them, found 152 bytes"),
        (
            zipped({"x.npy": LARGE}, compression=zipfile.ZIP_DEFLATED),
            "'x.npy': expected 128 bytes and float64 of shape (9,) after them, found 152 bytes in all",
        ),
        (zipped({"x.npy": npy(np.zeros(3)) + b"more"}), "'x.npy': expected 128 bytes and float64 of shape (3,)"),
        (
            zipped({"x.npy": npy(np.zeros(3)).replace(b"(3,)", b"(-3)")}),
            "'x.npy': expected an array as numpy writes it",
        ),
        (written(x=np.arange(3), y=np.arange(4)), "'y': expected 3 rows, as 'x' has, found 4"),
        (written(x=np.arange(3))[:-30], "expected a zip archive of arrays, as numpy.savez writes it: "),
    ],
)
def test_what_is_no_shard_is_told_with_the_file(tmp_path, content, message):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    for work in (READER.count, READER.read):
        with pytest.raises(seekset.FormatError, match=f"^{re.escape(f'{path}: {message}')}"):
            work(path)


def test_objects_are_never_unpickled(tmp_path, monkeypatch):
    class Runs:
        def __reduce__(self):
            return exec, ("raise SystemExit",)

    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=np.array([Runs()], dtype=object), y=np.arange(1))
    with pytest.raises(seekset.FormatError, match="holds objects"):
        READER.read("a.npz")


def test_damage_of_a_compressed_member_is_found(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(0).random(1000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[4000] ^= 255
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(seekset.FormatError, match=r"a\.npz: 'x\.npy': expected an array as numpy writes it"):
        READER.read(tmp_path / "a.npz")


def test_members_that_are_too_large_inflated_are_refused_by_their_header(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1_000_000))
    with pytest.raises(seekset.MemoryLimitError, match="its members take 8000128 bytes inflated, but 1000 are allowed"):
        NpzShards(max_bytes=1000).read(tmp_path / "a.npz")


def test_an_encrypted_member_is_refused(tmp_path):
    content = bytearray(written(x=np.arange(3)))
    at = content.index(b"PK\1\2")
    struct.pack_into("<H", content, at + 8, 1)
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(seekset.FormatError, match=r"'x\.npy' is encrypted"):
        READER.read(tmp_path / "a.npz")


def test_a_missing_file_is_a_real_file_not_found_error(tmp_path):
    for work in (READER.count, READER.read):
        with pytest.raises(FileNotFoundError):
            work(tmp_path / "missing.npz")


@given(st.booleans(), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4), st.integers(0, 2000))
def test_damage_is_refused_or_harmless(scratch, compressed, changes, end):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, x=np.arange(40), y=np.ones((40, 3), np.float32))
    content = bytearray(file.getvalue())
    for place, byte in changes:
        content[place % len(content)] = byte
    path = scratch(bytes(content[: max(end, 1)] if end < 300 else content))
    wrong = None
    try:
        READER.count(path)
        READER.read(path)
        READER.read_rows(path, [0])
    except (seekset.FormatError, seekset.MemoryLimitError, IndexError) as error:
        wrong = str(error)
    assert wrong is None or wrong.startswith((f"{path}: ", "row 0 is out of range"))
