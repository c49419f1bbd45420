"""TFRecord files compressed with gzip or zlib: the same rows as plain ones, and made plain."""

import gzip
import pickle
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import seekset
from frames import lines, records, unchecked

PAYLOADS = [b"one", b"", b"three", b"fourfour"]
PACKS = {"gzip": gzip.compress, "zlib": zlib.compress}


@pytest.fixture(params=sorted(PACKS))
def kind(request):
    return request.param


@pytest.fixture
def path(write, kind):
    return write(PACKS[kind](records(*PAYLOADS)), "x.tfrecord.gz")


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("verify", ["lengths", "full", None])
def test_it_is_a_sequence_of_payloads(path, kind, io, verify):
    tf = seekset.TFRecordFile(path, io=io, verify=verify)
    assert (len(tf), tf.compression) == (4, kind)
    assert list(tf) == PAYLOADS
    assert [tf[row] for row in range(-4, 4)] == PAYLOADS * 2
    assert tf[1:] == PAYLOADS[1:]
    assert tf.get_many([3, 0, 3]) == [b"fourfour", b"one", b"fourfour"]
    assert bytes(tf.view(2)) == b"three"
    assert tf.entry(2) == (35, 21)
    with pytest.raises(IndexError):
        tf[4]


def test_records_over_several_points_are_read_in_any_order(write):
    rng = np.random.default_rng(7)
    payloads = [rng.integers(0, 4, size, dtype=np.uint8).tobytes() for size in rng.integers(0, 40_000, 600)]
    tf = seekset.TFRecordFile(write(gzip.compress(records(*payloads), 1), "x.tfrecord.gz"))
    rows = rng.permutation(600)[:100].tolist()
    assert tf.get_many(rows) == [payloads[row] for row in rows]
    assert [tf[row] for row in rows[:10]] == [payloads[row] for row in rows[:10]]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tf.__getitem__, rows)) == [payloads[row] for row in rows]


def test_members_that_follow_each_other_are_one_file(write):
    data = records(*PAYLOADS)
    tf = seekset.TFRecordFile(write(gzip.compress(data[:40]) + gzip.compress(b"") + gzip.compress(data[40:]), "x.gz"))
    assert list(tf) == PAYLOADS


def test_a_file_of_no_records_has_none(write, kind):
    assert list(seekset.TFRecordFile(write(PACKS[kind](b""), "x.tfrecord.gz"))) == []


def test_a_file_without_checksums_is_read_with_verify_none(write, kind):
    path = write(PACKS[kind](unchecked(*PAYLOADS)), "x.tfrecord.gz")
    assert list(seekset.TFRecordFile(path, verify=None)) == PAYLOADS
    with pytest.raises(seekset.CorruptRecordError, match=r"record 0, byte 0: .*verify=None"):
        seekset.TFRecordFile(path, index=False)


def test_a_handle_pickles_and_opens_again(path):
    tf = pickle.loads(pickle.dumps(seekset.TFRecordFile(path)))
    assert tf[2] == b"three"


# --- the index ------------------------------------------------------------------------------------------------------


def test_the_index_lies_beside_the_file(path):
    tf = seekset.TFRecordFile(path)
    assert tf.index_path == path.with_name("x.tfrecord.gz.zidx")
    assert tf.index_path.read_bytes().startswith(b"SEEKZIDX\x01")
    before = tf.index_path.stat()
    assert list(seekset.TFRecordFile(path, rebuild=False)) == PAYLOADS
    assert tf.index_path.stat().st_ino == before.st_ino


def test_index_false_writes_nothing(path):
    tf = seekset.TFRecordFile(path, index=False)
    assert list(tf) == PAYLOADS
    assert tf.index_path is None
    assert [file.name for file in path.parent.iterdir()] == ["x.tfrecord.gz"]


def test_an_index_that_does_not_fit_is_built_again_or_stale(path, kind):
    index = seekset.TFRecordFile(path).index_path
    path.write_bytes(PACKS[kind](records(b"another", b"two")))
    with pytest.raises(seekset.StaleIndexError, match="the file has changed since it was indexed"):
        seekset.TFRecordFile(path, rebuild=False)
    assert list(seekset.TFRecordFile(path)) == [b"another", b"two"]
    index.write_bytes(index.read_bytes()[:-1])
    with pytest.raises(seekset.StaleIndexError, match="zidx"):
        seekset.TFRecordFile(path, rebuild=False)
    assert list(seekset.TFRecordFile(path)) == [b"another", b"two"]
    index.unlink()
    with pytest.raises(seekset.StaleIndexError, match="there is none"):
        seekset.TFRecordFile(path, rebuild=False)


def test_an_index_that_cannot_be_written_is_kept_in_memory_with_a_warning(write, kind):
    path = write(PACKS[kind](records(*PAYLOADS)), "x" * 252)  # no room for more letters
    with pytest.warns(seekset.SeeksetWarning, match="can't be written"):
        tf = seekset.TFRecordFile(path)
    assert list(tf) == PAYLOADS
    assert tf.index_path is None


def test_rows_may_come_from_an_index_of_the_uncompressed_data(path, write):
    index = write(b"56 24\n0 19\n", "some.idx")
    assert list(seekset.TFRecordFile(path, index=index)) == [b"fourfour", b"one"]


