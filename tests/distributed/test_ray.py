"""What is Ray's alone: which devices a cluster has, and workers that are lost with what they ran in."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runs import assert_same, environment, events, expected, is_alive, kill, vectors, wait_for, write_fasta


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def told_by(program, *words):
    """The list that a program prints as JSON; Ray may print what it thinks of it before and after."""
    run = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        env=environment(RAY_DISABLE_IMPORT_WARNING="1"),
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    [found] = [line for line in run.stdout.splitlines() if line.startswith("[")]
    return json.loads(found)


# A cluster of this machine that says it has so many processors and GPUs, whatever the machine has.
CLUSTER = """
import json, sys
import ray
asked = {"num_cpus": 3, "num_gpus": int(sys.argv[1]), "include_dashboard": False, "log_to_driver": False}
ray.init(**asked, logging_level="error")
"""

DEVICES = f"""{CLUSTER}
from seekset.inference.backends.ray import cluster_devices, given_device
asked = [(None, None), (None, 3), ("cpu,cpu", None), ("0,1", None), (("cuda", "cpu"), 2)]
found = [[device.name for device in cluster_devices(*words, None)] for words in asked]
needs = {{"num_gpus": 1}} if ray.cluster_resources().get("GPU") else {{"num_cpus": 1}}
kind = "cuda" if "num_gpus" in needs else "cpu"


class Arm:
    def device(self):
        return given_device(kind).name


arms = [ray.remote(Arm).options(**needs).remote() for _ in range(2)]
print(json.dumps([found, sorted(ray.get([arm.device.remote() for arm in arms]))]))
"""


@pytest.mark.parametrize(
    "gpus, all_of_them, three, given",
    [
        (0, ["cpu"], ["cpu"] * 3, ["cpu", "cpu"]),
        (2, ["cuda", "cuda"], ["cuda"] * 3, ["cuda:0", "cuda:1"]),
    ],
)
def test_devices_are_those_that_the_cluster_says_it_has(gpus, all_of_them, three, given):
    found, placed = told_by(DEVICES, str(gpus))
    assert found == [all_of_them, three, ["cpu", "cpu"], ["cuda", "cuda"], ["cuda", "cpu"]]
    assert placed == given


RUN = f"""{CLUSTER}
from seekset.inference import run_multi_gpu_inference
print(json.dumps(run_multi_gpu_inference(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))[1]))
"""


def test_a_worker_that_is_lost_with_its_actor_has_not_died(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    arguments = {"seconds": 0.2}
    # A single death would be one too many.
    patience = {"most_deaths": 0, "devices": "cpu,cpu", "backend": "ray"}
    config = {"model": "odd_encoders:Sums", "model_args": arguments, "max_tokens": 150, **patience}
    words = [sys.executable, "-c", RUN, "0", tmp_path / "a.fa", out, json.dumps(config)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as run:
        wait_for(lambda: len({event["rank"] for event in events(out, "chunk_finished")}) == 2)
        lost = {event["rank"]: event["pid"] for event in events(out, "worker_started")}[1]
        assert kill(parent(lost))
        said, _ = run.communicate(timeout=200)
    assert run.returncode == 0
    assert json.loads(said.splitlines()[-1]) == []
    assert_same(vectors(out), expected(sequences))
    [told] = events(out, "worker_died")
    assert told["rank"] == 1
    assert told["how"].startswith("was lost with its actor")
    assert events(out, "worker_given_up") == []
    assert events(out, "chunk_failed") == []


NOT_THERE = """
import json, sys
import ray
quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
ray.init(num_cpus=3, runtime_env={"env_vars": {"PYTHONPATH": sys.argv[1]}}, **quiet)
from seekset.inference import run_multi_gpu_inference
try:
    run_multi_gpu_inference(sys.argv[2], sys.argv[3], {"devices": "cpu", "backend": "ray"})
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


