"""A contest: one job done by several contestants, each in a process of its own, taking turns."""

from __future__ import annotations

import hashlib
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import cache
from cache import NotColdError

REPEATS = 3

# A repeat of something quicker is the median of as many runs as fit into this.
_SECONDS_PER_REPEAT = 0.1

# A forked process would inherit what the parent has loaded and mapped.
_PROCESSES = multiprocessing.get_context("spawn")

# Contests whose files are in the page cache, and those whose files lie on the disk only.
WARM = "Warm page cache"
COLD = "Cold page cache"

Answers = dict[str, str]

_T = TypeVar("_T")


def _nothing() -> None:
    pass


class Task(NamedTuple):
    """What a contestant does, once it has imported and opened what it needs.

    ``run`` is timed. ``before`` comes before each run and ``answers`` after the first one; neither is timed. Answers
    are digests by what they are of: where two contestants have one of the same, it must be equal. Times are of one of
    the ``calls`` that a run makes.
    """

    run: Callable[[], Any]
    answers: Callable[[Any], Answers]
    before: Callable[[], None] = _nothing
    calls: int = 1


class Contestant(NamedTuple):
    """Who takes part. ``enter`` is called in the contestant's own process, so it must be picklable.

    ``goal`` is how many times faster than this contestant seekset is to be.
    """

    name: str
    enter: Callable[[], Task]
    goal: float | None = None


class Contest(NamedTuple):
    """One job. The first contestant is seekset, the others are shown beside it.

    With ``fresh``, each run has a process of its own, in which it is the first. Contests of another ``section`` are
    shown apart.
    """

    title: str
    contestants: Sequence[Contestant]
    fresh: bool = False
    section: str = WARM


@dataclass(frozen=True)
class Times:
    """Seconds of each repeat."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The one that counts."""
        return statistics.median(self.seconds)


class Measure(NamedTuple):
    """What is compared: less of it is better. ``noun`` stands in a table's head, ``units`` are from large to small."""

    noun: str
    units: tuple[tuple[float, str], ...]


