"""A run of an encoder on two workers, one of which is killed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import islice
from shutil import rmtree
from typing import TYPE_CHECKING

from seekset.errors import SeeksetError
from seekset.extras import require
from seekset.fasta import Fasta

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.demo.tour import Tour

__all__ = ["show"]


def show(tour: Tour) -> None:
    """Embed some of the proteins, kill a worker as soon as it has something to lose, and look at what came of it."""
    require("a run", "h5py", "inference")
    some, out = tour.folder / "some.fa", tour.folder / "embedded"
    with some.open("w") as file:
        file.writelines(
            f">{record.id}\n{record.sequence}\n"
            for record in islice(Fasta(tour.proteins).values(), tour.sizes.embedded)
        )
    # What an earlier demo left is gone, with the numbers of its processes, which may be others' by now.
    rmtree(out, ignore_errors=True)
    words = ["embed", str(some), "-o", str(out), "--devices", "cpu,cpu", "--restart", "-q"]
    with tour.typed(words):
        killed = _run(words, out)
    tour.tell(killed)
    for line in (out / "logs" / "coordinator.log").read_text().splitlines():
        if "worker_died" in line:
            tour.tell(line)
    _check(tour, out / "embeddings.h5")
    tour.command("status", out, lines=4)
    tour.results.append((out / "embeddings.h5", "a vector for every sequence, in the order of the file"))
    tour.results.append((out / "logs", "what the run and its workers logged; events.jsonl is beside"))


def _run(words: list[str], out: Path) -> str:
    """Run to the end and say who was killed; a run that fails is an error with its last words."""
    with subprocess.Popen(  # noqa: S603 (this very program)
        [sys.executable, "-m", "seekset", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as run:
        killed = _killed(run, out / "events.jsonl")
        _, complaints = run.communicate()
    if run.returncode:
        raise SeeksetError(f"seekset {shlex.join(words)} ended with {run.returncode}: {complaints.strip()[-2000:]}")
    return killed


def _killed(run: subprocess.Popen[str], events: Path) -> str:
    from seekset.inference.events import read_events

    while run.poll() is None:
        told = list(read_events(events))
        if any(event["event"] == "chunk_finished" for event in told):
            first = next(event for event in told if event["event"] == "worker_started")
            with suppress(ProcessLookupError):
                os.kill(first["pid"], signal.SIGKILL)
            return f"killed worker {first['rank']}, process {first['pid']}"
        time.sleep(0.01)
    return "it was over before a worker could be killed"


def _check(tour: Tour, path: Path) -> None:
    import h5py

    with h5py.File(path) as file:
        found = file["embeddings"]
        ids = file["sequence_ids"][:].tolist()
        if len(set(ids)) != tour.sizes.embedded:
            raise SeeksetError(f"{path}: expected {tour.sizes.embedded} sequences, found {len(set(ids))}")
        tour.tell(f"{path}: {found.shape} {found.dtype}, every sequence once: nothing was lost")
