"""``run_multi_gpu_inference``, from a program of one's own."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from runs import assert_same, environment, events, expected, vectors, wait_for, write_fasta
from seekset.errors import MismatchError
from seekset.inference import RunIncompleteError, run_multi_gpu_inference
from seekset.inference.history import History
from seekset.inference.request import Request
from seekset.inference.run import embed
from tiny_models import tiny_esm

CONFIG = {"model": "odd_encoders:Sums", "max_tokens": 200}


def test_the_file_and_the_ranks_given_up_on(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 50)
    config = {**CONFIG, "devices": ["cpu", "cpu"]}
    output, failed_ranks = run_multi_gpu_inference([tmp_path / "a.fa"], tmp_path / "out", config)
    assert (output, failed_ranks) == (tmp_path / "out" / "embeddings.h5", [])
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_a_world_size_without_gpus_is_that_many_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    sequences = write_fasta(tmp_path / "a.fa", 50)
    run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", CONFIG, world_size=3)
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_a_second_call_goes_on_with_what_is_there(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 50)
    slow = {**CONFIG, "model_args": {"seconds": 0.2}, "devices": "cpu", "max_tokens": 100}
    with pytest.raises(TimeoutError, match="the time is up; it can be resumed"):
        run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", slow, timeout=1.5)
    run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", slow)
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_a_run_that_gives_up_on_all_ranks_is_an_error(tmp_path):
    write_fasta(tmp_path / "a.fa", 10, poison=3)
    config = {"model": "odd_encoders:Troubled", "model_args": {"trouble": "kill"}, "devices": "cpu", "backoff": 0.01}
    with pytest.raises(RunIncompleteError, match="all workers died too often and were given up; it can be resumed"):
        run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", {**config, "max_tokens": 100})


def test_a_coordinator_that_fails_says_how_it_ended(tmp_path):
    write_fasta(tmp_path / "a.fa", 50)
    slow = {**CONFIG, "model_args": {"seconds": 0.2}, "devices": "cpu"}

    def stop():
        if events(tmp_path / "out", "chunk_begun"):
            raise RuntimeError("no\nmore")

    with pytest.raises(RuntimeError, match="no\nmore"):
        embed(Request.of([tmp_path / "a.fa"], tmp_path / "out", slow), stop=stop)
    assert [event["outcome"] for event in events(tmp_path / "out", "run_ended")] == ["no more"]
    assert History.of(tmp_path / "out").tally.state == "ended (no more)"
    # What is told once is not told again.
    (tmp_path / "out" / "embeddings.h5").mkdir()
    (tmp_path / "out" / "embeddings.h5" / "in the way").touch()
    with pytest.raises(OSError, match=r"embeddings\.h5"):
        run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", slow)
    outcomes = [event["outcome"] for event in events(tmp_path / "out", "run_ended")]
    assert len(outcomes) == 2
    assert outcomes[-1].startswith("no embeddings.h5: ")


def test_options_that_are_none_are_named(tmp_path):
    with pytest.raises(MismatchError, match="there is no option 'max_token'; the nearest is 'max_tokens'"):
        run_multi_gpu_inference("a.fa", tmp_path, {"max_token": 5})


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"batch_timeout": -1}, "batch_timeout must be more than 0 seconds and at most 2592000, which is a month"),
        ({"output_dtype": "int8"}, "output_dtype must be float32 or float16, not 'int8'"),
        ({"model": None}, "model must be kmer, a folder or name, or MODULE:NAME, not None"),
        ({"model_args": ["k=3"]}, r"model_args must be a mapping such as \{'k': 3\}, not \['k=3'\]"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_is_computed(tmp_path, wrong, said):
    write_fasta(tmp_path / "a.fa", 5)
    with pytest.raises(MismatchError, match=said):
        run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", wrong)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number, raised", [("SIGINT", "KeyboardInterrupt()"), ("SIGTERM", "SystemExit(143)")])
def test_signals_end_a_program_as_they_do_elsewhere(tmp_path, number, raised):
    write_fasta(tmp_path / "a.fa", 50)
    slow = {**CONFIG, "model_args": {"seconds": 0.3}, "devices": "cpu", "max_tokens": 100}
    (tmp_path / "program.py").write_text(
        "from seekset.inference import run_multi_gpu_inference\n"
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        f"    run_multi_gpu_inference({str(tmp_path / 'a.fa')!r}, {str(tmp_path / 'out')!r}, {slow})\n"
        "except BaseException as error:\n"
        "    print(repr(error))\n"
    )
    words = [sys.executable, tmp_path / "program.py"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as program:
        wait_for(lambda: events(tmp_path / "out", "chunk_begun"))
        program.send_signal(getattr(signal, number))
        assert program.communicate(timeout=60)[0] == f"{raised}\n"
    assert events(tmp_path / "out", "run_ended")[-1]["outcome"] == f"{number} was received"


def test_a_program_without_a_main_guard_works(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 20)
    program = (
        "from seekset.inference import run_multi_gpu_inference\n"
        f"print(run_multi_gpu_inference({str(tmp_path / 'a.fa')!r}, {str(tmp_path / 'out')!r}, {CONFIG}))\n"
    )
    (tmp_path / "program.py").write_text(program)
    run = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, env=environment(), check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("embeddings.h5") == 1
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_the_coordinator_does_not_import_torch(tmp_path):
    write_fasta(tmp_path / "a.fa", 20)
    program = (
        "import sys; from seekset.inference import run_multi_gpu_inference\n"
        f"run_multi_gpu_inference({str(tmp_path / 'a.fa')!r}, {str(tmp_path / 'out')!r}, {CONFIG})\n"
        "assert 'torch' not in sys.modules\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_model_of_hugging_face_gives_what_it_gives_for_each_sequence_alone(tmp_path):
    from transformers import AutoModel, AutoTokenizer

    folder = tiny_esm(tmp_path / "esm")
    sequences = dict(write_fasta(tmp_path / "a.fa", 30).items())
    run_multi_gpu_inference(
        tmp_path / "a.fa", tmp_path / "out", {"model": folder, "devices": "cpu,cpu", "max_tokens": 300}
    )
    found = vectors(tmp_path / "out")
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for name, letters in sequences.items():
        if not letters:
            continue
        with torch.inference_mode():
            hidden = model(**tokenizer(letters, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(found[name], hidden[1:-1].mean(0).numpy(), atol=1e-5)


def test_a_model_is_the_same_in_another_folder_and_another_one_in_the_same_place_is_not(tmp_path):
    write_fasta(tmp_path / "a.fa", 30)
    out, config = tmp_path / "out", {"devices": "cpu", "max_tokens": 300}
    model = tiny_esm(tmp_path / "esm")
    run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "model": model})
    before, chunks = vectors(out), sorted((out / "chunks").iterdir())
    chunks[0].unlink()
    kept = chunks[1].stat().st_mtime_ns
    model.rename(tmp_path / "moved")
    run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "model": tmp_path / "moved"})
    found = vectors(out)
    for name, one in before.items():
        np.testing.assert_array_equal(found[name], one)
    assert chunks[1].stat().st_mtime_ns == kept
    assert events(out, "run_started")[-1]["done"] > 0
    # Where it is now is where a run looks for it that is not told.
    chunks[0].unlink()
    run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "model": tmp_path / "moved"})
    other = tiny_esm(tmp_path / "other", seed=1)
    said = r"encoder: model: it was '.*moved' and is '.*other', whose content is another"
    with pytest.raises(MismatchError, match=said):
        run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "model": other})
    with pytest.raises(MismatchError, match=r"encoder: model: it was '.*moved' and is 'kmer'"):
        run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "model": "kmer"})
    chunks[0].unlink()
    (tmp_path / "moved").rename(tmp_path / "gone")
    other.rename(tmp_path / "moved")
    with pytest.raises(MismatchError, match="encoder: fingerprint"):
        run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "model": tmp_path / "moved"})
