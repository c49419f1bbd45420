"""Slices and regions of a record are those of its letters as a str."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
import seekset

LETTERS = "ACGTNRYKMSacgtnrykms" * 5
SHAPES = {
    "one line": reference.wrap(LETTERS, 1000),
    "wrapped": reference.wrap(LETTERS, 7),
    "CRLF": reference.wrap(LETTERS, 7, b"\r\n"),
    "one per line": reference.wrap(LETTERS, 1),
    "uneven": reference.wrap(LETTERS[:20], 3) + b"\n" + reference.wrap(LETTERS[20:], 9),
    "blanks": b" " + reference.wrap(LETTERS, 10, b" \n"),
}

# All kinds of ends: inside, outside, far outside, none.
ends = st.none() | st.integers(-110, 110) | st.sampled_from([2**31, 2**63, 2**64, -(2**63) - 1, 10**30])
steps = st.none() | st.integers(-110, 110).filter(bool) | st.sampled_from([2**63, -(2**64)])


@pytest.fixture(scope="module", params=SHAPES)
def record(request, scratch):
    return seekset.Fasta(scratch(b">before\nAC\n>it\n" + SHAPES[request.param] + b">behind\nGG\n"))["it"]


@given(start=ends, stop=ends, step=steps)
@settings(max_examples=100)
def test_a_slice_is_that_of_a_str(record, start, stop, step):
    assert record[start:stop:step] == LETTERS[start:stop:step]


@given(at=st.integers(-110, 110))
def test_a_letter_is_that_of_a_str(record, at):
    if -len(LETTERS) <= at < len(LETTERS):
        assert record[at] == LETTERS[at]
    else:
        with pytest.raises(IndexError):
            record[at]


@given(start=ends, stop=ends)
@settings(max_examples=100)
def test_a_region_is_a_slice_that_does_not_count_from_the_end(record, start, stop):
    assume((start or 0) >= 0)
    assume((stop or 0) >= 0)
    assert record._fasta.fetch("it", start or 0, stop) == LETTERS[start:stop]


@given(start=ends.map(lambda end: end or 0), stop=ends)
def test_the_reverse_complement_of_a_slice(record, start, stop):
    assert record.reverse_complement(start, stop) == reference.reverse_complement(LETTERS[start:stop])
