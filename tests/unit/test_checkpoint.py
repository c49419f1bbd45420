"""Chunk files: what was written is read, and whatever is wrong with a file is told, never a wrong vector."""

import json
import os
import platform
import re
import resource
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load

from seekset.errors import FormatError, MismatchError, StaleIndexError
from seekset.inference.checkpoint import ChunkStore, Survey
from seekset.inference.chunk_file import examine
from seekset.inference.results import Failure, Result, Span

VECTORS = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
FAILURE = Failure(11, 5, "poison", "the encoder gave nan")
CHECK_AT = 8 + len('{"__metadata__":{"seekset.check":"')


@pytest.fixture
def store(tmp_path):
    return ChunkStore(tmp_path / "chunks", run="4f1d")


def result(start=10, rows=(7, 3, 9), vectors=VECTORS, failures=(FAILURE,), counts=None, end=None):
    end = start + len(rows) + len(failures) if end is None else end
    counts = None if counts is None else np.array(counts)
    return Result(Span(start, end), np.array(rows, np.int64), vectors, counts, list(failures))


def plain(start, end, width=4):
    """Pieces from start to before end, without failures; the row of piece k is k, its vector k, k, k, …"""
    rows = np.arange(start, end)
    return Result(Span(start, end), rows, np.repeat(rows[:, None], width, 1).astype(np.float32))


def failed(piece, reason="poison"):
    told = Failure(piece, piece, f"id_{piece}", reason)
    return Result(Span(piece, piece + 1), np.zeros(0, np.int64), np.zeros((0, 0), np.float32), failures=[told])


def same(one, other):
    assert (one.span, one.failures) == (other.span, other.failures)
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.vectors, other.vectors)
    assert one.vectors.dtype == other.vectors.dtype
    assert (one.counts is None) == (other.counts is None)
    if one.counts is not None:
        np.testing.assert_array_equal(one.counts, other.counts)


def read(path):
    """What a file holds, as whoever puts results together reads it: examined, then mapped."""
    chunk = examine(path)
    rows, counts, vectors, _ = chunk.arrays()
    return Result(chunk.span, rows, vectors, counts, list(chunk.failures))


def files(survey):
    return [chunk.path for chunk in survey.chunks]


