"""The folder of a run is accepted whatever has happened to it, and by whoever has begun it with odd values."""

import json
import shutil
import signal
import subprocess

import numpy as np
import pytest

from runs import assert_same, embed, environment, events, expected, vectors, write_fasta
from seekset.inference import run_multi_gpu_inference
from seekset.inference.checkpoint import ChunkStore
from seekset.inference.results import Result, Span

SUMS = ("--model", "odd_encoders:Sums", "--max-tokens", 400, "-q")
CONFIG = {"model": "odd_encoders:Sums", "max_tokens": 400, "devices": "cpu"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run, and its sequences."""
    folder = tmp_path_factory.mktemp("finished")
    sequences = write_fasta(folder / "a.fa", 60)
    assert embed(folder / "a.fa", "-o", folder / "out", *SUMS).returncode == 0
    return folder / "out", sequences


@pytest.fixture
def out(finished, tmp_path):
    """A copy of that folder."""
    return shutil.copytree(finished[0], tmp_path / "out")


# --- a removal that was broken off ------------------------------------------------------------------------------------

REMOVAL = """
import os, signal, sys
from pathlib import Path
from seekset.inference.folder import remove_run

left = int(sys.argv[2])

def die(event, _):
    # Before so many files and folders are gone.
    global left
    if event in ("os.remove", "os.rmdir"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
remove_run(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("removed", [1, 3, 5, -3, -2, -1])
@pytest.mark.parametrize("words", [("--resume", "-q"), (*SUMS, "--restart")])
def test_a_removal_that_was_broken_off_leaves_a_run_of_which_less_is_done(finished, out, program, removed, words):
    before = sorted(path.name for path in out.rglob("*"))
    # embeddings.h5, failed.jsonl, the chunks and their folder, the plan, the index, and the manifest
    steps = 2 + len(list((out / "chunks").iterdir())) + 1 + 3
    number = removed % steps
    run = subprocess.run(program(REMOVAL, out, number), check=False)
    assert run.returncode == -signal.SIGKILL
    assert (out / "manifest.json").exists()
    assert sorted(path.name for path in out.rglob("*")) != before
    files = [] if "--resume" in words else [finished[0].parent / "a.fa"]
    again = embed(*files, "-o", out, *words)
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(finished[1]))


# --- a manifest that can't be read ------------------------------------------------------------------------------------


def test_a_manifest_that_cant_be_read_does_not_stand_in_the_way_of_a_restart(finished, out, tmp_path):
    for number, manifest in enumerate(('{"version": 1, "files": ["a.fa"]}', "{", '{"per_token": 1}', "\xff")):
        folder = shutil.copytree(out, tmp_path / f"out_{number}")
        (folder / "manifest.json").write_text(manifest, encoding="latin-1")
        refused = embed("-o", folder, *SUMS, finished[0].parent / "a.fa", "--resume")
        assert refused.returncode in (1, 2)
        assert refused.stderr.startswith(f"seekset: {folder}/manifest.json: ")
        assert "expected" in refused.stderr
        assert "Traceback" not in refused.stderr
        again = embed(finished[0].parent / "a.fa", "-o", folder, *SUMS, "--restart")
        assert again.returncode == 0, again.stderr
        assert_same(vectors(folder), expected(finished[1]))


def test_a_manifest_of_an_earlier_version_says_what_to_do(out):
    manifest = json.loads((out / "manifest.json").read_text())
    manifest |= {"version": 1, "files": [file["path"] for file in manifest["files"]]}
    (out / "manifest.json").write_text(json.dumps(manifest))
    told = embed("-o", out, "--resume", "-q").stderr
    assert f"{out}/manifest.json: expected version 2, found 1: another version of seekset began this run" in told
    assert "--restart removes its results and starts over" in told


# --- values of other types --------------------------------------------------------------------------------------------

ODD = {"max_tokens": np.int64(400), "max_length": np.int32(60), "per_token": np.bool_(0), "unsafe_weights": 0}


def test_numbers_and_flags_of_other_types_are_kept_as_plain_ones(finished, tmp_path):
    config = {**CONFIG, **ODD}
    output, _ = run_multi_gpu_inference(finished[0].parent / "a.fa", tmp_path / "out", config)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["rules"]["max_tokens"], manifest["rules"]["max_length"]) == (400, 60)
    assert (manifest["encoder"]["per_token"], manifest["encoder"]["unsafe_weights"]) == (False, False)
    before = output.read_bytes()
    output.unlink()
    # It is the same run for others, who say it plainly.
    plain = {**CONFIG, "max_length": 60}
    assert run_multi_gpu_inference(finished[0].parent / "a.fa", tmp_path / "out", plain)[0].read_bytes() == before


def test_a_flag_that_is_a_number_is_a_flag(finished, tmp_path):
    config = {"model": "odd_encoders:PerResidue", "devices": "cpu", "per_token": 1}
    for _ in range(2):
        run_multi_gpu_inference(finished[0].parent / "a.fa", tmp_path / "out", config)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["encoder"]["per_token"] is True


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"per_token": "no"}, "per_token must be True or False, not 'no'"),
        ({"trust_remote_code": None}, "trust_remote_code must be True or False, not None"),
        ({"layer": 1.5}, "layer must be a whole number, not float"),
        ({"layer": True}, "layer must be a whole number, not bool"),
        ({"dtype": np.float16}, "dtype must be fp32, bf16 or fp16, or None, not type"),
        ({"max_tokens": "400"}, "max_tokens must be a whole number, not str"),
        ({"max_length": 2.0}, "max_length must be a whole number or None, not float"),
        ({"model_args": {1: 2}}, "model_args must have names that are text, not 1"),
    ],
)
def test_values_that_mean_nothing_are_refused_before_anything_is_made(finished, tmp_path, wrong, said):
    with pytest.raises(TypeError, match=said):
        run_multi_gpu_inference(finished[0].parent / "a.fa", tmp_path / "out", {**CONFIG, **wrong})
    assert not (tmp_path / "out").exists()


