"""The folder of a run: whose it is, and what in it is the run's own."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from seekset.errors import FormatError, MismatchError
from seekset.inference.events import read_events
from seekset.inference.job import Manifest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["claim_folder", "leave_folder", "remove_run"]

# Everything that a run computes, by name; temporary names begin with a dot. By its manifest the rest is known as a
# run's, so that goes last: what is left of a removal that was broken off is a run still, of which less is done.
_RESULTS = ("embeddings.h5", "failed.jsonl", "chunks", "plan.arrow", "index.sidx", "manifest.json")
_BESIDE = frozenset({"events.jsonl", "logs", "run.lock"})


def claim_folder(folder: Path, *, resume: bool, restart: bool) -> Path | None:
    """Make the folder of a run, and give the outermost one that was made; ``None`` if it was there.

    One that holds a run, or others' files, is refused unless that is what is wanted.

    >>> from pathlib import Path
    >>> claim_folder(Path("out"), resume=False, restart=False)
    PosixPath('out')
    >>> _ = Path("out/thesis.doc").write_text("mine")
    >>> claim_folder(Path("out"), resume=False, restart=False)
    Traceback (most recent call last):
    seekset.errors.MismatchError: out: expected an empty folder, found thesis.doc in it; give another folder
    """
    made = next((one for one in reversed([folder, *folder.parents]) if not one.exists()), None)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "this folder can't be written to", str(folder))
    begun = (folder / "manifest.json").exists()
    if begun:
        _refuse_strangers(folder, restart=restart)
    others = sorted(
        path.name for path in folder.iterdir() if path.name not in _BESIDE and not path.name.startswith(".")
    )
    if others and not begun:
        raise MismatchError(f"{folder}: expected an empty folder, found {others[0]} in it; give another folder")
    if begun and not (resume or restart):
        raise MismatchError(
            f"{folder}: it holds a run already: --resume goes on with it, --restart removes it and starts over"
        )
    return made


def _refuse_strangers(folder: Path, *, restart: bool) -> None:
    """Raise if a manifest is no run's: what is called so may be somebody else's.

    To start over it need not be whole, if there are events that only runs write.
    """
    try:
        Manifest.load(folder)
    except FormatError:
        told = (event["event"] for event in read_events(folder / "events.jsonl"))
        if not restart or "run_preparing" not in told:
            raise


def leave_folder(folder: Path, made: Path) -> None:
    """Remove a folder that was made for a run that came to nothing, up to the outermost one that was made.

    What others have put there meanwhile stays.

    >>> from pathlib import Path
    >>> made = claim_folder(Path("results/monday"), resume=False, restart=False)
    >>> leave_folder(Path("results/monday"), made)
    >>> Path("results").exists()
    False
    """
    for name in _BESIDE:
        _remove(folder / name)
    with suppress(OSError):
        for one in (folder, *folder.parents):
            one.rmdir()
            if one == made:
                return


def remove_run(folder: Path) -> None:
    """Remove what a run has computed, and nothing else: its lock is held, its events and logs go on."""
    for name in _RESULTS:
        _remove(folder / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