def forged(path, change):
    """Change a file's header, and make the checksum fit."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    header["__metadata__"]["seekset.check"] = "00000000"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return sealed(path, len(text).to_bytes(8, "little") + text + data[8 + length :])


def sealed(path, data):
    """Write bytes with the checksum that fits them."""
    data = data[:CHECK_AT] + b"00000000" + data[CHECK_AT + 8 :]
    path.write_bytes(data[:CHECK_AT] + b"%08x" % zlib.crc32(data) + data[CHECK_AT + 8 :])
    return path


# --- what was written is read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        result(),
        result(vectors=VECTORS.astype(np.float16), failures=()),
        result(counts=[2, 0, 1]),
        result(counts=[0, 0, 0], vectors=np.zeros((0, 4), np.float32)),
        result(11, (), np.zeros((0, 4), np.float32)),
        result(11, (), np.zeros((0, 0), np.float16), counts=[]),
        result(vectors=np.asfortranarray(VECTORS)),
        result(vectors=np.full((3, 1), np.nan, np.float32)),
        result(failures=[FAILURE, Failure(13, 2, 'é"\\\n\ud800', "out of memory\n" * 3)]),
    ],
)
def test_what_was_written_is_read(store, written):
    same(read(store.write(written)), written)


@given(st.data())
def test_any_result_is_read_as_it_was_written(scratch, data):
    size = data.draw(st.integers(1, 20))
    lost = data.draw(st.sets(st.integers(0, size - 1)))
    rows = np.array(data.draw(st.permutations(range(size))), np.int64)
    start, width = data.draw(st.integers(0, 10**12)), data.draw(st.integers(1, 5))
    kept = rows[: size - len(lost)]
    counts = data.draw(st.none() | st.lists(st.integers(0, 4), min_size=kept.size, max_size=kept.size))
    height = kept.size if counts is None else sum(counts)
    vectors = np.random.default_rng(0).random((height, width)).astype(data.draw(st.sampled_from(["f4", "f2"])))
    failures = [
        Failure(start + at, int(row), data.draw(st.text()), data.draw(st.text()))
        for at, row in zip(sorted(lost), rows[kept.size :], strict=True)
    ]
    own = ChunkStore(scratch(b"").with_suffix(".chunks"), run=data.draw(st.text()))
    written = result(start, kept, vectors, failures, counts)
    same(read(own.write(written)), written)


def test_the_file_is_one_that_safetensors_reads(store):
    path = store.write(result(counts=[2, 0, 1]))
    assert path.name == "000000000010-000000000014.safetensors"
    found = load(path.read_bytes())
    np.testing.assert_array_equal(found["rows"], [7, 3, 9])
    np.testing.assert_array_equal(found["counts"], [2, 0, 1])
    np.testing.assert_array_equal(found["vectors"], VECTORS)
    with safe_open(path, "np") as file:
        told = file.metadata()
    assert (told["seekset.kind"], told["seekset.version"], told["seekset.run"]) == ("chunk", "1", "4f1d")
    assert told["seekset.span"] == "10 14"
    assert json.loads(told["seekset.failures"]) == [list(FAILURE)]


def test_safetensors_reads_a_file_without_vectors(store):
    assert load(store.write(failed(3)).read_bytes())["vectors"].shape == (0, 0)


def test_the_bytes_of_a_file(store):
    path = store.write(result(0, [1], np.array([[1, 2]], np.float16), ()))
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 8 == 0
    check, text = data[CHECK_AT : CHECK_AT + 8], data[8 : 8 + length]
    assert zlib.crc32(data.replace(check, b"00000000")) == int(check, 16)
    assert text.rstrip().replace(check, b"########").decode() == (
        '{"__metadata__":{"seekset.check":"########","seekset.kind":"chunk","seekset.version":"1","seekset.run":"4f1d",'
        '"seekset.span":"0 1","seekset.failures":"[]"},'
        '"rows":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},'
        '"vectors":{"dtype":"F16","shape":[1,2],"data_offsets":[8,12]}}'
    )
    assert data[8 + length :] == bytes.fromhex("0100000000000000 003c 0040")


def test_a_long_reason_is_shortened(store):
    told = read(store.write(failed(0, "x" * 100_000))).failures[0].reason
    assert told == "x" * 1000


@pytest.mark.parametrize(
    "wrong, told",
    [
        (result(end=15), "3 rows and 1 failures don't make the 5 pieces"),
        (result(end=10), "not in order within"),
        (result(start=-1, failures=()), "not in order within"),
        (result(failures=[Failure(14, 5, "a", "")]), "not in order within"),
        (result(failures=[FAILURE, FAILURE]), "not in order within"),
        (result(rows=(7, 3, 7)), "each once"),
        (result(rows=(7, 3, -1)), "each once"),
        (result(rows=(7, 3, 5)), "each once"),
        (result(vectors=VECTORS[:2]), "2 vectors for 3 rows"),
        (result(vectors=VECTORS[:, :0]), r"the shape \(3, 0\)"),
        (result(vectors=VECTORS[0, :3]), r"the shape \(3,\)"),
        (result(counts=[2, 2, 1]), "don't make 3"),
        (result(counts=[4, -1, 0]), "don't make 3"),
        (result(counts=[3]), "1 counts"),
        (result(vectors=VECTORS.astype(np.float64)), "float32 or float16, but are float64"),
    ],
)
def test_what_is_no_result_is_not_written(store, wrong, told):
    with pytest.raises(MismatchError, match=told):
        store.write(wrong)
    assert list(store.folder.iterdir()) == []


# --- whatever is wrong with a file ----------------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_refused(store):
    path = store.write(result(counts=[2, 0, 1]))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=re.escape(str(path))):
            read(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(FormatError, match="checksum"):
        read(path)


def test_a_flipped_bit_anywhere_is_found(store):
    path = store.write(result(counts=[2, 0, 1]))
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (0, 3, 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            with pytest.raises(FormatError, match=re.escape(str(path))):
                read(path)


def deep(header):
    header["more"] = None
    for _ in range(5):
        header["more"] = [header["more"]]


LIES = {
    "kind": lambda header: header["__metadata__"].update({"seekset.kind": "plan"}),
    "version": lambda header: header["__metadata__"].update({"seekset.version": "2"}),
    "no version": lambda header: header["__metadata__"].pop("seekset.version"),
    "no run": lambda header: header["__metadata__"].pop("seekset.run"),
    "run is a number": lambda header: header["__metadata__"].update({"seekset.run": 4}),
    "span of one number": lambda header: header["__metadata__"].update({"seekset.span": "10"}),
    "span of no numbers": lambda header: header["__metadata__"].update({"seekset.span": "a b"}),
    "span of many digits": lambda header: header["__metadata__"].update({"seekset.span": "1" * 5000 + " 2"}),
    "span is a list": lambda header: header["__metadata__"].update({"seekset.span": [10, 14]}),
    "another span": lambda header: header["__metadata__"].update({"seekset.span": "11 15"}),
    "a longer span": lambda header: header["__metadata__"].update({"seekset.span": "10 15"}),
    "an empty span": lambda header: header["__metadata__"].update({"seekset.span": "10 10"}),
    "failures are no JSON": lambda header: header["__metadata__"].update({"seekset.failures": "["}),
    "failures nest": lambda header: header["__metadata__"].update({"seekset.failures": "[" * 100_000}),
    "failures of three": lambda header: header["__metadata__"].update({"seekset.failures": "[[11,5,[]]]"}),
    "failures of true": lambda header: header["__metadata__"].update({"seekset.failures": '[[11,true,"a","b"]]'}),
    "a failure elsewhere": lambda header: header["__metadata__"].update({"seekset.failures": '[[99,5,"a","b"]]'}),
    "a failed row that has a vector": lambda header: header["__metadata__"].update(
        {"seekset.failures": '[[11,7,"a","b"]]'}
    ),
    "no metadata": lambda header: header.update({"__metadata__": {"seekset.check": ""}}),
    "no rows": lambda header: header.pop("rows"),
    "no vectors": lambda header: header.pop("vectors"),
    "no counts": lambda header: header.pop("counts"),
    "one more tensor": lambda header: header.update(
        more={"dtype": "F32", "shape": [0], "data_offsets": [96, 96]},
    ),
    "something else": deep,
    "rows of another type": lambda header: header["rows"].update(dtype="F64"),
    "vectors of another type": lambda header: header["vectors"].update(dtype="I32"),
    "vectors of an unhashable type": lambda header: header["vectors"].update(dtype=["F32"]),
    "half as large": lambda header: header["vectors"].update(dtype="F16"),
    "half as large and twice as wide": lambda header: header["vectors"].update(dtype="F16", shape=[6, 4]),
    "wider": lambda header: header["vectors"].update(shape=[3, 5]),
    "transposed": lambda header: header["vectors"].update(shape=[4, 3]),
    "one axis": lambda header: header["vectors"].update(shape=[12]),
    "no shape": lambda header: header["vectors"].update(shape="34"),
    "negative": lambda header: header["vectors"].update(shape=[-3, -4]),
    "absurd": lambda header: header["vectors"].update(shape=[2**62, 2**62]),
    "absurd but empty": lambda header: header["vectors"].update(shape=[0, 2**62]),
    "without width": lambda header: header["vectors"].update(shape=[2**62, 0], data_offsets=[48, 48]),
    "many rows": lambda header: header["rows"].update(shape=[2**60]),
    "fewer counts": lambda header: header["counts"].update(shape=[2], data_offsets=[24, 40]),
    "offsets beyond the file": lambda header: header["vectors"].update(data_offsets=[48, 2**40]),
    "offsets backwards": lambda header: header["vectors"].update(data_offsets=[96, 48]),
    "offsets overlap": lambda header: header["vectors"].update(data_offsets=[0, 48]),
    "offsets are text": lambda header: header["vectors"].update(data_offsets="48 96"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused_even_if_its_checksum_fits(store, lie):
    path = store.write(result(counts=[2, 0, 1]))
    forged(path, dict)
    same(read(path), result(counts=[2, 0, 1]))
    forged(path, LIES[lie])
    with pytest.raises(FormatError, match=re.escape(str(path))):
        read(path)


@pytest.mark.parametrize("size", [0, 7, 2**20, 2**63, 2**64 - 1])
def test_a_header_length_that_lies_is_refused_and_allocates_nothing(store, size):
    path = store.write(result())
    sealed(path, size.to_bytes(8, "little") + path.read_bytes()[8:])
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=re.escape(str(path))):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_large_file_of_nothing_is_refused_and_allocates_nothing(store):
    path = store.folder / "000000000000-000000000001.safetensors"
    path.write_bytes((1 << 40).to_bytes(8, "little") + b'{"__metadata__":{"seekset.check":"00000000"')
    os.truncate(path, 2**41)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=f"its header has {1 << 40} bytes"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [-1, 2**62, -(2**63)])
def test_numbers_that_lie_are_refused_even_if_the_checksum_fits(store, value):
    path = store.write(result(counts=[2, 0, 1], failures=()))
    whole = path.read_bytes()
    data = 8 + int.from_bytes(whole[:8], "little")
    for at in (data + 24, data + 32):
        sealed(path, whole[:at] + value.to_bytes(8, "little", signed=True) + whole[at + 8 :])
        with pytest.raises(FormatError, match="counts"):
            read(path)


def test_counts_whose_sum_overflows_are_refused(store):
    path = store.write(result(counts=[2, 0, 1], failures=()))
    whole = path.read_bytes()
    data = 8 + int.from_bytes(whole[:8], "little")
    lies = np.array([2**63 - 1, 2**63 - 1, 5], "<i8")
    assert lies.sum() == 3
    sealed(path, whole[: data + 24] + lies.tobytes() + whole[data + 48 :])
    with pytest.raises(FormatError, match="counts"):
        read(path)


def test_other_things_in_the_place_of_a_file_are_refused(store):
    path = store.folder / "000000000000-000000000001.safetensors"
    path.mkdir()
    with pytest.raises(FormatError, match="it is a folder"):
        read(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(FormatError, match="it is no file"):
        read(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read(path)


def test_a_file_under_another_name_is_refused(store):
    path = store.write(plain(0, 3))
    with pytest.raises(FormatError, match="000000000000-000000000003"):
        read(path.rename(path.with_name("000000000003-000000000006.safetensors")))


def test_a_file_that_changes_after_it_was_examined_is_not_read(store):
    path = store.write(plain(0, 3))
    chunk = examine(path)
    os.truncate(path, 300)
    with pytest.raises(StaleIndexError, match="it has changed"):
        chunk.arrays()


# --- a survey -------------------------------------------------------------------------------------------------------


def test_a_survey_of_nothing(store):
    survey = store.survey()
    assert (survey.chunks, survey.damaged, survey.failures) == ([], [], [])
    assert survey.missing([Span(0, 2), Span(2, 5)]) == [Span(0, 2), Span(2, 5)]
    assert survey.missing([]) == []


def test_what_is_missing_is_cut_at_chunks_and_failures_stand_alone(store):
    for written in (plain(2, 4), plain(8, 9), failed(6), failed(12)):
        store.write(written)
    survey = store.survey()
    assert files(survey) == sorted(store.folder.iterdir())
    np.testing.assert_array_equal(np.flatnonzero(survey.done(15)), [2, 3, 8])
    assert [failure.piece for failure in survey.failures] == [6, 12]
    chunks = [Span(0, 3), Span(3, 10), Span(10, 15)]
    spans = [(0, 2), (4, 6), (6, 7), (7, 8), (9, 10), (10, 12), (12, 13), (13, 15)]
    assert survey.missing(chunks) == [Span(*span) for span in spans]
    assert survey.missing([Span(0, 3)]) == [Span(0, 2)]


def test_a_failure_counts_only_if_no_file_has_the_vector(store):
    store.write(result(10, [10, 12, 13], VECTORS, [Failure(11, 11, "a", "first")]))
    store.write(failed(11, "second"))
    assert [failure.reason for failure in store.survey().failures] == ["first"]
    store.write(plain(8, 12))
    survey = store.survey()
    assert survey.failures == []
    assert survey.missing([Span(8, 14)]) == []


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(1, 6), st.sets(st.integers(0, 5))), max_size=6))
def test_what_is_done_is_what_some_file_has_a_vector_for(scratch, drawn):
    own = ChunkStore(scratch(b"").with_suffix(".chunks"), run="4f1d")
    files = {}
    for start, size, lost in drawn:
        pieces = list(range(start, start + size))
        kept = [piece for piece in pieces if piece - start not in lost]
        failures = [Failure(piece, piece, "a", f"in {start}") for piece in pieces if piece not in kept]
        own.write(result(start, kept, np.zeros((len(kept), 2), np.float32), failures))
        files[start, start + size] = (kept, failures)
    survey = own.survey()
    done = {piece for kept, _ in files.values() for piece in kept}
    told = {}
    for key in sorted(files):
        for failure in files[key][1]:
            told.setdefault(failure.piece, failure)
    assert set(np.flatnonzero(survey.done(20)).tolist()) == done
    assert survey.failures == [told[piece] for piece in sorted(set(told) - done)]
    missing = [piece for span in survey.missing([Span(0, 7), Span(7, 20)]) for piece in range(*span)]
    assert missing == [piece for piece in range(20) if piece not in done]


def test_damaged_files_are_put_aside_and_told_and_computed_again(store):
    good, cut, flipped = store.write(plain(0, 2)), store.write(plain(2, 4)), store.write(plain(4, 6))
    os.truncate(cut, cut.stat().st_size - 1)
    data = bytearray(flipped.read_bytes())
    data[-1] ^= 1
    flipped.write_bytes(data)
    looked = store.survey(tidy=False)
    assert cut.exists()
    survey = store.survey()
    assert files(survey) == files(looked) == [good]
    assert survey.damaged == looked.damaged
    assert [path for path, _ in survey.damaged] == [cut, flipped]
    assert all(str(path) in why and "checksum" in why for path, why in survey.damaged)
    assert survey.missing([Span(0, 6)]) == [Span(2, 6)]
    assert sorted(path.name for path in store.folder.iterdir()) == [
        good.name,
        f"{cut.name}.damaged",
        f"{flipped.name}.damaged",
    ]
    assert store.survey().damaged == []
    store.write(plain(2, 6))
    assert store.survey().missing([Span(0, 6)]) == []


def test_files_of_another_run_are_left_alone_and_not_taken(store):
    path = ChunkStore(store.folder, run="other").write(plain(0, 2))
    survey = store.survey()
    assert (survey.chunks, survey.damaged, [chunk.path for chunk in survey.foreign]) == ([], [], [path])
    assert survey.missing([Span(0, 2)]) == [Span(0, 2)]
    assert path.exists()
    store.write(plain(0, 2))
    assert store.survey().foreign == []


def test_absurd_spans_cost_no_memory(store):
    store.write(plain(2**58, 2**58 + 1))
    assert store.survey().missing([Span(0, 2)]) == [Span(0, 2)]


def test_other_files_are_passed_over(store):
    for name in ("notes.txt", "0-1.safetensors", "000000000000-000000000001.safetensors.damaged"):
        (store.folder / name).write_bytes(b"")
    assert store.survey() == Survey()
    assert len(list(store.folder.iterdir())) == 3


def test_files_that_a_survey_has_seen_are_not_read_again_unless_they_have_changed(store):
    kept, changed, replaced = store.write(plain(0, 2)), store.write(plain(2, 4)), store.write(plain(4, 6))
    foreign = ChunkStore(store.folder, run="other").write(plain(6, 8))
    first = store.survey()
    # What is not looked at may be anything: its size, time and number are the same.
    for path in (kept, foreign):
        time_ns, size = path.stat().st_mtime_ns, path.stat().st_size
        with path.open("r+b") as file:
            file.write(bytes(size))
        os.utime(path, ns=(time_ns, time_ns))
    data = bytearray(changed.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    os.utime(changed, ns=(1, 1))
    store.write(plain(4, 6, width=5))
    new = store.write(plain(8, 9))
    second = store.survey(known=first)
    assert files(second) == [kept, replaced, new]
    assert [path for path, _ in second.damaged] == [changed]
    assert [chunk.path for chunk in second.foreign] == [foreign]
    assert [chunk.width for chunk in second.chunks] == [4, 5, 4]
    # Whoever has no earlier survey reads all of them.
    assert [path for path, _ in store.survey().damaged] == [kept, foreign]


def test_progress_is_told_in_bytes(store):
    sizes = [store.write(plain(start, start + 2)).stat().st_size for start in (0, 2, 4)]
    told = []
    store.survey(lambda *numbers: told.append(numbers))
    assert told == [(sizes[0] * n, sizes[0] * 3) for n in (1, 2, 3)]


# --- writers that are killed, many at once, without room -------------------------------------------------------------


def part(store, host, pid):
    path = store.folder / f".000000000000-000000000001.safetensors.{host}.{pid}.0123abcd.part"
    path.write_bytes(b"half")
    return path


def dead():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_what_dead_writers_left_is_swept(store):
    host = re.sub(r"[^A-Za-z0-9-]", "_", platform.node())
    gone, alive = part(store, host, dead()), part(store, host, os.getpid())
    elsewhere = part(store, f"{host}-2", dead())
    other = store.folder / ".notes.part"
    other.write_bytes(b"")
    store.survey(tidy=False)
    assert gone.exists()
    store.survey()
    assert sorted(store.folder.iterdir()) == sorted([alive, elsewhere, other])
    old = time.time() - 100
    os.utime(elsewhere, (old, old))
    store.survey(begun=old - 1)
    assert elsewhere.exists()
    store.survey(begun=old + 1)
    assert sorted(store.folder.iterdir()) == sorted([alive, other])


def test_a_killed_writer_leaves_what_the_next_survey_removes(store, program):
    source = """
        import os, signal, sys
        from pathlib import Path
        from seekset.publishing import published
        with published(Path(sys.argv[1]) / "000000000000-000000000001.safetensors") as part:
            part.write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run(program(source, store.folder), check=False)
    assert len(list(store.folder.iterdir())) == 1
    assert store.survey().chunks == []
    assert list(store.folder.iterdir()) == []


