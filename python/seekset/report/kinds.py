"""What a path is that a report is wanted of: told from what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from seekset.errors import MismatchError

__all__ = ["ACCEPTED", "Content", "Kind", "content_of", "kind_of"]

Kind: TypeAlias = Literal["index", "plan", "pool", "run"]
Content: TypeAlias = Literal["fasta", "fasta index", "sequences", "plan", "run", "shards"]

ACCEPTED = (
    "a FASTA file or its .sidx, a sequence index (Arrow or JSON), a plan, folders of shards, "
    "or the folder of a run of `seekset embed`"
)
_KINDS: dict[Content, Kind] = {
    "fasta": "index",
    "fasta index": "index",
    "sequences": "index",
    "plan": "plan",
    "run": "run",
    "shards": "pool",
}
# What `seekset.kind` says in the schema of an Arrow file; longer schemas than this are not looked through.
_ARROW: dict[str, Content] = {"fasta": "fasta index", "sequences": "sequences", "plan": "plan"}
_LONGEST = 1 << 28
_GZIP = b"\x1f\x8b"


def kind_of(path: Path) -> Kind:
    """Which of the reports is one of a path."""
    return _KINDS[content_of(path)]


def content_of(path: Path) -> Content:
    """What is at a path; of no known kind is a ``MismatchError``.

    >>> content_of(Path("proteins.fa")), content_of(Path("."))
    ('fasta', 'shards')
    """
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if found is None:
        raise MismatchError(f"{path}: it is of no known kind: expected {ACCEPTED}")
    return found


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