def test_machines_without_a_seekset_that_works_are_told_before_workers_start(tmp_path):
    write_fasta(tmp_path / "a.fa", 20)
    (tmp_path / "elsewhere" / "seekset").mkdir(parents=True)
    (tmp_path / "elsewhere" / "seekset" / "__init__.py").write_text('raise ImportError("made for another machine")')
    kind, said = told_by(NOT_THERE, tmp_path / "elsewhere", tmp_path / "a.fa", tmp_path / "out")
    assert kind == "EncoderError"
    assert said.startswith("kmer: the encoder can't be tried on the cluster: ")
    assert "made for another machine" in said
    assert "\n" not in said


BROKEN = f"""{CLUSTER}
import os
from dataclasses import replace
from seekset.inference.backends import ray as backend
from seekset.inference.policy import Policy
from seekset.inference.request import Request
from seekset.inference.run import embed

how = sys.argv[4]

class Broken(backend._Arm):
    def __init__(self, folder, rank, *rest):
        if rank == 1 and how == "raises":
            raise OSError("no such device")
        if rank == 1:
            os._exit(1)
        super().__init__(folder, rank, *rest)

backend._Arm = Broken
config = {{"model": "odd_encoders:Sums", "model_args": {{"seconds": 0.5}}, "max_tokens": 150}}
request = Request.of([sys.argv[2]], sys.argv[3], {{**config, "devices": "cpu,cpu", "backend": "ray"}})
patience = Policy(most_deaths=0, longest_backoff=0.1)
print(json.dumps(embed(replace(request, policy=patience)).given_up))
"""


@pytest.mark.parametrize(
    "how, said, deaths",
    [("raises", "could not be started: OSError: no such device", 1), ("ends", "was lost with its actor (", 3 + 1)],
)
def test_an_actor_that_can_t_be_made_is_given_up(tmp_path, how, said, deaths):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    assert told_by(BROKEN, "0", tmp_path / "a.fa", out, how) == [1]
    told = events(out, "worker_died")
    assert [(event["rank"], event["how"][: len(said)]) for event in told] == [(1, said)] * deaths
    assert_same(vectors(out), expected(sequences))


def test_an_actor_that_does_not_answer_is_replaced(tmp_path):
    """One that is stopped says nothing any more, of its worker's end neither."""
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    patience = {"most_deaths": 0, "batch_timeout": 3, "devices": "cpu,cpu", "backend": "ray"}
    config = {"model": "odd_encoders:Sums", "model_args": {"seconds": 0.2}, "max_tokens": 150, **patience}
    impatient = "from seekset.inference.backends import ray as backend; backend._ENDING = 5.0"
    words = [sys.executable, "-c", f"{impatient}\n{RUN}", "0", tmp_path / "a.fa", out, json.dumps(config)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as run:
        wait_for(lambda: len({event["rank"] for event in events(out, "chunk_finished")}) == 2)
        worker = {event["rank"]: event["pid"] for event in events(out, "worker_started")}[1]
        actor = parent(worker)
        os.kill(actor, signal.SIGSTOP)
        said, _ = run.communicate(timeout=200)
    assert run.returncode == 0
    assert json.loads(said.splitlines()[-1]) == []
    assert_same(vectors(out), expected(sequences))
    [hung] = events(out, "worker_hung")
    assert hung["rank"] == 1
    assert events(out, "worker_died")[0]["how"] == "was hung and ended"
    assert events(out, "chunk_failed") == []
    wait_for(lambda: not (is_alive(worker) or is_alive(actor)))


def test_a_worker_that_died_itself_has(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    patience = {"most_deaths": 0, "devices": "cpu,cpu", "backend": "ray"}
    config = {"model": "odd_encoders:Sums", "model_args": {"seconds": 0.1}, "max_tokens": 150, **patience}
    words = [sys.executable, "-c", RUN, "0", tmp_path / "a.fa", out, json.dumps(config)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as run:
        wait_for(lambda: len({event["rank"] for event in events(out, "chunk_finished")}) == 2)
        assert kill({event["rank"]: event["pid"] for event in events(out, "worker_started")}[1])
        said, _ = run.communicate(timeout=200)
    assert json.loads(said.splitlines()[-1]) == [1]
    assert_same(vectors(out), expected(sequences))
