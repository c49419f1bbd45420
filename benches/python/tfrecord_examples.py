"""The contests on tf.train.Example: records of 64 floats, one integer and one byte string, to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from contest import Answers, Contest, Contestant, Row, Task, digest, hold
from data import Size, spaced

_SEED = 11
_FLOATS = 64
_BATCH = 1_024
_FEATURES = {"x": ("float32", (_FLOATS,)), "label": "int64", "name": "bytes"}


def contests(size: Size) -> dict[str, Callable[[], list[Row]]]:
    """All of them by name, to be held when they are called."""
    path = _made(size)
    count = f"{spaced(size.batch)} Examples"
    held = {
        "examples-file": Contest(
            f"{count} of a file to arrays, {_BATCH} at a time",
            [
                Contestant("seekset", partial(_seekset_file, path)),
                Contestant("TensorFlow parse_example", partial(_tensorflow_file, path), goal=2),
                Contestant("tfrecord", partial(_tfrecord_file, path), goal=20),
            ],
        ),
        "examples-payloads": Contest(
            f"{count} in memory to arrays, in one call",
            [
                Contestant("seekset", partial(_seekset_payloads, path)),
                # No goal: what people wait for is the contest above, from a file to arrays.
                Contestant("TensorFlow parse_example", partial(_tensorflow_payloads, path)),
                Contestant("seekset, 1 thread", partial(_seekset_payloads, path, threads=1)),
            ],
        ),
    }
    return {name: partial(hold, contest) for name, contest in held.items()}


def _made(size: Size) -> Path:
    """The file of Examples, written if it is not there yet."""
    import seekset

    path = size.folder / "examples.tfrecord"
    if not path.exists():
        rng = np.random.default_rng(_SEED)
        with seekset.TFRecordWriter(path) as out:
            for label in rng.integers(-(2**40), 2**40, size.batch):
                x = rng.standard_normal(_FLOATS, dtype=np.float32)
                out.write_example({"x": x, "label": label, "name": f"record {label}"})
    return path


def _answers(batches: Iterable[tuple[np.ndarray, np.ndarray, Iterable[bytes]]]) -> Answers:
    floats, labels, names = zip(*batches, strict=True)
    return {
        "floats": digest(np.ascontiguousarray(np.concatenate(floats), dtype=np.float32)),
        "labels": digest(np.ascontiguousarray(np.concatenate(labels), dtype=np.int64)),
        "names": digest(*(bytes(name) for batch in names for name in batch)),
    }


def _columns(batches: list[dict]) -> Answers:
    return _answers((batch["x"], batch["label"], batch["name"]) for batch in batches)


def _seekset_file(path: Path) -> Task:
    import seekset

    file = seekset.TFRecordFile(path)
    rows = np.split(np.arange(len(file)), range(_BATCH, len(file), _BATCH))
    return Task(lambda: [file.examples(some, _FEATURES) for some in rows], _columns)


def _seekset_payloads(path: Path, threads: int = 0) -> Task:
    import seekset

    seekset.set_threads(threads)
    payloads = list(seekset.TFRecordFile(path))
    return Task(lambda: [seekset.decode_examples(payloads, _FEATURES)], _columns)


def _theirs():
    """TensorFlow, and what it is to make of the features."""
    import tensorflow as tf

    fixed = tf.io.FixedLenFeature
    return tf, {"x": fixed((_FLOATS,), tf.float32), "label": fixed((), tf.int64), "name": fixed((), tf.string)}


def _tensorflow_file(path: Path) -> Task:
    """As TensorFlow's own guide has it: records are batched first and parsed together, in parallel."""
    tf, features = _theirs()
    batches = tf.data.TFRecordDataset(str(path)).batch(_BATCH)
    parsed = batches.map(lambda some: tf.io.parse_example(some, features), num_parallel_calls=tf.data.AUTOTUNE)
    parsed = parsed.prefetch(tf.data.AUTOTUNE)
    return Task(lambda: list(parsed.as_numpy_iterator()), _columns)


def _tensorflow_payloads(path: Path) -> Task:
    tf, features = _theirs()
    payloads = tf.constant([record.numpy() for record in tf.data.TFRecordDataset(str(path))])

    def run() -> list[dict]:
        parsed = tf.io.parse_example(payloads, features)
        return [{name: column.numpy() for name, column in parsed.items()}]

    return Task(run, _columns)


def _tfrecord_file(path: Path) -> Task:
    from tfrecord.reader import tfrecord_loader

    kinds = {"x": "float", "label": "int", "name": "byte"}

    def run() -> list[tuple]:
        records = list(tfrecord_loader(str(path), None, kinds))
        floats = np.stack([record["x"] for record in records])
        labels = np.concatenate([record["label"] for record in records])
        return [(floats, labels, [record["name"] for record in records])]

    return Task(run, _answers)
