"""Whatever happens to leases, every piece is waiting, leased, done or set aside, and never twice."""

from hypothesis import given
from hypothesis import strategies as st

from seekset.inference.queue import Verdict, WorkQueue
from seekset.inference.results import Span

SIZES = st.lists(st.integers(1, 20), max_size=8)
STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "finish", "part", "lack", "release", "blame", "give up"]), st.integers(0, 3)),
    max_size=80,
)


def spans_of(sizes):
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    return [Span(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def moved(queue, step, rank, given_up):
    """Do a step, if it can be done; gives the pieces that are done by it."""
    span = queue.leased(rank)
    match step:
        case "take" if span is None and rank not in given_up:
            queue.take(rank)
        case "finish" if span:
            queue.finish(rank, span)
            return range(*span)
        case "part" if span:
            queue.finish(rank, part := Span(span.start, (span.start + span.end) // 2))
            return range(*part)
        case "lack" if span:
            others = [other for other in range(4) if other not in given_up | {rank}]
            again = queue.question(rank, range(span.start, span.end, 2), others)
            queue.finish(rank, span)
            return set(range(*span)) - {piece for tried in again for piece in range(*tried)}
        case "release":
            queue.release(rank)
        case "blame" if span and queue.blame(rank) is Verdict.SET_ASIDE:
            assert span.size == 1
            return range(*span)
        case "give up" if span is None and len(given_up) < 3:
            given_up.add(rank)
            queue.hand_over(rank, [other for other in range(4) if other not in given_up])
    return ()


@given(SIZES, STEPS, st.sampled_from([None, 4]))
def test_every_piece_is_somewhere_once(sizes, steps, shares):
    queue = WorkQueue(spans_of(sizes), weigh=lambda span: span.size, world_size=shares)
    given_up = set()
    done = [piece for step, rank in steps for piece in moved(queue, step, rank, given_up)]
    for rank in range(4):
        while (span := queue.leased(rank) or queue.take(rank)) is not None:
            queue.finish(rank, span)
            done += range(*span)
    assert sorted(done) == list(range(sum(sizes)))
    assert len(queue) == 0


@given(st.integers(1, 500), st.integers(0, 499))
def test_one_bad_piece_is_found_in_as_many_tries_as_halving_takes(size, bad):
    bad %= size
    queue = WorkQueue([Span(0, size)], weigh=lambda span: span.size)
    failures, done = 0, 0
    while (span := queue.take(0)) is not None:
        if bad not in range(*span):
            queue.finish(0, span)
            done += span.size
            continue
        failures += 1
        if queue.blame(0) is Verdict.SET_ASIDE:
            assert span == Span(bad, bad + 1)
    assert done == size - 1
    assert failures <= 2 + (size - 1).bit_length()


def test_the_largest_comes_first_and_shares_are_fixed():
    spans = [Span(0, 2), Span(2, 9), Span(9, 10), Span(10, 15)]
    queue = WorkQueue(spans, weigh=lambda span: span.size)
    assert [queue.take(rank) for rank in range(4)] == [Span(2, 9), Span(10, 15), Span(0, 2), Span(9, 10)]
    fixed = WorkQueue(spans, weigh=lambda span: span.size, world_size=2)
    taken = [fixed.take(0), fixed.take(1)]
    fixed.finish(0)
    assert [*taken, fixed.take(0)] == [Span(0, 2), Span(2, 9), Span(9, 10)]


def worked_off(queue, fails, ranks):
    """Have ranks take turns until nothing is left; gives who failed with what, and what was set aside, in order."""
    blamed, set_aside = [], []
    while len(queue):
        moved_on = False
        for rank in ranks:
            others = [other for other in ranks if other != rank]
            if (span := queue.take(rank, alone=not others)) is None:
                continue
            moved_on = True
            if not fails(rank, span):
                queue.finish(rank, span)
                continue
            blamed.append((rank, span))
            if queue.blame(rank, others) is Verdict.SET_ASIDE:
                set_aside.append(span.start)
        assert moved_on, "spans wait, and nobody takes them"
    return blamed, set_aside


@given(SIZES, st.integers(0, 500), st.integers(2, 4), st.booleans())
def test_nothing_is_narrowed_or_set_aside_before_another_rank_has_tried_it(sizes, bad, ranks, fixed):
    bad = bad % sum(sizes) if sizes else 0
    queue = WorkQueue(spans_of(sizes), weigh=lambda span: span.size, world_size=ranks if fixed else None)
    blamed, set_aside = worked_off(queue, lambda _, span: bad in range(*span), range(ranks))
    assert set_aside == [bad] * bool(sizes)
    if sizes:
        whole = next(span for span in spans_of(sizes) if bad in range(*span))
        for size in {whole.size, 1}:
            assert len({rank for rank, span in blamed if span.size == size}) >= 2
        # The first time, the last time, and once for each half between them.
        assert len(blamed) <= 3 + (whole.size - 1).bit_length()


@given(SIZES, st.integers(0, 500), st.integers(2, 4), st.booleans())
def test_a_rank_that_fails_with_everything_costs_no_sequence(sizes, bad, ranks, fixed):
    bad = bad % sum(sizes) if sizes else 0
    queue = WorkQueue(spans_of(sizes), weigh=lambda span: span.size, world_size=ranks if fixed else None)
    _, set_aside = worked_off(queue, lambda rank, span: rank == 0 or bad in range(*span), range(ranks))
    assert set_aside == [bad] * bool(sizes)


def test_who_could_not_do_what_another_could_is_told():
    queue = WorkQueue([Span(0, 4), Span(4, 7)], weigh=lambda span: span.size)
    assert queue.take(0) == Span(0, 4)
    assert queue.blame(0, [1]) is Verdict.AGAIN
    # It leaves that to others as long as there are some.
    assert queue.waiting(0, alone=False) == 1
    assert queue.take(0, alone=False) == Span(4, 7)
    assert queue.take(1, alone=False) == Span(0, 4)
    assert queue.finish(0, Span(4, 7)) is None
    assert queue.finish(1, Span(0, 4)) == 0


def test_who_is_alone_sets_a_sequence_aside_only_with_a_process_that_did_nothing_else():
    queue = WorkQueue([Span(0, 2), Span(2, 9)], weigh=lambda span: span.size)
    assert queue.take(0) == Span(2, 9)
    queue.finish(0)
    for verdict, span in ((Verdict.AGAIN, (0, 2)), (Verdict.NARROWED, (0, 2)), (Verdict.AGAIN, (0, 1))):
        assert queue.take(0) == Span(*span)
        assert queue.blame(0, fresh=False) is verdict
    # It is what a process that is started anew begins with, and one that has failed before is not believed still.
    for _ in range(3):
        assert queue.take(0) == Span(0, 1)
        assert queue.blame(0, fresh=False) is Verdict.AGAIN
    assert queue.take(0) == Span(0, 1)
    assert queue.blame(0, fresh=True) is Verdict.SET_ASIDE
    assert queue.take(0) == Span(1, 2)
    assert queue.finish(0) is None
    assert len(queue) == 0


def test_sequences_without_a_vector_are_tried_by_another_rank_first_and_together():
    queue = WorkQueue([Span(0, 20), Span(20, 50)], weigh=lambda span: span.size)
    assert (queue.take(1), queue.take(0)) == (Span(20, 50), Span(0, 20))
    assert queue.question(0, [3, 4, 5, 19], others=[1]) == [Span(3, 6), Span(19, 20)]
    assert queue.finish(0, Span(0, 20)) is None
    assert queue.take(0, alone=False) is None
    queue.finish(1)
    assert queue.take(1, alone=False) == Span(3, 6)
    # It has vectors for some of them: that is for the first rank to explain. The others are settled.
    assert queue.question(1, [4], others=[0]) == []
    assert queue.finish(1, Span(3, 6), computed=True) == 0
    assert queue.take(1, alone=False) == Span(19, 20)
    assert queue.question(1, [19], others=[0]) == []
    assert queue.finish(1, Span(19, 20), computed=False) is None
    assert len(queue) == 0


@given(SIZES, st.sets(st.integers(0, 160)), st.integers(1, 4), st.booleans())
def test_sequences_that_no_rank_has_a_vector_for_are_set_aside_on_the_word_of_two(sizes, lacking, ranks, fixed):
    queue = WorkQueue(spans_of(sizes), weigh=lambda span: span.size, world_size=ranks if fixed else None)
    lacking &= set(range(sum(sizes)))
    words, set_aside = [], []
    while len(queue):
        before = len(words), len(queue)
        for rank in range(ranks):
            others = [other for other in range(ranks) if other != rank]
            if (span := queue.take(rank, alone=not others)) is None:
                continue
            missed = sorted(lacking & set(range(*span)))
            words += [(rank, piece) for piece in missed]
            again = {piece for tried in queue.question(rank, missed, others) for piece in range(*tried)}
            set_aside += set(missed) - again
            assert queue.finish(rank, span, computed=len(missed) < span.size) is None
        assert (len(words), len(queue)) != before, "spans wait, and nobody takes them"
    assert sorted(set_aside) == sorted(lacking)
    for piece in lacking:
        said = [rank for rank, lacked in words if lacked == piece]
        assert len(said) == len(set(said)) == min(ranks, 2)


def test_what_a_rank_had_no_vector_for_is_narrowed_without_it():
    queue = WorkQueue([Span(0, 4)], weigh=lambda span: span.size)
    queue.take(0)
    assert queue.question(0, range(4), others=[1]) == [Span(0, 4)]
    queue.finish(0)
    taken = []
    while (span := queue.take(1, alone=False)) is not None:
        taken.append((*span, queue.blame(1, [0]).name))
        assert queue.take(0, alone=False) is None
    assert taken[:2] == [(0, 4, "NARROWED"), (0, 2, "NARROWED")]
    assert sorted(taken[3:]) == [(k, k + 1, "SET_ASIDE") for k in range(4)]


def test_what_a_rank_failed_with_is_not_handed_over_to_it():
    queue = WorkQueue([Span(0, 2)], weigh=lambda span: span.size, world_size=3)
    queue.take(0)
    queue.blame(0, [2])
    queue.hand_over(2, [0, 1])
    assert queue.take(0, alone=False) is None
    assert queue.take(1, alone=False) == Span(0, 2)
