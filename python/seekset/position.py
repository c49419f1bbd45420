"""How far an iteration has come: an epoch, and a position in it that can be saved and taken up again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VERSION", "Clock", "HasEpoch", "Position", "check_state", "count_in"]

VERSION = 1
"""The version of states: one that is not of this is refused."""


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
        part: Where what a position stands for has parts, such as a chunk its records: what states call them.
        drawn: What must be the same, too, but may still come with the state of a dataset, such as its seed: asked for
            when a state is taken, and compared when an iteration begins.
    """

    def __init__(
        self,
        clock: Clock,
        setting: dict[str, Any],
        *,
        part: str | None = None,
        drawn: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._clock = clock
        self._setting = setting
        self._part = part
        self._drawn = drawn
        # Epoch, position, and parts at the position that were delivered.
        self._at = (clock.epoch, 0, 0)
        self._pending: tuple[int, int, int] | None = None
        # What the pending state was drawn from.
        self._drawn_then: dict[str, Any] = {}

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or comes next."""
        return self._clock.epoch if self._pending is None else self._pending[0]

    @property
    def under_way(self) -> int:
        """The epoch of what is being delivered, which a clock may have left meanwhile."""
        return self._at[0]

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch. A position that was loaded stays if it is of this epoch."""
        if self._pending is not None and self._pending[0] != epoch:
            self._pending = None
        self._clock.set_epoch(epoch)

    def begin(self, length: int) -> int:
        """Where to start: at what was loaded, else at 0."""
        start = parts = 0
        if self._pending is not None:
            # A state that is refused was never loaded: whoever asks again gets what came without it.
            (epoch, start, parts), self._pending = self._pending, None
            _check_same(self._drawn_then, self._drawn())
            if start < length:
                self._clock.set_epoch(epoch)
        self._at = (self._clock.epoch, start, parts)
        return start

    @property
    def parts(self) -> int:
        """How many parts at the position have been delivered."""
        return self._at[2]

    def advance(self, position: int, parts: int = 0) -> None:
        """Say that so many have been delivered, and so many parts of the one that is under way."""
        self._at = (self._at[0], position, parts)

    def state(self, position: int | None = None, length: int | None = None) -> dict[str, Any]:
        """Epoch, position and setting, as JSON has them; a position that is given must lie within the length."""
        if position is not None and length is not None:
            position = _checked_position(position, length)
        if self._pending is not None or self._at[0] != self._clock.epoch:
            return self._state(*self._upcoming, position)
        return self._state(*self._at, position)

    def upcoming_state(self) -> dict[str, Any]:
        """The state with which the next iteration starts: what was loaded, or the start of the epoch."""
        return self._state(*self._upcoming)

    @property
    def _upcoming(self) -> tuple[int, int, int]:
        return (self._clock.epoch, 0, 0) if self._pending is None else self._pending

    def _state(self, epoch: int, position: int, parts: int, given: int | None = None) -> dict[str, Any]:
        return {
            "version": VERSION,
            "epoch": epoch,
            "position": position if given is None else given,
            **({} if self._part is None else {self._part: parts}),
            **self._setting,
            # A state that was not begun stays as it was loaded: whether it fits has not been looked at yet.
            **(self._drawn() if self._pending is None else self._drawn_then),
        }

    def load(self, state: dict[str, Any], length: int, longest: int, *, turn: bool = True) -> None:
        """Take up a state: with ``turn``, the end of an epoch is the start of the next.

        A state may be that of another rank, whose epoch can be longer: no rank's is longer than ``longest``.
        """
        epoch, position, parts = self.checked(state, longest)
        self._drawn_then = {name: state.get(name) for name in self._drawn()}
        self._pending = (epoch + 1, 0, 0) if turn and position >= length > 0 else (epoch, position, parts)

    def checked(self, state: dict[str, Any], longest: int) -> tuple[int, int, int]:
        """Epoch, position and parts of a state that can be loaded; any other is refused, and nothing is changed."""
        check_state(state, self._setting)
        epoch, position = count_in(state, "epoch"), count_in(state, "position")
        if position > longest:
            raise MismatchError(f"state mismatch: position was {position}, but an epoch ends at {longest} here")
        return epoch, position, 0 if self._part is None else count_in(state, self._part)


class HasEpoch:
    """The epoch of what keeps a position."""

    _position: Position

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or comes next."""
        return self._position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, in all processes."""
        self._position.set_epoch(epoch)


def check_state(state: Any, setting: dict[str, Any]) -> None:
    """Refuse what is no state, or one that was taken with another setting."""
    if not isinstance(state, dict):
        raise MismatchError(f"state mismatch: expected what state_dict gave, found {type(state).__name__}")
    if state.get("version") != VERSION:
        raise MismatchError(f"state mismatch: expected version {VERSION}, found {state.get('version')!r}")
    _check_same(state, setting)


def _check_same(state: dict[str, Any], setting: dict[str, Any]) -> None:
    for name, here in setting.items():
        if state.get(name) != here:
            raise MismatchError(f"state mismatch: {name} was {state.get(name)!r} and is {here!r} here")


def _checked_position(position: int, length: int) -> int:
    if isinstance(position, bool) or not hasattr(position, "__index__"):
        raise TypeError(f"position must be a whole number, not {type(position).__name__}")
    number = position.__index__()
    if not 0 <= number <= length:
        raise ValueError(f"position must be from 0 to {length}, where the epoch ends, but is {number}")
    return number


def count_in(state: dict[str, Any], name: str) -> int:
    """A whole number from 0 on that a state has by this name, as shared memory can hold it."""
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise MismatchError(f"state mismatch: {name} must be a whole number from 0 on, found {value!r}")
    return value
