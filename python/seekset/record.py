"""One record of a FASTA file, as a text that is read when it is asked for."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seekset import _core
    from seekset.fasta import Fasta

__all__ = ["FastaRecord"]


class FastaRecord:
    """One record of a :class:`Fasta`. Letters are read when they are asked for.

    >>> from seekset import Fasta
    >>> record = Fasta("proteins.fa")["seq_2"]
    >>> record.id, record.description, len(record)
    ('seq_2', 'seq_2 a kinase', 16)
    >>> record[2:6], record[::-1]
    ('VLAA', 'YAKACLGVIGAALVKM')
    """

    __slots__ = ("_fasta", "row")

    def __init__(self, fasta: Fasta, row: int) -> None:
        self._fasta = fasta
        self.row: int = row

    @property
    def _core(self) -> _core.Fasta:
        return self._fasta._open  # noqa: SLF001 (a record reads through its file's handle)

    @property
    def id(self) -> str:
        """The first word of the header; where there is none, the header's byte offset."""
        return self._core.id(self.row)

    @property
    def description(self) -> str:
        """The whole header line, without ``>``."""
        return self._core.header(self.row)

    @property
    def sequence(self) -> str:
        """All letters."""
        return self._core.fetch(self.row)

    @property
    def line_width(self) -> int | None:
        """Letters per line in the file; ``None`` where its lines differ or there are none."""
        return self._core.entry(self.row)[2] or None

    def __len__(self) -> int:
        return self._core.length(self.row)

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        length = len(self)
        if not isinstance(key, slice):
            at = index(key)
            if not -length <= at < length:
                raise IndexError(f"position {at} is out of range: record {self.id!r} has {length} letters")
            at %= length
            return self._core.fetch(self.row, at, at + 1)
        start, stop, step = key.indices(length)
        positions = range(start, stop, step)
        if not positions:
            return ""
        low, high = min(positions[0], positions[-1]), max(positions[0], positions[-1])
        letters = self._core.fetch(self.row, low, high + 1)
        return letters if step == 1 else letters[:: abs(step)] if step > 0 else letters[::-1][:: abs(step)]

    def reverse_complement(self, start: int = 0, end: int | None = None) -> str:
        """The reverse complement of the record, or of letters ``start`` to ``end``, by the IUPAC codes.

        >>> from seekset import Fasta
        >>> Fasta("genome.fa")["chr1"].reverse_complement(0, 8)
        'NCATACGT'
        """
        start, end, _ = slice(start, end).indices(len(self))
        return self._core.fetch_reverse_complement(self.row, start, max(start, end))

    def __contains__(self, letters: object) -> bool:
        """Whether these letters stand in the record one after another, as in a str.

        >>> from seekset import Fasta
        >>> "VLAA" in Fasta("proteins.fa")["seq_2"]
        True
        """
        if not isinstance(letters, str):
            raise TypeError(f"a record holds letters: look for a str in it, not for {type(letters).__name__}")
        return letters in self.sequence

    def __iter__(self) -> Iterator[str]:
        return iter(self.sequence)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same record of the same handle; letters are compared as ``record.sequence``."""
        return isinstance(other, FastaRecord) and (self._fasta, self.row) == (other._fasta, other.row)

    def __hash__(self) -> int:
        return hash((self._fasta, self.row))

    def __str__(self) -> str:
        return self.sequence

    def __repr__(self) -> str:
        return f"<FastaRecord {self.id!r}, {len(self)} letters>"

    def __reduce__(self) -> tuple[Any, ...]:
        return FastaRecord, (self._fasta, self.row)
