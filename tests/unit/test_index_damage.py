"""A damaged index can give an error, never a wrong answer and never a crash."""

import concurrent.futures
import multiprocessing
import resource
import struct

import pytest

import reference
import seekset
from seekset import _core

# Even, uneven, empty, and uneven over more than 64 KiB: every part of an index is in use.
LONG = "ACGTTGCAAC" * 7_000
RECORDS = {"even": "MKVLAAGIVG", "uneven": "MKVLA", "empty": "", "long": LONG, "last": "WY"}
DESCRIPTIONS = ["even one", "uneven two", "empty", "long", "last five"]
FILE = (
    b">even one\nMKVLA\nAGIVG\n>uneven two\nM\nKVL\nA\n>empty\n>long\nA\n"
    + reference.wrap(LONG[1:], 7_001)
    + b"\n>last five\nW\n\nY\n"
)


@pytest.fixture
def indexed(write):
    path = write(FILE)
    seekset.Fasta(path).close()
    return path


def index_of(path):
    return path.with_name("x.fa.sidx")


def put(path, content):
    """Puts another index in place of the old one, which somebody may still have open."""
    index_of(path).unlink()
    index_of(path).write_bytes(content)


# --- in a process of its own, because a crash must fail one test and not end them all -------------------------------


@pytest.fixture
def apart():
    """`apart(function, ...)` calls it in another process; if that dies, so does the test."""
    context = multiprocessing.get_context("spawn")
    limit = (resource.RLIMIT_AS, (4 << 30, 4 << 30))  # a length that is believed must not cost all memory
    with concurrent.futures.ProcessPoolExecutor(1, context, resource.setrlimit, limit) as pool:
        yield lambda *call: pool.submit(*call).result(timeout=300)


READS = {
    "ids": (list, list(RECORDS)),
    "by row": (lambda fa: fa.fetch_many(range(len(fa))), list(RECORDS.values())),
    "by id": (lambda fa: [fa.fetch(name) for name in RECORDS], list(RECORDS.values())),
    "part": (lambda fa: [fa.fetch(name, 1, 65_600) for name in RECORDS], [s[1:65_600] for s in RECORDS.values()]),
    "windows": (lambda fa: bytes(fa.gather_windows(["long"], [66_000], [9]).ravel()), LONG[66_000:66_009].encode()),
    "tokens": (lambda fa: fa.gather(["last"], tokens="esm").values.tolist(), [0, 22, 19, 2]),
    "backwards": (
        lambda fa: [record.reverse_complement() for record in fa.values()],
        [reference.reverse_complement(text) for text in RECORDS.values()],
    ),
    "descriptions": (lambda fa: [record.description for record in fa.values()], DESCRIPTIONS),
}


def outcome(path, options):
    """The ways to read that gave a wrong answer, or an error that is not seekset's own."""
    wrong = []
    try:
        fa = seekset.Fasta(path, **options)
    except seekset.SeeksetError:
        return wrong
    for name, (read, expected) in READS.items():
        try:
            right = read(fa) == expected
        except seekset.SeeksetError:
            right = True
        except Exception as error:  # noqa: BLE001 - whatever else it is, the test shows it
            wrong.append(f"{name}: {error!r}")
            continue
        wrong += [] if right else [name]
    fa.close()
    return wrong


def outcomes(path, damages, **options):
    """What came wrong of each damaged index; nothing where nothing did."""
    found = {}
    for name, content in damages:
        put(path, content)
        wrong = outcome(path, options)
        if wrong:
            found[name] = wrong
    return found


def flip(path, bits, rebuild):
    """Damages one byte after another; of those that lead to a new index, which takes its time, every third."""
    content = index_of(path).read_bytes()
    places = range(0, len(content), 3 if rebuild else 1)
    damages = ((at, content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]) for at in places)
    return outcomes(path, damages, rebuild=rebuild)


def change_numbers(path, to):
    """Every eight bytes of the index in turn become the number `to`."""
    content, number = index_of(path).read_bytes(), struct.pack("<Q", to)
    damages = ((at, content[:at] + number + content[at + 8 :]) for at in range(0, len(content) - 7, 8))
    return outcomes(path, damages, rebuild=False)


def test_the_undamaged_index_gives_the_right_answers(indexed):
    with seekset.Fasta(indexed, rebuild=False) as fa:
        assert {name: read(fa) for name, (read, _) in READS.items()} == {
            name: right for name, (_, right) in READS.items()
        }


@pytest.mark.parametrize("bits", [0x01, 0xFF])
def test_an_index_with_one_damaged_byte_gives_an_error_or_the_right_answer(apart, indexed, bits):
    assert apart(flip, indexed, bits, False) == {}


def test_an_index_with_one_damaged_byte_is_replaced_or_an_error_when_it_may_be_rebuilt(apart, indexed):
    assert apart(flip, indexed, 0x10, True) == {}


@pytest.mark.parametrize("to", [0, 1, 2**32, 2**63 - 1, 2**64 - 1])
def test_no_number_in_an_index_is_believed(apart, indexed, to):
    assert apart(change_numbers, indexed, to) == {}


# --- cut and stretched ----------------------------------------------------------------------------------------------


def test_a_truncated_index_is_refused(indexed):
    content = index_of(indexed).read_bytes()
    for length in range(0, len(content), 7):
        put(indexed, content[:length])
        with pytest.raises(seekset.StaleIndexError):
            seekset.Fasta(indexed, rebuild=False)


def test_a_truncated_index_is_built_anew(indexed):
    content = index_of(indexed).read_bytes()
    for length in [0, 1, 5, 6, 8, 64, 1000, len(content) // 2, len(content) - 11, len(content) - 1]:
        put(indexed, content[:length])
        assert outcome(indexed, {}) == []
        assert index_of(indexed).read_bytes() == content


def test_an_index_with_bytes_added_is_refused_or_right(indexed):
    content = index_of(indexed).read_bytes()
    longer = [("before", bytes(64) + content), ("behind", content + b"ARROW1"), ("twice", content + content)]
    assert outcomes(indexed, longer, rebuild=False) == {}


def test_verify_reads_all_of_an_index(indexed):
    content = index_of(indexed).read_bytes()
    assert _core.Fasta(indexed, build=False).verify() is None
    at = content.index(struct.pack("<Q", len(LONG)))
    put(indexed, content[:at] + b"\1" + content[at + 1 :])
    with pytest.raises(seekset.FormatError, match=r"x\.fa\.sidx: .*damaged"):
        _core.Fasta(indexed, build=False).verify()


@pytest.mark.parametrize("size", [0, 100])
def test_an_index_that_is_cut_while_it_is_open_is_no_crash(run, indexed, size):
    printed = run(
        """
        import os, sys, time, seekset
        fa = seekset.Fasta("x.fa")
        os.truncate("x.fa.sidx", int(sys.argv[1]))
        time.sleep(0.01)
        for read in (lambda: fa.fetch("even"), lambda: bytes(fa.gather([0]).values).decode(), lambda: list(fa)[0]):
            try:
                print(read())
            except seekset.SeeksetError as error:
                print("error")
        """,
        size,
    )
    assert set(printed.split()) <= {"error", "even", "MKVLAAGIVG"}
