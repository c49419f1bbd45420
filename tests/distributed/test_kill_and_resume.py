"""Runs that are killed at random moments and resumed with random workers end with the same file.

A handful of rounds in ``make test``; ``make soak`` has as many as ``SEEKSET_ROUNDS`` says.
"""

import os
import random
import signal
import time

import pytest

from runs import assert_same, begin, events, expected, failed, is_alive, kill, vectors, wait_for, write_fasta

ROUNDS = int(os.environ.get("SEEKSET_ROUNDS", "4"))
WORDS = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.01", "--max-tokens", 120, "-q")
MOST_KILLS = 6


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    path = tmp_path_factory.mktemp("proteins") / "proteins.fa"
    return path, write_fasta(path, 300)


def workers(folder):
    return [event["pid"] for event in events(folder, "worker_started") if is_alive(event["pid"])]


def disturb(rng, run, folder):
    """Do something bad after a random time; says whether the run is to be resumed."""
    time.sleep(rng.uniform(0, 1.2))
    what = rng.choice(["worker", "worker", "stopped worker", "coordinator", "SIGTERM", "SIGINT"])
    running = workers(folder)
    match what:
        case "worker" if running:
            kill(rng.choice(running))
        case "stopped worker" if running:
            pid = rng.choice(running)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            kill(pid)
        case "coordinator":
            run.kill()
        case "SIGTERM" | "SIGINT":
            run.send_signal(getattr(signal, what))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_result_does_not_show_it(proteins, tmp_path, number):
    path, sequences = proteins
    rng = random.Random(number)
    out = tmp_path / "out"
    for kills in range(MOST_KILLS + 1):
        devices = ",".join(["cpu"] * rng.randint(1, 3))
        run = begin(path, "-o", out, *WORDS, "--devices", devices, "--resume")
        if kills < MOST_KILLS:
            disturb(rng, run, out)
        _, told = run.communicate(timeout=120)
        wait_for(lambda: not workers(out), seconds=10)
        if run.returncode == 0:
            break
    assert run.returncode == 0, told
    assert failed(out) == {}
    assert_same(vectors(out), expected(sequences))
