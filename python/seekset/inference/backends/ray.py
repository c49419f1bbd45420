"""Workers on a Ray cluster: an actor for each device, which runs a worker process beside it.

The actor is no more than a long arm: it starts, tells and ends a process as :class:`LocalCrew` does on this machine, so
that how it ended is known. Ray finds places for actors; one that is lost, with its machine or by itself, is replaced.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekset.child import ENDING
from seekset.errors import SeeksetError, in_one_line
from seekset.inference.backends.local import LocalCrew, threads_each
from seekset.inference.checking import EncoderCheck, EncoderError
from seekset.inference.devices import Device, named_devices
from seekset.inference.messages import Died
from seekset.inference.signals import kept_handler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from seekset.inference.job import EncoderOptions, Job
    from seekset.inference.messages import Event
    from seekset.inference.results import Span

__all__ = ["RayCheck", "RayCrew", "cluster_devices", "connect"]

# How long an actor listens to its worker before it answers, if that says nothing.
_LISTEN = 0.2
# How long Ray may take to find a place for an actor.
_PLACING = 300.0
# How long an actor may take to end its worker: longer than the worker may take, unless it is stopped or cut off itself.
_ENDING = ENDING + 10.0
# How long a cluster may take to answer at all.
_KNOCKING = 10.0


def connect(address: str | None) -> ModuleType:
    """Ray, connected to a cluster, or to one of this machine's own."""
    try:
        import ray
    except ImportError:
        raise SeeksetError("the backend ray needs Ray: pip install 'seekset[ray]'") from None
    if not ray.is_initialized():
        # What can be imported here can be imported there, if it is there.
        path = os.pathsep.join(os.path.abspath(part) for part in sys.path)  # noqa: PTH100 (an empty path is this folder)
        try:
            _knock(address)
            # It would end this process at SIGTERM, before anything is saved.
            with kept_handler(signal.SIGTERM):
                ray.init(
                    address=address,
                    log_to_driver=False,
                    logging_level="error",
                    include_dashboard=False if address is None else None,
                    runtime_env={"env_vars": {"PYTHONPATH": path}},
                )
        except Exception as error:
            raise SeeksetError(_unreached(address, error)) from error
    return ray  # type: ignore[no-any-return]


def _knock(address: str | None) -> None:
    """Raise an ``OSError`` if nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCKING).close()


def _unreached(address: str | None, error: Exception) -> str:
    """What to do about a cluster that does not answer."""
    # Ray's own advice, which follows the message, is that of its programs.
    lines = str(getattr(error, "message", error)).strip().splitlines()
    reason = f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"
    if "authenticat" in f"{type(error).__name__}: {error}".lower():
        where = "Ray on this machine" if address is None else f"the Ray cluster at {address!r}"
        given = "RAY_AUTH_MODE=token, and its token as RAY_AUTH_TOKEN or in the file RAY_AUTH_TOKEN_PATH"
        return f"{where} asks for a token ({reason}); set {given}, here and on all machines of the cluster"
    if address is None:
        return f"Ray can't be started on this machine: {reason}"
    known = "HOST:PORT of a cluster that runs (`ray start --head` begins one), or auto for the one on this machine"
    return f"no Ray cluster can be reached at {address!r}: {reason}; give --address as {known}"


def cluster_devices(wanted: str | tuple[str, ...] | None, count: int | None, address: str | None) -> list[Device]:
    """What each worker needs: a GPU for each of the cluster's, else one processor, unless said otherwise.

    Which GPU that is, Ray decides: ``0,1`` asks for two.
    """
    if wanted is None:
        gpus = int(connect(address).cluster_resources().get("GPU", 0))
        return [Device("cuda" if gpus else "cpu")] * (count or gpus or 1)
    return named_devices(wanted, count=count)


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
        # By rank, while its worker runs or is about to: what it was asked last. First, that is to start one.
        self._asked: dict[int, Any] = {}
        self._news: list[Event] = []
        # Those whose actor has answered: it is somewhere.
        self._placed: set[int] = set()
        # By rank, until when its actor may take to end its worker.
        self._ending: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._devices)

    def start(self, rank: int) -> None:
        """Start a worker, or start it again."""
        if rank not in self._actors:
            self._actors[rank] = self._hired(rank)
        self._asked[rank] = self._actors[rank].start.remote()

    def _hired(self, rank: int) -> Any:
        device = self._devices[rank]
        needs = {"num_gpus": 1} if device.kind == "cuda" else {"num_cpus": 1}
        kind = self._ray.remote(_Arm).options(max_restarts=0, **needs)
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
        """End a worker at once, with its actor if that has found no place yet."""
        if rank in self._placed:
            self._actors[rank].kill.remote()
            self._ending.setdefault(rank, time.monotonic() + _ENDING)
        elif rank in self._actors:
            self._dismiss(rank)
            self._news.append(Died(rank, "found no place in the cluster", innocent=True))

    def _dismiss(self, rank: int) -> None:
        """End an actor, and with it its worker."""
        self._ray.kill(self._actors.pop(rank), no_restart=True)
        self._asked.pop(rank, None)
        self._ending.pop(rank, None)
        self._placed.discard(rank)

    def _dismiss_silent(self) -> None:
        """End actors that don't do what they were asked, and so would never say that their worker is gone."""
        now = time.monotonic()
        for rank in [rank for rank, end in self._ending.items() if now > end]:
            self._dismiss(rank)
            self._news.append(Died(rank, "was lost with its actor (which did not answer)", innocent=True, lost=True))

    def poll(self, seconds: float) -> list[Event]:
        """What workers have said."""
        self._dismiss_silent()
        events, self._news = self._news, []
        ranks = {reference: rank for rank, reference in self._asked.items()}
        if not ranks:
            if not events:
                time.sleep(seconds)
            return events
        ready, rest = self._ray.wait(list(ranks), num_returns=1, timeout=0 if events else seconds + _LISTEN)
        if rest:
            ready += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        for reference in ready:
            events += self._heard(ranks[reference], reference)
        return events

    def _heard(self, rank: int, reference: Any) -> list[Event]:
        try:
            events: list[Event] = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            events = [Died(rank, f"could not be started: {error.cause}", innocent=True)]
        except self._ray.exceptions.RayError as error:
            # The machine, or the actor's process: its worker ended with it. Another one is asked for when it is started
            # again, since this one may never have been made.
            self._dismiss(rank)
            if getattr(error, "actor_init_failed", False):
                return [Died(rank, f"could not be started: {_in_words(error)}", innocent=True)]
            return [Died(rank, f"was lost with its actor ({type(error).__name__})", innocent=True, lost=True)]
        else:
            self._placed.add(rank)
        if any(isinstance(event, Died) for event in events):
            del self._asked[rank]
            self._ending.pop(rank, None)
        else:
            self._asked[rank] = self._actors[rank].poll.remote(_LISTEN)
        return events

    def close(self) -> None:
        """End all workers at once."""
        for actor in self._actors.values():
            self._ray.kill(actor, no_restart=True)
        self._actors.clear()
        self._asked.clear()