TIME = Measure("time", ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))
MEMORY = Measure("memory", ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")))


class Row(NamedTuple):
    """A peer beside seekset, as the report shows it."""

    title: str
    peer: str
    peer_times: Times
    own_times: Times
    goal: float | None = None
    section: str = WARM
    measure: Measure = TIME

    @property
    def is_cold(self) -> bool:
        """Whether the files were on the disk only."""
        return self.section == COLD

    @property
    def ratio(self) -> float:
        """How many times faster seekset is than the peer, or how many times less memory it takes."""
        return self.peer_times.median / self.own_times.median

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest ratio of a repeat: contestants take turns, so that times of one go together."""
        theirs, own = self.peer_times.seconds, self.own_times.seconds
        if len(theirs) == len(own):
            ratios = [a / b for a, b in zip(theirs, own, strict=True)]
        else:
            ratios = [min(theirs) / max(own), max(theirs) / min(own)]
        return min(*ratios, self.ratio), max(*ratios, self.ratio)

    @property
    def reached(self) -> bool | None:
        """Whether the goal was reached, if there is one."""
        return None if self.goal is None else self.ratio >= self.goal


class Table(NamedTuple):
    """Figures that are no times and have no peer to be compared with."""

    title: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


class DisagreementError(Exception):
    """Contestants gave different answers, so their times say nothing."""


def apart(work: Callable[..., _T], *arguments: Any) -> _T:
    """What some work gives, done in a process of its own: what the driver maps could not be dropped from the cache."""
    with ProcessPoolExecutor(1, mp_context=_PROCESSES) as process:
        return process.submit(work, *arguments).result()


def digest(*parts: bytes | memoryview) -> str:
    """One short text for many bytes. Where a part ends makes a difference."""
    lengths = repr([memoryview(part).nbytes for part in parts]).encode()
    state = hashlib.blake2b(lengths, digest_size=16)
    for part in parts:
        state.update(part)
    return state.hexdigest()


def cold(contest: Contest, paths: Sequence[Path]) -> Contest:
    """The same contest with files that lie on the disk only, each run in a process of its own, as its first.

    ``paths`` are all files and folders that anybody reads. Goals are for the warm contest.
    """
    enter = partial(_enter_cold, tuple(paths))
    contestants = [who._replace(enter=partial(enter, who.enter), goal=None) for who in contest.contestants]
    return contest._replace(contestants=contestants, fresh=True, section=COLD)


def _enter_cold(paths: tuple[Path, ...], enter: Callable[[], Task]) -> Task:
    # Before they are opened, too: what is read by opening then takes few pages along, and those that are mapped stay.
    cache.drop(paths)
    task = enter()

    def before() -> None:
        task.before()
        cache.make_cold(paths)

    return task._replace(before=before)


def hold(contest: Contest) -> list[Row]:
    """Let all contestants take part and return a row for each but the first."""
    times = _times_in_fresh_processes(contest) if contest.fresh else _times_in_lasting_processes(contest)
    own, *others = times
    peers = zip(contest.contestants[1:], others, strict=True)
    return [Row(contest.title, peer.name, theirs, own, peer.goal, contest.section) for peer, theirs in peers]


def _times_in_lasting_processes(contest: Contest) -> list[Times]:
    times = [Times() for _ in contest.contestants]
    with _running(contest.contestants) as processes:
        _check_answers(contest, [process.first_run() for process in processes])
        for _ in range(REPEATS):
            for process, mine in zip(processes, times, strict=True):
                mine.seconds.append(process.time(_SECONDS_PER_REPEAT))
    return times


def _times_in_fresh_processes(contest: Contest) -> list[Times]:
    times = [Times() for _ in contest.contestants]
    answers = []
    for contestant in contest.contestants:
        with _running([contestant]) as (process,):
            answers.append(process.first_run())
    _check_answers(contest, answers)
    for _ in range(REPEATS):
        for contestant, mine in zip(contest.contestants, times, strict=True):
            with _running([contestant]) as (process,):
                mine.seconds.append(process.time(0))
    return times


def _check_answers(contest: Contest, answers: list[Answers]) -> None:
    known: dict[str, tuple[str, str]] = {}
    for contestant, mine in zip(contest.contestants, answers, strict=True):
        for what, value in mine.items():
            first, expected = known.setdefault(what, (contestant.name, value))
            if value != expected:
                message = f"{contest.title}: {contestant.name} and {first} do not agree on the {what}"
                raise DisagreementError(message)


class _Process:
    """A contestant at work in its own process."""

    def __init__(self, contestant: Contestant) -> None:
        self._name = contestant.name
        self._pipe, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_take_part, args=(contestant.enter, theirs))
        self._process.start()
        theirs.close()  # so that a process that fails is an end of file rather than a wait for ever

    def first_run(self) -> Answers:
        """Run once to warm up, and return the answers."""
        return self._ask(None)

    def time(self, at_least: float) -> float:
        """Run for so many seconds, but at least once, and return the median."""
        return self._ask(at_least)

    def close(self) -> None:
        """Let the process end."""
        self._pipe.close()
        self._process.join()

    def _ask(self, at_least: float | None) -> Any:
        try:
            self._pipe.send(at_least)
            answer = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise RuntimeError(f"{self._name} failed, as reported above") from None
        if isinstance(answer, NotColdError):
            raise answer
        return answer


@contextmanager
def _running(contestants: Sequence[Contestant]) -> Iterator[list[_Process]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(_Process(contestant))) for contestant in contestants]


def _take_part(enter: Callable[[], Task], pipe: Any) -> None:
    task = enter()
    while True:
        try:
            at_least = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(_first_run(task) if at_least is None else _median_run(task, at_least))
        except NotColdError as error:
            pipe.send(error)


def _first_run(task: Task) -> Answers:
    task.before()
    return task.answers(task.run())


def _median_run(task: Task, at_least: float) -> float:
    seconds: list[float] = []
    while not seconds or sum(seconds) < at_least:
        task.before()
        start = time.perf_counter()
        result = task.run()
        seconds.append(time.perf_counter() - start)
        del result  # what it takes to free it is not part of the job
    return statistics.median(seconds) / task.calls
