"""How far an iteration has come: an epoch, and a position in it that can be saved and taken up again."""

from __future__ import annotations

from typing import Any, Protocol

from seekset.errors import MismatchError

__all__ = ["Clock", "Position"]

_VERSION = 1


class Clock(Protocol):
    """What knows the epoch: a dataset, or a counter of its own where the dataset has none."""

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch."""


class Position:
    """The position of an iteration that starts lazily: what was loaded counts from the first item on.

    Loaders call ``iter`` more than once before they take an item, and load the state of a dataset after that of its
    sampler. So a loaded position waits until the first item is asked for, and is then used once.

    Args:
        clock: What knows the epoch.
        setting: What must be the same where a state is loaded, by name.
    """

    def __init__(self, clock: Clock, setting: dict[str, Any]) -> None:
        self._clock = clock
        self._setting = setting
        self._at = (clock.epoch, 0)
        self._pending: tuple[int, int] | None = None

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or comes next."""
        return self._clock.epoch if self._pending is None else self._pending[0]

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch. A position that was loaded stays if it is of this epoch."""
        if self._pending is not None and self._pending[0] != epoch:
            self._pending = None
        self._clock.set_epoch(epoch)

    def begin(self, length: int) -> int:
        """Where to start: at what was loaded, else at 0."""
        start = 0
        if self._pending is not None:
            (epoch, start), self._pending = self._pending, None
            if start < length:
                self._clock.set_epoch(epoch)
        self._at = (self._clock.epoch, start)
        return start

    def advance(self, position: int) -> None:
        """Say that so many have been delivered."""
        self._at = (self._at[0], position)

    def state(self, position: int | None = None) -> dict[str, Any]:
        """Epoch, position and setting, as JSON has them."""
        at = self._at if self._pending is None else self._pending
        if self._pending is None and at[0] != self._clock.epoch:
            at = (self._clock.epoch, 0)
        return {
            "version": _VERSION,
            "epoch": at[0],
            "position": at[1] if position is None else position,
            **self._setting,
        }

    def load(self, state: dict[str, Any], length: int, *, turn: bool = True) -> None:
        """Take up a state: with ``turn``, the end of an epoch is the start of the next."""
        if state.get("version") != _VERSION:
            raise MismatchError(f"state mismatch: expected version {_VERSION}, found {state.get('version')!r}")
        for name, here in self._setting.items():
            if state.get(name) != here:
                raise MismatchError(f"state mismatch: {name} was {state.get(name)!r} and is {here!r} here")
        epoch, position = int(state["epoch"]), int(state["position"])
        if position < 0 or epoch < 0:
            raise MismatchError(f"state mismatch: epoch {epoch} and position {position} must not be negative")
        self._pending = (epoch + 1, 0) if turn and position >= length > 0 else (epoch, position)
