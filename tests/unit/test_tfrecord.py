"""TFRecordFile: payloads by row, one at a time and many in one call."""

import concurrent.futures
import copy
import gc
import io
import itertools
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import seekset
from frames import header, lines, record, records, unchecked

PAYLOADS = [b"one", b"", b"three", b"fourfour"]


@pytest.fixture
def path(write):
    return write(records(*PAYLOADS), "x.tfrecord")


@pytest.fixture(params=["mmap", "pread"])
def tf(path, request):
    return seekset.TFRecordFile(path, io=request.param)


# --- a sequence -----------------------------------------------------------------------------------------------------


def test_it_is_a_sequence_of_payloads(tf):
    assert len(tf) == 4
    assert list(tf) == PAYLOADS
    assert [tf[row] for row in range(-4, 4)] == PAYLOADS * 2
    assert list(reversed(tf)) == PAYLOADS[::-1]
    assert b"three" in tf
    assert tf.index(b"three") == 2
    assert bool(tf)


@pytest.mark.parametrize("start", [None, 0, 2, -1, 9])
@pytest.mark.parametrize("stop", [None, 0, 3, -1, 9])
@pytest.mark.parametrize("step", [None, 1, 2, -1, -3])
def test_slices_are_those_of_a_list(tf, start, stop, step):
    assert tf[start:stop:step] == PAYLOADS[start:stop:step]


@pytest.mark.parametrize(
    "rows", [[3, 0, 3], (1,), [], np.array([2, -1]), np.uint8([1, 2]), range(4), iter([0, -4]), {2}]
)
def test_many_rows_come_in_the_order_asked(tf, rows):
    again, rows = itertools.tee(rows) if isinstance(rows, Iterator) else (rows, rows)
    assert tf.get_many(rows) == [PAYLOADS[row] for row in again]


def test_rows_may_be_what_numpy_calls_integers(tf):
    assert tf[np.int64(2)] == tf[np.uint8(2)] == b"three"


@pytest.mark.parametrize("row", [4, -5, 2**70])
def test_a_row_out_of_range_is_an_index_error(tf, row):
    for read in (tf.__getitem__, tf.view, tf.entry):
        with pytest.raises(IndexError, match=f"row {row} is out of range: there are 4 rows, 0 to 3"):
            read(row)


@pytest.mark.parametrize("rows", [[0, 4], [-5], np.array([2**63], dtype=np.uint64)])
def test_rows_out_of_range_are_an_index_error(tf, rows):
    with pytest.raises(IndexError, match="out of range"):
        tf.get_many(rows)


@pytest.mark.parametrize("row", ["0", 1.0, True, None, b"0", [0]])
def test_what_is_no_row_is_a_type_error(tf, row):
    with pytest.raises(TypeError, match="asked for by row"):
        tf[row]


@pytest.mark.parametrize("rows", [["0"], [1.5], np.array([0.0])])
def test_what_are_no_rows_is_a_type_error(tf, rows):
    with pytest.raises(TypeError, match="rows must be integers"):
        tf.get_many(rows)


def test_an_empty_file_has_no_rows(write):
    tf = seekset.TFRecordFile(write(b"", "x.tfrecord"))
    assert (len(tf), list(tf), tf[:], tf.get_many([])) == (0, [], [], [])
    assert not tf
    with pytest.raises(IndexError, match="there are no rows"):
        tf[0]


def test_many_records_come_right(write, in_threads):
    rng = np.random.default_rng(3)
    payloads = [rng.bytes(n) for n in rng.integers(0, 700, 3000)]
    path = write(records(*payloads), "x.tfrecord")
    rows = rng.integers(0, 3000, 5000)
    expected = [payloads[row] for row in rows]
    for io_ in ("mmap", "pread"):
        for verify in ("lengths", "full", None):
            tf = seekset.TFRecordFile(path, io=io_, verify=verify)
            assert in_threads(lambda tf=tf: tf.get_many(rows) == expected) == [True] * 3
            assert list(tf) == payloads


def test_a_large_record_comes_right(write):
    payload = np.random.default_rng(3).bytes(3_000_000)
    path = write(records(b"x", payload), "x.tfrecord")
    for options in ({}, {"verify": "full"}, {"io": "pread", "verify": "full"}):
        tf = seekset.TFRecordFile(path, **options)
        assert tf[1] == payload
        assert tf.view(1) == payload


def test_entries_say_where_rows_lie(tf):
    assert [tf.entry(row) for row in range(4)] == [(0, 19), (19, 16), (35, 21), (56, 24)]
    assert tf.entry(-1) == (56, 24)


