"""What is torchrun's alone: it ends all ranks with one, so that one which fails or hangs has to end."""

import subprocess
import sys

from runs import assert_same, embed, environment, events, expected, failed, vectors, write_fasta

UNLUCKY = ("--model", "odd_encoders:Unlucky", "--max-tokens", 150, "-q")


def torchrun(*words, **env):
    """Run two ranks to the end."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "seekset", "embed", *map(str, words), "--backend", "torchrun", "--devices", "cpu"]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**env), timeout=200, check=False)


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
