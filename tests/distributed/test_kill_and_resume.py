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
WORDS = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.03", "--max-tokens", 120, "-q")
MOST_KILLS = 6
# The rest of the sequences, of which a hundred spans are made, is still to be computed after twice as many.
SPANS = 10


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    path = tmp_path_factory.mktemp("proteins") / "proteins.fa"
    return path, write_fasta(path, 400)


def workers(folder):
    return [event["pid"] for event in events(folder, "worker_started") if is_alive(event["pid"])]


def begun(folder):
    return len(events(folder, "chunk_begun"))


def stopped_at_work(rng, run, folder):
    """A worker that is stopped while it has a span: its pid and its rank. Any other one is let go again."""
    while run.poll() is None:
        started = [event for event in events(folder, "worker_started") if is_alive(event["pid"])]
        if not started:
            time.sleep(0.02)
            continue
        worker = rng.choice(started)
        os.kill(worker["pid"], signal.SIGSTOP)
        # What it had said before is heard by then, and it says no more.
        time.sleep(0.2)
        told = [event["event"] for event in events(folder) if event.get("rank") == worker["rank"]]
        if told[-1] == "chunk_begun" and is_alive(worker["pid"]):
            return worker["pid"], worker["rank"]
        os.kill(worker["pid"], signal.SIGCONT)
    raise AssertionError("the run ended before one of its workers was at work")


def kill_at_work(rng, run, folder, whom):
    """Kill a worker that has a span, or the coordinator while one has, and make sure of it."""
    before, wanted = begun(folder), rng.randint(1, SPANS)
    wait_for(lambda: begun(folder) >= before + wanted or run.poll() is not None)
    pid, rank = stopped_at_work(rng, run, folder)
    deaths = len(events(folder, "worker_died"))
    if whom == "worker":
        assert kill(pid)
        wait_for(lambda: len(events(folder, "worker_died")) > deaths)
        told = events(folder, "worker_died")[-1]
        assert (told["rank"], told["how"]) == (rank, "was ended by SIGKILL")
    else:
        run.kill()
        assert run.wait(60) == -signal.SIGKILL
        assert events(folder)[-1]["event"] != "run_ended"


def disturb(rng, run, folder):
    """Do something bad after a random time, while it is prepared, computed or put together."""
    time.sleep(rng.uniform(0, 1.5))
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
    # In every round somebody is killed at work for certain: a worker, the coordinator, or first this and then that.
    certain = [["worker"], ["coordinator"], ["worker", "coordinator"]][number % 3]
    for kills in range(MOST_KILLS + 1):
        devices = ",".join(["cpu"] * rng.randint(1, 3))
        run = begin(path, "-o", out, *WORDS, "--devices", devices, "--resume")
        if certain:
            kill_at_work(rng, run, out, certain.pop())
        if kills < MOST_KILLS and run.poll() is None:
            disturb(rng, run, out)
        _, told = run.communicate(timeout=120)
        wait_for(lambda: not workers(out), seconds=10)
        if run.returncode == 0:
            break
    assert not certain
    assert run.returncode == 0, told
    assert failed(out) == {}
    assert_same(vectors(out), expected(sequences))
