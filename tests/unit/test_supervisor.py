"""The supervisor by itself: its clock is set here, and its crew is played."""

import errno
import itertools

import pytest

from seekset.errors import StaleIndexError
from seekset.inference import supervisor as supervisors
from seekset.inference.events import Events, read_events
from seekset.inference.messages import Begun, Died, Finished, Raised, Ready, SetAside, Started
from seekset.inference.policy import Policy
from seekset.inference.queue import WorkQueue
from seekset.inference.results import Failure, Span
from seekset.inference.supervisor import TRANSITIONS, Supervisor

KILLED = "was ended by SIGKILL"
ONE, TWO = Span(0, 1), Span(0, 2)
# Every play, and what it is played with.
PLAYS = {}


class Crew:
    """Workers that say what a play says: a list of events each time that somebody listens for a moment."""

    def __init__(self, size, play, refusals):
        self._size, self._play, self._refusals = size, play(self), refusals
        self.now, self.calls = 0.0, []
        # Why the run is to stop, once a play says so.
        self.stopped = None

    def __len__(self):
        return self._size

    def start(self, rank):
        self.calls.append(("start", rank))
        if self._refusals.get(rank, 0) >= self.calls.count(("start", rank)):
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    def assign(self, rank, span):
        self.calls.append(("assign", rank, span))

    def stop(self, rank):
        self.calls.append(("stop", rank))

    def kill(self, rank):
        self.calls.append(("kill", rank))

    def poll(self, seconds):
        self.now += seconds
        return next(self._play)

    def close(self):
        self.calls.append(("close",))


class Folder:
    """Where sequences are set aside; with an error, they can't be."""

    def __init__(self, error=None):
        self._error = error

    def set_aside(self, span, reason):
        if self._error is not None:
            raise self._error
        return Failure(span.start, span.start, f"seq_{span.start}", reason)


class Performance:
    """A run of a play: how it ended, what was told, and which ways states went."""

    def __init__(self, path, play, *, error=None):
        how = dict(PLAYS[play])
        self.crew = Crew(how.pop("size", 1), play, how.pop("refusals", {}))
        self.walked = set()
        queue = WorkQueue(how.pop("spans", [ONE]), weigh=lambda span: -span.start)
        become = supervisors._Worker.become

        def noted(worker, state, now):
            self.walked.add((worker.state, state))
            become(worker, state, now)

        with pytest.MonkeyPatch.context() as patch, Events(path / "events.jsonl") as events:
            patch.setattr(supervisors._Worker, "become", noted)
            ends = {"stop": lambda: self.crew.stopped, "clock": lambda: self.crew.now}
            run = Supervisor(Folder(error), self.crew, queue, events, policy=Policy(**how), **ends)
            self.outcome = run.run()
        self._events = list(read_events(path / "events.jsonl"))
        (path / "events.jsonl").unlink()

    def told(self, kind, name):
        return [event[name] for event in self._events if event["event"] == kind]

    def calls(self, *call):
        return self.crew.calls.count(call)


def played(**how):
    def note(play):
        PLAYS[play] = how
        return play

    return note


def done(rank, span):
    return Finished(rank, span, span.size, span.size)


def gone(rank):
    return Died(rank, "ended with exit code 0", innocent=False)


def killed(rank):
    return Died(rank, KILLED, innocent=True)


def ended(rank):
    """What follows when the supervisor has a worker killed."""
    return Died(rank, KILLED, innocent=False)


def left(rank):
    return Died(rank, "does not end, though it was killed", innocent=True, left=True)


def until(crew, *call):
    """Nothing is said until the supervisor does something."""
    while call not in crew.calls:
        yield []


@played(size=5)
def undisturbed(crew):
    yield [Started(0, "cpu", 7)]
    yield [Ready(0)]
    yield [Begun(0)]
    yield [done(0, ONE)]
    yield [gone(0)]


def test_a_worker_is_started_and_given_a_span_and_ended_and_no_more_than_there_is_work_for(tmp_path):
    run = Performance(tmp_path, undisturbed)
    assert run.outcome.complete
    assert run.crew.calls == [("start", 0), ("assign", 0, ONE), ("stop", 0), ("close",)]
    assert run.told("worker_ended", "how") == ["ended with exit code 0"]


