"""The FASTA files of the demo: proteins of natural lengths, and a genome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.demo.tour import Tour

__all__ = ["show"]

_LINE = 60


def show(tour: Tour) -> None:
    """Write both."""
    sizes = tour.sizes
    tour.timed(f"{sizes.proteins:,} proteins", lambda: _write_proteins(tour.proteins, sizes.proteins), tour.proteins)
    what = f"{sizes.contigs} contigs of {sizes.contig_letters:,} bases"
    tour.timed(what, lambda: _write_genome(tour.genome, sizes.contigs, sizes.contig_letters), tour.genome)


def _write_proteins(path: Path, count: int) -> None:
    rng = np.random.default_rng(7)
    lengths = np.clip(rng.lognormal(5.85, 0.6, count), 20, 5000).astype(int)
    letters = rng.choice(np.frombuffer(b"LAGVSERTIDPKQNFYMHWC", dtype=np.uint8), int(lengths.sum())).tobytes()
    at = 0
    with path.open("wb") as out:
        for number, length in enumerate(lengths.tolist()):
            lines = [letters[k : min(k + _LINE, at + length)] for k in range(at, at + length, _LINE)]
            out.write(b">seq_%d protein %d of the demo\n%s\n" % (number, number, b"\n".join(lines)))
            at += length


def _write_genome(path: Path, contigs: int, letters: int) -> None:
    rng = np.random.default_rng(8)
    with path.open("wb") as out:
        for number in range(1, contigs + 1):
            lines = np.full((letters // _LINE, _LINE + 1), ord("\n"), dtype=np.uint8)
            lines[:, :_LINE] = rng.choice(np.frombuffer(b"ACGT", dtype=np.uint8), (len(lines), _LINE))
            out.write(b">chr%d\n" % number)
            out.write(lines.tobytes())
