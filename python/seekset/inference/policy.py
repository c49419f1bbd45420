"""The policy of a run: how patient its supervisor is with workers."""

from __future__ import annotations

from dataclasses import dataclass

from seekset.errors import MismatchError

__all__ = ["Policy"]

_LONGEST = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient a supervisor is.

    Args:
        batch_timeout: Seconds that one batch may take before its worker counts as hung.
        load_timeout: Seconds that loading the encoder may take.
        most_deaths: How often a worker may die in a row without a finished span before it is given up, and how often
            others may do what it failed with.
        backoff: Seconds before a worker that died is started again; doubled with each death in a row.
        longest_backoff: The most that they become.
        grace: Seconds that workers have to finish their batches when a run is stopped.
    """

    batch_timeout: float = 600.0
    load_timeout: float = 1800.0
    most_deaths: int = 5
    backoff: float = 0.5
    longest_backoff: float = 60.0
    grace: float = 60.0

    def __post_init__(self) -> None:
        for name in ("batch_timeout", "load_timeout"):
            if not 0 < getattr(self, name) <= _LONGEST:
                raise MismatchError(
                    f"{name} must be more than 0 seconds and at most {_LONGEST:.0f}, which is a month, but is "
                    f"{getattr(self, name)!r}"
                )

    def delay(self, deaths: int) -> float:
        """How long to wait after so many deaths in a row.

        >>> [Policy().delay(deaths) for deaths in (1, 2, 3, 20)]
        [0.5, 1.0, 2.0, 60.0]
        """
        return min(self.backoff * 2.0 ** (deaths - 1), self.longest_backoff)