@played(backoff=0.5)
def dies_loading_idle_and_busy(crew):
    yield [killed(0)]
    yield from itertools.repeat([], 3)
    yield [Ready(0), killed(0)]
    yield from itertools.repeat([], 6)
    yield [Ready(0)]
    yield [killed(0)]
    yield from itertools.repeat([], 11)
    yield [Ready(0)]
    yield [done(0, ONE)]
    yield [gone(0)]


def test_a_worker_that_dies_is_started_again_and_waited_for_longer_each_time(tmp_path):
    run = Performance(tmp_path, dies_loading_idle_and_busy)
    assert run.outcome.complete
    assert run.calls("start", 0) == 4
    assert run.told("worker_died", "how") == [KILLED] * 3
    assert run.told("chunk_failed", "verdict") == []


@played(most_deaths=1, backoff=0.0)
def dies_loading(crew):
    yield [killed(0)]
    yield [killed(0)]


@played(most_deaths=1, backoff=0.0)
def dies_idle(crew):
    yield [Ready(0), killed(0)]
    yield [Ready(0), killed(0)]


@played(most_deaths=1, backoff=0.0)
def dies_busy(crew):
    for _ in range(2):
        yield [Ready(0)]
        yield [killed(0)]


@pytest.mark.parametrize("play", [dies_loading, dies_idle, dies_busy])
def test_a_worker_that_dies_too_often_is_given_up(tmp_path, play):
    run = Performance(tmp_path, play)
    assert (run.outcome.complete, run.outcome.given_up) == (False, [0])
    assert run.told("worker_given_up", "reason") == ["it died 2 times in a row"]


@played(size=2, spans=[ONE, Span(1, 3)], refusals={1: 1}, backoff=0.0)
def cant_be_started_at_once(crew):
    yield [Ready(0)]
    yield [Ready(1)]
    yield [done(0, ONE), done(1, Span(1, 3))]
    yield [gone(0), gone(1)]


def test_a_worker_that_the_system_has_no_room_for_has_died_and_the_others_go_on(tmp_path):
    run = Performance(tmp_path, cant_be_started_at_once)
    assert (run.outcome.complete, run.outcome.given_up) == (True, [])
    assert run.told("worker_died", "how") == ["could not be started: Resource temporarily unavailable"]
    assert run.calls("start", 1) == 2
    assert run.calls("kill", 0) == 0


@played(size=2, spans=[ONE, Span(1, 3)], refusals={1: 9}, most_deaths=1, backoff=0.0)
def cant_be_started(crew):
    yield [Ready(0)]
    yield []
    yield [done(0, ONE)]
    yield [done(0, Span(1, 3))]
    yield [gone(0)]


def test_a_worker_that_the_system_never_has_room_for_is_given_up(tmp_path):
    run = Performance(tmp_path, cant_be_started)
    assert (run.outcome.complete, run.outcome.given_up) == (True, [1])
    assert run.told("worker_given_up", "reason") == ["it died 2 times in a row"]


@played(spans=[ONE, Span(1, 2)], most_deaths=0, longest_backoff=0.0)
def is_lost_again_and_again(crew):
    lost = Died(0, "was lost with its actor", innocent=True, lost=True)
    for span in (ONE, Span(1, 2)):
        for _ in range(3):
            yield [lost]
        yield [Ready(0)]
        if span is ONE:
            yield [done(0, span)]
            yield [Begun(0)]
    yield [lost]


def test_a_worker_that_is_lost_more_than_a_few_times_in_a_row_has_died(tmp_path):
    run = Performance(tmp_path, is_lost_again_and_again)
    assert run.outcome.given_up == [0]
    assert len(run.told("worker_died", "how")) == 7


@played(load_timeout=5, backoff=0.0)
def hangs_loading(crew):
    yield from until(crew, "kill", 0)
    yield [ended(0)]
    yield from undisturbed(crew)


@played(batch_timeout=5, backoff=0.0)
def hangs_busy(crew):
    yield [Ready(0)]
    yield from hangs_loading(crew)


@pytest.mark.parametrize(
    "play, what, verdicts", [(hangs_loading, "loading the encoder", []), (hangs_busy, "a batch", ["again"])]
)
def test_one_that_says_nothing_for_too_long_is_ended(tmp_path, play, what, verdicts):
    run = Performance(tmp_path, play)
    assert run.outcome.complete
    assert run.told("worker_hung", "reason") == [f"{what} took longer than 5 s"]
    assert run.told("worker_died", "how") == ["was hung and ended"]
    assert run.told("chunk_failed", "verdict") == verdicts


