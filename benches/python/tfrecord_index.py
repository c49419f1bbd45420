"""The contests on TFRecord files as such: their indexes, and records at random."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from contest import Answers, Contest, Contestant, Row, Task, cold, digest, hold
from data import Size, spaced

_SEED = 12

# Payloads are taken from so many different ones: what they hold plays no part here.
_DIFFERENT = 64

# Reading from the start to a record takes long: so many records are enough to time it.
_FEW = 3

_BATCH = 1_024


def contests(size: Size) -> dict[str, Callable[[], list[Row]]]:
    """All of them by name, to be held when they are called."""
    scale = size.proteins // 100
    small = _made(size, "small", 100 * scale, (200, 400))
    middle = _made(size, "middle", 5 * scale, (3_000, 3_000))
    large = _made(size, "large", scale // 2, (100_000, 100_000))
    held = {
        "tfrecord-index-small": _indexed(small, f"{spaced(100 * scale)} records of 300 B", {"DALI": 30, "s3dlio": 8}),
        "tfrecord-index-middle": _indexed(middle, f"{spaced(5 * scale)} records of 3 kB", {}),
        "tfrecord-index-large": _indexed(large, f"{spaced(scale // 2)} records of 100 kB", {"s3dlio": 100}),
        "tfrecord-random": _random(small, size.batch),
        "tfrecord-verify": _verified(small, size.batch),
    }
    held |= _held_cold(small, size.batch, held)
    return {name: partial(hold, contest) for name, contest in held.items()}


def _made(size: Size, name: str, count: int, lengths: tuple[int, int]) -> Path:
    """A file of so many records, written if it is not there yet."""
    import seekset

    path = size.folder / f"{name}.tfrecord"
    if not path.exists():
        rng = np.random.default_rng(_SEED)
        payloads = [rng.bytes(int(n)) for n in rng.integers(lengths[0], lengths[1] + 1, _DIFFERENT)]
        with seekset.TFRecordWriter(path, index=False) as out:
            for which in rng.integers(0, _DIFFERENT, count):
                out.write(payloads[which])
    return path


# --- indexes --------------------------------------------------------------------------------------------------------


def _indexed(path: Path, what: str, goals: dict[str, float]) -> Contest:
    import seekset

    index = path.with_name(f"{path.name}.size")
    seekset.create_tfrecord_index(path, index)
    share = 100 * index.stat().st_size / path.stat().st_size
    index.unlink()
    return Contest(
        f"Index {what} (the index is {share:.2f} % of the data)",
        [
            Contestant("seekset", partial(_seekset_index, path)),
            Contestant("DALI tfrecord2idx", partial(_dali_index, path), goals.get("DALI")),
            Contestant("s3dlio", partial(_s3dlio_index, path), goals.get("s3dlio")),
            Contestant("tfrecord", partial(_tfrecord_index, path)),
            Contestant("seekset, with payloads' checksums", partial(_seekset_index, path, verify="full")),
        ],
    )


def _task(path: Path, who: str, make: Callable[[str, str], object]) -> Task:
    index = path.with_name(f"{path.name}.{who}")

    def answers(_: object) -> Answers:
        return {".idx, byte for byte": digest(index.read_bytes())}

    return Task(lambda: make(str(path), str(index)), answers, partial(index.unlink, missing_ok=True))


def _seekset_index(path: Path, verify: str = "lengths") -> Task:
    import seekset

    return _task(path, f"seekset-{verify}", partial(seekset.create_tfrecord_index, verify=verify))


def _dali_index(path: Path) -> Task:
    """DALI's own program, run inside this process so that starting Python is not timed."""
    tool = shutil.which("tfrecord2idx", path=Path(sys.executable).parent)
    code = compile(Path(tool).read_text(), tool, "exec")

    def make(path: str, index: str) -> None:
        sys.argv = [tool, path, index]
        exec(code, {"__name__": "__main__"})

    return _task(path, "dali", make)


def _s3dlio_index(path: Path) -> Task:
    import s3dlio

    return _task(path, "s3dlio", s3dlio.create_tfrecord_index)


def _tfrecord_index(path: Path) -> Task:
    from tfrecord.tools.tfrecord2idx import create_index

    return _task(path, "tfrecord", create_index)


# --- records at random ----------------------------------------------------------------------------------------------


def _rows(path: Path, count: int) -> np.ndarray:
    import seekset

    with seekset.TFRecordFile(path) as file:
        return np.random.default_rng(_SEED).integers(0, len(file), count)


