"""Numbers in the shapes that people read.

What is rounded up to the next unit is in that unit: never ``1000 kB`` for a megabyte, or ``60 s`` for a minute.
"""

from __future__ import annotations

from math import inf

__all__ = ["amount", "brief", "duration", "octets", "percent"]

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_MINUTE = 60


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


def _scaled(number: float) -> tuple[str, str]:
    """Three digits of a number, and the prefix that they are thousands, millions and so on of."""
    rounded = _rounded(number)
    size, prefix = next((unit for unit in _PREFIXES if unit[0] <= abs(rounded) < inf), (1.0, ""))
    return f"{rounded / size:.3g}", prefix


def brief(number: float) -> str:
    """A number in a few letters.

    >>> [brief(number) for number in (0, 0.25, 7, 1234, 999_600, 2_500_000, -0.001)]
    ['0', '0.25', '7', '1.23k', '1M', '2.5M', '-0.001']
    """
    return "".join(_scaled(number))


def amount(number: float, unit: str) -> str:
    """A number of something.

    >>> amount(1_234_567, "records/s"), amount(5e9, "B"), amount(999_600, "B")
    ('1.23 M records/s', '5 GB', '1 MB')
    """
    digits, prefix = _scaled(number)
    return f"{digits} {prefix}{' ' if prefix and unit not in ('B', 'B/s') else ''}{unit}"


def octets(number: int) -> str:
    """Bytes.

    >>> octets(640), octets(1_500_000)
    ('640 B', '1.5 MB')
    """
    return amount(number, "B")


def percent(part: float, digits: int = 2) -> str:
    """A part of a whole.

    >>> percent(0.98765)
    '98.77 %'
    """
    return f"{100 * part:.{digits}f} %"


def duration(seconds: float) -> str:
    """A time.

    >>> [duration(seconds) for seconds in (0.25, 42, 59.96, 750, 3599.7, 7265)]
    ['0.25 s', '42 s', '1 min 00 s', '12 min 30 s', '1 h 00 min', '2 h 01 min']
    """
    if _rounded(seconds) < _MINUTE:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(round(seconds / _MINUTE), _MINUTE)
    return f"{hours} h {minutes:02} min"
