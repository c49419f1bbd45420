"""Beside pyfaidx: letters by name and slice."""

import pyfaidx
from hypothesis import given, settings
from hypothesis import strategies as st

import seekset
import strategies


@given(data=strategies.plain(), pick=st.data())
@settings(max_examples=100)
def test_slices_are_those_of_pyfaidx(scratch, data, pick):
    path = scratch(data)
    with seekset.Fasta(path) as fa, pyfaidx.Fasta(str(path)) as theirs:
        assert list(fa) == list(theirs.keys())
        for name in fa:
            start, end = sorted(pick.draw(st.lists(st.integers(0, 70), min_size=2, max_size=2)))
            assert fa[name].sequence == str(theirs[name])
            assert fa[name][start:end] == str(theirs[name][start:end])
            assert len(fa[name]) == len(theirs[name])


def test_reverse_complements_are_those_of_pyfaidx(write):
    path = write(b">a\nACGTNRYSWKMBDHV\nacgtnryswkmbdhv\n")
    with seekset.Fasta(path) as fa, pyfaidx.Fasta(str(path)) as theirs:
        assert fa["a"].reverse_complement() == str(theirs["a"][:].reverse.complement)


def test_descriptions_are_those_of_pyfaidx(write):
    path = write(b">a some words\nACGT\n>b\tx > y\nAC\n>c\nAC\n")
    with seekset.Fasta(path) as fa, pyfaidx.Fasta(str(path)) as theirs:
        assert [record.description for record in fa.values()] == [record.long_name for record in theirs]


def test_our_fai_serves_pyfaidx(write):
    path = write(b">a one\nACGTA\nCG\n>b\nTT\n")
    fai = seekset.faidx(path).read_bytes()
    with pyfaidx.Fasta(str(path), rebuild=False) as theirs:
        assert [str(theirs[name]) for name in ("a", "b")] == ["ACGTACG", "TT"]
    assert path.with_name("x.fa.fai").read_bytes() == fai
