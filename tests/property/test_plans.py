"""Whatever the lengths and options: every letter in one batch, every batch with one rank, in every epoch."""

import pickle
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seekset import BalancedOrder, Plan

LENGTHS = st.lists(st.integers(0, 60), max_size=60)


class Lengths:
    def __init__(self, lengths):
        self.lengths = np.array(lengths, dtype=np.int64)


@st.composite
def options(draw):
    """Options that allow every sequence, and cut none."""
    most = draw(st.integers(1, 70))
    overlap = draw(st.integers(0, most - 1))
    return {
        "max_length": most,
        "max_tokens": most + 2 + draw(st.integers(0, 100)),
        "overflow": "split",
        "overlap": overlap,
        "layout": draw(st.sampled_from(["packed", "padded"])),
    }


@given(lengths=LENGTHS, options=options(), world_size=st.integers(1, 9), epoch=st.integers(0, 5))
def test_the_ranks_have_every_letter_once_but_for_the_overlap(lengths, options, world_size, epoch):
    plan = Plan.create(Lengths(lengths), **options)
    order = plan.order(world_size, seed=3, epoch=epoch)
    met = [[] for _ in lengths]
    for rank in range(world_size):
        for batch in order.take(np.arange(rank, len(plan), world_size)):
            for row, start, length in zip(*plan[batch], strict=True):
                met[row].append((int(start), int(start + length)))
    for length, spans in zip(lengths, met, strict=True):
        spans.sort()
        assert (spans[0][0], spans[-1][1]) == (0, length)
        assert all(end - start == options["overlap"] for (_, end), (start, _) in pairwise(spans))


@given(lengths=LENGTHS, options=options())
def test_no_batch_is_over_its_budget_and_the_tokens_add_up(lengths, options):
    plan = Plan.create(Lengths(lengths), **options)
    for batch, tokens, count in zip(plan, plan.tokens, plan.counts, strict=True):
        costs = batch.lengths + 2
        size = costs.sum() if options["layout"] == "packed" else costs.max() * len(costs)
        assert (costs.sum(), len(costs)) == (tokens, count)
        assert size <= plan.max_tokens
    assert plan.tokens.sum() == plan.total_tokens == sum(share.tokens for share in plan.shares(3))
    assert (np.diff(plan.tokens) <= 0).all()


@given(lengths=LENGTHS, options=options(), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 2**63 - 1))
def test_a_repacked_plan_has_the_same_pieces_of_other_sequences(lengths, options, seed, epoch):
    index = Lengths(sorted(lengths, reverse=True))
    plan = Plan.create(index, **options)
    found = [plan.repacked(number, seed=seed, epoch=epoch) for number in range(len(plan))]
    pieces = sorted(piece for batch in found for piece in zip(*(column.tolist() for column in batch), strict=True))
    assert pieces == sorted(
        piece for batch in plan for piece in zip(*(column.tolist() for column in batch), strict=True)
    )


@given(lengths=LENGTHS, options=options())
def test_a_plan_survives_its_pickle(lengths, options):
    plan = Plan.create(Lengths(lengths), **options)
    again = pickle.loads(pickle.dumps(plan))
    assert (len(again), again.digest) == (len(plan), plan.digest)
    assert [batch.rows.tolist() for batch in again] == [batch.rows.tolist() for batch in plan]


@given(count=st.integers(0, 300), ranks=st.integers(1, 40), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 9))
def test_a_balanced_order_has_every_batch_once(count, ranks, seed, epoch):
    order = BalancedOrder(count, ranks, seed, epoch)
    assert sorted(order.take(np.arange(count))) == list(range(count))
