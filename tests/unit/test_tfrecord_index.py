"""Indexes of TFRecord files: written, read, made where they are missing; and everything that is no TFRecord file."""

import errno
import gzip
import zlib
from pathlib import Path

import pytest

import seekset
from frames import header, lines, record, records, unchecked

PAYLOADS = [b"one", b"", b"three"]
WHOLE = records(*PAYLOADS)
STARTS = [0, 19, 35, 56]


@pytest.fixture
def path(write):
    return write(WHOLE, "x.tfrecord")


# --- writing --------------------------------------------------------------------------------------------------------


def test_an_index_lies_beside_its_file_in_file_order(path, names):
    assert seekset.create_tfrecord_index(path) == 3
    assert path.with_name("x.tfrecord.idx").read_bytes() == b"0 19\n19 16\n35 21\n"
    assert names() == ["x.tfrecord", "x.tfrecord.idx"]


@pytest.mark.parametrize("kind", [str, bytes, Path])
def test_paths_may_be_of_every_kind(path, tmp_path, kind):
    assert seekset.create_tfrecord_index(kind(path), kind(tmp_path / "other")) == 3
    assert seekset.read_tfrecord_index(kind(tmp_path / "other")) == [(0, 19), (19, 16), (35, 21)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
@pytest.mark.parametrize("verify", ["lengths", "full", None])
def test_bytes_may_be_of_every_kind(kind, verify):
    assert seekset.index_tfrecord_bytes(kind(WHOLE), verify=verify) == "0 19\n19 16\n35 21\n"
    assert seekset.get_tfrecord_index_entries(kind(WHOLE), verify=verify) == [(0, 19), (19, 16), (35, 21)]
    assert seekset.index_tfrecord_bytes(kind(b""), verify=verify) == ""
    assert seekset.get_tfrecord_index_entries(kind(b""), verify=verify) == []


def test_a_part_of_a_buffer_is_indexed_from_its_own_start():
    assert seekset.get_tfrecord_index_entries(memoryview(b"xx" + WHOLE)[2:]) == [(0, 19), (19, 16), (35, 21)]


@pytest.mark.parametrize("data", ["text", None, 5, [1, 2]])
def test_what_are_no_bytes_is_a_type_error(data):
    for work in (seekset.index_tfrecord_bytes, seekset.get_tfrecord_index_entries):
        with pytest.raises(TypeError, match="give the bytes of a TFRecord file"):
            work(data)


@pytest.mark.parametrize("count", [1, 2, 4095, 4096, 4097, 20_000])
def test_files_of_any_number_of_records_are_indexed(write, count):
    payloads = [b"x" * (k % 7) for k in range(count)]
    path = write(records(*payloads), "x.tfrecord")
    assert seekset.create_tfrecord_index(path, verify="full") == count
    assert path.with_name("x.tfrecord.idx").read_text() == lines(*payloads)


def test_an_empty_file_has_an_empty_index(write):
    path = write(b"", "x.tfrecord")
    assert seekset.create_tfrecord_index(path) == 0
    assert path.with_name("x.tfrecord.idx").read_bytes() == b""
    assert seekset.read_tfrecord_index(path.with_name("x.tfrecord.idx")) == []


def test_progress_is_told_and_an_exception_in_it_stops_the_work(path, names):
    told = []
    seekset.create_tfrecord_index(path, progress=lambda *amounts: told.append(amounts))
    assert told[-1] == (56, 56)

    def stop(done, total):
        raise KeyboardInterrupt

    before = names()
    with pytest.raises(KeyboardInterrupt):
        seekset.create_tfrecord_index(path, path.with_name("other"), progress=stop)
    assert names() == before


def test_what_is_no_index_is_not_replaced_by_one(path, write):
    notes = write(b"dear diary\n", "notes.txt")
    for target in (notes, path):
        before = target.read_bytes()
        with pytest.raises(seekset.MismatchError, match=r"there is a file already, and it is no \.idx"):
            seekset.create_tfrecord_index(path, target)
        assert target.read_bytes() == before


def test_missing_files_are_file_not_found_errors(path, tmp_path):
    missing = tmp_path / "missing"
    for work in (
        lambda: seekset.create_tfrecord_index(missing),
        lambda: seekset.read_tfrecord_index(missing),
        lambda: seekset.ensure_tfrecord_indexes(missing),
        lambda: seekset.ensure_tfrecord_indexes([path, missing]),
    ):
        with pytest.raises(FileNotFoundError) as error:
            work()
        assert (error.value.errno, error.value.filename) == (errno.ENOENT, str(missing))
    with pytest.raises(FileNotFoundError):
        seekset.create_tfrecord_index(path, missing / "x.idx")


# --- what is no TFRecord file ---------------------------------------------------------------------------------------


@pytest.fixture
def refused(write, names):
    """`refused(data, ...)`: as bytes, file and handle, data is refused at a record and offset; an old index stays."""

    def refused(data, record, offset, words, *, error=seekset.CorruptRecordError, verify="lengths"):
        path, old = write(data, "bad.tfrecord"), write(b"0 16\n", "bad.tfrecord.idx")
        before = names()
        place = f"record {record}, byte {offset}: "
        works = [
            ("<bytes>", lambda: seekset.index_tfrecord_bytes(data, verify=verify)),
            (path, lambda: seekset.create_tfrecord_index(path, verify=verify)),
        ]
        if verify != "full":  # a handle leaves payloads for when they are read
            works.append((path, lambda: seekset.TFRecordFile(path, index=False, verify=verify)))
        for name, work in works:
            with pytest.raises(error) as met:
                work()
            assert type(met.value) is error
            assert str(met.value).startswith(f"{name}: {place}"), str(met.value)
            assert words in str(met.value)
        assert (old.read_bytes(), names()) == (b"0 16\n", before)

    return refused


@pytest.mark.parametrize("end", [end for end in range(len(WHOLE)) if end not in STARTS])
def test_a_file_cut_anywhere_is_refused(refused, end):
    cut = max(k for k, start in enumerate(STARTS) if start < end)
    for verify in ("lengths", None):
        refused(WHOLE[:end], cut, STARTS[cut], "the file is cut", verify=verify)


@pytest.mark.parametrize("end", STARTS)
def test_a_file_cut_between_records_is_a_shorter_file(end):
    assert len(seekset.get_tfrecord_index_entries(WHOLE[:end])) == STARTS.index(end)


@pytest.mark.parametrize("junk", range(1, 12))
def test_junk_behind_the_last_record_is_refused(refused, junk):
    refused(WHOLE + b"\0" * junk, 3, 56, f"found {junk} bytes from here to the end")
    refused(WHOLE + b"\n" * junk, 3, 56, "something follows its last record", verify=None)


@pytest.mark.parametrize("length", [2**64 - 16, 2**64 - 1, 2**64 - 17, 2**63, 2**63 - 1, 2**40, 6])
def test_a_length_past_the_end_is_refused(refused, length):
    for verify in ("lengths", "full", None):
        refused(record(b"one") + header(length) + bytes(5), 1, 19, f"expected {length} bytes of payload", verify=verify)


def test_zeros_are_refused_by_the_checksum_of_the_length(refused):
    for verify in ("lengths", "full"):
        refused(bytes(64), 0, 0, "give verify=None", verify=verify)
    assert len(seekset.get_tfrecord_index_entries(bytes(64), verify=None)) == 4


@pytest.mark.parametrize("bit", range(21 * 8))
def test_every_flipped_bit_is_noticed(refused, bit):
    data = bytearray(WHOLE)
    data[35 + bit // 8] ^= 1 << (bit % 8)
    if bit < 12 * 8:
        refused(bytes(data), 2, 35, "the length's checksum does not fit")
    refused(bytes(data), 2, 35, "checksum does not fit", verify="full")


def test_files_without_checksums_are_indexed_if_that_is_asked_for(write):
    path = write(unchecked(*PAYLOADS), "x.tfrecord")
    assert seekset.create_tfrecord_index(path, verify=None) == 3
    with pytest.raises(seekset.CorruptRecordError, match="verify=None"):
        seekset.create_tfrecord_index(path)


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (zlib.compress, "zlib")])
@pytest.mark.parametrize("data", [WHOLE, b""])
def test_compressed_bytes_are_told_by_name(pack, name, data):
    for verify in ("lengths", "full", None):
        with pytest.raises(seekset.FormatError, match=f"record 0, byte 0: .*compressed with {name}"):
            seekset.index_tfrecord_bytes(pack(data), verify=verify)


