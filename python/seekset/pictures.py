"""Pictures on their way to the disk: at the very path that was given, and over nothing but an older picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from seekset.publishing import published, refuse_to_replace

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure

__all__ = ["check_picture", "save_picture"]

_FORMATS = ("png", "svg", "pdf", "jpg", "jpeg", "webp", "tif", "tiff", "eps", "ps")
# How files of these formats begin.
_START = re.compile(
    rb"\x89PNG\r\n\x1a\n|<svg|<\?xml.*<svg|%PDF-|\xff\xd8\xff|RIFF.{4}WEBP|II\*\0|MM\0\*|%!PS", re.DOTALL
)
_DOTS_PER_INCH = 150


def check_picture(path: str | os.PathLike[str]) -> str:
    """The format that the name of a picture asks for: PNG without a suffix.

    A format that is not known is a ``ValueError``. Something else than a picture at that path is a ``MismatchError``.

    >>> check_picture("mix"), check_picture("mix.SVG")
    ('png', 'svg')
    >>> check_picture("mix.doc")
    Traceback (most recent call last):
    ValueError: a picture is a png, svg, pdf, jpg, jpeg, webp, tif, tiff, eps or ps, and no 'doc'
    """
    target = Path(path)
    wanted = target.suffix[1:].lower() or "png"
    if wanted not in _FORMATS:
        *most, last = _FORMATS
        raise ValueError(f"a picture is a {', '.join(most)} or {last}, and no {wanted!r}")
    refuse_to_replace(target, "picture", lambda start: _START.match(start) is not None)
    return wanted


def save_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure, beside and renamed. What is there and no picture is not replaced."""
    wanted = check_picture(path)
    with published(Path(path)) as part:
        figure.savefig(part, dpi=_DOTS_PER_INCH, format=wanted)