# --- views ----------------------------------------------------------------------------------------------------------


def test_a_view_is_read_only_memory(tf):
    view = tf.view(-1)
    assert isinstance(view, memoryview)
    assert (view.readonly, view.format, view.nbytes, bytes(view)) == (True, "B", 8, b"fourfour")
    assert np.frombuffer(view, np.uint8)[0] == ord("f")
    with pytest.raises(TypeError):
        view[0] = 1


def test_a_view_outlives_its_handle(path):
    tf = seekset.TFRecordFile(path)
    views = [tf.view(row) for row in range(4)]
    tf.close()
    del tf
    gc.collect()
    assert [bytes(view) for view in views] == PAYLOADS


def test_a_view_is_of_the_mapping_itself(write):
    tf = seekset.TFRecordFile(write(records(bytes(1_000_000)), "x.tfrecord"))
    addresses = {np.frombuffer(tf.view(0), np.uint8).__array_interface__["data"][0] for _ in range(3)}
    assert len(addresses) == 1


# --- opening and closing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, bytes, lambda path: path, lambda path: memoryview(bytes(path)).tobytes()])
def test_a_path_is_what_open_takes(path, kind):
    assert seekset.TFRecordFile(kind(path) if kind is not bytes else bytes(path))[0] == b"one"


def test_a_closed_handle_is_a_value_error(path):
    with seekset.TFRecordFile(path) as tf:
        assert tf[0] == b"one"
    for use in (lambda: tf[0], lambda: len(tf), lambda: tf.get_many([0]), lambda: tf.view(0), lambda: list(tf)):
        with pytest.raises(ValueError, match="is closed"):
            use()


def test_its_repr_says_what_it_is(path):
    tf = seekset.TFRecordFile(path)
    assert repr(tf) == f"<TFRecordFile {str(path)!r}, 4 records>"
    assert repr(pickle.loads(pickle.dumps(tf))) == f"<TFRecordFile {str(path)!r}, not open yet>"
    tf.close()
    assert repr(tf) == f"<TFRecordFile {str(path)!r}, closed>"


def test_nothing_is_written_when_a_file_is_opened(tf, names):
    list(tf)
    assert names() == ["x.tfrecord"]


def test_missing_files_are_file_not_found_errors(path, tmp_path):
    for options in ({"path": tmp_path / "missing"}, {"path": path, "index": tmp_path / "missing"}):
        with pytest.raises(FileNotFoundError) as error:
            seekset.TFRecordFile(**options)
        assert error.value.filename == str(tmp_path / "missing")


@pytest.mark.parametrize("option", [{"verify": "none"}, {"verify": "all"}, {"verify": 1}, {"io": "read"}])
def test_unknown_options_are_value_errors(path, option):
    with pytest.raises(ValueError, match="must be"):
        seekset.TFRecordFile(path, **option)


def test_progress_is_told_in_bytes(path):
    told = []
    seekset.TFRecordFile(path, progress=lambda *bytes_: told.append(bytes_))
    assert told[-1] == (80, 80)


# --- indexes --------------------------------------------------------------------------------------------------------


def test_an_index_beside_the_file_is_used(path):
    assert seekset.TFRecordFile(path).index_path is None
    seekset.create_tfrecord_index(path)
    tf = seekset.TFRecordFile(path)
    assert tf.index_path == path.with_name("x.tfrecord.idx")
    assert list(tf) == PAYLOADS
    assert seekset.TFRecordFile(path, index=False).index_path is None


@pytest.mark.parametrize(
    "index, rows",
    [
        ("56 24\n0 19\n", [3, 0]),
        ("35 21\n35 21\n", [2, 2]),
        ("0 19\n19 16\n", [0, 1]),
        ("", []),
        ("\n\t35  21\r\n\r\n0 19", [2, 0]),
    ],
)
def test_the_rows_of_a_given_index_are_the_rows(path, write, index, rows):
    tf = seekset.TFRecordFile(path, index=write(index.encode(), "given.idx"))
    assert list(tf) == [PAYLOADS[row] for row in rows]
    assert pickle.loads(pickle.dumps(tf))[:] == list(tf)


def test_an_index_of_ones_own_beside_the_file_is_honoured_as_by_dali(path, write):
    write(b"56 24\n19 16\n", "x.tfrecord.idx")
    assert list(seekset.TFRecordFile(path)) == [b"fourfour", b""]
    assert list(seekset.TFRecordFile(path, index=False)) == PAYLOADS


