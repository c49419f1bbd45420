"""The runner: what a worker does with a span. It gathers batches, encodes them and saves the result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seekset.errors import MismatchError, StaleIndexError
from seekset.gathering import gather_batch
from seekset.inference.encoders import as_array, describe, is_out_of_memory, load_encoder, unfinite_rows
from seekset.inference.messages import MachineError, WidthError
from seekset.inference.results import Failure, Result, Span
from seekset.plan import PlannedBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seekset.inference.encoders import Encoder, EncoderFacts
    from seekset.inference.job import Job
    from seekset.inference.pieces import Slice

__all__ = ["Done", "Runner", "manifest_facts"]


class Done(NamedTuple):
    """What was done of a span, and saved: all of it, or its start if the runner was told to stop."""

    span: Span
    sequences: int
    tokens: int
    failures: list[Failure]


class Runner:
    """An encoder on one device, and a job's sequences.

    Args:
        job: The job.
        device: The device, as this process sees it.
        encoder: The job's encoder, if it is loaded already.
    """

    def __init__(self, job: Job, device: str, encoder: Encoder | None = None) -> None:
        self._job = job
        self._per_token = job.encoder.per_token
        self._encoder = load_encoder(device=device, **job.encoder.loading()) if encoder is None else encoder
        self._facts = describe(self._encoder)
        self._refuse_other_facts(job.manifest.facts)
        # The most tokens that a batch was found to fit in memory with; less than planned after it did not.
        self._budget: int | None = None
        # Numbers of a vector, once there is one.
        self._width: int | None = None

    def _refuse_other_facts(self, expected: Mapping[str, Any]) -> None:
        found = manifest_facts(self._facts)
        if wrong := [name for name in expected if expected[name] != found.get(name)]:
            told = "; ".join(f"{name} was {expected[name]!r} and is {found.get(name)!r}" for name in wrong)
            raise MismatchError(f"the encoder {self._job.encoder.model} is not what it was when the run began: {told}")

    def run(
        self,
        span: Span,
        *,
        begin: Callable[[], None] = lambda: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Done:
        """Encode a span and save what came of it.

        Args:
            span: The pieces.
            begin: Called before each batch, so that whoever waits can see that it goes on.
            stop: Asked after each batch; once it says so, what has been done is saved, and no more is begun.
        """
        parts: list[Result] = []
        end, tokens = span.start, 0
        for piece in self._job.pieces.slices(span):
            begin()
            parts.extend(self._encoded(piece))
            end, tokens = piece.span.end, tokens + piece.tokens
            if stop():
                break
        result = _joined(Span(span.start, end), parts)
        with _machine("results can't be saved"):
            self._job.store.write(result)
        return Done(result.span, len(result), tokens, result.failures)

    def try_out(self, piece: Slice) -> int:
        """Encode one batch, check it and forget it; gives the width of its vectors."""
        return int(self._vectors(piece)[0].shape[1])

    def _encoded(self, piece: Slice) -> Iterator[Result]:
        """What came of a batch, in parts if it did not fit into memory as a whole."""
        if self._budget is not None and piece.tokens > self._budget and piece.span.size > 1:
            yield from self._in_halves(piece)
            return
        try:
            vectors, counts = self._vectors(piece)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            reason = f"out of memory with a batch of {piece.tokens} tokens: {_line(error)}"
        else:
            yield self._finite(piece, vectors, counts)
            return
        # Here the error, which holds what the encoder had in memory, is gone.
        _free_memory()
        if piece.span.size == 1:
            failed = [self._failure(piece, 0, reason)]
            yield Result.of_failures(piece.span, failed, per_token=self._per_token)
            return
        self._budget = max(piece.tokens // 2, 1)
        yield from self._in_halves(piece)

    def _in_halves(self, piece: Slice) -> Iterator[Result]:
        for half in piece.halves(self._job.plan.specials):
            yield from self._encoded(half)

    def _vectors(self, piece: Slice) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        with _machine("sequences can't be read"):
            batch = self._batch(piece)
        counts = piece.batch.lengths if self._per_token else None
        vectors = as_array(self._encoder(batch), batch, self._facts, per_token=self._per_token)
        self._refuse_other_width(vectors.shape[1])
        return vectors, counts

    def _refuse_other_width(self, width: int) -> None:
        """Raise an error for vectors of another width than those before."""
        if self._width is None:
            self._width = width
        elif width != self._width:
            raise WidthError(
                f"the encoder {self._job.encoder.model} gave vectors of {self._width} numbers for one batch and of "
                f"{width} for another; let all have one width, and begin again with --restart"
            )

    def _batch(self, piece: Slice) -> dict[str, Any]:
        facts, index = self._facts, self._job.index
        # Copies: by the piece's own, vectors are paired with sequences, and a batch is the encoder's to change.
        planned = PlannedBatch(*(column.copy() for column in piece.batch))
        if facts.tokens is None:
            letters = index.fetch_many(planned.rows, max_length=self._job.plan.max_length)
            ids = index.ids(planned.rows)
            return {"rows": planned.rows, "sequences": letters, "sequence_ids": ids, "num_sequences": len(ids)}
        batch = gather_batch(index, planned, facts.tokens, layout=facts.layout, specials=facts.specials)
        if facts.arrays == "numpy":
            return batch
        import torch

        return {
            name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in batch.items()
        }

    def _finite(self, piece: Slice, vectors: NDArray[Any], counts: NDArray[np.int64] | None) -> Result:
        """Vectors with those set aside that are no numbers."""
        wrong = unfinite_rows(vectors, counts)
        rows = piece.batch.rows
        if not len(wrong):
            return Result(piece.span, rows, vectors, counts)
        kept = np.ones(len(rows), dtype=bool)
        kept[wrong] = False
        of_rows = kept if counts is None else np.repeat(kept, counts)
        failures = [self._failure(piece, at, "the encoder gave NaN or infinity") for at in wrong.tolist()]
        return Result(piece.span, rows[kept], vectors[of_rows], None if counts is None else counts[kept], failures)

    def _failure(self, piece: Slice, at: int, reason: str) -> Failure:
        row = int(piece.batch.rows[at])
        return Failure(piece.span.start + at, row, self._job.index.ids([row])[0], reason)


@contextmanager
def _machine(what: str) -> Iterator[None]:
    """Tell what the machine, or what is on its disks, does from what the encoder does."""
    try:
        yield
    except (OSError, StaleIndexError) as error:
        raise MachineError(f"{what}: {error}") from error


def manifest_facts(facts: EncoderFacts) -> dict[str, Any]:
    """What a manifest says of an encoder: what it is known by, and how many special tokens a sequence has."""
    return {**facts.identity, "around": sum(facts.around)}


def _joined(span: Span, parts: list[Result]) -> Result:
    """One result of many parts; those without a vector have no width, either."""
    rows = np.concatenate([part.rows for part in parts])
    some = [part.vectors for part in parts if len(part.vectors) or part.vectors.shape[1]]
    vectors = np.concatenate(some) if some else np.empty((0, 0), dtype=np.float32)
    by_token = [part.counts for part in parts if part.counts is not None]
    counts = np.concatenate(by_token) if by_token else None
    return Result(span, rows, vectors, counts, [failure for part in parts for failure in part.failures])


def _free_memory() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _line(error: BaseException) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:300]
