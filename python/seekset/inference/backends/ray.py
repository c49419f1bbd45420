"""Workers on a Ray cluster: an actor for each device, which runs a worker process beside it.

The actor is no more than a long arm: it starts, tells and ends a process as :class:`LocalCrew` does on this machine, so
that how it ended is known. Ray finds a place for actors and starts those again whose machine is lost.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekset.errors import SeeksetError
from seekset.inference.backends.local import LocalCrew, threads_each
from seekset.inference.checking import EncoderCheck
from seekset.inference.devices import Device
from seekset.inference.messages import Died

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from seekset.inference.job import EncoderOptions, Job
    from seekset.inference.messages import Event
    from seekset.inference.results import Span

__all__ = ["RayCheck", "RayCrew", "connect"]

# How long an actor listens to its worker before it answers, if that says nothing.
_LISTEN = 0.2


def connect(address: str | None) -> ModuleType:
    """Ray, connected to a cluster, or to one of this machine's own."""
    try:
        import ray
    except ImportError:
        raise SeeksetError("the backend ray needs Ray: pip install 'seekset[ray]'") from None
    if not ray.is_initialized():
        # What can be imported here can be imported there, if it is there.
        path = os.pathsep.join(os.path.abspath(part) for part in sys.path)  # noqa: PTH100 (an empty path is this folder)
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="error",
            include_dashboard=False if address is None else None,
            runtime_env={"env_vars": {"PYTHONPATH": path}},
        )
    return ray  # type: ignore[no-any-return]


class RayCrew:
    """An actor for each device of a cluster.

    Args:
        folder: The job's folder, which all machines share.
        devices: What each worker needs: a GPU of its own, or a processor.
        logs: Where each worker's output is appended to.
        address: The cluster; one of this machine's own if not given.
    """

    def __init__(self, folder: Path, devices: Sequence[Device], logs: Path, address: str | None) -> None:
        self._ray = connect(address)
        self._folder, self._devices, self._logs = folder.absolute(), devices, logs.absolute()
        self._actors: dict[int, Any] = {}
        self._polls: dict[int, Any] = {}
        # Those whose worker runs, or is about to.
        self._running: set[int] = set()

    def __len__(self) -> int:
        return len(self._devices)

    def start(self, rank: int) -> None:
        """Start a worker, or start it again."""
        if rank not in self._actors:
            self._actors[rank] = self._hired(rank)
        self._running.add(rank)
        self._actors[rank].start.remote()

    def _hired(self, rank: int) -> Any:
        device = self._devices[rank]
        needs = {"num_gpus": 1} if device.kind == "cuda" else {"num_cpus": 1}
        kind = self._ray.remote(_Arm).options(max_restarts=-1, **needs)
        return kind.remote(self._folder, rank, device.kind, self._logs, self._threads())

    def _threads(self) -> int:
        here = sum(int(node["Resources"].get("CPU", 1)) for node in self._ray.nodes() if node["Alive"])
        return max(here // len(self._devices), 1)

    def assign(self, rank: int, span: Span) -> None:
        """Have a worker encode a span."""
        self._actors[rank].assign.remote(span)

    def stop(self, rank: int) -> None:
        """Have a worker finish its batch, save what is done, and end."""
        self._actors[rank].stop.remote()

    def kill(self, rank: int) -> None:
        """End a worker at once."""
        self._actors[rank].kill.remote()

    def poll(self, seconds: float) -> list[Event]:
        """What workers have said."""
        for rank in self._running - set(self._polls):
            self._polls[rank] = self._actors[rank].poll.remote(_LISTEN)
        by_reference = {reference: rank for rank, reference in self._polls.items()}
        if not by_reference:
            return []
        ready, _ = self._ray.wait(list(by_reference), num_returns=1, timeout=seconds + _LISTEN)
        events: list[Event] = []
        for reference in ready:
            rank = by_reference[reference]
            del self._polls[rank]
            events += self._heard(rank, reference)
        return events

    def _heard(self, rank: int, reference: Any) -> list[Event]:
        try:
            events: list[Event] = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            # The machine, or the actor's process: its worker ended with it. Ray starts it again somewhere.
            events = [Died(rank, f"was lost with its actor ({type(error).__name__})", innocent=True)]
        if any(isinstance(event, Died) for event in events):
            self._running.discard(rank)
        return events

    def close(self) -> None:
        """End all workers at once."""
        for actor in self._actors.values():
            self._ray.kill(actor, no_restart=True)
        self._actors.clear()
        self._polls.clear()


class _Arm:
    """The actor: a crew of one, with its worker on whatever device Ray gave it."""

    def __init__(self, folder: Path, rank: int, kind: str, logs: Path, threads: int) -> None:
        self._rank = rank
        self._crew = LocalCrew(folder, {rank: given_device(kind)}, logs, threads)

    def start(self) -> None:
        self._crew.start(self._rank)

    def assign(self, span: Span) -> None:
        self._crew.assign(self._rank, span)

    def stop(self) -> None:
        self._crew.stop(self._rank)

    def kill(self) -> None:
        self._crew.kill(self._rank)

    def poll(self, seconds: float) -> list[Event]:
        return self._crew.poll(seconds)


def given_device(kind: str) -> Device:
    """The device that Ray gave this process."""
    if kind == "cpu":
        return Device("cpu")
    return Device("cuda", os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0])


class RayCheck:
    """An :class:`EncoderCheck` on the cluster, where the device is."""

    def __init__(
        self, options: EncoderOptions, device: Device, log: Path, patience: float, address: str | None
    ) -> None:
        self._ray = connect(address)
        needs = {"num_gpus": 1} if device.kind == "cuda" else {"num_cpus": 1}
        self._actor = (
            self._ray.remote(_CheckArm).options(**needs).remote(options, device.kind, log.absolute(), patience)
        )

    def facts(self) -> dict[str, Any]:
        """What the encoder wants."""
        return self._got(self._actor.facts.remote())  # type: ignore[no-any-return]

    def try_out(self, job: Job) -> None:
        """Encode a few sequences."""
        self._got(self._actor.try_out.remote(job))

    def _got(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, SeeksetError) else error from None

    def close(self) -> None:
        """End the process."""
        self._ray.kill(self._actor)


class _CheckArm:
    """The actor of a check."""

    def __init__(self, options: EncoderOptions, kind: str, log: Path, patience: float) -> None:
        device = given_device(kind)
        self._check = EncoderCheck(options, device.inside, device.environment(threads_each(1)), log, patience)

    def facts(self) -> dict[str, Any]:
        return self._check.facts()

    def try_out(self, job: Job) -> None:
        self._check.try_out(job)
