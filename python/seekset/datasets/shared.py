"""Numbers that all processes of a loader see, however they are started."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SharedNumbers", "begin_slot", "slot_of"]


def slot_of(slots: int) -> int:
    """Which of so many slots of shared memory is this process': the main process has the first, each worker its own."""
    worker = get_worker_info()
    return 0 if worker is None else 1 + worker.id % (slots - 1)


def begin_slot(shared: torch.Tensor) -> int:
    """The slot of this process, emptied for a pass that begins.

    Where the main process delivers, workers don't, and the other way round: what those did before, and workers that are
    gone, is of another pass, and emptied, too.
    """
    worker = get_worker_info()
    if worker is None:
        shared[1:] = 0
    else:
        shared[0] = 0
        shared[1 + worker.num_workers :] = 0
    mine = slot_of(len(shared))
    shared[mine] = 0
    return mine


class SharedNumbers:
    """Whole numbers that don't change, in shared memory; where it has no room, in a file without a name.

    Containers often have little of it (64 MB). A file that was written in full can't run out of room when it is read,
    and lies in the system's cache, which all processes share, too.

    >>> SharedNumbers(np.arange(3)).values
    array([0, 1, 2])
    """

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._put(torch.from_numpy(values))

    def _put(self, values: torch.Tensor) -> None:
        try:
            # What is shared already stays where it is.
            self._tensor: torch.Tensor | None = values.share_memory_()
            self.values: NDArray[np.int64] = self._tensor.numpy()
        except RuntimeError as error:
            self._map(_written(values.numpy(), error))

    def _map(self, file: int) -> None:
        """Take the numbers of an open file, and keep it open."""
        self._tensor, self._file = None, file
        weakref.finalize(self, os.close, file)
        self.values = np.frombuffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ), dtype=np.int64)

    def __getstate__(self) -> Any:
        if self._tensor is not None:
            # As a handle of shared memory where a process is started, else as the numbers: torch knows.
            return self._tensor
        if get_spawning_popen() is None:
            return torch.from_numpy(np.array(self.values))
        # It has no name, but this process has it open for as long as its children run.
        return f"/proc/{os.getpid()}/fd/{self._file}"

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, str):
            self._map(os.open(state, os.O_RDONLY))
        else:
            self._put(state)


def _written(values: NDArray[np.int64], error: Exception) -> int:
    """An open file without a name that holds the numbers."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(values.data)
            file.flush()
            return os.dup(file.fileno())
    except OSError as failed:
        raise OSError(
            failed.errno,
            f"{os.strerror(failed.errno or 0)}: {values.nbytes} bytes that all processes share find room neither in "
            f"shared memory ({error}) nor here",
            tempfile.gettempdir(),
        ) from failed
