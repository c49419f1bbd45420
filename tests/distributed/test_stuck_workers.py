"""Workers that can't even be killed, as one that waits for a device in the system: nobody waits for them for ever."""

import json
import os
import signal
import subprocess
import sys

import pytest

from held import held
from runs import assert_same, environment, events, expected, failed, is_alive, kill, vectors, wait_for, write_fasta

# A run whose patience with those that were killed is shorter than elsewhere.
RUN = """
import json, sys
from seekset import child
from seekset.inference.backends import local
child.ENDING = local.ENDING = 1.0
from seekset.inference import run_multi_gpu_inference
print(json.dumps(run_multi_gpu_inference(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))[1]))
"""
SLOW = {"model": "odd_encoders:Sums", "model_args": {"seconds": 0.1}, "max_tokens": 100}


def begun(path, out, **config):
    words = [sys.executable, "-c", RUN, str(path), str(out), json.dumps({**SLOW, **config})]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, env=environment(), **pipes)


def busy(out, ranks):
    """The pids of workers, by rank, once all of them have finished something."""
    wait_for(lambda: len({event["rank"] for event in events(out, "chunk_finished")}) == ranks)
    return {event["rank"]: event["pid"] for event in events(out, "worker_started")}


@pytest.mark.parametrize("how", ["killed", "hung"])
def test_one_is_left_behind_and_the_others_go_on(tmp_path, how):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    run = begun(tmp_path / "a.fa", out, devices="cpu,cpu", batch_timeout=2)
    pid = busy(out, 2)[1]
    with held(pid):
        assert kill(pid) if how == "killed" else not os.kill(pid, signal.SIGSTOP)
        said, told = run.communicate(timeout=120)
    assert run.returncode == 0, told
    assert json.loads(said) == []
    assert_same(vectors(out), expected(sequences))
    assert failed(out) == {}
    assert f"process {pid} does not end, though it was killed: it is left behind" in told
    [event] = events(out, "worker_died")
    assert event["how"] == f"does not end, though it was killed (process {pid} is left behind)"
    assert f"(process {pid} is left behind)" in (out / "logs" / "coordinator.log").read_text()
    # Another has taken its place.
    assert [event["rank"] for event in events(out, "worker_started")].count(1) == 2


def test_a_run_can_be_interrupted_all_the_same(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    run = begun(tmp_path / "a.fa", out, devices="cpu", grace=0.5)
    pid = busy(out, 1)[0]
    with held(pid):
        os.kill(pid, signal.SIGSTOP)
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=60)
    assert "KeyboardInterrupt" in told
    assert f"process {pid} does not end" in told
    assert [event["how"] for event in events(out, "worker_ended")] == [
        f"does not end, though it was killed (process {pid} is left behind)"
    ]
    with begun(tmp_path / "a.fa", out, devices="cpu") as again:
        _, told = again.communicate(timeout=120)
    assert again.returncode == 0, told
    assert_same(vectors(out), expected(sequences))


def test_a_second_ctrl_c_waits_no_longer(tmp_path):
    write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    run = begun(tmp_path / "a.fa", out, devices="cpu,cpu")
    pids = busy(out, 2)
    with held(pids[0]):
        os.kill(pids[0], signal.SIGSTOP)
        run.send_signal(signal.SIGINT)
        wait_for(lambda: events(out, "run_stopping"))
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=60)
        assert f"process {pids[0]} does not end" in told
        assert not is_alive(pids[1])
    assert "KeyboardInterrupt" in told


COORDINATOR = """
import sys, time
from seekset import child
from seekset.inference import GPUProcessCoordinator, coordinator as coordinators
child.ENDING = coordinators.ENDING = 1.0

def sleep(rank, world_size, results_queue):
    import os
    results_queue.put({"pid": os.getpid()})
    time.sleep(3600)

if __name__ == "__main__":
    coordinator = GPUProcessCoordinator(2, sys.argv[1], devices="cpu,cpu")
    coordinator.spawn_workers(sleep)
    while len(coordinator.collect_results()) < 2:
        time.sleep(0.02)
    print(*(one["pid"] for one in coordinator.collect_results()), flush=True)
    sys.stdin.readline()
    coordinator.terminate_all(patience=0.2)
    print("all that can be done", flush=True)
"""


def test_a_coordinator_of_ones_own_ends_as_well(program, tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(program(COORDINATOR, tmp_path), env=environment(), **pipes) as run:
        one, other = map(int, run.stdout.readline().split())
        with held(one):
            said, told = run.communicate("go on\n", timeout=60)
            assert not is_alive(other)
    assert (run.returncode, said) == (0, "all that can be done\n"), told
    assert f"process {one} does not end, though it was killed: it is left behind" in told
