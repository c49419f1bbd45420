"""One worker of several that is broken: the others do the rest, and no sequence is lost for it."""

import os
import signal

import pytest

from runs import assert_same, begin, embed, events, expected, failed, vectors, wait_for, write_fasta
from seekset.errors import MismatchError
from seekset.inference import run_multi_gpu_inference

BIASED = ("--model", "odd_encoders:Biased", "--max-tokens", 150, "-q")


def test_what_fails_with_one_worker_is_tried_by_another_before_it_is_narrowed(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    broken = ("--model-arg", "times=3", "--model-arg", f"mark={tmp_path / 'mark'}")
    run = embed(tmp_path / "a.fa", "-o", out, *BIASED, *broken, "--devices", "cpu,cpu")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))
    told = events(out, "chunk_failed")
    assert {event["verdict"] for event in told} == {"again"}
    assert {event["rank"] for event in told} == {1}
    done = {(event["start"], event["end"]): event["rank"] for event in events(out, "chunk_finished")}
    assert {done[event["start"], event["end"]] for event in told} == {0}


@pytest.mark.parametrize(
    "how, schedule",
    [
        *(("raise", "queue"), ("raise", "stride"), ("segv", "stride")),
        *(("lacking", "queue"), ("lacking", "stride"), ("memory", "queue")),
    ],
)
def test_a_worker_that_fails_what_others_can_do_is_given_up_and_costs_no_sequence(tmp_path, how, schedule):
    sequences = write_fasta(tmp_path / "a.fa", 120, poison=17)
    out = tmp_path / "out"
    arguments = {"how": how, "seconds": 0.02, "mark": tmp_path / "mark"}
    config = {"model": "odd_encoders:Biased", "model_args": arguments, "max_tokens": 120}
    more = {"devices": "cpu,cpu,cpu", "backoff": 0.01, "schedule": schedule}
    _, failed_ranks = run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, **more})
    # The first to say why it has no vector may have been either.
    assert list(failed(out)) == ["poison"]
    if how not in ("lacking", "memory"):
        assert failed(out) == {"poison": "ValueError: poison"}
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))
    assert failed_ranks == [1]
    [told] = events(out, "worker_given_up")
    assert told["rank"] == 1
    if how != "segv":
        assert told["reason"] == "it failed 6 times in a row with what other workers could do"


def test_a_worker_that_fails_with_the_last_there_is_to_do_is_given_up_as_well(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 3)
    out = tmp_path / "out"
    config = {"model": "odd_encoders:Biased", "model_args": {"where": "worker_0"}, "devices": "cpu,cpu"}
    _, failed_ranks = run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "most_deaths": 0})
    assert failed_ranks == [0]
    assert [event["rank"] for event in events(out, "worker_given_up")] == [0]
    assert [event["rank"] for event in events(out, "worker_ended")] == [1]
    assert_same(vectors(out), expected(sequences))


def test_one_failure_with_what_others_can_do_is_forgiven_with_the_next_success(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 120)
    arguments = {"times": 2, "seconds": 0.02, "mark": tmp_path / "mark"}
    config = {"model": "odd_encoders:Biased", "model_args": arguments, "max_tokens": 120}
    _, failed_ranks = run_multi_gpu_inference(
        tmp_path / "a.fa", tmp_path / "out", {**config, "devices": "cpu,cpu", "most_deaths": 2}
    )
    assert failed_ranks == []
    assert_same(vectors(tmp_path / "out"), expected(sequences))


@pytest.mark.parametrize("how", ["lacking", "memory"])
def test_a_sequence_without_a_vector_is_computed_by_another_worker_if_that_can(tmp_path, how):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    broken = ("--model-arg", f"how={how}", "--model-arg", "times=1", "--model-arg", f"mark={tmp_path / 'mark'}")
    run = embed(tmp_path / "a.fa", "-o", out, *BIASED, *broken, "--devices", "cpu,cpu")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))
    assert failed(out) == {}
    assert events(out, "sequence_failed") == []
    if how == "lacking":
        [told] = events(out, "chunk_failed")
        span = (told["start"], told["end"])
        assert (told["rank"], told["reason"], told["verdict"]) == (1, "the encoder gave NaN or infinity", "again")
        tried = [event["rank"] for event in events(out, "chunk_begun") if (event["start"], event["end"]) == span]
        assert tried == [1, 0]


