"""Pictures on their way to the disk: at the very path that was given, and over nothing but an older picture."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seekset.extras import missing
from seekset.publishing import published, refuse_to_replace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from matplotlib.figure import Figure

__all__ = ["check_picture", "picture"]

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


@contextmanager
def picture(
    path: str | os.PathLike[str], *, size: tuple[float, float], rows: int = 1, columns: int = 1
) -> Iterator[tuple[Figure, list[Any]]]:
    """A figure of a size in inches and its panels, which is written once all is drawn. Needs matplotlib.

    It is written beside and renamed. What is there and no picture is not replaced.

    >>> with picture("line.png", size=(3, 2)) as (figure, [axes]):
    ...     _ = axes.plot([1, 2, 4])
    >>> Path("line.png").read_bytes()[1:4]
    b'PNG'
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("a picture", "matplotlib", "plot") from None
    wanted = check_picture(path)
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    yield figure, panels
    with published(Path(path)) as part:
        figure.savefig(part, dpi=_DOTS_PER_INCH, format=wanted)