@pytest.mark.parametrize("length", [40_056, 35_615, 559_903])
def test_a_record_that_starts_like_a_compressed_file_is_a_record(write, length):
    path = write(records(bytes(length), b"x"), "x.tfrecord")
    for verify in ("lengths", "full", None):
        assert seekset.create_tfrecord_index(path, verify=verify) == 2
        assert seekset.TFRecordFile(path, verify=verify)[1] == b"x"


HOSTILE = """
    import resource, sys
    import seekset
    from seekset import _core

    seekset.set_threads(1)
    seekset.TFRecordFile("good.tfrecord", verify="full")[:]
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
    for work in (
        lambda: seekset.create_tfrecord_index("bad.tfrecord", verify=None),
        lambda: seekset.create_tfrecord_index("bad.tfrecord"),
        lambda: seekset.create_tfrecord_index("bad.tfrecord", verify="full"),
        lambda: seekset.TFRecordFile("bad.tfrecord", verify=None),
        lambda: seekset.TFRecordFile("bad.tfrecord", verify="full", io="pread"),
        lambda: seekset.index_tfrecord_bytes(open("bad.tfrecord", "rb").read(), verify=None),
        lambda: _core.index_tfrecord_stream(open("bad.tfrecord", "rb"), "bad", None, None),
        lambda: _core.index_tfrecord_stream(open("bad.tfrecord", "rb"), "bad", None, "full"),
    ):
        try:
            work()
        except seekset.CorruptRecordError as error:
            assert "record 1, byte 19: " in str(error), error
        else:
            raise AssertionError
    print("refused")
"""


