"""seekset.faidx and seekset.read_fai. What samtools itself writes is compared in tests/interop/test_samtools.py."""

import os

import pytest

import seekset
from seekset import FaiRecord

GOOD = b">a one\nACGT\nAC\n>b\nACGTACGT\n"


def test_a_fai_has_name_length_offset_letters_and_bytes_per_line(write):
    path = seekset.faidx(write(GOOD))
    assert path.name == "x.fa.fai"
    assert path.read_bytes() == b"a\t6\t7\t4\t5\nb\t8\t18\t8\t9\n"


def test_out_says_where_the_fai_goes(write, tmp_path, names):
    path = seekset.faidx(str(write(GOOD)), tmp_path / "other.fai")
    assert path == tmp_path / "other.fai"
    assert path.read_bytes().startswith(b"a\t6\t7")
    assert names() == ["other.fai", "x.fa"]


def test_a_fai_that_is_there_is_replaced(write):
    path = write(GOOD)
    write(b"old", "x.fa.fai")
    assert seekset.faidx(path).read_bytes().startswith(b"a\t6\t7")


def test_an_empty_file_has_an_empty_fai(write):
    assert seekset.faidx(write(b"")).read_bytes() == b""


def test_the_fai_does_not_depend_on_the_number_of_threads(write, in_threads):
    lines = b"".join(b">%d\nACGTACGT\nACG\n" % k for k in range(100_000))
    path = write(lines)
    first, second, third = in_threads(lambda: seekset.faidx(path).read_bytes())
    assert first == second == third
    assert first.count(b"\n") == 100_000


# What samtools would lose or get wrong without a word, and where it stands.
REFUSED = {
    "empty record": (b">a\nAC\n>b\n>c\nAC\n", "record 'b'", "line 3, byte 6", "it has no sequence"),
    "blank lines only": (b">a\nAC\n>b\n\n\n>c\nAC\n", "record 'b'", "line 3, byte 6", "it has no sequence"),
    "last record empty": (b">a\nAC\n>b", "record 'b'", "line 3, byte 6", "it has no sequence"),
    "longer line": (b">a\nAC\n>b\nAC\nACG\n", "record 'b'", "line 3, byte 6", "lines differ"),
    "line after a shorter one": (b">a\nACG\nA\nACG\n", "record 'a'", "line 1, byte 0", "lines differ"),
    "blank line inside": (b">a\nACG\n\nACG\n", "record 'a'", "line 1, byte 0", "blank line in the middle"),
    "blank line first": (b">a\n\nACG\n", "record 'a'", "line 1, byte 0", "blank line in the middle"),
    "blanks inside a line": (b">a\nA C\nACG\n", "record 'a'", "line 1, byte 0", "blanks inside"),
    "trailing blanks": (b">a\nACG \nACG \n", "record 'a'", "line 1, byte 0", "blanks inside"),
    "a line of blanks at the end": (b">a\nAC\n>b\nAC\n  \n", "record 'b'", "line 3, byte 6", "nothing but blanks"),
    "mixed line ends": (b">a\nACG\r\nACGT\n", "record 'a'", "line 1, byte 0", "mixed line ends"),
    "no name": (b">a\nAC\n>\nAC\n", "record '6'", "line 3, byte 6", "no name"),
}


@pytest.mark.parametrize("data, record, place, why", REFUSED.values(), ids=REFUSED)
def test_what_has_no_place_in_a_fai_is_refused(write, names, data, record, place, why):
    with pytest.raises(seekset.FormatError) as error:
        seekset.faidx(write(data))
    message = str(error.value)
    assert f"x.fa: {place}: {record}" in message
    assert why in message
    assert names() == ["x.fa"]


def test_blanks_before_the_first_header_are_refused(write):
    with pytest.raises(
        seekset.FormatError, match=r"x\.fa: line 2, byte 1: expected '>' or an empty line, found blanks"
    ):
        seekset.faidx(write(b"\n \n>a\nAC\n"))


def test_duplicate_names_are_refused_with_both_places(write, names):
    with pytest.raises(
        seekset.DuplicateIdError, match=r"id 'a'.*line 1, byte 0, another at .*line 5, byte 12"
    ) as error:
        seekset.faidx(write(b">a\nAC\n>b\nAC\n>a x\nAC\n"))
    assert "x.fa" in str(error.value)
    assert "for a .fai, like_samtools=True (faidx --like-samtools)" in str(error.value)
    assert names() == ["x.fa"]


