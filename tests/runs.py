"""Runs of ``seekset embed`` in processes of their own, and what must come out of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np

from odd_encoders import vector
from seekset import TokenTable

TESTS = Path(__file__).parent
LETTERS = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", dtype=np.uint8)


def write_fasta(path, count, *, seed=0, longest=60, poison=None):
    """Random proteins, some empty; the one at the place ``poison`` is called so."""
    rng = np.random.default_rng(seed)
    sequences = {}
    for k in range(count):
        name = "poison" if k == poison else f"seq_{k}"
        sequences[name] = rng.choice(LETTERS, rng.integers(0, longest)).tobytes().decode()
    path.write_text("".join(f">{name} of the test\n{letters}\n" for name, letters in sequences.items()))
    return sequences


def command(*words):
    return [sys.executable, "-m", "seekset", "embed", *map(str, words)]


def environment(**more):
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}


def embed(*words, **env):
    """Run to the end."""
    return subprocess.run(
        command(*words), capture_output=True, text=True, env=environment(**env), timeout=300, check=False
    )


def begin(*words, **env):
    """Run, and go on meanwhile."""
    return subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**env)
    )


def events(folder, kind=None):
    path = Path(folder) / "events.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return [event for event in found if kind is None or event["event"] == kind]


def wait_for(condition, seconds=60.0):
    """What a condition gives as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


def is_alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def vectors(folder):
    """What a run gave, by id."""
    with h5py.File(Path(folder) / "embeddings.h5") as file:
        ids = [name.decode() for name in file["sequence_ids"][:]]
        assert len(ids) == len(set(ids))
        return dict(zip(ids, file["embeddings"][:], strict=True))


def failed(folder):
    """Why sequences have no vector, by id."""
    path = Path(folder) / "failed.jsonl"
    if not path.exists():
        return {}
    return {line["sequence_id"]: line["reason"] for line in map(json.loads, path.read_text().splitlines())}


def expected(sequences):
    """What the encoder ``Sums`` gives for each sequence on its own."""
    table = TokenTable.named("esm")
    tokens = {name: [*table.prefix, *table.encode(letters), *table.suffix] for name, letters in sequences.items()}
    return {name: np.array(vector(ids), dtype=np.float32) for name, ids in tokens.items()}


def assert_same(found, wanted):
    """Equal to the bit, and in the same order."""
    assert list(found) == list(wanted)
    for name, one in wanted.items():
        assert found[name].tobytes() == one.tobytes(), name
