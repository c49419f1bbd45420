"""The folder of the demo, whose files it may replace."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["claim"]

# A file that tells a folder of the demo's from others.
_MARK = ".seekset-demo"


def claim(folder: Path) -> None:
    """Make a folder the demo's own, whose files it may replace; one that holds others' files is refused.

    >>> claim(Path("new"))
    >>> claim(Path("new"))
    """
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{folder} is a file: give --folder another name")
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in folder.iterdir())
    if names and _MARK not in names:
        raise click.UsageError(
            f"{folder} holds files that the demo did not make ({names[0]} is one) and might replace: give --folder "
            "another name"
        )
    (folder / _MARK).write_text("seekset demo made this folder and replaces its own files in it\n")
