"""What is torchrun's alone: it ends all ranks with one, so that one which fails or hangs has to end."""

import json
import subprocess
import sys

import pytest

from runs import assert_same, embed, environment, events, expected, failed, kill, vectors, wait_for, write_fasta

UNLUCKY = ("--model", "odd_encoders:Unlucky", "--max-tokens", 150, "-q")


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def command(*words):
    return ["-m", "seekset", "embed", *map(str, words), "--backend", "torchrun", "--devices", "cpu"]


def completed(*words, **env):
    """Run two ranks to the end."""
    return subprocess.run(
        [*TORCHRUN, *words], capture_output=True, text=True, env=environment(**env), timeout=200, check=False
    )


def torchrun(*words, **env):
    return completed(*command(*words), **env)


FROM_PYTHON = """
import json, os, sys
from seekset.inference import run_multi_gpu_inference
config = {**json.loads(sys.argv[3]), "backend": "torchrun", "devices": "cpu"}
if os.environ["RANK"] == json.loads(sys.argv[5]):
    os.environ["SEEKSET_GREEDY"] = "yes"
try:
    output, ranks = run_multi_gpu_inference(sys.argv[1], sys.argv[2], config, timeout=json.loads(sys.argv[4]))
    said = [str(output), output.exists(), ranks]
except Exception as error:
    said = [type(error).__name__, str(error)]
print(json.dumps([os.environ["RANK"], *said]), flush=True)
"""


@pytest.fixture
def from_python(program, tmp_path):
    """What `run_multi_gpu_inference` gives or raises in each of two ranks; in one of them, files can't be opened."""

    def from_python(config, timeout=None, greedy=None):
        words = program(FROM_PYTHON, tmp_path / "a.fa", tmp_path / "out", *map(json.dumps, (config, timeout, greedy)))
        run = completed(*words[1:])
        assert run.returncode == 0, run.stderr
        return sorted(map(json.loads, run.stdout.splitlines()))

    return from_python


def test_every_rank_returns_once_the_result_is_there(from_python, tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    output = str(tmp_path / "out" / "embeddings.h5")
    found = from_python({"model": "odd_encoders:Sums", "max_tokens": 150})
    assert found == [["0", output, True, []], ["1", output, True, []]]
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_a_run_that_takes_too_long_is_stopped_on_every_rank_and_can_be_resumed(from_python, tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    config = {"model": "odd_encoders:Sums", "model_args": {"seconds": 1.0}, "max_tokens": 150}
    found = from_python(config, timeout=4)
    said = f"{tmp_path / 'out'}: the time is up; it can be resumed"
    assert found == [["0", "TimeoutError", said], ["1", "TimeoutError", said]]
    assert events(tmp_path / "out", "run_ended")[-1]["outcome"] == "the time is up"
    again = embed("-o", tmp_path / "out", "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_what_one_rank_cant_save_is_told_by_every_rank(from_python, tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    config = {"model": "odd_encoders:Greedy", "max_tokens": 150, "schedule": "stride"}
    [[_, kind, said], [_, other_kind, other_said]] = from_python(config, greedy="1")
    assert (kind, said) == (other_kind, other_said)
    assert kind == "RunIncompleteError"
    assert "Too many open files" in said
    assert said.endswith("it can be resumed")
    again = embed("-o", tmp_path / "out", "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_a_run_that_cant_begin_is_told_by_one_rank_only(from_python, tmp_path):
    write_fasta(tmp_path / "a.fa", 60)
    run = torchrun(tmp_path / "a.fa", "-o", tmp_path / "out", "--model", "odd_encoders:Unloadable", "-q")
    assert run.returncode == 1
    [said] = [line for line in run.stderr.splitlines() if line.startswith("seekset: ")]
    assert "the weights are not there" in said
    assert run.stderr.count("the weights are not there") == 1
    [lead, follower] = from_python({"model": "odd_encoders:Unloadable"})
    assert lead[1] == "EncoderError"
    assert follower[1] == "LeaderError"
    assert "rank 0 has failed: EncoderError: odd_encoders:Unloadable: the encoder can't be loaded" in follower[2]


def test_torchrun_starts_ranks_again_if_the_run_is_one_that_resumes(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.2", "--max-tokens", 150, "-q", "--resume")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    with subprocess.Popen(
        [*TORCHRUN, "--max-restarts", "1", *command(tmp_path / "a.fa", "-o", out, *words)], **pipes
    ) as run:
        wait_for(lambda: len({event["rank"] for event in events(out, "chunk_finished")}) == 2)
        assert kill({event["rank"]: event["pid"] for event in events(out, "worker_started")}[1])
        _, told = run.communicate(timeout=200)
    assert run.returncode == 0, told
    assert [event["done"] > 0 for event in events(out, "run_started")] == [False, True]
    assert_same(vectors(out), expected(sequences))


def test_a_follower_that_cant_load_the_model_ends_the_job_and_it_can_be_resumed(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    words = (*UNLUCKY, "--model-arg", "seconds=0.1")
    run = torchrun(tmp_path / "a.fa", "-o", out, *words, SEEKSET_UNLOADABLE="1")
    assert run.returncode != 0
    said = [line for line in run.stderr.splitlines() if "this rank has no weights" in line]
    assert len(said) == 1, run.stderr
    assert said[0].startswith("seekset: odd_encoders:Unlucky: the encoder can't be made")
    assert not (out / "embeddings.h5").exists()
    again = torchrun(tmp_path / "a.fa", "-o", out, *words, "--resume")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))


def test_a_batch_that_hangs_ends_the_job_and_it_can_be_resumed(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    run = torchrun(
        tmp_path / "a.fa", "-o", out, *UNLUCKY, "--batch-timeout", 2, "--schedule", "stride", SEEKSET_HANGING="1"
    )
    assert run.returncode != 0
    [told] = events(out, "worker_hung")
    assert (told["rank"], told["reason"]) == (1, "a batch took longer than 2 s")
    # Where it hangs is shown.
    assert "odd_encoders.py" in run.stderr
    assert failed(out) == {}
    again = embed("-o", out, "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))


def test_a_rank_whose_device_is_broken_ends_the_job_and_sets_nothing_aside(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Breaking", "--max-tokens", 150, "-q", "--model-arg", "after=1")
    said = ("--model-arg", "said=CUDA error: an illegal memory access was encountered")
    run = torchrun(tmp_path / "a.fa", "-o", out, *words, *said, "--schedule", "stride", SEEKSET_BREAKING="1")
    assert run.returncode != 0
    assert "rank 1 can't use its device any more (RuntimeError: CUDA error: an illegal memory access" in run.stderr
    assert [event["rank"] for event in events(out, "worker_raised")] == [1]
    assert events(out, "sequence_failed") == []
    assert failed(out) == {}
    again = torchrun("-o", out, "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))
