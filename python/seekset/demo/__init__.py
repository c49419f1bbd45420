"""The main jobs end to end, on generated data: one module per step. ``seekset demo`` runs them."""

from __future__ import annotations

import time
from pathlib import Path

from seekset.demo import access, data, embedding, faults, indexing, mixing, packing, pipeline, windows
from seekset.demo.tour import Sizes, Tour
from seekset.errors import MissingExtraError

__all__ = ["run"]

_STEPS = (
    ("Data, made with a fixed seed", data.show),
    ("Index: one pass over the bytes, then never again", indexing.show),
    ("Any record, any window", access.show),
    ("Batches that are full, planned before a letter is read", packing.show),
    ("TFRecords through DALI, on an index made here", pipeline.show),
    ("Windows over a genome, counted and never stored", windows.show),
    ("One stream out of many folders of shards", mixing.show),
    ("An encoder over every sequence, with a worker killed on the way", embedding.show),
    ("A bad file gets a sentence", faults.show),
)


def run(folder: Path, sizes: Sizes | None = None) -> None:
    """Run all steps in a folder that is the demo's own. A step whose packages are not installed says so."""
    start = time.perf_counter()
    tour = Tour(folder, sizes or Sizes())
    for number, (title, show) in enumerate(_STEPS, start=1):
        tour.title(f"{number}. {title}")
        try:
            show(tour)
        except MissingExtraError as error:
            tour.tell(f"left out: {error}")
    tour.title("Where the results lie")
    for path, what in tour.results:
        tour.tell(f"{path!s:<28} {what}")
    tour.tell(f"All of it took {time.perf_counter() - start:.0f} s. Next: seekset --help")
