"""Beside DALI: its tfrecord2idx writes the same index, and its reader reads by ours.

DALI runs in a process of its own, because it shares none with other users of protobuf.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seekset
from frames import lines, records


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def example(number):
    """A tf.train.Example with one int64 feature, "n"."""
    value = field(3, field(1, varint(number)))
    return field(1, field(1, field(1, b"n") + field(2, value)))


# DALI's own tool, run for each file by one interpreter: it imports TensorFlow, which takes seconds.
TFRECORD2IDX = """
import runpy, sys
tool, *paths = sys.argv[1:]
for path in paths:
    sys.argv = [tool, path, path + ".theirs"]
    runpy.run_path(tool, run_name="__main__")
"""


def tfrecord2idx(*paths):
    """The indexes as DALI's own tool writes them."""
    tool = shutil.which("tfrecord2idx", path=Path(sys.executable).parent)
    assert tool is not None, "DALI's tfrecord2idx is installed with DALI"
    subprocess.run([sys.executable, "-c", TFRECORD2IDX, tool, *paths], check=True, capture_output=True)
    return [path.with_name(f"{path.name}.theirs").read_bytes() for path in paths]


FILES = {
    "one record": [b"one"],
    "one empty record": [b""],
    "some": [b"one", b"", b"three", b"x" * 100],
    "many": [b"x" * (k % 301) for k in range(5000)],
    "large": [bytes(100_000), b"y", bytes(70_000)],
    "none": [],
}


def test_the_index_is_that_of_tfrecord2idx(write):
    rng = np.random.default_rng(11)
    random = {f"random {k}": [rng.bytes(n) for n in rng.integers(0, 3000, 200)] for k in range(5)}
    files = {name: (write(records(*payloads), name), payloads) for name, payloads in {**FILES, **random}.items()}
    theirs = tfrecord2idx(*(path for path, _ in files.values()))
    for (name, (path, payloads)), expected in zip(files.items(), theirs, strict=True):
        assert seekset.create_tfrecord_index(path) == len(payloads), name
        ours = path.with_name(f"{name}.idx").read_bytes()
        assert ours == expected == lines(*payloads).encode(), name
        assert ours == seekset.index_tfrecord_bytes(path.read_bytes()).encode(), name


PIPELINE = """
    import json, sys
    import nvidia.dali.fn as fn
    import nvidia.dali.tfrecord as tfrec
    from nvidia.dali import pipeline_def

    wanted = json.loads(sys.argv[1])

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        features = {"n": tfrec.FixedLenFeature((), tfrec.int64, -1)}
        shard = {key: wanted[key] for key in ("shard_id", "num_shards") if key in wanted}
        return fn.readers.tfrecord(
            path=wanted["paths"], index_path=wanted["indexes"], features=features, name="reader", **shard
        )["n"]

    pipe = pipeline()
    pipe.build()
    size = pipe.epoch_size("reader")
    numbers = [int(pipe.run()[0].as_array().ravel()[0]) for _ in range(wanted.get("count", size))]
    print(json.dumps({"size": size, "numbers": numbers}))
"""


@pytest.fixture
def dali(run):
    """`dali(paths, indexes)` is what a DALI pipeline on these files reads: the epoch's size and numbers."""

    def dali(paths, indexes, **options):
        wanted = {"paths": [str(path) for path in paths], "indexes": [str(index) for index in indexes], **options}
        return json.loads(run(PIPELINE, json.dumps(wanted)).splitlines()[-1])

    return dali


@pytest.fixture
def numbered(write):
    """`numbered("a", 0, 5)` is a file of Examples that hold the numbers 0 to 4."""
    return lambda name, start, stop: write(records(*map(example, range(start, stop))), f"{name}.tfrecord")


def test_a_pipeline_reads_all_records_in_order(dali, numbered):
    path = numbered("a", 100, 120)
    paths, indexes = seekset.ensure_tfrecord_indexes(path)
    assert dali(paths, indexes) == {"size": 20, "numbers": list(range(100, 120))}


def test_a_pipeline_reads_several_files(dali, numbered, tmp_path):
    for name, start, stop in (("a", 0, 7), ("b", 7, 8), ("c", 8, 20)):
        numbered(name, start, stop)
    paths, indexes = seekset.ensure_tfrecord_indexes(tmp_path / "*.tfrecord")
    assert dali(paths, indexes) == {"size": 20, "numbers": list(range(20))}


@pytest.mark.parametrize("rows", [[3], [9, 0, 4], [5, 5, 1]])
def test_a_pipeline_and_a_handle_read_the_same_rows_of_an_index_of_ones_own(dali, numbered, tmp_path, rows):
    path = numbered("a", 0, 10)
    with seekset.TFRecordFile(path) as tf:
        text = "".join("{} {}\n".format(*tf.entry(row)) for row in rows)
    index = tmp_path / "own.idx"
    index.write_text(text)
    assert dali([path], [index]) == {"size": len(rows), "numbers": rows}
    assert list(seekset.TFRecordFile(path, index=index)) == [example(row) for row in rows]


def test_shards_of_a_pipeline_are_parts_of_the_whole(dali, numbered):
    paths, indexes = seekset.ensure_tfrecord_indexes(numbered("a", 0, 12))
    parts = [dali(paths, indexes, shard_id=k, num_shards=3, count=4)["numbers"] for k in range(3)]
    assert [number for part in parts for number in part] == list(range(12))
