"""What an encoder gave, checked and brought into an array that is ours."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seekset.inference.encoders.protocol import EncoderFacts

__all__ = ["as_array", "residues", "unfinite_rows"]

# Rows, and the numbers of each.
_AXES = 2


def residues(batch: dict[str, Any], facts: EncoderFacts) -> NDArray[np.int64]:
    """How many residues each sequence of a batch has, specials and padding left out.

    >>> from seekset.inference.encoders import EncoderFacts
    >>> residues({"cu_seqlens": np.array([0, 5, 9])}, EncoderFacts())
    array([3, 2])
    """
    if facts.tokens is None:
        return np.array([len(sequence) for sequence in batch["sequences"]], dtype=np.int64)
    if facts.layout == "padded":
        tokens = _local(batch["attention_mask"]).sum(axis=1)
    else:
        ends = _local(batch["cu_seqlens"])
        tokens = ends[1:] - ends[:-1]
    return np.asarray(tokens, dtype=np.int64) - sum(facts.around)


def as_array(output: Any, batch: dict[str, Any], facts: EncoderFacts, *, per_token: bool = False) -> NDArray[Any]:
    """What an encoder gave for a batch, as a new array of float32 or float16: a row per sequence, or per residue.

    Anything else than that is a ``MismatchError``.

    >>> from seekset.inference.encoders import EncoderFacts
    >>> batch = {"cu_seqlens": np.array([0, 5, 9])}
    >>> as_array(np.eye(2), batch, EncoderFacts()).dtype
    dtype('float32')
    >>> as_array(np.eye(3), batch, EncoderFacts())
    Traceback (most recent call last):
    seekset.errors.MismatchError: the encoder gave 3 rows for 2 sequences
    """
    found = _numbers(output)
    counts = residues(batch, facts)
    wanted = int(counts.sum()) if per_token else len(counts)
    if found.ndim != _AXES:
        raise MismatchError(f"the encoder gave an array of shape {found.shape}, but rows of numbers are needed")
    if len(found) != wanted:
        raise MismatchError(_wrong_rows(len(found), counts, per_token=per_token))
    if facts.dim is not None and found.shape[1] != facts.dim:
        raise MismatchError(
            f"the encoder gave vectors of {found.shape[1]} numbers, but says that they have {facts.dim}"
        )
    # A copy always: an encoder may give the same buffer with every batch.
    kept = found.dtype if found.dtype in (np.float16, np.float32) else np.dtype(np.float32)
    with np.errstate(over="ignore"):  # a number too large becomes infinite, and is found as such
        return np.array(found, dtype=kept, order="C", copy=True)


def _wrong_rows(found: int, counts: NDArray[np.int64], *, per_token: bool) -> str:
    if not per_token:
        hint = "; for a row per residue, ask for --per-token" if found == counts.sum() else ""
        return f"the encoder gave {found} rows for {len(counts)} sequences{hint}"
    each = ", one for each sequence" if found == len(counts) else ""
    return (
        f"with --per-token, expected a row for each of {counts.sum()} residues of {len(counts)} sequences, special "
        f"tokens left out, found {found} rows{each}; give vectors of residues, or leave --per-token out"
    )


def unfinite_rows(vectors: NDArray[Any], counts: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Which sequences have a number that is not finite; with ``counts``, each has so many rows of ``vectors``.

    >>> vectors = np.array([[1, 2], [np.nan, 3], [4, np.inf]])
    >>> unfinite_rows(vectors), unfinite_rows(vectors, np.array([1, 0, 2]))
    (array([1, 2]), array([2]))
    """
    rows = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if counts is None:
        return rows
    return np.unique(np.searchsorted(np.cumsum(counts), rows, side="right"))


def _numbers(output: Any) -> NDArray[Any]:
    try:
        found = _local(output)
    except (TypeError, ValueError):
        found = np.empty(0, dtype=object)
    if found.dtype.kind not in "fiub":
        raise MismatchError(f"the encoder gave {_kind(output)}, which is no array or tensor of numbers")
    return found


def _kind(output: Any) -> str:
    dtype = getattr(output, "dtype", None)
    return type(output).__name__ + (f" of {dtype}" if dtype is not None else "")


def _local(values: Any) -> NDArray[Any]:
    """An array of whatever; a tensor from any device, of types that numpy does not have, too."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        return np.asarray((values.float() if values.dtype == torch.bfloat16 else values).numpy())
    return np.asarray(values)
