"""A DALI pipeline on a TFRecord file whose index is made on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seekset.demo.tour import program
from seekset.extras import missing
from seekset.writer import TFRecordWriter

if TYPE_CHECKING:
    from seekset.demo.tour import Tour

__all__ = ["show"]

_VALUES = 64
_CODE = """\
from seekset.dali import tfrecord_pipeline
pipe = tfrecord_pipeline("{path}", {{"x": ("float32", ({values},)), "label": "int64"}}, batch_size=256)
x, label = pipe.run()  # TensorLists, in DALI's own threads"""
_TOLD = """
import time
start, batches = time.perf_counter(), {records} // 256 - 1
labels = [int(value) for value in label.as_array().ravel()]
for _ in range(batches):
    labels += pipe.run()[1].as_array().ravel().tolist()
seconds = time.perf_counter() - start
assert labels == list(range(len(labels))), "DALI gave other records than were written"
print(f"x {{x.as_array().shape}}; {{len(labels):,}} records in order, {{len(labels) / seconds:,.0f}} a second")
"""


def show(tour: Tour) -> None:
    """Write Examples, index them, and let DALI read them: in a process of its own, which protobuf's users need."""
    path = tour.folder / "examples.tfrecord"
    tour.timed(f"{tour.sizes.records:,} tf.train.Examples", lambda: _write(path, tour.sizes.records))
    Path(f"{path}.idx").unlink(missing_ok=True)
    tour.command("tfrecord-index", path, lines=0)
    tour.results.append((Path(f"{path}.idx"), "an index for DALI, as tfrecord2idx writes it"))
    if not _has_dali():
        raise missing("the pipeline", "nvidia.dali", "dali")
    code = _CODE.format(path=path, values=_VALUES)
    tour.code(*code.splitlines())
    told = tour.timed(
        "in a process of its own", lambda: program(["-c", code + _TOLD.format(records=tour.sizes.records)])
    )
    tour.tell(told.strip())


def _has_dali() -> bool:
    """Whether DALI is installed. Other packages of NVIDIA's may be without it."""
    from importlib.util import find_spec

    return find_spec("nvidia") is not None and find_spec("nvidia.dali") is not None


def _write(path: Path, count: int) -> None:
    values = np.random.default_rng(10).random((count, _VALUES), dtype=np.float32)
    with TFRecordWriter(path, index=False) as out:
        for label, row in enumerate(values):
            out.write_example({"x": row, "label": label})
