"""The history of a run's folder: what its events tell, and what its files prove where events are lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from seekset.errors import SeeksetError
from seekset.inference.events import numbered_events
from seekset.inference.hdf5 import read_attributes
from seekset.inference.job import Manifest
from seekset.inference.lock import holder
from seekset.inference.tally import Tally

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["History"]

_EVENTS, _OUTPUT = "events.jsonl", "embeddings.h5"


@dataclass(frozen=True, slots=True)
class History:
    """What is known of the runs of a folder.

    Args:
        events: All events that can be read, in their order.
        unreadable: How many lines are none.
        held: Whether somebody runs there now.
        manifest: What the run is known by, if that can be read.
        tally: What it has come to.
        remarks: What events don't tell, or not as they should, in words.
    """

    events: list[dict[str, Any]]
    unreadable: int
    held: bool
    manifest: Manifest | None
    tally: Tally
    remarks: list[str]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The history of a folder as it is now."""
        held = holder(folder)
        lines = list(numbered_events(folder / _EVENTS))
        # Asked once more: a run that has begun meanwhile was not killed.
        held = held or holder(folder)
        events = [event for _, event in lines if event is not None]
        damaged = [number for number, event in lines if event is None]
        tally = Tally.of(events, held)
        manifest, remarks = _manifest(folder, tally)
        if damaged:
            count = f"lines that are no events, and are passed over: {len(damaged):,}"
            remarks.append(f"{_EVENTS}: {count}; the first is line {damaged[0]}")
        if held is None:
            tally = _corrected(tally, folder, manifest, remarks)
        return cls(events, len(damaged), held is not None, manifest, tally, remarks)


def _manifest(folder: Path, tally: Tally) -> tuple[Manifest | None, list[str]]:
    """The manifest, or why there is none: what happened can be told without it."""
    try:
        return Manifest.load(folder), []
    except FileNotFoundError:
        if tally.preparing:
            return None, ["there is no manifest.json yet: files are being indexed, or the encoder is being loaded"]
        return None, [] if tally.refused else ["there is no manifest.json any more: it can't be told what was computed"]
    except (SeeksetError, OSError) as error:
        return None, [str(error)]


def _corrected(tally: Tally, folder: Path, manifest: Manifest | None, remarks: list[str]) -> Tally:
    """The tally of a folder in which nobody runs, as its files have it where events say nothing, or something else."""
    if tally.refused and not (folder / "manifest.json").exists():
        # What was there before was removed to start over.
        return Tally(refused=tally.refused)
    if manifest is not None and (tally.started is None or tally.outcome == "killed"):
        _prove(tally, folder, manifest, remarks)
    if tally.refused and tally.started is not None:
        remarks.append(f"a later run ended while preparing: {tally.refused}")
    return tally


def _prove(tally: Tally, folder: Path, manifest: Manifest, remarks: list[str]) -> None:
    """Take from the result, which is there once everything is, how a run ended whose events don't tell."""
    path = folder / _OUTPUT
    found = read_attributes(path) if path.is_file() else None
    whole = found is not None and found.get("run") == manifest.run
    if found is not None and whole and path.stat().st_mtime >= (tally.started or 0.0):
        remarks.append(f"{_EVENTS}: expected the end of a run, found none; {_OUTPUT} says that all is done")
        tally.conclude("complete", path.stat().st_mtime, int(found["sequences"]), int(found["failed"]))
    elif tally.started is None and not tally.refused:
        remarks.append(f"{_EVENTS}: expected the start of a run, found none; --resume goes on with what is there")
        tally.conclude("unknown", (folder / "manifest.json").stat().st_mtime)
