"""Indexes: seekset's own, and samtools'."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seekset.fai import faidx
from seekset.fasta import Fasta

if TYPE_CHECKING:
    from seekset.demo.tour import Tour

__all__ = ["show"]


def show(tour: Tour) -> None:
    """Index both files, open them again, and write what samtools would."""
    for path in (tour.proteins, tour.genome):
        Path(f"{path}.sidx").unlink(missing_ok=True)
        tour.timed(f'Fasta("{path}")', partial(Fasta, path), path)
        tour.timed("   the second time", partial(Fasta, path))
    written = tour.timed(f'faidx("{tour.genome}")', lambda: faidx(tour.genome), tour.genome)
    tour.tell(f"{written}: {written.read_text().splitlines()[0]!r} …, as samtools writes it")
    tour.results.append((Path(f"{tour.proteins}.sidx"), "the index of the proteins (Arrow)"))
    tour.results.append((written, "an index for samtools, pysam and pyfaidx"))
