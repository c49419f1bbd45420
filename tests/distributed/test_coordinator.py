"""The coordinator of worker processes that run a function of the user's."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from runs import environment, is_alive, wait_for
from seekset.errors import MismatchError
from seekset.inference import GPUProcessCoordinator


def tell(rank, world_size, results_queue, *words):
    seen = {"rank": rank, "world_size": world_size, "words": words, "visible": os.environ["CUDA_VISIBLE_DEVICES"]}
    results_queue.put({**seen, "pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]})
    sys.stdout.write(f"rank {rank} says hello")


def fail_on_one(rank, world_size, results_queue):
    if rank == 1:
        raise ValueError("not me")
    results_queue.put({"rank": rank})


def sleep(rank, world_size, results_queue, seconds):
    results_queue.put({"rank": rank, "pid": os.getpid()})
    time.sleep(seconds)


def ignore_sigterm(rank, world_size, results_queue):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep(rank, world_size, results_queue, 3600)


def put_much(rank, world_size, results_queue):
    for k in range(20):
        results_queue.put({"rank": rank, "k": k, "vectors": b"x" * 1_000_000})


def test_every_rank_runs_the_function_and_its_results_are_collected(tmp_path):
    coordinator = GPUProcessCoordinator(3, tmp_path, devices="cpu,cpu,cpu")
    coordinator.spawn_workers(tell, ("a", 1))
    assert coordinator.wait_for_completion(60) == {0: True, 1: True, 2: True}
    found = sorted(coordinator.collect_results(), key=lambda result: result["rank"])
    assert [(one["rank"], one["world_size"], one["words"]) for one in found] == [(k, 3, ("a", 1)) for k in range(3)]
    assert {one["visible"] for one in found} == {""}
    assert len({one["pid"] for one in found} | {os.getpid()}) == 4
    assert "rank 1 says hello" in (tmp_path / "logs" / "worker_1.log").read_text()


def test_gpus_of_any_number_are_seen_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    before = dict(os.environ)
    coordinator = GPUProcessCoordinator(2, tmp_path, devices="2,0")
    coordinator.spawn_workers(tell)
    assert coordinator.wait_for_completion(60) == {0: True, 1: True}
    found = {one["rank"]: one["visible"] for one in coordinator.collect_results()}
    assert found == {0: "7", 1: "4"}
    assert dict(os.environ) == before


def test_without_devices_the_first_gpus_are_taken_or_the_processor(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    assert [device.name for device in GPUProcessCoordinator(2, tmp_path).devices] == ["cuda:4", "cuda:6"]
    assert GPUProcessCoordinator(None, tmp_path).world_size == 3
    with pytest.raises(MismatchError, match="4 workers were asked for, but there are 3 GPUs"):
        GPUProcessCoordinator(4, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [device.name for device in GPUProcessCoordinator(2, tmp_path).devices] == ["cpu", "cpu"]


def test_a_worker_that_fails_is_told_of_and_the_others_are_not_disturbed(tmp_path):
    coordinator = GPUProcessCoordinator(2, tmp_path, devices="cpu,cpu")
    coordinator.spawn_workers(fail_on_one)
    assert coordinator.wait_for_completion(60) == {0: True, 1: False}
    found = {one["rank"]: one for one in coordinator.collect_results()}
    assert found[0] == {"rank": 0}
    assert found[1] == {"rank": 1, "status": "failed", "error": "ValueError: not me"}
    assert "ValueError: not me" in (tmp_path / "logs" / "worker_1.log").read_text()


def test_results_larger_than_any_buffer_do_not_hang(tmp_path):
    coordinator = GPUProcessCoordinator(1, tmp_path, devices="cpu")
    coordinator.spawn_workers(put_much)
    assert coordinator.wait_for_completion(60) == {0: True}
    assert [one["k"] for one in coordinator.collect_results()] == list(range(20))


def test_waiting_ends_with_its_time_and_terminating_ends_workers(tmp_path):
    coordinator = GPUProcessCoordinator(2, tmp_path, devices="cpu,cpu")
    coordinator.spawn_workers(sleep, (3600,))
    wait_for(lambda: len(coordinator.collect_results()) == 2)
    assert coordinator.wait_for_completion(0.2) == {0: False, 1: False}
    with pytest.raises(ValueError, match="workers are running"):
        coordinator.spawn_workers(sleep, (1,))
    pids = [one["pid"] for one in coordinator.collect_results()]
    coordinator.terminate_all()
    assert not any(map(is_alive, pids))


ORPHANS = """
import os, signal, sys, time
from pathlib import Path
from seekset.inference import GPUProcessCoordinator

def sleep(rank, world_size, results_queue):
    time.sleep(3600)

if __name__ == "__main__":
    coordinator = GPUProcessCoordinator(2, sys.argv[1], devices="cpu,cpu")
    coordinator.spawn_workers(sleep)
    time.sleep(3600)
else:
    # A worker imports this, and has no parent any more when it has done so.
    parent = os.getppid()
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    while len([path for path in Path(sys.argv[1]).iterdir() if path.name.isdigit()]) < 2:
        time.sleep(0.01)
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(0.01)
"""


def test_workers_whose_parent_ends_while_they_import_end_as_well(program, tmp_path):
    (tmp_path / "out").mkdir()
    with subprocess.Popen(program(ORPHANS, tmp_path / "out"), env=environment()) as run:
        assert run.wait(60) == -signal.SIGKILL
    pids = [int(path.name) for path in (tmp_path / "out").iterdir() if path.name.isdigit()]
    assert len(pids) == 2
    wait_for(lambda: not any(map(is_alive, pids)), seconds=10)


def test_workers_outlive_the_thread_that_started_them(tmp_path):
    with GPUProcessCoordinator(1, tmp_path, devices="cpu") as coordinator:
        thread = threading.Thread(target=coordinator.spawn_workers, args=(sleep, (1,)))
        thread.start()
        thread.join()
        assert coordinator.wait_for_completion(60) == {0: True}


def test_terminating_ends_workers_that_ignore_it(tmp_path):
    with GPUProcessCoordinator(1, tmp_path, devices="cpu") as coordinator:
        coordinator.spawn_workers(ignore_sigterm)
        pid = wait_for(coordinator.collect_results)[0]["pid"]
        coordinator.terminate_all(patience=0.2)
        assert not is_alive(pid)


def test_a_killed_worker_is_told_of_and_the_results_before_are_there(tmp_path):
    with GPUProcessCoordinator(2, tmp_path, devices="cpu,cpu") as coordinator:
        coordinator.spawn_workers(sleep, (2,))
        found = wait_for(lambda: (got := coordinator.collect_results()) and len(got) == 2 and got)
        os.kill(next(one["pid"] for one in found if one["rank"] == 0), signal.SIGKILL)
        assert coordinator.wait_for_completion(60) == {0: False, 1: True}
        assert len(coordinator.collect_results()) == 2
