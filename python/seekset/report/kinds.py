"""Which of the reports is one of a path."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from seekset.contents import Content, content_of
from seekset.errors import MismatchError

__all__ = ["Kind", "kind_of"]

Kind: TypeAlias = Literal["index", "plan", "pool", "run"]

_KINDS: dict[Content, Kind] = {
    "fasta": "index",
    "fasta index": "index",
    "sequences": "index",
    "plan": "plan",
    "run": "run",
    "shards": "pool",
}
_ACCEPTED = (
    "a FASTA file or its .sidx, a sequence index (Arrow or JSON), a plan, folders of shards, "
    "or the folder of a run of `seekset embed`"
)


def kind_of(path: Path) -> Kind:
    """The kind of report; a ``MismatchError`` if what is at the path is of none.

    >>> kind_of(Path("proteins.fa")), kind_of(Path("."))
    ('index', 'pool')
    """
    content = content_of(path)
    if content is None:
        raise MismatchError(f"{path}: it is of no known kind: expected {_ACCEPTED}")
    return _KINDS[content]