@pytest.mark.parametrize("schedule", ["queue", "stride"])
@pytest.mark.parametrize(
    "trouble, said", [("nan", "the encoder gave NaN or infinity"), ("never", "out of memory with a batch of")]
)
def test_a_sequence_that_has_no_vector_with_two_workers_is_set_aside(tmp_path, trouble, said, schedule):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Troubled", "--model-arg", f"trouble={trouble}", "--max-tokens", 200, "-q")
    run = embed(tmp_path / "a.fa", "-o", out, *words, "--devices", "cpu,cpu,cpu", "--schedule", schedule)
    assert run.returncode == 1, run.stderr
    assert list(failed(out)) == ["poison"]
    assert said in failed(out)["poison"]
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))
    # Two have tried it, and it is told once.
    [piece] = [event["piece"] for event in events(out, "sequence_failed")]
    spans = [event for event in events(out, "chunk_begun") if event["start"] <= piece < event["end"]]
    assert len(spans) == len({event["rank"] for event in spans}) == 2
    assert (spans[1]["start"], spans[1]["end"]) == (piece, piece + 1)
    assert events(out, "worker_given_up") == []
    # And again, because a resume tries what failed.
    again = embed("-o", out, "--resume", "-q", "--devices", "cpu,cpu")
    assert (again.returncode, list(failed(out))) == (1, ["poison"]), again.stderr


def test_the_only_part_of_a_run_that_fails_is_given_to_a_worker_that_was_not_needed_before(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 3)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Biased", "--model-arg", "where=worker_0", "-q")
    run = embed(tmp_path / "a.fa", "-o", out, *words, "--devices", "cpu,cpu")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))
    assert [event["rank"] for event in events(out, "chunk_begun")] == [0, 1]


def test_half_a_message_does_not_keep_the_others_waiting(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Stammering", "--max-tokens", 200, "-q", "--batch-timeout", 2)
    run = embed(tmp_path / "a.fa", "-o", out, *words, "--devices", "cpu,cpu")
    assert run.returncode == 1, run.stderr
    assert failed(out) == {"poison": "the worker that encoded it was hung and ended"}
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))
    # The others went on while the first one was silent.
    hung = next(k for k, event in enumerate(events(out)) if event["event"] == "worker_hung")
    assert any(event["event"] == "chunk_finished" for event in events(out)[:hung])


def test_a_run_with_a_worker_that_said_half_a_message_can_be_interrupted(tmp_path):
    write_fasta(tmp_path / "a.fa", 1, poison=0)
    out = tmp_path / "out"
    run = begin(tmp_path / "a.fa", "-o", out, "--model", "odd_encoders:Stammering", "-q")
    wait_for(lambda: events(out, "chunk_begun"))
    for _ in range(2):
        # The second one does not wait for batches.
        run.send_signal(signal.SIGTERM)
        wait_for(lambda: run.poll() is not None or events(out, "run_stopping"))
    run.communicate(timeout=60)
    assert run.returncode in (143, -signal.SIGTERM)


def test_a_worker_that_is_stopped_is_hung_and_ended(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.05", "--max-tokens", 100, "-q")
    run = begin(tmp_path / "a.fa", "-o", out, *words, "--devices", "cpu,cpu", "--batch-timeout", 2)
    wait_for(lambda: len({event["rank"] for event in events(out, "chunk_finished")}) == 2)
    stopped = events(out, "worker_started")[1]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    _, told = run.communicate(timeout=120)
    assert run.returncode == 0, told
    assert_same(vectors(out), expected(sequences))
    assert [event["pid"] for event in events(out, "worker_started")].count(stopped) == 1
    assert len(events(out, "worker_hung")) == 1


def test_workers_that_do_not_end_when_all_is_done_are_ended(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 20)
    config = {"model": "odd_encoders:Lingering", "devices": "cpu,cpu", "max_tokens": 200, "grace": 1.0}
    output, failed_ranks = run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", config)
    assert (output, failed_ranks) == (tmp_path / "out" / "embeddings.h5", [])
    assert_same(vectors(tmp_path / "out"), expected(sequences))


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), 1e8])
def test_limits_that_are_none_are_refused(tmp_path, seconds):
    write_fasta(tmp_path / "a.fa", 2)
    for name in ("batch_timeout", "load_timeout"):
        with pytest.raises(MismatchError, match=f"{name} must be more than 0 seconds and at most"):
            run_multi_gpu_inference(tmp_path / "a.fa", tmp_path / "out", {"model": "kmer", name: seconds})
