"""The scan: what is a record, wherever the chunks of 1 MiB that it works in happen to end."""

import random

import pytest

import reference
import seekset

CHUNK = 1 << 20


def found(path):
    """All records as seekset finds them when it scans the file."""
    with seekset.Fasta(path, duplicates="first") as fa:
        fa.index_path.unlink()
        texts = fa.fetch_many(range(len(fa)))
        return [(fa[row].id, fa[row].description, text) for row, text in enumerate(texts)]


def filler(size):
    """A record of exactly `size` bytes in lines of 600 letters."""
    letters = b"ACGTTGCAGA" * 60
    lines = (letters + b"\n") * (size // 601 + 1)
    return (b">filler\n" + lines)[: size - 2] + b"A\n"


# Everything that could be torn apart: line ends of two bytes, header lines, blank lines, records without letters.
TORN = "AC\r\n\r\n>é>1 ü>\r\nGATTA\r\nCA\r\n>2\n>\n\nG G\n> 3\r\nTT\n".encode()


@pytest.mark.parametrize("shift", range(71))
def test_nothing_is_lost_where_two_chunks_meet(write, in_threads, shift):
    data = filler(CHUNK - shift) + TORN + b">rest\nACG\nT\n"
    path = write(data)
    assert in_threads(lambda: found(path)) == [reference.parse(data)] * 3


@pytest.mark.parametrize("shift", range(0, 71, 14))
def test_a_chunk_may_begin_the_file_with_blank_lines_only(write, shift):
    data = b"\r\n" * ((CHUNK - shift) // 2) + b" " * (shift % 2) + b"\n" + TORN.removeprefix(b"AC\r\n\r\n")
    assert found(write(data)) == reference.parse(data)


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_text_before_the_first_header_is_found_in_a_later_chunk(write, shift):
    data = b"\n" * (CHUNK - shift) + b"ACGT\n>a\nAC\n"
    line, byte = CHUNK - shift + 1, CHUNK - shift
    with pytest.raises(seekset.FormatError, match=f"line {line}, byte {byte}: expected '>'"):
        seekset.Fasta(write(data))


@pytest.mark.parametrize("shift", range(12))
def test_bad_bytes_are_placed_wherever_chunks_end(write, shift):
    start = filler(CHUNK - shift)
    line = start.count(b"\n") + 1
    for bad, offset in [(b"ACGT\0AC\n", 4), (b">a\xff\nAC\n", 2), (b"AC\n\xc3\xa9\n", 3)]:
        path = write(start + bad + b">rest\nACGT\n")
        at = (line + bad[:offset].count(b"\n"), len(start) + offset)
        with pytest.raises(seekset.FormatError, match=f"line {at[0]}, byte {at[1]}: "):
            seekset.Fasta(path)


@pytest.mark.parametrize(
    "data, line, byte",
    [
        (b">a one\rACGT\r>b\rAC\r", 1, 6),
        (b">a\rACGT", 1, 2),
        (b">a\nAC\n>b x\rAC\n>c\nG\n", 3, 10),
        (b">a\r\nAC\r\n>b\r\r x\r\n", 3, 10),
    ],
)
def test_a_carriage_return_that_would_swallow_what_follows_is_refused_with_the_remedy(write, data, line, byte):
    path = write(data)
    for work in (seekset.Fasta, seekset.faidx):
        with pytest.raises(seekset.FormatError, match=rf"x\.fa: line {line}, byte {byte}: expected LF .* tr '"):
            work(path)


def test_carriage_returns_at_the_end_of_a_header_are_harmless(write):
    assert [text for *_, text in found(write(b">a\r\r\nAC\r\r\n>b\r"))] == ["AC", ""]


def test_the_first_fault_of_a_file_is_the_one_reported(write, threads):
    data = filler(2 * CHUNK + 100) + b"AC\0\n" + b"ACGT\n" * CHUNK + b"\0\n"
    with pytest.raises(seekset.FormatError, match=f"byte {2 * CHUNK + 102}: "):
        seekset.Fasta(write(data))


@pytest.mark.parametrize("extra", [-2, -1, 0, 1, 2])
def test_a_header_line_may_be_longer_than_a_chunk(write, extra, threads):
    words = "x" * (2 * CHUNK + extra)
    data = f">a\nAC\n>long {words}\nGATTACA\n>{words}\nTT\n".encode()
    assert found(write(data)) == [("a", "a", "AC"), ("long", f"long {words}", "GATTACA"), (words, words, "TT")]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_a_record_of_one_line_may_span_many_chunks(write, threads, end):
    letters = "ACGTN" * (CHUNK - 3)
    path = write(b">a\nAC\n>long\n" + letters.encode() + end)
    with seekset.Fasta(path) as fa:
        assert fa.lengths.tolist() == [2, len(letters)]
        assert fa["long"].sequence == letters
        assert fa.fetch("long", 3 * CHUNK - 5, 3 * CHUNK + 5) == letters[3 * CHUNK - 5 : 3 * CHUNK + 5]
        assert fa["long"][-7:] == letters[-7:]
        assert fa["long"].reverse_complement(CHUNK, CHUNK + 9) == reference.reverse_complement(
            letters[CHUNK : CHUNK + 9]
        )


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_wrapped_record_may_span_many_chunks(write, threads, end):
    letters = "ACGTNTTACG" * (3 * CHUNK // 10)
    path = write(b">long" + end + reference.wrap(letters, 61, end) + b">b" + end + b"GG" + end)
    with seekset.Fasta(path) as fa:
        assert fa.fetch_many([0, 1]) == [letters, "GG"]
        assert fa["long"].reverse_complement() == reference.reverse_complement(letters)


def random_file(seed, size):
    """Records of all kinds, some MiB of them."""
    rng = random.Random(seed)
    lines, length, k = [], 0, 0
    while length < size:
        end = rng.choice([b"\n", b"\n", b"\r\n"])
        kind = rng.random()
        if kind < 0.2:
            k += 1
            line = f">record_{k} {'é' * rng.randrange(3)}".encode()
        elif kind < 0.3 and k:
            line = b" " * rng.randrange(3)
        elif k:
            line = bytes(rng.choices(b"ACGTacgt", k=rng.choice([0, 1, 7, 60, 60, 60, 200])))
        else:
            line = b""
        lines.append(line + end)
        length += len(lines[-1])
    return b"".join(lines)


@pytest.mark.parametrize("seed", [1, 2])
def test_records_do_not_depend_on_the_number_of_threads(write, in_threads, seed):
    data = random_file(seed, 2 * CHUNK + 1000)
    path = write(data)
    assert in_threads(lambda: found(path)) == [reference.parse(data)] * 3


@pytest.mark.parametrize("name", ["x.fa", "x.fa.gz"])
def test_the_index_does_not_depend_on_the_number_of_threads(write, bgzip, in_threads, name):
    data = random_file(3, 2 * CHUNK + 1000)
    path = write(bgzip.bytes(data) if name.endswith(".gz") else data, name)

    def index():
        with seekset.Fasta(path) as fa:
            content = fa.index_path.read_bytes()
            fa.index_path.unlink()
            return content

    assert len(set(in_threads(index))) == 1


def test_set_threads_is_what_threads_says(monkeypatch):
    seekset.set_threads(3)
    assert seekset.threads() == 3
    seekset.set_threads(0)
    monkeypatch.setenv("SEEKSET_THREADS", "7")
    assert seekset.threads() == 7


# --- progress -------------------------------------------------------------------------------------------------------


def test_progress_rises_to_the_size_of_the_file(write, threads):
    data = b"".join(b">%d\nACGT\n" % k for k in range(300_000))
    calls = []
    seekset.Fasta(write(data), progress=lambda done, total: calls.append((done, total)))
    assert {total for _, total in calls} == {len(data)}
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (len(data), len(data))


def test_progress_counts_the_letters_inside_a_compressed_file(write, bgzip):
    data = filler(2 * CHUNK)
    calls = []
    seekset.Fasta(bgzip(write(data)), progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (len(data), len(data))


def test_no_progress_is_told_when_the_index_is_there(write):
    path = write(b">a\nAC\n")
    seekset.Fasta(path).close()
    calls = []
    assert seekset.Fasta(path, progress=lambda *now: calls.append(now)).fetch("a") == "AC"
    assert calls == []


class OutOfPatienceError(Exception):
    pass


@pytest.mark.parametrize("size", [100, 5 * CHUNK])
def test_an_exception_from_the_callback_comes_out_and_nothing_is_left(write, names, threads, size):
    def progress(done, total):
        raise OutOfPatienceError(f"{done} of {total}")

    path = write(filler(size))
    with pytest.raises(OutOfPatienceError, match=f"of {size}"):
        seekset.Fasta(path, progress=progress)
    assert names() == ["x.fa"]
    with pytest.raises(OutOfPatienceError, match=f"of {size}"):
        seekset.faidx(path, progress=progress)
    assert names() == ["x.fa"]


def test_a_file_that_changes_while_it_is_scanned_gets_no_index(write, names):
    path = write(filler(2 * CHUNK))

    def progress(done, total):
        with path.open("ab") as file:
            file.write(b">more\nAC\n")

    with pytest.raises(seekset.StaleIndexError, match="size"):
        seekset.Fasta(path, progress=progress)
    with pytest.raises(seekset.StaleIndexError, match="size"):
        seekset.faidx(path, progress=progress)
    assert names() == ["x.fa"]
    assert list(seekset.Fasta(path, duplicates="first"))[:2] == ["filler", "more"]