def test_damage_to_the_index_is_an_error_or_does_not_matter(write):
    path = write(zlib.compress(records(*PAYLOADS)), "x.tfrecord.zlib")
    index = seekset.TFRecordFile(path).index_path
    whole = index.read_bytes()
    for at in range(len(whole)):
        index.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        try:
            found = list(seekset.TFRecordFile(path))
        except seekset.StaleIndexError as error:
            assert "zidx is damaged" in str(error)  # noqa: PT017
        else:
            assert found == PAYLOADS


# --- bad input ------------------------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_refused(write, kind):
    whole = PACKS[kind](records(*PAYLOADS))
    for cut in range(3, len(whole)):
        path = write(whole[:cut], "x.tfrecord.gz")
        with pytest.raises(seekset.CorruptRecordError, match=r"x\.tfrecord\.gz: byte \d+: .*it was cut short"):
            seekset.TFRecordFile(path)
    assert [file.name for file in path.parent.iterdir()] == ["x.tfrecord.gz"]


def test_bytes_behind_the_end_are_refused(write, kind):
    path = write(PACKS[kind](records(*PAYLOADS)) + b"junk", "x.tfrecord.gz")
    with pytest.raises(seekset.CorruptRecordError, match="4 bytes follow that belong to nothing"):
        seekset.TFRecordFile(path)


def test_a_damaged_record_is_told_with_its_place(write, kind):
    data = bytearray(records(*PAYLOADS))
    data[47] ^= 1
    path = write(PACKS[kind](bytes(data)), "x.tfrecord.gz")
    tf = seekset.TFRecordFile(path, verify="full")
    assert tf[1] == b""
    with pytest.raises(seekset.CorruptRecordError, match=r"x\.tfrecord\.gz: record 2, byte 35: the payload's checksum"):
        tf[2]


# --- no index for DALI, but a plain file ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [seekset.create_tfrecord_index, seekset.ensure_tfrecord_indexes])
def test_no_index_for_dali_is_made_of_a_compressed_file(path, kind, make):
    with pytest.raises(seekset.FormatError, match=f"compressed with {kind}: .*DALI.*seekset tfrecord decompress"):
        make(path)
    assert [file.name for file in path.parent.iterdir()] == ["x.tfrecord.gz"]


def test_indexes_are_not_taken_for_files(path):
    seekset.TFRecordFile(path)
    assert seekset.tfrecord.find_tfrecords(path.parent) == [path]


def test_decompressing_makes_a_plain_file_and_its_index(path):
    plain = seekset.decompress_tfrecord(path, index=True)
    assert plain == path.with_name("x.tfrecord")
    assert plain.read_bytes() == records(*PAYLOADS)
    assert plain.with_name("x.tfrecord.idx").read_text() == lines(*PAYLOADS)
    assert list(seekset.TFRecordFile(plain)) == PAYLOADS


def test_decompressing_replaces_nothing_unless_told_to(path, tmp_path):
    out = tmp_path / "out"
    out.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        seekset.decompress_tfrecord(path, out)
    assert out.read_bytes() == b"mine"
    assert seekset.decompress_tfrecord(str(path), str(out), overwrite=True) == out
    assert out.read_bytes() == records(*PAYLOADS)


def test_a_name_without_a_suffix_needs_a_place(write):
    path = write(gzip.compress(records(*PAYLOADS)), "x.tfrecord")
    with pytest.raises(seekset.MismatchError, match="say where the plain file goes"):
        seekset.decompress_tfrecord(path)


def test_what_cannot_be_decompressed_leaves_nothing(write):
    whole = gzip.compress(records(*PAYLOADS))
    damaged = bytearray(records(*PAYLOADS))
    damaged[12] ^= 1
    for data, error in [
        (whole[:-1], seekset.CorruptRecordError),
        (whole + b"x", seekset.CorruptRecordError),
        (gzip.compress(bytes(damaged)), seekset.CorruptRecordError),
        (records(*PAYLOADS), seekset.FormatError),
    ]:
        path = write(data, "x.tfrecord.gz")
        with pytest.raises(error):
            seekset.decompress_tfrecord(path, index=True, verify="full")
        assert [file.name for file in path.parent.iterdir()] == ["x.tfrecord.gz"]


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        seekset.decompress_tfrecord(tmp_path / "x.gz")


def test_progress_ends_with_all_of_the_compressed_bytes(path):
    told = []
    with warnings.catch_warnings(action="error"):
        seekset.decompress_tfrecord(path, progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (path.stat().st_size,) * 2


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_examples_of_a_compressed_file_are_those_of_a_plain_one(compression, tmp_path):
    files = []
    for name, kind in (("plain.tfrecord", None), ("packed.tfrecord", compression)):
        with seekset.TFRecordWriter(tmp_path / name, compression=kind) as out:
            for k in range(300):
                out.write_example({"x": [k, k + 0.5], "label": -k, "name": f"record {k}"})
        files.append(seekset.TFRecordFile(tmp_path / name))
    plain, packed = files
    rows, features = [299, 0, 7, 7], {"x": ("float32", (2,)), "label": "int64", "name": "bytes"}
    expected, found = plain.examples(rows, features), packed.examples(rows, features)
    assert found["label"].tolist() == expected["label"].tolist() == [-299, 0, -7, -7]
    assert found["x"].tolist() == expected["x"].tolist()
    assert list(found["name"]) == list(expected["name"])
    assert packed.example(7)["name"] == [b"record 7"]
