"""One worker, whose process breaks: another one of its own shows whether it was that, or what it failed with."""

import json

import pytest

from runs import assert_same, embed, events, expected, failed, vectors, write_fasta

BREAKING = ("--model", "odd_encoders:Breaking", "--max-tokens", 150, "-q")
SEEN_TO = "was ended, to see whether its process was broken"


def arguments(**named):
    return [word for name, value in named.items() for word in ("--model-arg", f"{name}={value}")]


@pytest.mark.parametrize("after", [1, 3])
def test_a_process_that_breaks_is_replaced_and_costs_no_sequence(tmp_path, after):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    run = embed(tmp_path / "a.fa", "-o", out, *BREAKING, *arguments(after=after))
    assert run.returncode == 0, run.stderr
    assert failed(out) == {}
    assert events(out, "sequence_failed") == []
    assert_same(vectors(out), expected(sequences))
    assert {event["how"] for event in events(out, "worker_died")} == {SEEN_TO}
    assert events(out, "worker_given_up") == []
    # It narrows a few parts, and not all there are, before that is seen to.
    told = [event["event"] for event in events(out) if event["event"] in ("worker_started", "chunk_failed")]
    lives = " ".join(told).split("worker_started")[1:]
    assert max(len(life.split()) for life in lives) == 4


@pytest.mark.parametrize(
    "said", ["CUDA error: device-side assert triggered", "HIP error: an illegal memory access was encountered"]
)
def test_a_device_that_is_broken_for_good_ends_its_process_at_once(tmp_path, said):
    sequences = write_fasta(tmp_path / "a.fa", 60)
    out = tmp_path / "out"
    run = embed(tmp_path / "a.fa", "-o", out, *BREAKING, *arguments(after=4, said=said))
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))
    # What it failed with is done by the next one, as it was.
    assert {event["verdict"] for event in events(out, "chunk_failed")} == {"again"}
    assert {event["how"] for event in events(out, "worker_died")} == {"ended with exit code 1"}
    spans = {(event["start"], event["end"]) for event in events(out, "chunk_finished")}
    assert {(event["start"], event["end"]) for event in events(out, "chunk_failed")} <= spans


def test_a_sequence_that_the_encoder_cant_take_is_set_aside_by_a_process_that_begins_with_it(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60, poison=17)
    out, notes = tmp_path / "out", tmp_path / "notes"
    run = embed(tmp_path / "a.fa", "-o", out, *BREAKING, *arguments(after=1000, notes=notes))
    assert run.returncode == 1, run.stderr
    assert failed(out) == {"poison": "ValueError: poison"}
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))
    batches = [line.split() for line in notes.read_text().splitlines()]
    tried = [place for place, (_, *names) in enumerate(batches) if names == ["poison"]]
    pid = batches[tried[-1]][0]
    assert next(place for place, batch in enumerate(batches) if batch[0] == pid) == tried[-1]
    assert [event["how"] for event in events(out, "worker_died")] == [SEEN_TO]


def test_one_that_cant_be_taken_and_a_process_that_breaks_are_told_apart(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60, poison=17)
    out = tmp_path / "out"
    run = embed(tmp_path / "a.fa", "-o", out, *BREAKING, *arguments(after=4))
    assert run.returncode == 1, run.stderr
    assert failed(out) == {"poison": "ValueError: poison"}
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))


def test_where_nothing_else_is_left_a_worker_is_not_started_anew_for_ever(tmp_path):
    sequences = {f"poison_{k}": "MKV" for k in range(20)} | {"good": "MKVLA"}
    (tmp_path / "a.fa").write_text("".join(f">{name}\n{letters}\n" for name, letters in sequences.items()))
    out = tmp_path / "out"
    for words in ((tmp_path / "a.fa", *BREAKING, *arguments(after=1000)), ("--resume", "-q")):
        before = len(events(out, "worker_started"))
        run = embed(*words, "-o", out)
        assert run.returncode == 1, run.stderr
        assert failed(out) == {name: "ValueError: poison" for name in sequences if name != "good"}
        assert list(vectors(out)) == ["good"]
        # As many deaths in a row are borne: before the good one is done, and after it.
        assert len(events(out, "worker_started")) - before <= 1 + 2 * 5
    status = [json.loads(line)["event"] for line in (out / "events.jsonl").read_text().splitlines()]
    assert "worker_given_up" not in status
