"""A plan is computed in slices that keep to the budget, and saved in chunks of whole slices: each piece in one."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seekset.inference.pieces as module
from seekset.inference.pieces import Pieces, cut_chunks
from seekset.inference.results import Span
from seekset.plan import Plan


class Lengths:
    """All that a plan asks of an index: its lengths, the longest first."""

    def __init__(self, lengths):
        self.lengths = np.array(sorted(lengths, reverse=True), np.int64)


LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=40)


def pieces_of(lengths, layout="packed", budget=25, specials=2):
    """As a job has them: batches hold the longest sequence, slices keep to the budget."""
    index = Lengths(lengths)
    rules = {"max_length": None, "specials": specials, "overflow": "truncate", "overlap": 0, "layout": layout}
    return Pieces(Plan.by_rules(index, max_tokens=max(budget, max(lengths) + specials), **rules), budget)


def cost(pieces, batch):
    """The tokens of a slice as memory has them."""
    costs = batch.lengths + pieces.plan.specials
    return int(costs.max() * len(costs) if pieces.plan.layout == "padded" else costs.sum())


@given(LENGTHS, st.sampled_from(["packed", "padded"]), st.integers(1, 80), st.integers(0, 2))
def test_every_piece_is_in_one_slice_and_slices_keep_to_the_budget(lengths, layout, budget, specials):
    pieces = pieces_of(lengths, layout, budget, specials)
    slices = list(pieces.slices(Span(0, len(pieces))))
    assert [part.span.start for part in slices] == [0, *(part.span.end for part in slices[:-1])]
    assert slices[-1].span.end == len(lengths)
    assert sorted(row for part in slices for row in part.batch.rows.tolist()) == list(range(len(lengths)))
    assert all(cost(pieces, part.batch) <= budget or part.span.size == 1 for part in slices)
    # None is smaller than it has to be: what follows in the same batch would not fit.
    for part, more in pairwise(slices):
        if part.span.end not in pieces.ends:
            joined = type(part.batch)(*(np.concatenate(both) for both in zip(part.batch, more.batch, strict=True)))
            assert cost(pieces, type(joined)(*(column[: part.span.size + 1] for column in joined))) > budget


@given(LENGTHS, st.sampled_from(["packed", "padded"]), st.integers(1, 80), st.integers(1, 300))
def test_chunks_are_whole_slices_of_bounded_tokens(lengths, layout, budget, most):
    pieces = pieces_of(lengths, layout, budget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_TOKENS", most)
        patch.setattr(module, "_CHUNKS", 1)
        chunks = cut_chunks(pieces)
    assert [chunk.start for chunk in chunks] == [0, *(chunk.end for chunk in chunks[:-1])]
    assert chunks[-1].end == len(lengths)
    slices = list(pieces.slices(Span(0, len(pieces))))
    for chunk in chunks:
        # What is computed does not depend on where chunks begin.
        inside = [part for part in slices if chunk.start <= part.span.start < chunk.end]
        assert [part.span for part in pieces.slices(chunk)] == [part.span for part in inside]
        tokens = sum(part.tokens for part in inside)
        assert pieces.tokens(chunk) == tokens
        assert tokens <= most or len(inside) == 1


def test_one_long_sequence_does_not_make_chunks_as_large_as_itself():
    # As a contig among reads: a batch that has room for it has room for all the others.
    pieces = pieces_of([100_000, *[98] * 900], budget=1000)
    assert [batch.lengths.size for batch in pieces.plan] == [1, 900]
    chunks = cut_chunks(pieces)
    assert chunks[0] == Span(0, 1)
    assert {chunk.size for chunk in chunks[1:]} == {10}
    assert [pieces.tokens(chunk) for chunk in chunks] == [100_002, *[1000] * 90]
    assert cut_chunks(pieces, per_token=True) == chunks


def test_a_part_of_a_slice_has_its_part_of_the_tokens():
    pieces = pieces_of([50, *[8] * 5], budget=30)
    assert [part.span for part in pieces.slices(Span(0, 6))] == [Span(0, 1), Span(1, 4), Span(4, 6)]
    assert [pieces.tokens(Span(*span)) for span in ((0, 1), (1, 4), (1, 2), (3, 5), (0, 6))] == [52, 30, 10, 20, 102]