def test_writers_of_one_span_don_t_disturb_each_other(store):
    errors = []

    def write(value):
        try:
            for _ in range(20):
                store.write(Result(Span(0, 64), np.arange(64), np.full((64, 50), value, np.float32)))
        except BaseException as error:  # noqa: BLE001 (told by the test)
            errors.append(error)

    threads = [threading.Thread(target=write, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for path in files(store.survey()):
            # By one look: the next may be at another file.
            assert len(np.unique(load(path.read_bytes())["vectors"])) == 1
    assert errors == []
    assert len(list(store.folder.iterdir())) == 1


def test_a_file_s_mode_is_by_the_umask(store):
    mask = os.umask(0o027)
    try:
        assert store.write(plain(0, 1)).stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(mask)


def test_without_room_nothing_is_left_and_what_was_there_stays(store, run):
    path = store.write(plain(0, 2))
    before = path.read_bytes()
    source = """
        import errno, resource, sys
        from pathlib import Path
        import numpy as np
        from seekset.inference.checkpoint import ChunkStore
        from seekset.inference.results import Result, Span
        store = ChunkStore(Path(sys.argv[1]), run="4f1d")
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        try:
            store.write(Result(Span(0, 2), np.arange(2), np.ones((2, 5000), np.float32)))
        except OSError as error:
            print(errno.errorcode[error.errno])
    """
    assert run(source, store.folder) == "EFBIG\n"
    assert list(store.folder.iterdir()) == [path]
    assert path.read_bytes() == before


def test_a_store_survives_few_open_files(store):
    for start in range(0, 200, 2):
        store.write(plain(start, start + 2))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
    try:
        assert len(store.survey().chunks) == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