def test_an_encoder_may_say_what_it_wants_in_other_types(finished, tmp_path):
    config = {**CONFIG, "model": "odd_encoders:Loose"}
    for _ in range(2):
        output, _ = run_multi_gpu_inference(finished[0].parent / "a.fa", tmp_path / "out", config)
    assert_same(vectors(output.parent), expected(finished[1]))
    facts = json.loads((tmp_path / "out" / "manifest.json").read_text())["facts"]
    assert (facts["specials"], facts["max_length"], facts["dim"]) == (True, 1000, 3)


# --- files of other runs ----------------------------------------------------------------------------------------------


def test_files_of_another_run_are_left_alone_and_told_of(finished, out):
    theirs = Result(Span(0, 3), np.arange(3), np.zeros((3, 3), np.float32))
    path = ChunkStore(out / "chunks", run="another").write(theirs)
    kept = path.read_bytes()
    run = embed("-o", out, "--resume")
    assert run.returncode == 0, run.stderr
    said = "chunk files of another run, which are left alone: 1; the first is 000000000000-000000000003.safetensors"
    assert said in run.stderr
    [told] = events(out, "chunks_foreign")
    assert (told["count"], told["path"]) == (1, path.name)
    assert path.read_bytes() == kept
    assert_same(vectors(out), expected(finished[1]))


# --- what a resume reads ----------------------------------------------------------------------------------------------


def test_a_resume_reads_every_part_of_the_results_once_before_it_puts_them_together(finished, out, program):
    source = """
        import sys
        from collections import Counter
        from seekset.inference import run_multi_gpu_inference
        opened = Counter()

        def note(event, words):
            # The system's own call: Python's, which it is made by, tells of itself, too.
            if event == "open" and str(words[0]).endswith(".safetensors") and words[1] is None:
                opened[words[0]] += 1

        sys.addaudithook(note)
        run_multi_gpu_inference(sys.argv[1], sys.argv[2], {"model": "odd_encoders:Sums", "max_tokens": 400})
        print(len(opened), set(opened.values()))
    """
    done = subprocess.run(
        program(source, finished[0].parent / "a.fa", out),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # To compare checksums, and to copy vectors.
    assert done.stdout == f"{len(list((out / 'chunks').iterdir()))} {{2}}\n"
