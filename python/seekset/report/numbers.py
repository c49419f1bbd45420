"""Numbers in the shapes that people read."""

from __future__ import annotations

__all__ = ["brief", "duration", "octets", "percent"]

_PREFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_MINUTE, _HOUR = 60, 3600


def brief(number: float) -> str:
    """A number in a few letters.

    >>> [brief(number) for number in (0, 0.25, 7, 1234, 2_500_000, -0.001)]
    ['0', '0.25', '7', '1.23k', '2.5M', '-0.001']
    """
    for size, prefix in _PREFIXES:
        if abs(number) >= size:
            return f"{number / size:.3g}{prefix}"
    return f"{number:.3g}"


def octets(number: int) -> str:
    """Bytes.

    >>> octets(640), octets(1_500_000)
    ('640 B', '1.5 MB')
    """
    for size, prefix in _PREFIXES:
        if number >= size:
            return f"{number / size:.3g} {prefix}B"
    return f"{number} B"


def percent(part: float, digits: int = 2) -> str:
    """A part of a whole.

    >>> percent(0.98765)
    '98.77 %'
    """
    return f"{100 * part:.{digits}f} %"


def duration(seconds: float) -> str:
    """A time.

    >>> [duration(seconds) for seconds in (0.25, 42, 750, 7265)]
    ['0.25 s', '42 s', '12 min 30 s', '2 h 01 min']
    """
    if seconds < _MINUTE:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // 60:02} min"