@pytest.mark.parametrize("index", [b"0 20\n", b"0 19\n19 16\n35 21\n56 99\n", b"1 19\n", b"80 16\n", b"0 0\n"])
def test_an_index_of_another_file_is_stale(path, write, index):
    for options in ({"index": write(index, "given.idx")}, {}):
        write(index, "x.tfrecord.idx")
        with pytest.raises(
            seekset.StaleIndexError, match=r"x\.tfrecord: its index does not fit: row \d has a record of"
        ):
            seekset.TFRecordFile(path, **options)


def test_an_index_beside_a_file_that_has_grown_is_stale(path):
    seekset.create_tfrecord_index(path)
    with path.open("ab") as file:
        file.write(record(b"more"))
    with pytest.raises(seekset.StaleIndexError, match=r"ends at byte 80, but the file has 100 bytes.*x\.tfrecord\.idx"):
        seekset.TFRecordFile(path)


def test_an_index_that_is_none_is_a_format_error_with_its_line(path, write):
    write(b"0 19\n19 sixteen\n", "x.tfrecord.idx")
    with pytest.raises(seekset.FormatError, match=r"x\.tfrecord\.idx: line 2: expected a number, found 'sixteen'"):
        seekset.TFRecordFile(path)


# --- verification ---------------------------------------------------------------------------------------------------


def flipped(at):
    data = bytearray(records(*PAYLOADS))
    data[at] ^= 0x10
    return bytes(data)


@pytest.mark.parametrize("io_", ["mmap", "pread"])
@pytest.mark.parametrize("at", [35 + 12, 35 + 16, 35 + 17, 35 + 20])
def test_a_damaged_payload_is_noticed_when_it_is_read_in_full(write, at, io_):
    path = write(flipped(at), "x.tfrecord")
    tf = seekset.TFRecordFile(path, verify="full", io=io_)
    assert tf[1] == b""
    for read in (lambda: tf[2], lambda: tf.view(2), lambda: tf.get_many([0, 2]), lambda: tf[:], lambda: list(tf)):
        with pytest.raises(seekset.CorruptRecordError, match=r"x\.tfrecord: record 2, byte 35: the payload's checksum"):
            read()
    assert len(list(seekset.TFRecordFile(path, io=io_))) == 4


@pytest.mark.parametrize("at", range(35, 35 + 12))
def test_a_damaged_header_is_noticed_at_open(write, at):
    path = write(flipped(at), "x.tfrecord")
    for verify in ("lengths", "full"):
        with pytest.raises(
            seekset.CorruptRecordError, match=r"x\.tfrecord: record 2, byte 35: the length's .*verify=None"
        ):
            seekset.TFRecordFile(path, verify=verify)


def test_a_damaged_header_that_the_index_passed_over_is_noticed_when_it_is_read(write):
    payloads = [b"%d" % k for k in range(1000)]
    data = bytearray(records(*payloads))
    at = int(lines(*payloads).splitlines()[501].split()[0])
    data[at + 9] ^= 1
    path = write(data, "x.tfrecord")
    write(lines(*payloads).encode(), "x.tfrecord.idx")
    tf = seekset.TFRecordFile(path)
    with pytest.raises(seekset.CorruptRecordError, match=f"record 501, byte {at}: the length's checksum"):
        tf[501]
    assert seekset.TFRecordFile(path, verify=None)[501] == b"501"


def test_files_without_checksums_are_read_if_that_is_asked_for(write):
    path = write(unchecked(*PAYLOADS), "x.tfrecord")
    assert list(seekset.TFRecordFile(path, verify=None)) == PAYLOADS
    with pytest.raises(seekset.CorruptRecordError, match="verify=None"):
        seekset.TFRecordFile(path)


# --- files that change ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io_", ["mmap", "pread"])
def test_a_file_that_is_cut_while_it_is_open_is_stale(path, io_):
    tf = seekset.TFRecordFile(path, io=io_)
    with path.open("r+b") as file:
        file.truncate(40)
    for read in (lambda: tf.get_many([3]), lambda: tf[:]):
        with pytest.raises(seekset.StaleIndexError, match="its size was 80 bytes when it was opened and is 40 now"):
            read()


# --- handles elsewhere ----------------------------------------------------------------------------------------------


