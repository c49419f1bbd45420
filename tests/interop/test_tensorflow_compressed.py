"""Beside TensorFlow: files that it compresses are read here as it reads them, at random and made plain."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import seekset
from frames import lines, records

RECORDS = 900

# TensorFlow runs in a process of its own: it shares none with other users of protobuf.
PROGRAM = """
    import sys
    import numpy as np
    import tensorflow as tf

    payloads = np.load("payloads.npz")
    for kind in ("GZIP", "ZLIB"):
        for level in (0, 1, 9):
            options = tf.io.TFRecordOptions(compression_type=kind, compression_level=level)
            with tf.io.TFRecordWriter(f"{kind.lower()}{level}.tfrecord", options) as out:
                for row in range(len(payloads)):
                    out.write(payloads[f"arr_{row}"].tobytes())
"""


@pytest.fixture(scope="module")
def payloads():
    """Some of no bytes, some larger than a window, 13 MB together: several points, whatever the level."""
    rng = np.random.default_rng(3)
    sizes = np.where(rng.random(RECORDS) < 0.05, 0, rng.integers(1, 40_000, RECORDS))
    return [rng.integers(0, 16, size, dtype=np.uint8).tobytes() for size in sizes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, payloads):
    folder = tmp_path_factory.mktemp("tensorflow")
    np.savez(folder / "payloads.npz", *(np.frombuffer(payload, np.uint8) for payload in payloads))
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_files_that_tensorflow_compressed_are_read_at_random(folder, payloads, kind, level):
    path = folder / f"{kind}{level}.tfrecord"
    tf = seekset.TFRecordFile(path, verify="full")
    assert (len(tf), tf.compression) == (RECORDS, kind)
    rows = np.random.default_rng(level).permutation(RECORDS)
    assert tf.get_many(rows[:200]) == [payloads[row] for row in rows[:200]]
    assert [tf[row] for row in rows[:20]] == [payloads[row] for row in rows[:20]]
    assert list(tf) == payloads


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_files_that_tensorflow_compressed_are_made_plain(folder, payloads, kind):
    plain = seekset.decompress_tfrecord(
        folder / f"{kind}1.tfrecord", folder / f"{kind}.plain", index=True, verify="full"
    )
    assert plain.read_bytes() == records(*payloads)
    assert (folder / f"{kind}.plain.idx").read_text() == lines(*payloads)
