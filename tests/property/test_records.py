"""Whatever is a FASTA file reads as plain Python reads it; whatever is none is refused."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reference
import seekset
import strategies

FASTA = strategies.any_fasta()


@given(data=FASTA)
@settings(max_examples=100)
@example(data=b">")
@example(data=b">a\r")
@example(data=b">a\n\r")
@example(data=b">a\n>")
@example(data=b"\n \n>a\nA")
@example(data=b">a\nA\n>A\nC\n>  a\nG\n")
def test_ids_descriptions_and_sequences_are_those_of_the_reference(scratch, data):
    expected = reference.parse(data)
    with seekset.Fasta(scratch(data), duplicates="first") as fa:
        rows = range(len(fa))
        assert [(fa[row].id, fa[row].description, fa[row].sequence) for row in rows] == expected
        assert fa.lengths.tolist() == [len(record.sequence) for record in expected]


@given(data=FASTA)
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_an_index_that_is_used_again_gives_the_same(scratch, data, io):
    path = scratch(data)
    seekset.Fasta(path, duplicates="first").close()
    with seekset.Fasta(path, duplicates="first", rebuild=False, io=io) as fa:
        assert fa.fetch_many(range(len(fa))) == [record.sequence for record in reference.parse(data)]


@given(data=FASTA)
def test_every_id_is_found_at_its_first_row(scratch, data):
    ids = [record.id for record in reference.parse(data)]
    with seekset.Fasta(scratch(data), duplicates="first") as fa:
        assert {name: fa.row(name) for name in ids} == {name: ids.index(name) for name in ids}


@given(data=FASTA)
def test_duplicates_are_refused_if_and_only_if_there_are_some(scratch, data):
    ids = [record.id for record in reference.parse(data)]
    path = scratch(data)
    if len(set(ids)) == len(ids):
        assert list(seekset.Fasta(path)) == ids
    else:
        with pytest.raises(seekset.DuplicateIdError):
            seekset.Fasta(path)


BYTES = st.lists(st.sampled_from([b">", b"a", b"AC", b"\n", b"\r\n", b" ", b"\0", b"\xff", b"\xc3\xa9", b"@", b"\x7f"]))


def is_fasta(data):
    """Whether a file is one that seekset promises to read."""
    lines = data.split(b"\n")
    headers = [line[1:] for line in lines if line.startswith(b">")]
    others = [line for line in lines if not line.startswith(b">")]
    before = lines[: next((k for k, line in enumerate(lines) if line.startswith(b">")), len(lines))]
    return (
        not any(line.strip() for line in before)
        and not any(b"\0" in header for header in headers)
        and all(header.decode(errors="replace").encode() == header for header in headers)
        and all(33 <= byte < 127 or byte in b" \t\r\x0b\x0c" for line in others for byte in line)
    )


@given(pieces=BYTES)
@settings(max_examples=200)
def test_any_bytes_are_a_fasta_file_or_a_format_error_with_a_place(scratch, pieces):
    data = b"".join(pieces)
    path = scratch(data)
    if is_fasta(data):
        with seekset.Fasta(path, duplicates="first") as fa:
            assert fa.fetch_many(range(len(fa))) == [record.sequence for record in reference.parse(data)]
    else:
        with pytest.raises(seekset.FormatError, match=r": line \d+, byte \d+: expected"):
            seekset.Fasta(path)


@given(content=st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: b"\x1f\x8b\x08\x04" + rest))
@settings(max_examples=150)
def test_random_bytes_open_or_are_refused(scratch, content):
    path = scratch(content)
    with contextlib.suppress(seekset.FormatError):
        seekset.Fasta(path, duplicates="first").close()
        assert path.with_name(path.name + ".sidx").exists()


@given(content=st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"ARROW1\0\0" + rest + b"ARROW1"))
def test_random_bytes_are_never_taken_for_an_index(scratch, content):
    path = scratch(b">a\nMK\n")
    path.with_name(path.name + ".sidx").write_bytes(content)
    with pytest.raises(seekset.StaleIndexError):
        seekset.Fasta(path, rebuild=False)
    assert seekset.Fasta(path).fetch("a") == "MK"


@given(content=st.binary(max_size=60) | st.text("a\t\n\r015-", max_size=60).map(str.encode))
@settings(max_examples=150)
def test_random_bytes_are_a_fai_or_a_format_error_with_a_line(scratch, content):
    try:
        records = seekset.read_fai(scratch(content))
    except seekset.FormatError as error:
        refused = str(error)
    else:
        refused = None
        assert len(records) == len(content.split(b"\n")) - content.endswith(b"\n") - (not content)
    assert refused is None or ": line " in refused
