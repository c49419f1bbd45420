"""What happens to a run must not show in its result: kills, hangs, crashes, full disks, damage, signals.

After it, or after ``--resume``, every sequence has the vector that it has on its own, to the bit, or is listed as
failed.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from runs import (
    assert_same,
    begin,
    command,
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
from seekset.inference import RunIncompleteError, run_multi_gpu_inference

SLOW = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.1", "--max-tokens", 100, "-q")


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    path = tmp_path_factory.mktemp("proteins") / "proteins.fa"
    return path, write_fasta(path, 120)


def pids(folder):
    return [event["pid"] for event in events(folder, "worker_started")]


def finished(folder, count=1):
    return len(events(folder, "chunk_finished")) >= count


def test_a_killed_worker_is_started_again_and_nothing_is_lost(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    run = begin(path, "-o", out, *SLOW, "--devices", "cpu,cpu")
    wait_for(lambda: finished(out))
    # Either worker may have been the first.
    first = events(out, "worker_started")[0]
    assert kill(first["pid"])
    _, told = run.communicate(timeout=120)
    assert run.returncode == 0, told
    assert_same(vectors(out), expected(sequences))
    assert [event["how"] for event in events(out, "worker_died")] == ["was ended by SIGKILL"]
    assert len(pids(out)) == 3
    assert events(out, "chunk_failed") == []
    log = (out / "logs" / f"worker_{first['rank']}.log").read_text()
    assert log.count(f"--- worker {first['rank']} on cpu") == 2


def test_a_killed_coordinator_leaves_no_worker_and_the_run_can_be_resumed(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    run = begin(path, "-o", out, *SLOW, "--devices", "cpu,cpu")
    wait_for(lambda: finished(out, 2))
    run.kill()
    run.communicate()
    wait_for(lambda: not any(map(is_alive, pids(out))), seconds=5)
    assert not (out / "embeddings.h5").exists()
    again = embed(path, "-o", out, *SLOW, "--resume", "--devices", "cpu,cpu,cpu")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))
    done = list(events(out, "run_started"))[1]["done"]
    assert done > 0


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_what_is_done_and_the_run_can_be_resumed(proteins, tmp_path, number, code):
    path, sequences = proteins
    out = tmp_path / "out"
    run = begin(path, "-o", out, *SLOW, "--devices", "cpu,cpu")
    wait_for(lambda: finished(out, 2))
    run.send_signal(number)
    _, told = run.communicate(timeout=60)
    assert run.returncode == code, told
    assert f"{signal.Signals(number).name} was received" in told
    assert "--resume goes on with the rest" in told
    assert not any(map(is_alive, pids(out)))
    # Nobody was killed: each worker finished its batch and saved it.
    assert events(out, "worker_died") == []
    again = embed(path, "-o", out, *SLOW, "--resume")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))


def test_sigterm_to_a_worker_alone_costs_nothing(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    run = begin(path, "-o", out, *SLOW)
    wait_for(lambda: finished(out))
    os.kill(pids(out)[0], signal.SIGTERM)
    _, told = run.communicate(timeout=120)
    assert run.returncode == 0, told
    assert_same(vectors(out), expected(sequences))
    assert events(out, "chunk_failed") == []


def trouble(kind, **options):
    options = {"trouble": kind, **options}
    words = [word for name, value in options.items() for word in ("--model-arg", f"{name}={value}")]
    return ("--model", "odd_encoders:Troubled", *words, "--max-tokens", 200, "-q")


@pytest.mark.parametrize(
    "kind, reason",
    [
        ("raise", "ValueError: this sequence [bold]is poison[/bold]"),
        ("segv", "the worker that encoded it was ended by SIGSEGV"),
        ("leave", "the worker that encoded it ended with exit code 0"),
        ("rows", "MismatchError: the encoder gave 0 rows for 1 sequences"),
        ("never", "out of memory with a batch of"),
    ],
)
def test_a_sequence_that_the_encoder_cant_take_is_set_aside_alone(tmp_path, kind, reason):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    run = embed(tmp_path / "a.fa", "-o", out, *trouble(kind), "--devices", "cpu,cpu")
    assert run.returncode == 1, run.stderr
    assert list(failed(out)) == ["poison"]
    assert reason in failed(out)["poison"]
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))
    told = events(out, "worker_given_up")
    assert told == []


def test_a_hung_worker_is_ended_and_its_sequence_set_aside(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 8, poison=3)
    out = tmp_path / "out"
    run = embed(tmp_path / "a.fa", "-o", out, *trouble("hang"), "--batch-timeout", 1, "--load-timeout", 5)
    assert run.returncode == 1, run.stderr
    assert failed(out) == {"poison": "the worker that encoded it was hung and ended"}
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))


@pytest.mark.parametrize("kind", ["raise", "segv", "leave", "kill", "hang"])
def test_trouble_that_passes_costs_nothing(tmp_path, kind):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    # Once in the check before the run or in the run: the first trial may meet it, too.
    words = trouble(kind, marks=tmp_path, times=2)
    run = embed(tmp_path / "a.fa", "-o", out, *words, "--batch-timeout", 1, "--load-timeout", 3)
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))


def test_a_batch_that_does_not_fit_into_memory_is_halved(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    run = embed(tmp_path / "a.fa", "-o", tmp_path / "out", *trouble("memory"))
    assert run.returncode == 0, run.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))
    assert events(tmp_path / "out", "chunk_failed") == []


def test_workers_that_die_after_every_chunk_are_started_again_and_again(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    # Each process takes one batch, the check's too; its second one is its last.
    words = ("--model", "odd_encoders:Dying", "--model-arg", "after=1", "--max-tokens", 400, "-q")
    run = embed(path, "-o", out, *words, SEEKSET_DYING="yes")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))
    assert len(events(out, "worker_died")) > 5


def test_workers_that_are_killed_with_one_sequence_finish_all_others_and_are_given_up(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    # Killed from outside, as far as can be seen: the kernel does so where memory is short.
    options = {"trouble": "kill"}
    config = {"model": "odd_encoders:Troubled", "model_args": options, "devices": "cpu,cpu", "backoff": 0.01}
    with pytest.raises(RunIncompleteError, match="all workers died too often and were given up"):
        run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "max_tokens": 200})
    assert failed(out) == {}
    assert len(events(out, "worker_given_up")) == 2
    assert not (out / "embeddings.h5").exists()
    done = sum(event["sequences"] for event in events(out, "chunk_finished"))
    largest = max(event["end"] - event["start"] for event in events(out, "chunk_begun"))
    assert done >= len(sequences) - largest


def test_what_a_machine_cant_save_is_no_sequences_fault(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    config = {"model": "odd_encoders:Greedy", "devices": "cpu", "backoff": 0.01, "max_tokens": 400}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEEKSET_GREEDY", "yes")
        with pytest.raises(RunIncompleteError):
            run_multi_gpu_inference(path, out, config)
    assert failed(out) == {}
    told = events(out, "worker_raised")
    assert {event["fault"] for event in told} == {"machine"}
    assert "Too many open files" in told[0]["reason"]
    run_multi_gpu_inference(path, out, config)
    assert_same(vectors(out), expected(sequences))


def test_fixed_shares_of_a_killed_worker_are_done_when_the_others_are_idle(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    # Rank 1 has the slower half: by the time it is killed, rank 0 has nothing left.
    run = begin(path, "-o", out, *SLOW, "--devices", "cpu,cpu", "--schedule", "stride")
    wait_for(lambda: finished(out))
    rank = {event["rank"]: event["pid"] for event in events(out, "worker_started")}
    os.kill(rank[1], signal.SIGSTOP)
    wait_for(lambda: not _busy(out, 0))
    assert kill(rank[1])
    _, told = run.communicate(timeout=60)
    assert run.returncode == 0, told
    assert_same(vectors(out), expected(sequences))


def _busy(folder, rank):
    """Whether a rank has had no end of its last span, or may yet get another."""
    told = [event for event in events(folder) if event.get("rank") == rank]
    last = time.time() - told[-1]["time"]
    return told[-1]["event"] != "chunk_finished" or last < 0.5


def test_a_closed_terminal_does_not_end_the_run(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    words = [word for word in SLOW if word != "-q"]
    run = begin(path, "-o", out, *words, "--devices", "cpu,cpu")
    wait_for(lambda: finished(out))
    run.stderr.close()
    kill(pids(out)[0])
    assert run.wait(timeout=60) == 0
    run.stdout.close()
    assert_same(vectors(out), expected(sequences))


@pytest.mark.parametrize("name", ["plan.arrow", "index.sidx"])
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_what_can_be_made_again_is_made_again(proteins, tmp_path, name, how):
    path, sequences = proteins
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Sums", "--max-tokens", 200, "-q")
    assert embed(path, "-o", out, *words).returncode == 0
    next((out / "chunks").iterdir()).unlink()
    if how == "cut":
        (out / name).write_bytes((out / name).read_bytes()[:100])
    else:
        (out / name).unlink()
    run = embed(path, "-o", out, *words, "--resume")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))


@pytest.mark.parametrize("whom", ["coordinator", "worker and coordinator"])
def test_what_an_encoder_has_started_ends_also_if_nobody_is_left_to_end_it(proteins, tmp_path, whom):
    (tmp_path / "pids").mkdir()
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Helped", "--model-arg", f"pids={tmp_path / 'pids'}", "-q")
    run = begin(proteins[0], "-o", out, *words, "--model-arg", "seconds=0.1", "--max-tokens", 100)
    wait_for(lambda: finished(out))
    helpers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    assert any(map(is_alive, helpers))
    if whom == "worker and coordinator":
        # It is stopped while its worker dies, and killed before it hears of that.
        run.send_signal(signal.SIGSTOP)
        kill(pids(out)[0])
    run.kill()
    run.communicate()
    wait_for(lambda: not any(map(is_alive, [*helpers, *pids(out)])), seconds=10)


def test_what_an_encoder_has_started_ends_with_its_worker(proteins, tmp_path):
    (tmp_path / "pids").mkdir()
    words = ("--model", "odd_encoders:Helped", "--model-arg", f"pids={tmp_path / 'pids'}", "-q")
    assert embed(proteins[0], "-o", tmp_path / "out", *words).returncode == 0
    helpers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    assert len(helpers) == 2
    wait_for(lambda: not any(map(is_alive, helpers)), seconds=5)


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_that_is_still_being_prepared(proteins, tmp_path, number, code):
    out = tmp_path / "out"
    run = begin(proteins[0], "-o", out, "--model", "odd_encoders:SlowToLoad", "-q")
    wait_for((out / "logs" / "check.log").exists)
    time.sleep(0.3)
    run.send_signal(number)
    _, told = run.communicate(timeout=10)
    assert run.returncode == code, told
    assert "Traceback" not in told
    assert not (out / "manifest.json").exists()


@pytest.mark.parametrize("how", ["cut", "flip", "empty"])
def test_a_damaged_chunk_is_computed_again(proteins, tmp_path, how):
    path, sequences = proteins
    out = tmp_path / "out"
    words = ("--model", "odd_encoders:Sums", "--max-tokens", 200, "-q")
    assert embed(path, "-o", out, *words).returncode == 0
    chunk = sorted((out / "chunks").iterdir())[1]
    content = bytearray(chunk.read_bytes())
    if how == "flip":
        content[-1] ^= 1
    chunk.write_bytes({"cut": content[:-5], "flip": content, "empty": b""}[how])
    run = embed(path, "-o", out, *words, "--resume")
    assert run.returncode == 0, run.stderr
    assert [event["path"] for event in events(out, "chunk_damaged")] == [chunk.name]
    assert_same(vectors(out), expected(sequences))


def test_a_full_disk_stops_the_run_and_it_can_be_resumed(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    words = (path, "-o", out, "--model", "odd_encoders:Sums", "--max-tokens", 100000, "-q")
    assert embed(path, "-o", out, "--model", "odd_encoders:Sums", "--max-tokens", 100000, "-q").returncode == 0
    sizes = {chunk.name: chunk.stat().st_size for chunk in (out / "chunks").iterdir()}
    for chunk in (out / "chunks").iterdir():
        chunk.unlink()
    (out / "embeddings.h5").unlink()

    def limit():
        # No file may become longer than this: what a full disk says, for files of results alone.
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes.values()) - 1,) * 2)

    (out / "events.jsonl").unlink()
    run = subprocess.run(
        command(*words, "--resume"),
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=limit,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert "there is no room to write results" in run.stderr
    assert "--resume goes on with the rest" in run.stderr
    assert failed(out) == {}
    again = embed(*words, "--resume")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(sequences))


FULL = """
import json, resource, sys
from seekset.inference.request import Request
from seekset.inference.run import embed