class _Arm:
    """The actor: a crew of one, with its worker on whatever device Ray gave it."""

    def __init__(self, folder: Path, rank: int, kind: str, logs: Path, threads: int) -> None:
        self._rank = rank
        self._crew = LocalCrew(folder, {rank: given_device(kind)}, logs, threads)

    def start(self) -> list[Event]:
        self._crew.start(self._rank)
        return []

    def assign(self, span: Span) -> None:
        self._crew.assign(self._rank, span)

    def stop(self) -> None:
        self._crew.stop(self._rank)

    def kill(self) -> None:
        self._crew.kill(self._rank)

    def poll(self, seconds: float) -> list[Event]:
        return self._crew.poll(seconds)


def _in_words(error: Exception) -> str:
    """What an error of Ray's says in one line: what was raised over there, or else what Ray begins with."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return f"{type(cause).__name__}: {in_one_line(cause)}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    # A traceback ends with what was raised.
    return lines[-1] if getattr(error, "actor_init_failed", False) else lines[0]


def given_device(kind: str) -> Device:
    """The device that Ray gave this process."""
    if kind == "cpu":
        return Device("cpu")
    return Device("cuda", os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0])


class RayCheck:
    """An :class:`EncoderCheck` on the cluster, where the device is."""

    def __init__(
        self,
        options: EncoderOptions,
        device: Device,
        log: Path,
        patience: float,
        batch_patience: float,
        address: str | None,
    ) -> None:
        self._options, self._device, self._log, self._address = options, device, log.absolute(), address
        self._patience, self._batch_patience = patience, batch_patience
        self._actor: Any = None

    def facts(self) -> dict[str, Any]:
        """What the encoder wants."""
        needs = {"num_gpus": 1} if self._device.kind == "cuda" else {"num_cpus": 1}
        arguments = (self._options, self._device.kind, self._log, self._patience, self._batch_patience)
        self._actor = connect(self._address).remote(_CheckArm).options(**needs).remote(*arguments)
        return self._got(self._actor.facts.remote(), self._patience)  # type: ignore[no-any-return]

    def try_out(self, job: Job) -> None:
        """Encode a few sequences."""
        # A few batches, and some of them in a process that has to load the encoder again.
        self._got(self._actor.try_out.remote(job), 4 * (self._patience + self._batch_patience))

    def _got(self, reference: Any, seconds: float) -> Any:
        ray = connect(self._address)
        try:
            return ray.get(reference, timeout=seconds + _PLACING)
        except ray.exceptions.GetTimeoutError:
            raise EncoderError(
                f"{self._options.model}: no machine of the cluster has answered in time; has it room for a worker?"
            ) from None
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, (SeeksetError, OSError)):
                raise cause from None
            raise EncoderError(
                f"{self._options.model}: the encoder can't be tried on the cluster: {_in_words(error)}"
            ) from None

    def close(self) -> None:
        """End the process."""
        if self._actor is not None:
            connect(self._address).kill(self._actor)
            self._actor = None


class _CheckArm:
    """The actor of a check."""

    def __init__(self, options: EncoderOptions, kind: str, log: Path, patience: float, batch_patience: float) -> None:
        device = given_device(kind)
        environment = device.environment(threads_each(1))
        self._check = EncoderCheck(options, device.inside, environment, log, patience, batch_patience)

    def facts(self) -> dict[str, Any]:
        return self._check.facts()

    def try_out(self, job: Job) -> None:
        self._check.try_out(job)
