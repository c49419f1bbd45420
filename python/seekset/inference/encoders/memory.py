"""Whether there was too little memory."""

from __future__ import annotations

import sys

__all__ = ["is_out_of_memory"]

# How allocators say it that have no exception of their own for it.
_SAID = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error says, or was caused by one that says, that there is too little memory, here or on a device.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    (True, True)
    >>> is_out_of_memory(ValueError("out of memory"))
    False
    """
    seen = set[int]()  # an error may be its own cause
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or _of_torch(error):
            return True
        if isinstance(error, RuntimeError) and any(said in str(error).lower() for said in _SAID):
            return True
        error = error.__cause__
    return False


def _of_torch(error: BaseException) -> bool:
    # Whoever raised it has imported torch.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)