class Disk:
    # Full for the coordinator, from the moment at which it is to set a sequence aside.
    told = []

    def tell(self, event):
        self.told.append(event)
        if event.get("verdict") == "set_aside":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def close(self):
        pass

summary = embed(Request.of([sys.argv[1]], sys.argv[2], json.loads(sys.argv[3])), [Disk()])
print(json.dumps([summary.reason, summary.exit_code, Disk.told]))
"""


def test_a_disk_that_is_full_when_a_sequence_is_set_aside_stops_the_run_in_order(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    config = {"model": "odd_encoders:Troubled", "model_args": {"trouble": "raise"}, "max_tokens": 200}
    words = [sys.executable, "-c", FULL, tmp_path / "a.fa", out, json.dumps({**config, "devices": "cpu,cpu"})]
    run = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    reason, code, told = json.loads(run.stdout)
    assert reason.startswith("there is no room to write results (results can't be saved: ")
    assert str(out / "chunks" / "0000") in reason
    assert code == 1
    # Nobody was killed, and the end is told, to whom that can be told.
    assert not [event for event in told if event["event"] == "worker_died"]
    assert told[-1]["event"] == "run_ended"
    assert told[-1]["outcome"] == reason
    run_multi_gpu_inference(tmp_path / "a.fa", out, {**config, "devices": "cpu"})
    assert list(failed(out)) == ["poison"]
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(out), expected(rest))


def test_failures_that_cant_be_listed_do_not_hide_how_the_run_ended(tmp_path):
    write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    words = trouble("raise")[:-1]
    assert embed(tmp_path / "a.fa", "-o", out, *words).returncode == 1
    (out / "failed.jsonl").unlink()
    (out / "failed.jsonl" / "in the way").mkdir(parents=True)
    (out / "embeddings.h5").unlink()
    run = embed("-o", out, "--resume")
    assert run.returncode == 1
    assert f"{out}/failed.jsonl: Is a directory; which sequences failed, events.jsonl has as well" in run.stderr
    assert events(out, "run_ended")[-1]["outcome"] == "complete"
    assert events(out, "sequence_failed")[-1]["sequence_id"] == "poison"
    assert len(vectors(out)) == 39


@pytest.mark.parametrize("name", ["logs/coordinator.log", "events.jsonl", "failed.jsonl"])
def test_what_an_encoder_says_need_not_be_text(tmp_path, name):
    write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    run = embed(tmp_path / "a.fa", "-o", out, *trouble("mumble")[:-1], "--devices", "cpu,cpu")
    assert run.returncode == 1, run.stderr
    assert failed(out) == {"poison": "ValueError: there is no file caf\udce9.txt"}
    assert len(vectors(out)) == 39
    assert "there is no file caf\\udce9.txt" in (out / name).read_text(encoding="utf-8")


HOARDING = """
import json, os, resource, signal, sys
from seekset.inference.request import Request
from seekset.inference.run import embed

resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

class Hoard:
    # Kills a worker, and leaves no room to start it again before that was tried.
    pids, opened, told = {}, [], []

    def tell(self, event):
        match event["event"]:
            case "worker_started":
                self.pids[event["rank"]] = event["pid"]
            case "chunk_finished" if not self.told and len(self.pids) == 2:
                self.told.append("killed")
                os.kill(self.pids[1], signal.SIGKILL)
                try:
                    while True:
                        self.opened.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    pass
            case "worker_died":
                self.told.append([event["rank"], event["how"]])
                if "could not be started" in event["how"]:
                    while self.opened:
                        os.close(self.opened.pop())

    def close(self):
        pass

summary = embed(Request.of([sys.argv[1]], sys.argv[2], json.loads(sys.argv[3])), [Hoard()])
print(json.dumps([summary.exit_code, summary.given_up, Hoard.told]))
"""


def test_a_worker_that_there_is_no_room_for_is_started_later_and_the_others_go_on(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    config = {"model": "odd_encoders:Sums", "model_args": {"seconds": 0.1}, "max_tokens": 100, "devices": "cpu,cpu"}
    words = [sys.executable, "-c", HOARDING, path, out, json.dumps(config)]
    run = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    killed, refused = [1, "was ended by SIGKILL"], [1, "could not be started: Too many open files"]
    assert json.loads(run.stdout) == [0, [], ["killed", killed, refused]]
    assert_same(vectors(out), expected(sequences))
    assert [event["rank"] for event in events(out, "worker_started")].count(0) == 1


def test_a_fasta_that_changes_during_the_run_ends_it(tmp_path):
    path = tmp_path / "a.fa"
    write_fasta(path, 120)
    out = tmp_path / "out"
    run = begin(path, "-o", out, *SLOW)
    wait_for(lambda: finished(out))
    path.write_bytes(path.read_bytes() + b">one_more\nMKV\n")
    _, told = run.communicate(timeout=60)
    assert run.returncode == 1
    assert str(path) in told
    assert "Traceback" not in told
    assert failed(out) == {}


def test_failed_sequences_are_tried_again_when_resumed(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 40, poison=17)
    out = tmp_path / "out"
    marks = tmp_path / "marks"
    marks.mkdir()
    # More often than the first run tries; then it works.
    words = trouble("raise", marks=marks, times=12)
    first = embed(tmp_path / "a.fa", "-o", out, *words)
    assert first.returncode == 1
    assert list(failed(out)) == ["poison"]
    for k in range(12):
        (marks / f"trouble-{k}").touch()
    again = embed(tmp_path / "a.fa", "-o", out, *words, "--resume")
    assert again.returncode == 0, again.stderr
    assert not (out / "failed.jsonl").exists()
    assert_same(vectors(out), expected(sequences))


def test_events_are_lines_of_json_with_a_time(proteins, tmp_path):
    out = tmp_path / "out"
    assert embed(proteins[0], "-o", out, *SLOW[:2], "-q").returncode == 0
    lines = (out / "events.jsonl").read_text().splitlines()
    told = [json.loads(line) for line in lines]
    assert [event["event"] for event in told[:2]] == ["run_preparing", "run_started"]
    assert told[-1]["event"] == "run_ended"
    started = next(event for event in told if event["event"] == "worker_started")
    assert set(started) == {"time", "event", "rank", "device", "pid"}
    assert "worker_started" in (out / "logs" / "coordinator.log").read_text()
