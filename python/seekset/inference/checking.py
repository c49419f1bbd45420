"""Checks of an encoder before workers start, in a process of its own: what it wants, and whether it works at all."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from seekset.child import Child, end_with_parent, guard_group, in_words
from seekset.errors import SeeksetError
from seekset.inference.encoders.protocol import UnknownModelError
from seekset.inference.messages import classify
from seekset.inference.pieces import Slice
from seekset.inference.post import Post
from seekset.inference.results import Span

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from seekset.child import Pipe
    from seekset.inference.job import EncoderOptions, Job
    from seekset.inference.pieces import Pieces

__all__ = ["EncoderCheck", "EncoderError", "samples"]

# A batch in which an encoder fails may hold the one sequence that it can't take: others are tried on their own.
_OTHERS = 4
_MOST_OF_A_BATCH = 8
_MOST_HUNG = 2


class EncoderError(SeeksetError):
    """An encoder can't be loaded, or works with no sequence that was tried."""


class EncoderCheck:
    """A process that has the encoder loaded, and with it whatever workers would all want to download.

    Args:
        options: Which encoder.
        device: The device, as the process sees it.
        environment: What makes it see that device alone.
        log: Where its output goes.
        patience: How many seconds loading may take.
        batch_patience: How many seconds a batch may take.
    """

    def __init__(
        self,
        options: EncoderOptions,
        device: str,
        environment: Mapping[str, str],
        log: Path,
        patience: float,
        batch_patience: float,
    ) -> None:
        self._options, self._device, self._environment = options, device, dict(environment)
        self._log, self._patience, self._batch_patience = log, patience, batch_patience
        self._child: Child | None = None
        self._post: Post | None = None

    def facts(self) -> dict[str, Any]:
        """What the encoder wants; one that can't be loaded is an ``EncoderError``, none an ``UnknownModelError``."""
        log = self._log
        self._child = Child("seekset.inference.checking:check", environment=self._environment, log=log)
        self._post = Post(self._child.connection)
        how, found = self._asked((self._options, self._device), "loading it", self._patience)
        if how != "facts":
            self.close()
            kind = UnknownModelError if how == "unknown" else EncoderError
            raise kind(f"{self._options.model}: the encoder can't be loaded: {found}")
        return dict(found)

    def try_out(self, job: Job) -> None:
        """Encode a few sequences; an ``EncoderError`` if that works with none of them."""
        faults: list[str] = []
        hung = 0
        for sample in samples(job.pieces):
            if self._child is None:
                self.facts()
            how, found = self._asked((job, sample), "encoding a batch", self._batch_patience)
            if how == "width":
                return
            faults.append(found)
            # One sequence that hangs may be among the first, and be tried alone; whoever hangs once more always does.
            hung += how == "hung"
            if hung > _MOST_HUNG:
                break
        raise EncoderError(f"{self._options.model}: the encoder failed in a first trial: {faults[0]}")

    def _asked(self, question: Any, what: str, patience: float) -> tuple[str, Any]:
        child, post = self._child, self._post
        if child is None or post is None:
            raise ValueError("there is no process to ask")
        try:
            post.send(question)
            if post.poll(patience):
                return post.receive()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            how, fault = "error", f"its process {in_words(child.end(1))} ({what}); see {self._log}"
        else:
            how, fault = "hung", f"{what} took longer than {patience:g} s"
        self.close()
        return how, fault

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = self._post = None


def samples(pieces: Pieces) -> list[Slice]:
    """What is tried: some sequences of the batch with the fewest tokens, then single ones from all over the plan."""
    count = len(pieces)
    smallest = list(pieces.slices(Span(max(count - _MOST_OF_A_BATCH, 0), count)))[-1]
    places = {count - 1, *(count * k // _OTHERS for k in range(_OTHERS))}
    singles = [next(pieces.slices(Span(place, place + 1))) for place in sorted(places, reverse=True)]
    return [smallest, *singles]


def _told(error: Exception, model: str) -> str:
    """What an error says, without what whoever tells it has said already."""
    text = classify(error)[1]
    if isinstance(error, SeeksetError):
        text = text.removeprefix(f"{type(error).__name__}: ")
    return text.removeprefix(f"{model}: ")


def check(connection: Pipe) -> None:
    """Answer an :class:`EncoderCheck`; what its process does."""
    end_with_parent()
    guard_group()
    post = Post(connection)
    from seekset.inference.encoders import describe, load_encoder
    from seekset.inference.runner import Runner, manifest_facts

    try:
        options, device = post.receive()
        try:
            encoder = load_encoder(device=device, **options.loading())
            post.send(("facts", manifest_facts(describe(encoder))))
        except Exception as error:  # noqa: BLE001 (loading may raise anything)
            traceback.print_exc()
            how = "unknown" if isinstance(error, UnknownModelError) else "error"
            post.send((how, _told(error, options.model)))
            return
        while True:
            job, sample = post.receive()
            try:
                post.send(("width", Runner(job, device, encoder).try_out(sample)))
            except Exception as error:  # noqa: BLE001 (an encoder may raise anything)
                traceback.print_exc()
                post.send(("error", classify(error)[1]))
    except (EOFError, OSError):
        return