@pytest.mark.parametrize("length", [2**64 - 16, 2**64 - 1, 2**63 - 40, 2**40, 1 << 30])
def test_a_length_is_not_believed_when_memory_is_short(run, write, length):
    write(WHOLE, "good.tfrecord")
    write(record(b"one") + header(length) + bytes(1000), "bad.tfrecord")
    assert run(HOSTILE) == "refused\n"


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, entries",
    [
        ("0 19\n19 16\n", [(0, 19), (19, 16)]),
        ("0 19\n19 16", [(0, 19), (19, 16)]),
        ("0\t19\r\n\r\n  19 \t 16  \r\n\n", [(0, 19), (19, 16)]),
        ("19 16\n0 19\n19 16\n", [(19, 16), (0, 19), (19, 16)]),
        ("", []),
        ("\n \n", []),
        ("9223372036854775807 9223372036854775807", [(2**63 - 1, 2**63 - 1)]),
    ],
)
def test_an_index_is_read_however_it_is_spaced(write, text, entries):
    assert seekset.read_tfrecord_index(write(text.encode(), "x.idx")) == entries


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("0 19\n19 x\n", 2, "expected a number, found 'x'"),
        ("0 19\n\n-1 16\n", 3, "expected numbers from 0 on, found -1"),
        ("0 -19\n", 1, "expected numbers from 0 on, found -19"),
        ("0 19 5\n", 1, "expected an offset and a size, found 3 columns"),
        ("0 19\n19\n", 2, "expected an offset and a size, found 1 column"),
        ("0 9223372036854775808\n", 1, "9223372036854775808 is more than any file holds"),
        ("0 99999999999999999999999999\n", 1, "is more than any file holds"),
        ("0 1e3\n", 1, "expected a number, found '1e3'"),
        ("0 ١٩\n", 1, "expected a number"),
    ],
)
def test_what_dali_would_misread_is_refused_with_its_line(write, text, line, words):
    path = write(text.encode(), "x.idx")
    with pytest.raises(seekset.FormatError) as error:
        seekset.read_tfrecord_index(path)
    assert str(error.value).startswith(f"{path}: line {line}: ")
    assert words in str(error.value)


# --- made where they are missing ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Three files in a folder, one of them in a folder below."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    for name in ("b.tfrecord", "a.tfrecord", "deep/c.tfrecord"):
        (tmp_path / "data" / name).write_bytes(WHOLE)
    return tmp_path / "data"


def test_indexes_are_made_for_all_files_of_a_pattern(folder):
    for _ in range(2):
        paths, indexes = seekset.ensure_tfrecord_indexes(f"{folder}/*.tfrecord")
        assert paths == [f"{folder}/a.tfrecord", f"{folder}/b.tfrecord"]
        assert indexes == [f"{path}.idx" for path in paths]
        assert [Path(index).read_text() for index in indexes] == [lines(*PAYLOADS)] * 2


