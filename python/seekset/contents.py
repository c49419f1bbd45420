"""What a path is that somebody gave: told from what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["Content", "content_of"]

Content: TypeAlias = Literal["fasta", "fasta index", "sequences", "plan", "run", "shards"]

# What `seekset.kind` says in the schema of an Arrow file; longer schemas than this are not looked through.
_ARROW: dict[str, Content] = {"fasta": "fasta index", "sequences": "sequences", "plan": "plan"}
_LONGEST = 1 << 28
_GZIP = b"\x1f\x8b"


def content_of(path: Path) -> Content | None:
    """What is at a path; ``None`` if it is of no known kind.

    >>> content_of(Path("proteins.fa")), content_of(Path(".")), content_of(Path("examples.records"))
    ('fasta', 'shards', None)
    """
    if path.is_dir():
        return _of_folder(path)
    # What is there and no file may never come to an end, or not begin.
    return _of_file(path) if path.is_file() or not path.exists() else None


def _of_folder(folder: Path) -> Content | None:
    from seekset.shards.readers import find_shards

    # Until a run has its manifest it has a lock, and after a crash its events may be all that is left.
    if any((folder / name).is_file() for name in ("manifest.json", "events.jsonl", "run.lock")):
        return "run"
    try:
        return "shards" if find_shards(folder) else None
    except FileNotFoundError:
        return None


def _of_file(path: Path) -> Content | None:
    with path.open("rb") as file:
        start = file.read(1024)
        if start.startswith(b"ARROW1"):
            file.seek(8)
            return _of_schema(file.read(8) + file.read(min(_LONGEST, int.from_bytes(start[12:16], "little"))))
    text = start.lstrip()
    if text.startswith(b"{"):
        return "sequences"
    return "fasta" if not text or text.startswith((b">", _GZIP)) else None


def _of_schema(schema: bytes) -> Content | None:
    """The kind that a schema tells: texts stand in it with their lengths before and a zero behind."""
    if _stored("seekset.kind") not in schema:
        return None
    return next((content for kind, content in _ARROW.items() if _stored(kind) in schema), None)


def _stored(text: str) -> bytes:
    return len(text).to_bytes(4, "little") + text.encode() + b"\0"
