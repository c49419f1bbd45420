"""The cache of what is known of shards: one JSON file for each folder of them, beside them or in the user's own."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seekset.publishing import published
from seekset.shards.rows import Census

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CACHE_NAME", "ShardCache"]

CACHE_NAME = ".seekset-shards.json"
_VERSION = 2

# By file name and by the reader's identity: two readers may look at one file.
_Entries: TypeAlias = dict[str, dict[str, dict[str, Any]]]


class ShardCache:
    """What was found of the shards of some folders.

    An entry holds for one size, time of modification and reader. A cache that is damaged is as good as none, and is
    written anew. Several processes may write one at once: each adds to what it finds, and the last rename wins.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._known = {folder: _read(folder) for folder in {file.absolute().parent for file in files}}
        self._new: dict[Path, _Entries] = {}

    def get(self, path: Path, identity: str | None, stat: os.stat_result) -> tuple[str, Census] | None:
        """The digest and the census of a shard, if they are known and still hold."""
        path = path.absolute()
        try:
            entry = self._known[path.parent][path.name][identity or ""]
            if (entry["size"], entry["mtime_ns"]) != (stat.st_size, stat.st_mtime_ns):
                return None
            return str(entry["digest"]), Census.from_json(entry["census"])
        except (KeyError, TypeError, ValueError):
            return None

    def add(self, path: Path, identity: str | None, size: int, mtime_ns: int, digest: str, census: Census) -> None:
        """Keep what was found; nothing of a reader that does not say which it is."""
        if identity is None:
            return
        path = path.absolute()
        entry = {"size": size, "mtime_ns": mtime_ns, "digest": digest, "census": census.to_json()}
        self._new.setdefault(path.parent, {}).setdefault(path.name, {})[identity] = entry

    def write(self) -> None:
        """Write what is new: beside the shards, or else in the user's cache; if neither can be, nothing is lost."""
        for folder, new in self._new.items():
            entries = _merged(_read(folder), new, folder)
            for place in _places(folder):
                with suppress(OSError):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with published(place) as part:
                        part.write_text(json.dumps({"version": _VERSION, "folder": str(folder), "shards": entries}))
                    break
        self._new = {}


def _places(folder: Path) -> tuple[Path, Path]:
    """Where the cache of a folder is looked for, and written where it can be."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 (raises without a home)
    name = hashlib.blake2b(os.fsencode(folder), digest_size=16).hexdigest()
    return folder / CACHE_NAME, home / "seekset" / "shards" / f"{name}.json"


def _read(folder: Path) -> _Entries:
    entries: _Entries = {}
    for place in reversed(_places(folder)):
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(place.read_bytes())
            if isinstance(found, dict) and found.get("version") == _VERSION and isinstance(found.get("shards"), dict):
                entries.update(found["shards"])
    return entries


def _merged(known: _Entries, new: _Entries, folder: Path) -> _Entries:
    """Old and new entries of the files that are there."""
    merged = {
        name: by_reader for name, by_reader in known.items() if isinstance(by_reader, dict) and (folder / name).exists()
    }
    for name, by_reader in new.items():
        merged[name] = {**merged.get(name, {}), **by_reader}
    return dict(sorted(merged.items()))