@played(batch_timeout=5, backoff=0.0)
def cant_be_ended(crew):
    yield [Ready(0)]
    yield from until(crew, "kill", 0)
    yield [left(0)]
    yield from undisturbed(crew)


def test_one_that_cant_be_ended_is_told_as_that_and_blames_no_span(tmp_path):
    run = Performance(tmp_path, cant_be_ended)
    assert run.outcome.complete
    assert run.told("worker_died", "how") == ["does not end, though it was killed"]
    assert run.told("chunk_failed", "verdict") == []


@played(batch_timeout=5, grace=2.0)
def cant_be_ended_and_is_told_to_stop(crew):
    yield [Ready(0)]
    yield from until(crew, "kill", 0)
    crew.stopped = "enough"
    yield from itertools.repeat([], 100)
    yield [left(0)]


def test_one_that_cant_be_ended_is_waited_for_as_long_as_its_crew_does(tmp_path):
    run = Performance(tmp_path, cant_be_ended_and_is_told_to_stop)
    assert run.outcome.stopped == "enough"
    assert run.told("worker_ended", "how") == ["does not end, though it was killed"]


@played(spans=[TWO])
def is_told_to_stop_while_it_loads(crew):
    crew.stopped = "enough"
    yield []
    yield [ended(0)]


@played(spans=[TWO])
def is_told_to_stop_while_it_works(crew):
    yield [Ready(0)]
    crew.stopped = "enough"
    yield []
    yield [done(0, ONE)]
    yield [gone(0)]


@played(spans=[TWO], size=2)
def is_told_to_stop_while_it_waits(crew):
    yield [Ready(0)]
    # From then on, this span is the other one's.
    yield [Raised(0, "encoder", "no")]
    crew.stopped = "enough"
    yield []
    yield [gone(0)]
    yield [ended(1)]


@pytest.mark.parametrize(
    "play, how",
    [
        (is_told_to_stop_while_it_loads, "kill"),
        (is_told_to_stop_while_it_works, "stop"),
        (is_told_to_stop_while_it_waits, "stop"),
    ],
)
def test_a_run_that_is_stopped_lets_workers_finish_what_they_are_at_but_not_load(tmp_path, play, how):
    run = Performance(tmp_path, play)
    assert (run.outcome.complete, run.outcome.stopped) == (False, "enough")
    assert run.calls(how, 0) == 1
    assert run.told("worker_died", "how") == []


@played(grace=2.0)
def never_comes_to_its_end(crew):
    yield [Ready(0)]
    crew.stopped = "enough"
    yield from until(crew, "kill", 0)
    yield [ended(0)]


def test_those_that_do_not_come_to_their_end_are_ended(tmp_path):
    run = Performance(tmp_path, never_comes_to_its_end)
    assert run.told("worker_ended", "how") == ["did not end when it was asked to, and was ended"]


@played(size=2, most_deaths=0)
def fails_and_all_is_done_before_it_is_gone(crew):
    yield [Ready(0)]
    yield [Raised(0, "encoder", "no")]
    yield [Ready(1)]
    yield [done(1, ONE)]
    yield [ended(0)]
    yield [gone(1)]


@played(size=2, most_deaths=0)
def fails_and_is_lost(crew):
    yield [Ready(0)]
    yield [Raised(0, "encoder", "no")]
    yield [Died(0, "was lost with its actor", innocent=True, lost=True)]
    yield [Ready(1)]
    yield [done(1, ONE)]
    yield [gone(1)]


@played(size=2, spans=[TWO, Span(2, 4), Span(4, 6)], most_deaths=0)
def fails_and_goes_on_with_something_else(crew):
    yield [Ready(0)]
    yield [Ready(1)]
    yield [Raised(0, "encoder", "no")]
    yield [done(1, Span(2, 4))]
    yield [done(1, TWO)]
    yield [ended(0)]
    yield [done(1, Span(4, 6))]
    yield [gone(1)]


@pytest.mark.parametrize(
    "play", [fails_and_all_is_done_before_it_is_gone, fails_and_is_lost, fails_and_goes_on_with_something_else]
)
def test_a_worker_that_fails_with_what_others_can_do_is_given_up_whatever_it_is_at(tmp_path, play):
    run = Performance(tmp_path, play)
    assert (run.outcome.complete, run.outcome.given_up) == (True, [0])
    assert run.told("worker_given_up", "reason") == ["it failed 1 times in a row with what other workers could do"]


