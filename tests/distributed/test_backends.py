"""All backends keep the same promises: one file out of each, also after a kill and with other numbers of workers."""

import os
import signal
import subprocess
import sys

import pytest

from runs import (
    assert_same,
    embed,
    environment,
    events,
    expected,
    failed,
    is_alive,
    kill,
    vectors,
    wait_for,
    write_fasta,
)

SUMS = ("--model", "odd_encoders:Sums", "--max-tokens", 150, "-q")
SLOW = (*SUMS, "--model-arg", "seconds=0.1")


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    path = tmp_path_factory.mktemp("proteins") / "proteins.fa"
    return path, write_fasta(path, 120)


class Local:
    """Processes of this machine."""

    survives = True

    def command(self, workers, *words):
        devices = ",".join(["cpu"] * workers)
        return [sys.executable, "-m", "seekset", "embed", *map(str, words), "--devices", devices]


class Ray(Local):
    """A real cluster, of this machine alone."""

    def __init__(self, address=None):
        self.address = [] if address is None else ["--address", address]

    def command(self, workers, *words):
        return [*super().command(workers, *words), "--backend", "ray", *self.address]


class Torchrun:
    """Ranks that torchrun starts; one that is killed takes the others with it."""

    survives = False

    def command(self, workers, *words):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
        return [*torchrun, "-m", "seekset", "embed", *map(str, words), "--backend", "torchrun", "--devices", "cpu"]


@pytest.fixture(params=[Local, Ray, Torchrun], ids=lambda kind: kind.__name__.lower())
def backend(request):
    return Ray(request.getfixturevalue("cluster")) if request.param is Ray else request.param()


# Clusters that `ray.init` starts ask whoever joins them for a token, unless told otherwise.
RAY = {"RAY_DISABLE_IMPORT_WARNING": "1", "RAY_AUTH_MODE": "disabled"}

CLUSTER = """
import sys
import ray
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster that all tests here share: one takes longer to start than a test to run."""
    words = [sys.executable, "-c", CLUSTER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=environment(**RAY), **pipes) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()


def begun(words):
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**RAY))


def ended(run, seconds=180):
    out, told = run.communicate(timeout=seconds)
    return run.returncode, out, told


@pytest.mark.parametrize("schedule", ["queue", "stride"])
def test_every_sequence_has_its_vector(backend, proteins, tmp_path, schedule):
    path, sequences = proteins
    out = tmp_path / "out"
    code, said, told = ended(begun(backend.command(2, path, "-o", out, *SUMS, "--schedule", schedule)))
    assert code == 0, told
    assert not said, "it is told to be quiet"
    assert_same(vectors(out), expected(sequences))
    assert {event["rank"] for event in events(out, "worker_started")} == {0, 1}


def test_more_workers_than_sequences_and_another_number_of_them_later(backend, tmp_path):
    sequences = write_fasta(tmp_path / "few.fa", 2)
    out = tmp_path / "out"
    code, _, told = ended(begun(backend.command(3, tmp_path / "few.fa", "-o", out, *SUMS)))
    assert code == 0, told
    next((out / "chunks").iterdir()).unlink()
    again = embed(tmp_path / "few.fa", "-o", out, *SUMS, "--resume")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))


def test_a_killed_worker_costs_nothing(backend, proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    run = begun(backend.command(2, path, "-o", out, *SLOW))
    wait_for(lambda: len(events(out, "chunk_finished")) >= 2)
    pids = {event["rank"]: event["pid"] for event in events(out, "worker_started")}
    assert kill(pids[1])
    code, _, told = ended(run)
    if not backend.survives:
        assert code != 0
        wait_for(lambda: not any(map(is_alive, pids.values())), seconds=30)
        code, _, told = ended(begun(backend.command(3, path, "-o", out, *SLOW, "--resume")))
    assert code == 0, told
    assert_same(vectors(out), expected(sequences))
    assert failed(out) == {}


def test_a_sequence_that_the_encoder_cant_take_is_set_aside(backend, tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Troubled", "--model-arg", "trouble=raise", "--max-tokens", 200, "-q")
    code, _, told = ended(begun(backend.command(2, tmp_path / "a.fa", "-o", out, *words)))
    assert code == 1, told
    assert failed(out) == {"poison": "ValueError: this sequence [bold]is poison[/bold]"}
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))


