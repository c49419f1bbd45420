"""What a file that is wrong gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekset.errors import SeeksetError
from seekset.fasta import Fasta

if TYPE_CHECKING:
    from seekset.demo.tour import Tour

__all__ = ["show"]


def show(tour: Tour) -> None:
    """Open a FASTA file with a byte that no sequence has."""
    path = tour.folder / "bad.fa"
    path.write_bytes(b">fine\nMKVLA\n>broken\nMK\x00VL\n")
    tour.code(f'Fasta("{path}")')
    try:
        Fasta(path)
    except SeeksetError as error:
        tour.tell(f"{type(error).__name__}: {error}")