def _random(path: Path, count: int) -> Contest:
    rows = _rows(path, count)
    return Contest(
        "One random record of a file",
        [
            Contestant("seekset", partial(_seekset_one, path, rows)),
            Contestant("TensorFlow, skip from the start", partial(_tensorflow_skip, path, rows[:_FEW])),
            Contestant("tfrecord, read from the start", partial(_tfrecord_skip, path, rows[:_FEW])),
            Contestant(f"seekset, of {spaced(count)} in one call", partial(_seekset_many, path, rows)),
        ],
    )


def _verified(path: Path, count: int) -> Contest:
    rows = _rows(path, count)
    return Contest(
        f"{spaced(count)} random records in one call",
        [
            Contestant("seekset", partial(_seekset_many, path, rows)),
            Contestant("seekset, with payloads' checksums", partial(_seekset_many, path, rows, verify="full")),
        ],
    )


def _held_cold(path: Path, count: int, warm: dict[str, Contest]) -> dict[str, Contest]:
    """An index, an open and many records of a file that lies on the disk only, as does the index beside it."""
    import seekset

    index = path.with_name(f"{path.name}.idx")
    if not index.exists():
        seekset.create_tfrecord_index(path, index)
    rows, files = _rows(path, count), [path, index]
    opened = Contest(
        "Open a file whose index is there and read one random record",
        [
            Contestant("seekset", partial(_seekset_opened, path, rows[:1])),
            Contestant("TensorFlow, skip from the start", partial(_tensorflow_skip, path, rows[:1])),
            Contestant("tfrecord, read from the start", partial(_tfrecord_skip, path, rows[:1])),
        ],
    )
    gathered = Contest(
        f"Open a file and read {spaced(count)} random records",
        [
            # Opening is part of it: that looks at records here and there, whose pages are mapped from then on.
            Contestant("seekset", partial(_seekset_opened, path, rows)),
            Contestant("TensorFlow, all records in order", partial(_tensorflow_pass, path, rows)),
        ],
    )
    return {
        "tfrecord-index-cold": cold(warm["tfrecord-index-small"], files),
        "tfrecord-open-cold": cold(opened, files),
        "tfrecord-gather-cold": cold(gathered, files),
    }


def _answer(payloads: list[bytes]) -> Answers:
    found = {f"first {_FEW} records": digest(*payloads[:_FEW])}
    return found | {f"{len(payloads)} records": digest(*payloads)}


def _seekset_one(path: Path, rows: np.ndarray) -> Task:
    import seekset

    file = seekset.TFRecordFile(path)
    wanted = rows.tolist()
    return Task(lambda: [file[row] for row in wanted], _answer, calls=len(wanted))


def _seekset_opened(path: Path, rows: np.ndarray) -> Task:
    import seekset

    opened = seekset.TFRecordFile
    return Task(lambda: opened(path).get_many(rows), _answer, calls=len(rows))


def _seekset_many(path: Path, rows: np.ndarray, verify: str = "lengths") -> Task:
    import seekset

    file = seekset.TFRecordFile(path, verify=verify)
    return Task(lambda: file.get_many(rows), _answer, calls=len(rows))


def _tensorflow_skip(path: Path, rows: np.ndarray) -> Task:
    import tensorflow as tf

    def run() -> list[bytes]:
        records = tf.data.TFRecordDataset(str(path))
        return [next(records.skip(int(row)).as_numpy_iterator()) for row in rows]

    return Task(run, _answer, calls=len(rows))


def _tensorflow_pass(path: Path, rows: np.ndarray) -> Task:
    """There is no way to a record but past all before it: a pass through the file keeps those that are wanted."""
    import tensorflow as tf

    def run() -> list[bytes]:
        batches = tf.data.TFRecordDataset(str(path)).batch(_BATCH).prefetch(tf.data.AUTOTUNE)
        records = np.concatenate(list(batches.as_numpy_iterator()))
        return records[rows].tolist()

    return Task(run, _answer, calls=len(rows))


def _tfrecord_skip(path: Path, rows: np.ndarray) -> Task:
    from itertools import islice

    from tfrecord.reader import tfrecord_iterator

    def run() -> list[bytes]:
        return [bytes(next(islice(tfrecord_iterator(str(path)), int(row), None))) for row in rows]

    return Task(run, _answer, calls=len(rows))