def lacks(rank, piece):
    """A worker has finished a sequence without a vector for it."""
    told = Failure(piece, piece, f"seq_{piece}", "the encoder gave NaN or infinity")
    return [SetAside(rank, told), Finished(rank, Span(piece, piece + 1), 0, 1)]


@played(size=2, spans=[ONE, Span(1, 2), Span(2, 3), Span(3, 4)], most_deaths=1)
def has_no_vector_for_what_the_other_has_one_for(crew):
    yield [Ready(0), Ready(1)]
    for piece in (0, 2):
        yield lacks(0, piece)
        yield [done(1, Span(piece + 1, piece + 2))]
        yield [done(1, Span(piece, piece + 1))]
    yield [ended(0)]
    yield [gone(1)]


def test_a_worker_that_gives_no_vectors_where_another_does_is_given_up_though_it_finishes_what_it_is_given(tmp_path):
    run = Performance(tmp_path, has_no_vector_for_what_the_other_has_one_for)
    assert (run.outcome.complete, run.outcome.given_up) == (True, [0])
    assert run.told("worker_given_up", "reason") == ["it failed 2 times in a row with what other workers could do"]
    assert run.told("sequence_failed", "piece") == []


@played(size=2)
def has_no_vector_and_nor_has_the_other(crew):
    yield [Ready(0)]
    yield lacks(0, 0)
    yield [Ready(1)]
    yield lacks(1, 0)
    yield [gone(0), gone(1)]


def test_a_sequence_that_two_workers_have_no_vector_for_is_told_of_once(tmp_path):
    run = Performance(tmp_path, has_no_vector_and_nor_has_the_other)
    assert (run.outcome.complete, run.outcome.given_up) == (True, [])
    assert [call for call in run.crew.calls if call[0] == "assign"] == [("assign", 0, ONE), ("assign", 1, ONE)]
    assert run.told("chunk_failed", "verdict") == ["again"]
    assert run.told("sequence_failed", "piece") == [0]


@played(most_deaths=1)
def fails_and_fails_again_in_a_process_started_anew(crew):
    yield [Ready(0)]
    yield [Raised(0, "encoder", "no")]
    yield [ended(0)]
    yield [Ready(0)]
    yield [Raised(0, "encoder", "no")]
    yield [gone(0)]


def test_a_process_that_is_started_anew_to_see_whether_it_was_broken_has_not_died(tmp_path):
    run = Performance(tmp_path, fails_and_fails_again_in_a_process_started_anew)
    assert (run.outcome.complete, run.outcome.given_up) == (True, [])
    assert (run.calls("start", 0), run.calls("kill", 0)) == (2, 1)
    assert run.told("chunk_failed", "verdict") == ["again", "set_aside"]


@played(size=2, spans=[ONE, Span(1, 3), Span(3, 5)])
def sets_a_sequence_aside_while_the_other_works(crew):
    yield [Ready(0), Ready(1)]
    yield [Raised(0, "encoder", "no")]
    yield [done(1, Span(1, 3))]
    yield [Raised(1, "encoder", "no")]
    yield []
    yield [done(0, Span(3, 5))]
    yield [gone(0), gone(1)]


@pytest.mark.parametrize(
    "error, fault",
    [
        (OSError(errno.ENOSPC, "No space left on device", "chunks/7"), "room"),
        (OSError(errno.EIO, "Input/output error", "chunks/7"), "machine"),
        (StaleIndexError("a.fa has changed"), "data"),
    ],
)
def test_a_sequence_that_cant_be_set_aside_ends_the_run_as_if_a_worker_could_not_save(tmp_path, error, fault):
    run = Performance(tmp_path, sets_a_sequence_aside_while_the_other_works, error=error)
    assert not run.outcome.complete
    assert run.outcome.fault == (fault, f"results can't be saved: {error}")
    # The other one has finished what it was at.
    assert run.told("chunk_finished", "start") == [1, 3]
    assert run.told("worker_died", "how") == []
    run = Performance(tmp_path, sets_a_sequence_aside_while_the_other_works)
    assert run.outcome.complete
    assert run.told("sequence_failed", "sequence_id") == ["seq_0"]


def test_every_row_of_the_table_of_states_is_walked_through(tmp_path):
    walked = set().union(*(Performance(tmp_path, play).walked for play in PLAYS))
    assert walked == {(before, after) for before, states in TRANSITIONS.items() for after in states}
