"""Beside samtools: pysam is samtools and htslib under Python. The .fai byte for byte, and letters by region."""

import itertools
import warnings

import pysam
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import seekset
import strategies
from seekset.regions import parse_region


@pytest.fixture(autouse=True, scope="module")
def _quiet():
    """Samtools says on stderr what is wrong with files that are meant to be wrong."""
    verbosity = pysam.set_verbosity(0)
    yield
    pysam.set_verbosity(verbosity)


def samtools(path):
    """The .fai that samtools writes; nothing where it fails."""
    fai = path.with_name(path.name + ".fai")
    fai.unlink(missing_ok=True)
    try:
        pysam.faidx(str(path))
    except pysam.SamtoolsError:
        return None
    return fai.read_bytes()


def ours(path, **options):
    """The .fai that seekset writes; nothing where it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", seekset.SeeksetWarning)
            return seekset.faidx(path, path.with_name("ours.fai"), **options).read_bytes()
    except (seekset.FormatError, seekset.DuplicateIdError):
        return None


# --- well-formed files ----------------------------------------------------------------------------------------------


@given(data=strategies.well_formed())
@settings(max_examples=120)
@example(data=b">a\nACGT")
@example(data=b">a\r\nACGT\r\nAC")
@example(data=b">a\r\nACGT\r\nAC\r")
@example(data=b"\n\r\n>a b>c\nACGT\n\n\n>\xc3\xa9\nA\n")
@example(data=b">a \xff".replace(b"\xff", b"\xc3\xbf") + b"\nA")
@example(data=b"> a\nAC\n>\t\x0bb\nAC\n")
@example(data=b">a\nAC\r\nAC\n")
def test_the_fai_of_a_well_formed_file_is_that_of_samtools(scratch, data):
    path = scratch(data)
    expected = samtools(path)
    assert expected is not None
    assert ours(path) == expected
    assert ours(path, like_samtools=True) == expected


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("width", [1, 60, 61, 70, 80, 100_000, 5_000_000])
def test_the_fai_of_large_records_is_that_of_samtools(write, width, end):
    letters = b"ACGTTGCANN" * 300_000
    lines = b"".join(letters[at : at + width] + end for at in range(0, 3_000_000 if width > 1 else 70_000, width))
    path = write(b">one" + end + lines + b">two" + end + lines.removesuffix(end))
    assert ours(path) == samtools(path)


def test_the_fai_of_many_records_is_that_of_samtools(write):
    path = write(b"".join(b">%d some words\nACGT\n%b\n" % (k, b"ACGT"[: k % 4 + 1]) for k in range(50_000)))
    assert ours(path) == samtools(path)


# --- what samtools is lenient with ----------------------------------------------------------------------------------

LENIENT = {
    "duplicates": b">a\nAC\n>b\nACG\n>a\nACGT\n>b\nA\n>c\nA\n",
    "duplicates side by side": b">a\nAC\n>a\nACG\n>a\nACGT\n",
    "an empty record": b">a\nAC\n>b\n>c\nACG\n",
    "an empty record first": b">a\n>b\nAC\n",
    "a record of blank lines": b">a\nAC\n>b\n\n\n>c\nACG\n",
    "a record of a blank line with CRLF": b">a\r\n\r\n>b\r\nAC\r\n",
    "a record of spaces": b">a\n  \n>b\nAC\n",
    "an empty record that has a namesake": b">a\n>a\nAC\n",
    "trailing spaces": b">a\nACG \nACG \nA\n",
    "a space inside": b">a\nA C\nACG\n",
    "a line of spaces at the end": b">a\nACG\n \n",
    "a leading space": b">a\n ACG\nACGT\n",
    "tabs": b">a\nAC\tG\nACGT\n",
    "mixed line ends": b">a\nACG\r\nACGT\n",
    "no name": b">\nAC\n",
    "no name but spaces": b">  \nAC\n>b\nAC\n",
    "two without names": b">\nAC\n>\nACG\n",
}


@pytest.mark.parametrize("data", LENIENT.values(), ids=LENIENT)
def test_where_samtools_is_lenient_we_refuse(write, data):
    path = write(data)
    assert samtools(path) is not None
    assert ours(path) is None


@pytest.mark.parametrize("data", LENIENT.values(), ids=LENIENT)
def test_like_samtools_does_what_samtools_does(write, data):
    path = write(data)
    assert ours(path, like_samtools=True) == samtools(path)


FAILING = {
    "an empty file": b"",
    "blank lines only": b"\n\n",
    "a longer line": b">a\nAC\nACG\n",
    "a line after a shorter one": b">a\nACG\nA\nA\n",
    "a blank line inside": b">a\nACG\n\nACG\n",
    "a blank line first": b">a\n\nACG\n",
    "a last record without letters": b">a\nAC\n>b\n",
    "a last record without letters or newline": b">a\nAC\n>b",
    "headers only": b">a\n>b\n",
    "text before the header": b"AC\n>a\nAC\n",
    "spaces before the header": b" \n>a\nAC\n",
    "spaces after a shorter line": b">a\nACG\nA\n \n",
    "a longer line of spaces": b">a\nACG\n      \n",
    "two lines of spaces": b">a\nACG\n \n \n",
    "carriage returns alone": b">a\rACGT\r>b\rAC\r",
}


@pytest.mark.parametrize("data", FAILING.values(), ids=FAILING)
def test_like_samtools_fails_where_samtools_fails(write, data):
    path = write(data)
    assert samtools(path) is None
    assert ours(path, like_samtools=True) is None
    assert ours(path) is None or data.strip() == b""


LINES = [b">a\n", b">b x\n", b">\n", b"ACG\n", b"AC\n", b"\n", b"\r\n", b"AC \n", b" \n", b">a", b"A"]


def small_files(most):
    """All files of up to so many of these lines; what does not end in a newline ends the file."""
    for count in range(most + 1):
        for lines in itertools.product(LINES, repeat=count):
            if all(line.endswith(b"\n") for line in lines[:-1]):
                yield b"".join(lines)


def test_all_small_files_are_refused_or_indexed_as_by_samtools(scratch):
    path = scratch(b"")
    differences = []
    for data in small_files(3):
        path.write_bytes(data)
        expected, like, unasked = samtools(path), ours(path, like_samtools=True), ours(path)
        if like != expected:
            differences.append((data, "like samtools", like, expected))
        # An empty file is a FASTA file of no records; whatever else samtools fails on is refused.
        if unasked is not None and unasked != expected and data.strip():
            differences.append((data, "unasked", unasked, expected))
    assert differences == []


@given(data=strategies.any_fasta())
@settings(max_examples=100)
def test_like_samtools_is_samtools_on_any_file(scratch, data):
    path = scratch(data)
    assert ours(path, like_samtools=True) == samtools(path)


# --- letters by region ----------------------------------------------------------------------------------------------


@given(data=strategies.well_formed(), pick=st.data())
@settings(max_examples=100)
def test_fetch_is_that_of_pysam(scratch, data, pick):
    path = scratch(data)
    with seekset.Fasta(path) as fa, pysam.FastaFile(str(path)) as theirs:
        assert list(fa) == theirs.references
        assert fa.lengths.tolist() == theirs.lengths
        for name in fa:
            start, end = sorted(pick.draw(st.lists(st.integers(0, 70), min_size=2, max_size=2)))
            assert fa.fetch(name) == theirs.fetch(name)
            assert fa.fetch(name, start, end) == (theirs.fetch(name, start, end) if end > start else "")


REGIONS = b">chr1\nACGTACGT\nAC\n>a:1-3\nTTTTT\n>a\nCCCCCC\n>b:2\nGGG\n>{x}\nAAA\n>x\nCC\n>y}z\nTT\n>c:d\nGGT\n"


@pytest.mark.parametrize(
    "region",
    [
        "chr1", "chr1:", "chr1:3", "chr1:3-", "chr1:3-6", "chr1:-5", "chr1:-99", "chr1:9-99", "chr1:1,0-1,0", "{chr1}",
        "{chr1}:5-8", "{chr1}:-5", "{a:1-3}", "{a:1-3}:2-3", "{a}:1-3", "a:1-3:2-3", "b:2", "b:2:1-2", "{b:2}:-2",
        "{x}", "{{x}}", "{x}:1-1", "{y}z}", "y}z", "y}z:1-1", "c:d", "c:d:2", "{c:d}:2-",
    ],
)  # fmt: skip
def test_regions_mean_what_they_mean_to_samtools(write, tmp_path, region):
    path = write(REGIONS)
    pysam.faidx("-o", str(tmp_path / "out"), str(path), region)
    head, *lines = (tmp_path / "out").read_text().splitlines()
    with seekset.Fasta(path) as fa:
        _, row, start, end = parse_region(fa, region)
        assert (head, "".join(lines)) == (f">{region}", fa[row][start:end])


@pytest.mark.parametrize(
    "region, message",
    [
        ("a:1-3", r"region 'a:1-3': it names a record and a part of another; write \{a:1-3\} or \{a\}:1-3"),
        ("chr1:8-5", "it ends at 5, before it starts at 8; is chr1:5-8 meant?"),
        ("chr1:2-x", "expected FIRST-LAST, FIRST- or -LAST after the id, found '2-x'"),
        ("chr1:--5", "found '--5'"),
        ("chr1:1-2-3", "found '1-2-3'"),
        ("chr1:-5-6", "found '-5-6'"),
        ("{chr1", r"expected \{ID\} or \{ID\}:FIRST-LAST"),
        ("{chr1}5-8", r"expected \{ID\} or"),
        ("{b}:2", "no record with the id 'b'"),
        ("{}", r"expected \{ID\} or"),
    ],
)
def test_regions_that_samtools_refuses_are_refused_with_a_reason(write, region, message):
    path = write(REGIONS)
    with pytest.raises(pysam.SamtoolsError):
        pysam.faidx("-o", "/dev/null", str(path), region)
    with seekset.Fasta(path) as fa, pytest.raises(seekset.SeeksetError, match=message):
        parse_region(fa, region)


@pytest.mark.parametrize("region", ["chr1:0-5", "chr1:0", "chr1:-0", "chr1:-", "chr1:11-12"])
def test_regions_that_samtools_takes_for_something_else_are_refused(write, region):
    with seekset.Fasta(write(REGIONS)) as fa, pytest.raises(seekset.MismatchError):
        parse_region(fa, region)


def test_our_fai_serves_samtools(write):
    path = write(b">a one\r\nACGTA\r\nCG\r\n>b\r\nTT\r\n")
    seekset.faidx(path)
    with pysam.FastaFile(str(path)) as theirs:
        assert theirs.fetch(region="a:4-6") == "TAC"
        assert theirs.fetch("b") == "TT"