def test_sigterm_saves_what_is_done(backend, proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    run = begun(backend.command(2, path, "-o", out, *SLOW))
    wait_for(lambda: len(events(out, "chunk_finished")) >= 2)
    run.send_signal(signal.SIGTERM)
    code, _, told = ended(run)
    # torchrun says in its own way that its ranks were ended.
    assert code == 143 if backend.survives else code != 0, told
    assert events(out, "worker_died") == []
    if backend.survives:
        assert events(out, "run_ended")[-1]["outcome"] == "SIGTERM was received"
        # Whatever was begun was finished, and saved.
        assert spans(out, "chunk_finished") == spans(out, "chunk_begun")
    saved = sum(event["sequences"] for event in events(out, "chunk_finished"))
    pids = [event["pid"] for event in events(out, "worker_started")]
    wait_for(lambda: not any(map(is_alive, pids)), seconds=30)
    code, _, told = ended(begun(backend.command(2, path, "-o", out, *SLOW, "--resume")))
    assert code == 0, told
    assert events(out, "run_started")[-1]["done"] >= saved
    assert_same(vectors(out), expected(sequences))


def spans(folder, kind):
    return sorted((event["start"], event["end"]) for event in events(folder, kind))


def test_ray_that_is_started_here_keeps_what_handles_signals(proteins, tmp_path):
    """As a cluster does that was there: Ray itself would end the process at once."""
    path, sequences = proteins
    out = tmp_path / "out"
    run = begun(Ray().command(2, path, "-o", out, *SLOW))
    wait_for(lambda: len(events(out, "chunk_finished")) >= 2)
    run.send_signal(signal.SIGTERM)
    code, _, told = ended(run)
    assert code == 143, told
    assert events(out, "run_ended")[-1]["outcome"] == "SIGTERM was received"
    assert spans(out, "chunk_finished") == spans(out, "chunk_begun")
    code, _, told = ended(begun(Local().command(2, path, "-o", out, *SLOW, "--resume")))
    assert code == 0, told
    assert_same(vectors(out), expected(sequences))


def test_a_model_that_cant_be_loaded_is_told(backend, proteins, tmp_path):
    if isinstance(backend, Ray):
        backend = Ray()  # without an address, a cluster of its own
    words = ("--model", "odd_encoders:Unloadable", "-q")
    code, _, told = ended(begun(backend.command(2, proteins[0], "-o", tmp_path / "out", *words)))
    assert code != 0
    assert "the weights are not there" in told


def test_torchrun_outside_of_torchrun(proteins, tmp_path):
    assert "RANK" not in os.environ
    run = embed(proteins[0], "-o", tmp_path / "out", "--backend", "torchrun")
    assert run.returncode == 1
    assert "start it with `torchrun --nproc-per-node N -m seekset embed ...`" in run.stderr


def test_workers_that_find_no_place_in_a_cluster_are_not_waited_for(proteins, tmp_path):
    path, sequences = proteins
    program = (
        "import ray; ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)\n"
        "from seekset.inference import run_multi_gpu_inference\n"
        "config = {'model': 'odd_encoders:Sums', 'max_tokens': 150, 'devices': 'cpu,cpu', 'backend': 'ray'}\n"
        f"run_multi_gpu_inference({str(path)!r}, {str(tmp_path / 'out')!r}, config)\n"
    )
    run = begun([sys.executable, "-c", program])
    code, _, told = ended(run)
    assert code == 0, told
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_devices_that_torchrun_can_t_give(proteins, tmp_path):
    words = Torchrun().command(1, proteins[0], "-o", tmp_path / "out", *SUMS)
    code, _, told = ended(begun([*words[:-1], "2,3"]))
    assert code != 0
    assert "each rank has the GPU of its number" in told
