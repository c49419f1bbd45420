"""Random access: single records, windows, and many of them in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seekset.fasta import Fasta

if TYPE_CHECKING:
    from seekset.demo.tour import Tour

__all__ = ["show"]

_RECORDS, _BATCHES, _BATCH, _WINDOW = 50_000, 40, 128, 8192


def show(tour: Tour) -> None:
    """Read some letters, then many."""
    proteins, genome = Fasta(tour.proteins), Fasta(tour.genome)
    tour.tell(f"fa['seq_7'][:40]             {proteins['seq_7'][:40]}")
    tour.tell(f"fa.fetch('chr2', 100, 140)   {genome.fetch('chr2', 100, 140)}")
    rng = np.random.default_rng(9)
    rows = rng.integers(0, len(proteins), _RECORDS)
    batch = tour.timed(
        f"{_RECORDS:,} random records as tokens", lambda: proteins.gather(rows, tokens="esm", max_length=1022)
    )
    tour.tell(f"batch.values {batch.values.shape} {batch.values.dtype}, batch.offsets {batch.offsets.shape}")
    _show_windows(tour, genome, rng)


def _show_windows(tour: Tour, genome: Fasta, rng: np.random.Generator) -> None:
    starts = rng.integers(0, tour.sizes.contig_letters - _WINDOW, (_BATCHES, _BATCH))
    contigs = rng.integers(0, tour.sizes.contigs, (_BATCHES, _BATCH))
    out = np.zeros(
        (_BATCH, _WINDOW), dtype=np.int64
    )  # one buffer for all batches: fresh memory costs more than the copy

    def all_batches() -> None:
        for rows, at in zip(contigs, starts, strict=True):
            genome.gather_windows(rows, at, _WINDOW, tokens="dna", out=out)

    tour.timed(f"{_BATCHES * _BATCH:,} random windows of {_WINDOW:,} bases", all_batches)
