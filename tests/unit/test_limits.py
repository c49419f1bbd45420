"""One rule for limits on lengths: at least 1, or None."""

import warnings

import pytest

from seekset import Fasta
from seekset.datasets import IndexBasedDataset, PackedDataset, SequenceDataset
from seekset.errors import SeeksetWarning
from seekset.packing import VarlenCollator
from seekset.plan import Plan
from seekset.sequences import SequenceIndex


@pytest.fixture
def index(write, tmp_path):
    return SequenceIndex.create([write(b">a\nMKV\n>b\nMK\n", "p.fa")], tmp_path / "p.sidx")


TAKERS = {
    "Plan": lambda index, most: Plan.create(index, max_length=most),
    "PackedDataset": lambda index, most: PackedDataset(index, max_length=most),
    "IndexBasedDataset": lambda index, most: IndexBasedDataset(index, [0], max_length=most),
    "SequenceDataset": lambda index, most: SequenceDataset(index.files, max_length=most),
    "VarlenCollator": lambda _, most: VarlenCollator("esm", max_sequence_length=most),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_limit_is_whole_number_or_none(index, taker):
    for most in (0, -1):
        with pytest.raises(ValueError, match=rf"length must be at least 1, or None for no limit, but is {most}$"):
            TAKERS[taker](index, most)
    for most in (1.5, "3", True):
        with pytest.raises(TypeError, match=r"length must be a whole number or None, not (float|str|bool)$"):
            TAKERS[taker](index, most)
    for most in (3, None):
        TAKERS[taker](index, most)


def test_a_gather_may_ask_for_no_letters(index):
    assert index.fetch_many([0, 1], max_length=0) == ["", ""]
    with Fasta(index.files[0]) as fasta:
        assert fasta.gather([0, 1], max_length=0).offsets.tolist() == [0, 0, 0]


@pytest.mark.parametrize("taker", ["Plan", "PackedDataset"])
def test_the_warning_of_cuts_points_at_the_line_that_asked(index, taker):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        TAKERS[taker](index, 2)
    assert [(warning.category, warning.filename) for warning in told] == [(SeeksetWarning, __file__)]
