"""The coordinator of worker processes that run a function of the user's, one for each device."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from seekset.child import ENDING, end_with_parent, tell_of_left
from seekset.inference.backends.local import threads_each
from seekset.inference.devices import parse_devices
from seekset.inference.post import Post

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from seekset.child import Pipe
    from seekset.inference.devices import Device

__all__ = ["GPUProcessCoordinator", "ResultsQueue"]

_TICK, _MOMENT = 0.2, 0.02
# One process at a time is started in an environment that is changed for it.
_environment = threading.Lock()


class GPUProcessCoordinator:
    """Processes that run a function each, one for each device, and what they gave back.

    It does what it is told and no more: :func:`seekset.inference.run_multi_gpu_inference` is the supervised run, which
    starts workers again and loses nothing.

    Args:
        world_size: How many processes; as many as there are GPUs, or one, if not given.
        output_dir: Where ``logs/worker_{rank}.log`` are.
        devices: The devices, such as ``"2,3"`` or ``"cpu,cpu"``; the first ``world_size`` GPUs if not given, or the
            processor where there is none.

    >>> coordinator = GPUProcessCoordinator(2, "out", devices="cpu,cpu")
    >>> coordinator.wait_for_completion()
    {}
    """

    def __init__(
        self,
        world_size: int | None,
        output_dir: str | os.PathLike[str],
        *,
        devices: str | Sequence[str | int] | None = None,
    ) -> None:
        self.devices: list[Device] = parse_devices(devices, count=world_size)
        self.world_size: int = len(self.devices)
        self.output_dir: Path = Path(output_dir)
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[int, SpawnProcess] = {}
        self._posts: dict[int, Post] = {}
        self._results: list[dict[str, Any]] = []

    def spawn_workers(self, worker_fn: Callable[..., object], worker_args: Sequence[Any] = ()) -> None:
        """Start all processes: each calls ``worker_fn(rank, world_size, results_queue, *worker_args)``.

        ``CUDA_VISIBLE_DEVICES`` is set before anything is imported there. What ``worker_fn`` puts into its queue, dicts
        that can be pickled, is what :meth:`collect_results` gives.
        """
        if any(process.is_alive() for process in self._processes.values()):
            raise ValueError("workers are running: wait for them or terminate them first")
        logs = self.output_dir / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._results = []
        for rank, device in enumerate(self.devices):
            ours, theirs = self._context.Pipe(duplex=False)
            self._posts[rank] = Post(ours)
            log = str(logs / f"worker_{rank}.log")
            process = self._context.Process(
                target=_run_worker,
                args=(log, worker_fn, rank, self.world_size, ResultsQueue(theirs), tuple(worker_args)),
                name=f"seekset-worker-{rank}",
            )
            with _environment_of(device, threads_each(self.world_size)):
                process.start()
            theirs.close()
            self._processes[rank] = process

    def wait_for_completion(self, timeout: float | None = None) -> dict[int, bool]:
        """Wait for all processes, so many seconds at most: which have ended well, by rank.

        Those that still run then count as not well, and go on: :meth:`terminate_all` ends them.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while any(process.is_alive() for process in self._processes.values()):
            left = _TICK if end is None else min(end - time.monotonic(), _TICK)
            if left <= 0:
                break
            self._listen(left)
        self._listen(0)
        return {rank: process.exitcode == 0 for rank, process in self._processes.items()}

    def collect_results(self) -> list[dict[str, Any]]:
        """What workers have put into their queues so far, in the order in which it came."""
        self._listen(0)
        return list(self._results)

    def terminate_all(self, patience: float = 5.0) -> None:
        """End all processes: with SIGTERM first, and after some seconds for certain.

        One that the system can't end, since a device does not answer, say, is left behind with a warning.
        """
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
        for process in self._still_there(patience):
            process.kill()
        for process in self._still_there(ENDING):
            tell_of_left(process.pid)
            # Else Python waited for it at its own end, for as long as that takes.
            getattr(multiprocessing.process, "_children", set()).discard(process)
        self._listen(0)

    def _still_there(self, seconds: float) -> list[SpawnProcess]:
        """The processes that have not ended after so long. A ``join`` would wait longer for one that is stuck."""
        end = time.monotonic() + seconds
        while there := [process for process in self._processes.values() if process.is_alive()]:
            if time.monotonic() > end:
                break
            time.sleep(_MOMENT)
        return there

    def _listen(self, seconds: float) -> None:
        """Take what workers have said, waiting so long for it: one whose results nobody takes does not end."""
        ended = [process.sentinel for process in self._processes.values() if process.is_alive()]
        wait([*(post.fileno() for post in self._posts.values()), *ended], seconds)
        for rank, post in list(self._posts.items()):
            try:
                while post.poll(0):
                    self._results.append(post.receive())
            except (EOFError, OSError):
                del self._posts[rank]
                post.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate_all()


class ResultsQueue:
    """Where a worker puts its results. Each has its own: one that is killed while it writes disturbs no other."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def put(self, result: dict[str, Any], block: bool = True, timeout: float | None = None) -> None:  # noqa: ARG002 (as queues have it)
        """Send a result to the coordinator."""
        with self._lock:
            Post(self._pipe).send(result)

    def __reduce__(self) -> tuple[Any, ...]:
        return ResultsQueue, (self._pipe,)


def _run_worker(
    log: str,
    worker_fn: Callable[..., object],
    rank: int,
    world_size: int,
    results: ResultsQueue,
    worker_args: tuple[Any, ...],
) -> None:
    """Run the function, with all that is printed in a log of its own; what it raises is there, too."""
    # Who that is, and not who it is by now: it may have ended while this process imported what it needs.
    parent = multiprocessing.parent_process()
    end_with_parent(thread=False, parent=None if parent is None else parent.pid)
    with open(log, "ab", buffering=0) as file:  # noqa: PTH123 (a Path's open can't do without a buffer)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    print(f"--- worker {rank} of {world_size}, process {os.getpid()}, started {time.strftime('%F %T')}", flush=True)  # noqa: T201 (its log)
    try:
        worker_fn(rank, world_size, results, *worker_args)
    except Exception as error:  # noqa: BLE001 (a function of the user's may raise anything)
        traceback.print_exc()
        with suppress(OSError):
            results.put({"rank": rank, "status": "failed", "error": f"{type(error).__name__}: {error}"})
        raise SystemExit(1) from None
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


@contextmanager
def _environment_of(device: Device, threads: int) -> Iterator[None]:
    """This process's environment as a child on a device is to find it: it is copied when the child starts."""
    with _environment:
        changed = device.environment(threads)
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
