"""A batch on its way from a worker to its loader, in as few bytes as it takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from seekset import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PackedBatch"]

# Tensors of other types, which people may have put into a batch, go torch's own way.
_PLAIN = frozenset({torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool, torch.float32, torch.float64})

# What the bytes of a loss mask are: a bit for each of its values, which are 0 or 1.
_MASK = "mask"

# A tensor's bytes, what they are (how many each number has, or their dtype), and its shape.
_Sent: TypeAlias = tuple[bytes, int | str, tuple[int, ...]]


class PackedBatch(dict[str, Any]):
    """A batch by name. From a worker it goes to its loader as bytes: torch would make a connection for each tensor.

    What arrives has the same names, values, types and shapes. Numbers are narrowed on the way and widened again, masks
    are bits, and ``position_ids`` are counted anew where they are what follows from ``cu_seqlens``.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = {name: value.numpy() for name, value in self.items() if _is_plain(value)}
        follow = _follow(arrays)
        sent = {name: None if follow and name == "position_ids" else _sent(array) for name, array in arrays.items()}
        others = {name: value for name, value in self.items() if name not in sent}
        return _received, (tuple(self), sent, others)

    def __copy__(self) -> PackedBatch:
        # Else it would go through bytes, as it does for each batch that is pinned.
        return PackedBatch(self)


def _is_plain(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in _PLAIN
        and value.device.type == "cpu"
        and value.layout == torch.strided
        and not value.requires_grad
    )


def _follow(arrays: dict[str, NDArray[Any]]) -> bool:
    """Whether positions are those that the receiver would count: somebody may have put others there."""
    ends, positions = arrays.get("cu_seqlens"), arrays.get("position_ids")
    if ends is None or positions is None or ends.dtype != np.int32 or positions.dtype != np.int64:
        return False
    flat = ends.ndim == positions.ndim == 1 and ends.flags.c_contiguous and positions.flags.c_contiguous
    return flat and _core.are_token_positions(ends, positions)


def _sent(array: NDArray[Any]) -> _Sent:
    if array.dtype == np.float32 and bool(((array == 0) | (array == 1)).all()):
        return np.packbits(array == 1).tobytes(), _MASK, array.shape
    if array.dtype == np.int64:
        return *_core.narrowed(np.ascontiguousarray(array).reshape(-1)), array.shape
    return array.tobytes(), array.dtype.str, array.shape


def _received(names: tuple[str, ...], sent: dict[str, _Sent | None], others: dict[str, Any]) -> PackedBatch:
    arrays = {name: _array(*one) for name, one in sent.items() if one is not None}
    if "position_ids" in sent and "position_ids" not in arrays:
        arrays["position_ids"] = _core.token_positions(arrays["cu_seqlens"])
    return PackedBatch((name, torch.from_numpy(arrays[name]) if name in arrays else others[name]) for name in names)


def _array(content: bytes, kind: int | str, shape: tuple[int, ...]) -> NDArray[Any]:
    if kind == _MASK:
        bits = np.unpackbits(np.frombuffer(content, dtype=np.uint8), count=math.prod(shape))
        return bits.astype(np.float32).reshape(shape)
    if isinstance(kind, int):
        return _core.widened(content, kind).reshape(shape)
    # A copy, because what lies in the message can't be written to.
    return np.frombuffer(content, dtype=kind).reshape(shape).copy()