def test_what_was_there_stays_when_a_file_is_refused(write, tmp_path):
    path = write(REFUSED["longer line"][0])
    write(b"old", "x.fa.fai")
    with pytest.raises(seekset.FormatError):
        seekset.faidx(path)
    assert (tmp_path / "x.fa.fai").read_bytes() == b"old"


def test_like_samtools_leaves_duplicates_out_with_a_warning(write):
    with pytest.warns(seekset.SeeksetWarning, match=r"2 records were left out of .*x\.fa\.fai") as warned:
        path = seekset.faidx(write(b">a\nAC\n>b\nACG\n>a\nACGT\n>a\nA\n"), like_samtools=True)
    assert path.read_bytes() == b"a\t2\t3\t2\t3\nb\t3\t9\t3\t4\n"
    assert len(warned) == 1
    assert warned[0].filename == __file__


@pytest.mark.parametrize("wrong", ["longer line", "line after a shorter one", "blank line inside", "blank line first"])
def test_like_samtools_fails_where_samtools_fails(write, names, wrong):
    with pytest.raises(seekset.FormatError, match="as samtools does, found"):
        seekset.faidx(write(REFUSED[wrong][0]), like_samtools=True)
    assert names() == ["x.fa"]


def test_bad_files_are_the_same_errors_as_for_a_fasta(write, tmp_path):
    with pytest.raises(FileNotFoundError):
        seekset.faidx(tmp_path / "missing.fa")
    with pytest.raises(IsADirectoryError):
        seekset.faidx(tmp_path)
    with pytest.raises(seekset.FormatError, match="line 1, byte 0: expected '>'"):
        seekset.faidx(write(b"ACGT\n"))
    with pytest.raises(seekset.FormatError, match=r"line 2, byte 4: .*NUL"):
        seekset.faidx(write(b">a\nA\0\n"))


def test_a_place_that_cannot_be_written_is_the_systems_error(write, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        seekset.faidx(write(GOOD), tmp_path / "missing" / "x.fai")
    assert os.fspath(error.value.filename) == str(tmp_path / "missing" / "x.fai")


def test_progress_is_told(write):
    calls = []
    seekset.faidx(write(GOOD), progress=lambda *now: calls.append(now))
    assert calls[-1] == (len(GOOD), len(GOOD))


# --- reading --------------------------------------------------------------------------------------------------------


def test_a_fai_reads_back_as_records(write):
    records = seekset.read_fai(seekset.faidx(write(GOOD)))
    assert records == [FaiRecord("a", 6, 7, 4, 5), FaiRecord("b", 8, 18, 8, 9)]
    assert records[0].line_bases == 4


@pytest.mark.parametrize(
    "text, records",
    [
        (b"", []),
        (b"a\t0\t3\t0\t0\n", [("a", 0, 3, 0, 0)]),
        (b"a\t6\t7\t4\t5", [("a", 6, 7, 4, 5)]),
        (b"a\t6\t7\t4\t5\r\nb\t1\t20\t1\t2\r\n", [("a", 6, 7, 4, 5), ("b", 1, 20, 1, 2)]),
        ("größe\t6\t7\t4\t5\n".encode(), [("größe", 6, 7, 4, 5)]),
        (b"\t6\t7\t4\t5\n", [("", 6, 7, 4, 5)]),
    ],
)
def test_lines_that_are_a_fai(write, text, records):
    assert seekset.read_fai(write(text, "x.fai")) == records


@pytest.mark.parametrize(
    "text, message",
    [
        (b"a\t6\t7\t4\n", "line 1: expected 5 columns"),
        (b"a\t6\t7\t4\t5\t9\n", "line 1: expected 5 columns"),
        (b"a\t6\t7\t4\t5\n\n", "line 2: expected 5 columns"),
        (b"a\t6\t7\t4\t5\nb\tx\t7\t4\t5\n", "line 2: expected a number in column 2, found 'x'"),
        (b"a\t6\t7\t4\t-5\n", "line 1: expected a number in column 5"),
        (b"a\t99999999999999999999\t7\t4\t5\n", "line 1: expected a number in column 2"),
        (b"a\t6\t7\t0\t5\n", "line 1: lines of 0 letters"),
        (b"a\t6\t7\t4\t3\n", "line 1: lines of 4 letters in 3 bytes"),
        (b"a\xff\t6\t7\t4\t5\n", "line 1: expected text in UTF-8"),
    ],
)
def test_a_line_that_is_none_is_a_format_error_that_names_it(write, text, message):
    with pytest.raises(seekset.FormatError, match=message) as error:
        seekset.read_fai(write(text, "x.fai"))
    assert "x.fai" in str(error.value)


def test_a_missing_fai_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        seekset.read_fai(tmp_path / "x.fai")
