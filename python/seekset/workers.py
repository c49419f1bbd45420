"""What a loader's worker process may be: one with CUDA in it is none."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils.data import get_worker_info

from seekset import _core

__all__ = ["cuda_fault", "cuda_safe_worker_init", "refuse_cuda_in_worker"]


def cuda_safe_worker_init(worker_id: int) -> None:
    """Make a worker process of a loader one that only reads: no CUDA, and one thread of seekset's.

    :func:`seekset.loading.create_async_dataloader` gives it to its workers; any ``DataLoader`` takes it as
    ``worker_init_fn``. A worker that was forked from a process with CUDA in it, or that has CUDA in it itself, is a
    ``RuntimeError``.

    >>> from torch.utils.data import DataLoader
    >>> loader = DataLoader(["a", "b"], num_workers=1, worker_init_fn=cuda_safe_worker_init)
    """
    _refuse(cuda_fault(worker_id, initialized=torch.cuda.is_initialized(), forked=_forked_with_cuda()))
    # Loaders have as many workers as there are cores to spare: more threads in each would only wait for each other.
    _core.set_threads(1)
    # What is not seen can't be initialised: a model that is moved to the GPU in a worker by mistake says so at once.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def refuse_cuda_in_worker() -> None:
    """Raise a ``RuntimeError`` if this is a worker process of a loader that has initialised CUDA; datasets call it."""
    worker = get_worker_info()
    if worker is not None:
        # A forked worker whose parent uses CUDA is no fault by itself: datasets of ours don't touch it.
        _refuse(cuda_fault(worker.id, initialized=torch.cuda.is_initialized(), forked=False))


def cuda_fault(worker: int, *, initialized: bool, forked: bool) -> str | None:
    """What is wrong with a worker process, and what to change; ``None`` if nothing is.

    >>> cuda_fault(0, initialized=False, forked=False)
    >>> cuda_fault(0, initialized=False, forked=True)
    'worker 0 was forked from a process that uses CUDA, which does not survive a fork; start workers with ...
    """
    if forked:
        return (
            f"worker {worker} was forked from a process that uses CUDA, which does not survive a fork; start workers "
            'with multiprocessing_context="spawn", as create_async_dataloader does, or make the loader iterate before '
            "anything is moved to the GPU"
        )
    if initialized:
        return (
            f"CUDA was initialised in worker {worker}: every worker would hold a GPU context of its own; keep CUDA "
            "tensors out of datasets and collators, move batches to the GPU in the main process, and start workers "
            'with multiprocessing_context="spawn"'
        )
    return None


def _refuse(fault: str | None) -> None:
    if fault is not None:
        raise RuntimeError(fault)


def _forked_with_cuda() -> bool:
    # torch has no public word for it. It calls a fork bad after a mere look for GPUs, too; its flag, which a child
    # inherits, tells whether CUDA was in use.
    bad_fork: Any = getattr(torch.cuda, "_is_in_bad_fork", None)
    return bad_fork is not None and bool(bad_fork()) and bool(getattr(torch.cuda, "_initialized", False))
