"""What happens in a run, as it is told: to ``events.jsonl`` for machines, to a log and a display for people."""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Display", "Events", "LogDisplay", "numbered_events", "read_events"]

_log = logging.getLogger("seekset")


class Display(Protocol):
    """What shows a run while it goes on."""

    def tell(self, event: dict[str, Any]) -> None:
        """Take note of an event."""

    def close(self) -> None:
        """Stop showing."""


class Events:
    """The events of a run: a line of JSON each, with a time and a kind, appended over all runs of a folder.

    >>> with Events(Path("events.jsonl")) as events:
    ...     events.tell("worker_started", rank=0, device="cpu", pid=4711)
    >>> [(event["event"], event["rank"]) for event in read_events(Path("events.jsonl"))]
    [('worker_started', 0)]
    """

    def __init__(self, path: Path, displays: list[Display] | None = None) -> None:
        # What was told last: only one end of a run is.
        self.last: str | None = None
        torn = _is_torn(path)
        self._file = path.open("a", encoding="utf-8")
        self._displays = displays or []
        if torn:
            # A line that a crash cut would take the first event of this run with it.
            self._file.write("\n")

    def tell(self, event: str, **facts: Any) -> None:
        """Write an event and show it."""
        told = {"time": time.time(), "event": event, **facts}
        self.last = event
        try:
            self._file.write(json.dumps(told) + "\n")
            self._file.flush()
        except OSError as error:  # a disk that is full must not end the run before its workers are told
            _log.warning("events.jsonl: %s", error)
        for display in list(self._displays):
            try:
                display.tell(told)
            except OSError as error:
                # Nobody looks any more: a terminal that was closed, a pipe that ended.
                _log.warning("what shows the run is gone: %s", error)
                self._displays.remove(display)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for display in self._displays:
            with suppress(OSError):
                display.close()
        try:
            self._file.close()
        except OSError as error:
            _log.warning("events.jsonl: %s", error)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """The events in a file; what is no event, such as a line that a crash cut, is passed over."""
    return (event for _, event in numbered_events(path) if event is not None)


def numbered_events(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The number of each line that is not empty, from 1 on, and the event in it; ``None`` if it is none."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, _parsed(line)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and _is_whole(event) else None


def _is_torn(path: Path) -> bool:
    """Whether a file ends in the middle of a line."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return size > 0 and file.read() != b"\n"
    except FileNotFoundError:
        return False


# What those events must have that are counted, beside their kind and time.
_COUNTED = {
    "run_started": ("sequences", "tokens", "done", "done_tokens"),
    "chunk_begun": ("rank",),
    "chunk_finished": ("rank", "sequences", "tokens"),
    "worker_started": ("rank",),
    "worker_died": ("rank",),
    "worker_ended": ("rank",),
    "worker_given_up": ("rank",),
    "worker_hung": ("rank",),
}


# Later times, in seconds since 1970, and larger counts are damage: nothing can be reckoned with them.
_LATEST, _MOST = 1e11, 1 << 63


def _is_whole(event: dict[str, Any]) -> bool:
    kind, told = event.get("event"), event.get("time")
    numbers = [event.get(name) for name in _COUNTED.get(kind, ())] if isinstance(kind, str) else []
    return (
        isinstance(kind, str)
        and type(told) is float
        and 0 <= told < _LATEST
        and all(type(number) is int and 0 <= number < _MOST for number in numbers)
    )


class LogDisplay:
    """Events as lines of ``logs/coordinator.log``."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # What an encoder says may hold halves of characters, of file names that are no text, say.
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace")

    def tell(self, event: dict[str, Any]) -> None:
        """Write a line."""
        facts = ", ".join(f"{name} {value}" for name, value in event.items() if name not in ("time", "event"))
        stamp = time.strftime("%F %T", time.localtime(event["time"]))
        try:
            self._file.write(f"{stamp} {event['event']}{': ' if facts else ''}{facts}\n")
            self._file.flush()
        except OSError as error:
            _log.warning("coordinator.log: %s", error)

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            _log.warning("coordinator.log: %s", error)