@pytest.mark.parametrize(
    "patterns, expected",
    [
        ("*.tfrecord", ["a.tfrecord", "b.tfrecord"]),
        ("*", ["a.tfrecord", "b.tfrecord"]),
        ("**/*.tfrecord", ["a.tfrecord", "b.tfrecord", "deep/c.tfrecord"]),
        ("b.tfrecord", ["b.tfrecord"]),
        (Path("b.tfrecord"), ["b.tfrecord"]),
        (b"b.tfrecord", ["b.tfrecord"]),
        (".", ["a.tfrecord", "b.tfrecord"]),
        (["deep", "b.tfrecord", "[ab].tfrecord"], ["b.tfrecord", "a.tfrecord", "deep/c.tfrecord"]),
        ((name for name in ["a.tfrecord"]), ["a.tfrecord"]),
        ([], []),
    ],
)
def test_patterns_are_paths_folders_globs_or_many_of_them(folder, monkeypatch, patterns, expected):
    monkeypatch.chdir(folder)
    paths, indexes = seekset.ensure_tfrecord_indexes(patterns)
    assert paths == sorted(expected)
    assert indexes == [f"{path}.idx" for path in paths]
    assert all(Path(index).exists() for index in indexes)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "[ab].tfrecord").write_bytes(WHOLE)
    assert seekset.ensure_tfrecord_indexes("[ab].tfrecord")[0] == ["[ab].tfrecord"]


def test_an_index_that_fits_is_left_alone(path):
    # Neither younger than its file nor written by us: what it says is what counts.
    index = path.with_name("x.tfrecord.idx")
    index.write_bytes(b"0 19\r\n19 16\r\n35\t21")
    seekset.ensure_tfrecord_indexes(path)
    assert index.read_bytes() == b"0 19\r\n19 16\r\n35\t21"


@pytest.mark.parametrize(
    "index", ["", "0 19\n", "0 19\n19 16\n", "0 20\n20 36\n", "0 19\nx", "0 19\n19 16\n35 21\n56 16\n"]
)
def test_an_index_that_does_not_fit_is_made_again(path, write, index):
    written = write(index.encode(), "x.tfrecord.idx")
    seekset.ensure_tfrecord_indexes(path)
    assert written.read_text() == lines(*PAYLOADS)


def test_an_index_is_made_again_when_its_file_has_changed(path):
    seekset.ensure_tfrecord_indexes(path)
    for payloads in ([*PAYLOADS, b"more"], PAYLOADS[:1], [b"other", b"ones"]):
        path.write_bytes(records(*payloads))
        seekset.ensure_tfrecord_indexes(path)
        assert path.with_name("x.tfrecord.idx").read_text() == lines(*payloads)


@pytest.mark.parametrize("index", ["19 16\n", "35 21\n0 19\n19 16\n", "0 19\n0 19\n19 16\n35 21\n"])
def test_an_index_of_ones_own_is_left_alone_with_a_word_about_it(path, write, index):
    own = write(index.encode(), "x.tfrecord.idx")
    with pytest.warns(seekset.SeeksetWarning, match=r"x\.tfrecord\.idx lists other rows"):
        assert seekset.ensure_tfrecord_indexes(path) == ([str(path)], [str(own)])
    assert own.read_text() == index


def test_a_bad_file_among_good_ones_is_named(folder):
    (folder / "bad.tfrecord").write_bytes(bytes(64))
    with pytest.raises(seekset.CorruptRecordError, match=r"bad\.tfrecord: record 0, byte 0"):
        seekset.ensure_tfrecord_indexes(folder)
    assert not (folder / "bad.tfrecord.idx").exists()


def test_a_folder_that_may_not_be_written_is_an_error_with_a_remedy(path, run, tmp_path):
    tmp_path.chmod(0o755)
    printed = run("""
        import os, seekset, seekset.indexing, seekset.tfrecord
        os.chmod(".", 0o555)
        if os.geteuid() == 0:  # root may write everywhere, so be nobody
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        try:
            seekset.ensure_tfrecord_indexes("x.tfrecord")
        except PermissionError as error:
            print(error.filename, error.strerror)
    """)
    tmp_path.chmod(0o755)
    assert printed.startswith("x.tfrecord.idx Permission denied; write it elsewhere with create_tfrecord_index(path, ")
