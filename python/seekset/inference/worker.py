"""A worker process: one device, one encoder, one span after another."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from seekset.child import end_now, end_with_parent, guard_group
from seekset.errors import SeeksetError
from seekset.inference.job import Job
from seekset.inference.messages import Begun, Finished, Raised, Ready, SetAside, Start, Stop, Work, classify, is_lasting
from seekset.inference.post import Post
from seekset.inference.runner import Runner

if TYPE_CHECKING:
    from seekset.child import Pipe
    from seekset.inference.results import Span

__all__ = ["work"]

# An id is told of in a message and in the log; its sequence is known by its row.
_LONGEST_ID = 1000
# What a process that SIGTERM ended has for an exit code.
_TERMINATED = 128 + signal.SIGTERM


def work(connection: Pipe) -> None:
    """Be a worker until there is nothing to do, or nobody to do it for."""
    end_with_parent()
    guard_group()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    post = Post(connection)
    start: Start = post.receive()
    stamp = time.strftime("%F %T")
    print(f"--- worker {start.rank} on {start.device}, process {os.getpid()}, started {stamp}", flush=True)  # noqa: T201 (its log)
    inbox = _Inbox(post)
    runner = _loaded(post, start)
    post.send(Ready(start.rank))
    while not inbox.stopping and (span := inbox.next()) is not None:
        _run(post, runner, start.rank, span, inbox)
    if inbox.terminated:
        raise SystemExit(_TERMINATED)


def _loaded(post: Post, start: Start) -> Runner:
    try:
        return Runner(Job.open(start.folder), start.device)
    except Exception as error:  # noqa: BLE001 (loading may raise anything)
        traceback.print_exc()
        post.send(Raised(start.rank, "loading", classify(error)[1], ends=True))
        raise SystemExit(1) from None


def _run(post: Post, runner: Runner, rank: int, span: Span, inbox: _Inbox) -> None:
    def begin() -> None:
        post.send(Begun(rank))

    answer: Any
    try:
        done, sequences, tokens, failures = runner.run(span, begin=begin, stop=lambda: inbox.stopping)
        # One by one: a message that does not fit into the connection could be left half said.
        for failure in failures:
            post.send(SetAside(rank, failure._replace(sequence_id=failure.sequence_id[:_LONGEST_ID])))
        answer = Finished(rank, done, sequences, tokens)
    except Exception as error:  # noqa: BLE001 (an encoder may raise anything)
        if not isinstance(error, SeeksetError):
            traceback.print_exc()
        fault, reason = classify(error)
        answer = Raised(rank, fault, reason, ends=fault == "machine" or is_lasting(error))
    post.send(answer)
    if isinstance(answer, Raised) and answer.ends:
        raise SystemExit(1)


class _Inbox:
    """What the coordinator says, heard while a batch runs, too: that it is gone above all."""

    def __init__(self, post: Post) -> None:
        self._spans: queue.SimpleQueue[Span | None] = queue.SimpleQueue()
        self.stopping = False
        self.terminated = False
        signal.signal(signal.SIGTERM, self._terminate)
        threading.Thread(target=self._listen, args=(post,), daemon=True).start()

    def next(self) -> Span | None:
        """The next span; ``None`` if there will be none."""
        return self._spans.get()

    def _terminate(self, *_: object) -> None:
        self.terminated = True
        self._stop()

    def _stop(self) -> None:
        self.stopping = True
        self._spans.put(None)

    def _listen(self, post: Post) -> None:
        try:
            while True:
                match post.receive():
                    case Work(span):
                        self._spans.put(span)
                    case Stop():
                        self._stop()
        except (EOFError, OSError):
            # Nobody is there to take what is being computed.
            end_now()
