"""The folder of a run: whose it is, and what in it is the run's own."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["claim_folder", "remove_run"]

# Everything that a run writes, by name; temporary names begin with a dot.
_OWN = frozenset(
    {
        "chunks",
        "embeddings.h5",
        "events.jsonl",
        "failed.jsonl",
        "index.sidx",
        "logs",
        "manifest.json",
        "plan.arrow",
        "run.lock",
    }
)


def claim_folder(folder: Path, *, resume: bool, restart: bool) -> None:
    """Make the folder of a run; one that holds a run, or others' files, is refused unless that is what is wanted.

    >>> from pathlib import Path
    >>> claim_folder(Path("out"), resume=False, restart=False)
    >>> _ = Path("out/thesis.doc").write_text("mine")
    >>> claim_folder(Path("out"), resume=False, restart=False)
    Traceback (most recent call last):
    seekset.errors.MismatchError: out: expected an empty folder, found thesis.doc in it; give another folder
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "this folder can't be written to", str(folder))
    others = sorted(path.name for path in folder.iterdir() if path.name not in _OWN and not path.name.startswith("."))
    begun = (folder / "manifest.json").exists()
    if others and not begun:
        raise MismatchError(f"{folder}: expected an empty folder, found {others[0]} in it; give another folder")
    if begun and not (resume or restart):
        raise MismatchError(
            f"{folder}: it holds a run already: --resume goes on with it, --restart removes it and starts over"
        )


def remove_run(folder: Path) -> None:
    """Remove what a run has written, and nothing else; its lock stays with whoever holds it."""
    for name in _OWN - {"run.lock"}:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