def test_a_handle_pickles_by_its_arguments(path, write, tmp_path, monkeypatch):
    write(b"35 21\n", "given.idx")
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(seekset.TFRecordFile("x.tfrecord", index="given.idx", io="pread", verify="full"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(data)
    assert (list(again), again.path, again.index_path) == ([b"three"], path, tmp_path / "given.idx")
    arguments = {"index": tmp_path / "given.idx", "rebuild": True, "verify": "full", "io": "pread"}
    assert again._options.items() >= arguments.items()


def test_a_copy_is_a_handle_of_its_own(path):
    tf = seekset.TFRecordFile(path, index=False)
    again = copy.copy(tf)
    tf.close()
    assert again[0] == b"one"


def test_a_closed_handle_stays_closed_in_its_pickle_and_its_copy(path):
    tf = seekset.TFRecordFile(path)
    tf.close()
    for again in (pickle.loads(pickle.dumps(tf)), copy.copy(tf)):
        assert "closed" in repr(again)
        with pytest.raises(ValueError, match=r"x\.tfrecord is closed"):
            again[0]


def test_many_threads_may_read_one_handle(write):
    payloads = [b"%d" % k * (k % 50) for k in range(2000)]
    tf = seekset.TFRecordFile(write(records(*payloads), "x.tfrecord"), verify="full")

    def read(seed):
        rows = np.random.default_rng(seed).integers(0, 2000, 300)
        expected = [payloads[row] for row in rows]
        return tf.get_many(rows) == expected and [tf[row] for row in rows] == expected

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(40))) == [True] * 40


CHILDREN = """
    import multiprocessing, sys
    import numpy as np
    import seekset

    ROWS = np.arange(5000)[::-1].copy()

    def child(tf, send):
        send.send((tf.get_many(ROWS), tf[7], bytes(tf.view(9))))

    if __name__ == "__main__":
        seekset.set_threads(4)
        tf = seekset.TFRecordFile(sys.argv[1], verify="full")
        expected = (tf.get_many(ROWS), tf[7], bytes(tf.view(9)))
        context = multiprocessing.get_context(sys.argv[2])
        for _ in range(2):
            receive, send = context.Pipe(duplex=False)
            process = context.Process(target=child, args=(tf, send), daemon=True)
            process.start()
            assert receive.poll(200), "the child hangs"
            assert receive.recv() == expected
            process.join(200)
            assert process.exitcode == 0
        print("the children read what the parent reads")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_handles_work_in_children_of_every_start_method(run, write, method):
    path = write(records(*(b"%d" % k * 9 for k in range(5000))), "x.tfrecord")
    assert run(CHILDREN, path, method) == "the children read what the parent reads\n"


def test_a_stream_of_any_kind_can_be_indexed():
    from seekset import _core

    data = records(*PAYLOADS)
    assert _core.index_tfrecord_stream(io.BytesIO(data), "x") == (4, lines(*PAYLOADS))

    class Broken:
        def read(self, _):
            raise RuntimeError("the cable was pulled")

    with pytest.raises(RuntimeError, match="the cable was pulled"):
        _core.index_tfrecord_stream(Broken(), "x")

    class Greedy:
        def read(self, size):
            return bytes(size + 1)

    with pytest.raises(ValueError, match=r"read\(\d+\) gave \d+ bytes"):
        _core.index_tfrecord_stream(Greedy(), "x")
    with pytest.raises(seekset.CorruptRecordError, match=r"x: record 3, byte 56: .*the file is cut"):
        _core.index_tfrecord_stream(io.BytesIO(data[:-1]), "x")


LONG = """
    import resource
    import seekset
    from seekset import _core

    seekset.set_threads(1)
    mapped, read = (seekset.TFRecordFile("x.tfrecord", io=io) for io in ("mmap", "pread"))
    mapped[1], read[1]
    # A feature "x" of one byte string that takes all of the payload but what is around it.
    def field(tag, content):
        size, lengths = len(content), b""
        while size >= 128:
            lengths, size = lengths + bytes([size % 128 + 128]), size // 128
        return bytes([tag]) + lengths + bytes([size]) + content

    example = field(10, field(10, field(10, b"x") + field(18, field(10, field(10, bytes(128 << 20))))))
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    for work in (
        lambda: mapped[0],
        lambda: mapped.get_many([0]),
        lambda: mapped.get_many([1, 0]),
        lambda: read[0],
        lambda: read.get_many([1, 0]),
        lambda: _core.decode_example(example),
    ):
        try:
            print(len(work()))
        except MemoryError:
            print("too long")
    print(mapped[1], read.get_many([1]))
"""


def test_a_record_that_memory_has_no_room_for_is_a_memory_error(run, write):
    """However it is read; and what fits is still read afterwards."""
    path, size = write(header(128 << 20), "x.tfrecord"), 128 << 20
    with path.open("r+b") as file:
        file.truncate(size + 16)
        file.seek(0, io.SEEK_END)
        file.write(record(b"small"))
    assert run(LONG).split("\n") == [*["too long"] * 6, "b'small' [b'small']", ""]
