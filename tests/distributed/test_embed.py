"""``seekset embed`` with real processes: every sequence has its vector, once, in the order of the files."""

import itertools
import json
import os
import shutil
import signal
import time

import h5py
import numpy as np
import pytest

from runs import assert_same, embed, events, expected, failed, vectors, write_fasta
from seekset.errors import FormatError
from seekset.inference.job import Manifest

SUMS = ("--model", "odd_encoders:Sums", "-q")


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    path = tmp_path_factory.mktemp("proteins") / "proteins.fa"
    return path, write_fasta(path, 300)


@pytest.mark.parametrize("devices", ["cpu", "cpu,cpu", "cpu,cpu,cpu,cpu,cpu"])
def test_every_sequence_has_its_vector_whatever_the_number_of_workers(proteins, tmp_path, devices):
    path, sequences = proteins
    run = embed(path, "-o", tmp_path / "out", *SUMS, "--devices", devices, "--max-tokens", 200)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("schedule", ["queue", "stride"])
def test_fewer_sequences_than_workers(tmp_path, count, schedule):
    sequences = write_fasta(tmp_path / "few.fa", count)
    out = tmp_path / "out"
    run = embed(tmp_path / "few.fa", "-o", out, *SUMS, "--devices", "cpu,cpu,cpu", "--schedule", schedule)
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))


def test_the_file_of_results(proteins, tmp_path):
    path, sequences = proteins
    other = tmp_path / "other.fa"
    more = write_fasta(other, 20, seed=7)
    run = embed(path, other, "-o", tmp_path / "out", *SUMS, "--max-tokens", 500)
    assert run.returncode == 0, run.stderr
    with h5py.File(tmp_path / "out" / "embeddings.h5") as file:
        assert file["embeddings"].shape == (320, 3)
        assert file["embeddings"].dtype == np.float32
        assert file["embeddings"].chunks is not None
        assert h5py.check_string_dtype(file["sequence_ids"].dtype).encoding == "utf-8"
        assert [name.decode() for name in file["sequence_ids"][:]] == [*sequences, *more]
        assert file["lengths"][:].tolist() == [len(letters) for letters in (*sequences.values(), *more.values())]
        assert file["rows"][:].tolist() == list(range(320))
        assert file.attrs["model"] == "odd_encoders:Sums"


def test_the_default_encoder_counts_kmers(proteins, tmp_path):
    path, sequences = proteins
    run = embed(path, "-o", tmp_path / "out", "-q")
    assert run.returncode == 0, run.stderr
    found = vectors(tmp_path / "out")
    letters = "ACDEFGHIKLMNPQRSTVWY"
    for name, sequence in list(sequences.items())[:50]:
        wanted = np.zeros(400)
        for a, b in itertools.pairwise(sequence):
            wanted[20 * letters.index(a) + letters.index(b)] += 1 / (len(sequence) - 1)
        np.testing.assert_allclose(np.sort(found[name]), np.sort(wanted), rtol=1e-5, atol=1e-7)


def test_by_length(proteins, tmp_path):
    path, sequences = proteins
    run = embed(path, "-o", tmp_path / "out", *SUMS, "--order", "length", "--max-tokens", 200)
    assert run.returncode == 0, run.stderr
    by_length = sorted(sequences, key=lambda name: -len(sequences[name]))
    found = vectors(tmp_path / "out")
    assert_same(found, {name: expected(sequences)[name] for name in by_length})


def test_a_vector_for_each_residue(proteins, tmp_path):
    path, sequences = proteins
    run = embed(path, "-o", tmp_path / "out", "--model", "odd_encoders:PerResidue", "--per-token", "-q")
    assert run.returncode == 0, run.stderr
    with h5py.File(tmp_path / "out" / "embeddings.h5") as file:
        offsets = file["offsets"][:]
        assert np.diff(offsets).tolist() == [len(letters) for letters in sequences.values()]
        places = file["embeddings"][:, 1]
    for a, b in itertools.pairwise(offsets):
        assert places[a:b].tolist() == list(range(b - a))


def test_one_json_object_about_the_run(proteins, tmp_path):
    run = embed(proteins[0], "-o", tmp_path / "out", "--json", "--model", "odd_encoders:Sums")
    told = json.loads(run.stdout)
    assert (told["sequences"], told["done"], told["failed"], told["exit_code"]) == (300, 300, 0, 0)


def test_resuming_what_is_done_computes_nothing(proteins, tmp_path):
    out = tmp_path / "out"
    assert embed(proteins[0], "-o", out, *SUMS).returncode == 0
    started = len(events(out, "worker_started"))
    again = embed("-o", out, "--resume", *SUMS)
    assert again.returncode == 0, again.stderr
    assert len(events(out, "worker_started")) == started


def test_what_is_not_given_again_is_as_the_run_has_it(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60, poison=17)
    begun = ("--model", "odd_encoders:Troubled", "--model-arg", "trouble=nan", "--max-tokens", 200, "--max-length", 40)
    out = tmp_path / "out"
    assert embed(tmp_path / "a.fa", "-o", out, *begun, "-q").returncode == 1
    again = embed("-o", out, "--resume", "-q")
    assert (again.returncode, failed(out)) == (1, {"poison": "the encoder gave NaN or infinity"}), again.stderr
    assert len(vectors(out)) == len(sequences) - 1
    assert "it was 40 and is 30" in refused("-o", out, "--resume", "--max-length", 30)


def test_restarting_computes_everything_again(proteins, tmp_path):
    path, sequences = proteins
    out = tmp_path / "out"
    assert embed(path, "-o", out, "-q").returncode == 0
    run = embed(path, "-o", out, *SUMS, "--restart")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(out), expected(sequences))


def test_files_that_moved_are_the_same_data(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 20)
    assert embed(tmp_path / "a.fa", "-o", tmp_path / "out", *SUMS).returncode == 0
    (tmp_path / "a.fa").rename(tmp_path / "b.fa")
    next((tmp_path / "out" / "chunks").iterdir()).unlink()
    run = embed(tmp_path / "b.fa", "-o", tmp_path / "out", *SUMS, "--resume")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))


# --- bad input ------------------------------------------------------------------------------------------------------


def refused(*words, code=1, **env):
    run = embed(*words, **env)
    assert run.returncode == code, (run.returncode, run.stderr)
    assert "Traceback" not in run.stderr
    return run.stderr


def test_no_sequences(tmp_path):
    (tmp_path / "empty.fa").write_bytes(b"")
    assert "there are no sequences" in refused(tmp_path / "empty.fa", "-o", tmp_path / "out")


def test_a_missing_file(tmp_path):
    assert "missing.fa: No such file" in refused(tmp_path / "missing.fa", "-o", tmp_path / "out")


def test_resumed_and_restarted_at_once(proteins, tmp_path):
    assert "not both" in refused(proteins[0], "-o", tmp_path / "out", "--resume", "--restart", code=2)


def test_no_files(tmp_path):
    assert "give FASTA files" in refused("-o", tmp_path / "out", code=2)


def test_a_folder_with_other_files(proteins, tmp_path):
    (tmp_path / "thesis.doc").write_text("mine")
    for flag in ((), ("--resume",), ("--restart",)):
        assert "found thesis.doc in it" in refused(proteins[0], "-o", tmp_path, *flag)
    assert (tmp_path / "thesis.doc").read_text() == "mine"


def test_a_folder_that_holds_a_run(proteins, tmp_path):
    assert embed(proteins[0], "-o", tmp_path / "out", *SUMS).returncode == 0
    before = (tmp_path / "out" / "embeddings.h5").read_bytes()
    told = refused(proteins[0], "-o", tmp_path / "out", *SUMS)
    assert "--resume goes on with it, --restart removes it" in told
    assert (tmp_path / "out" / "embeddings.h5").read_bytes() == before


def test_a_folder_that_is_a_file(proteins, tmp_path):
    (tmp_path / "out").write_text("a file")
    assert f"{tmp_path}/out: " in refused(proteins[0], "-o", tmp_path / "out")


@pytest.mark.parametrize(
    "devices, said",
    [
        ("7", "there is no such GPU; there is none: use cpu"),
        ("tpu", "expected cpu, a number"),
        (",", "expected devices"),
    ],
)
def test_an_unknown_device(proteins, tmp_path, devices, said):
    words = (proteins[0], "-o", tmp_path / "made" / "out", "--devices", devices)
    told = refused(*words, code=2, CUDA_VISIBLE_DEVICES="")
    assert said in told
    assert not (tmp_path / "made").exists()


def test_an_unknown_device_of_a_cluster_is_told_before_it_is_asked(proteins, tmp_path):
    words = (proteins[0], "-o", tmp_path / "out", "--backend", "ray", "--devices", "cpu,bogus")
    assert "device 'bogus': expected cpu, a number" in refused(*words, "--address", "127.0.0.1:1", code=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("missing.fa",),
        ("{}", "--model", "no_such_module:Encoder"),
        ("{}", "--model", "odd_encoders:Missing"),
        ("{}", "--model", "no/such/folder"),
        ("{}", "--model", "no_such_name"),
    ],
)
def test_what_was_mistyped_leaves_no_folder(proteins, tmp_path, words):
    files = [word.format(proteins[0]) for word in words]
    refused(*files, "-o", tmp_path / "made" / "out", HF_HUB_OFFLINE="1")
    assert not (tmp_path / "made").exists()
    (tmp_path / "mine").mkdir()
    refused(*files, "-o", tmp_path / "mine", HF_HUB_OFFLINE="1")
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "model, said",
    [
        ("odd_encoders:Unloadable", "the weights are not there"),
        ("odd_encoders:Missing", "Missing"),
        ("no_such_module:Encoder", "no_such_module"),
        ("no/such/folder", "no/such/folder"),
    ],
)
def test_a_model_that_cant_be_loaded_is_told_once(proteins, tmp_path, model, said):
    words = (proteins[0], "-o", tmp_path / "out", "--model", model, "--devices", "cpu,cpu")
    told = refused(*words, HF_HUB_OFFLINE="1")
    assert said in told
    assert told.startswith(f"seekset: {model}: the encoder can't be loaded: ")
    assert told.count(model) == 1
    assert len(told.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_encoder_whose_vectors_differ_in_width_ends_the_run_and_sets_nothing_aside(proteins, tmp_path):
    out = tmp_path / "out"
    told = refused(proteins[0], "-o", out, "--model", "odd_encoders:Growing", "--max-tokens", 200, "-q")
    assert "the encoder odd_encoders:Growing gave vectors of" in told
    assert "let all have one width, and begin again with --restart" in told
    assert failed(out) == {}
    assert not (out / "embeddings.h5").exists()


def test_an_encoder_that_never_works_is_told_before_workers_start(proteins, tmp_path):
    words = ("--model", "odd_encoders:Dying", "-q")
    told = refused(proteins[0], "-o", tmp_path / "out", *words, SEEKSET_DYING="yes")
    assert "the encoder failed in a first trial: its process was ended by SIGKILL" in told
    assert events(tmp_path / "out", "worker_started") == []


@pytest.mark.parametrize(
    "words, said",
    [
        (("--model", "kmer"), "encoder: model: it was 'odd_encoders:Sums' and is 'kmer'"),
        ((*SUMS, "--model-arg", "seconds=0.5"), "encoder: arguments: it was {} and is {'seconds': '0.5'}"),
        ((*SUMS, "--max-tokens", "50"), "plan: max_tokens"),
        ((*SUMS, "--max-length", "10"), "plan: max_length"),
    ],
)
def test_another_run_is_not_resumed_and_what_differs_is_told(proteins, tmp_path, words, said):
    assert embed(proteins[0], "-o", tmp_path / "out", *SUMS, "--max-tokens", 100).returncode == 0
    told = refused(proteins[0], "-o", tmp_path / "out", "--resume", *("--max-tokens", "100"), *words)
    assert "it holds the results of another run" in told
    assert said in told


def test_other_data_is_not_resumed(proteins, tmp_path):
    assert embed(proteins[0], "-o", tmp_path / "out", *SUMS).returncode == 0
    write_fasta(tmp_path / "other.fa", 300, seed=5)
    told = refused(tmp_path / "other.fa", "-o", tmp_path / "out", *SUMS, "--resume")
    assert f"the content of {tmp_path}/other.fa is not that of {proteins[0]} when the run began" in told
    again = embed(proteins[0], "-o", tmp_path / "out", *SUMS, "--resume")
    assert again.returncode == 0, again.stderr


@pytest.fixture(scope="module")
def finished(proteins, tmp_path_factory):
    """The folder of a run."""
    out = tmp_path_factory.mktemp("finished") / "out"
    assert embed(proteins[0], "-o", out, *SUMS).returncode == 0
    return out


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"version": 1}, "expected version 2, found 1: another version of seekset began this run"),
        ({"version": 3, "more": 1}, "expected version 2, found 3: another version of seekset began this run"),
        ({"version": True}, "version: expected int, found bool"),
        ({"encoder": []}, "encoder: expected dict, found list"),
        ({"encoder": {"evil": 1}}, "encoder: expected the keys"),
        ({"facts": {}}, "facts: expected the keys"),
        ({"files": ["proteins.fa"]}, "files: expected the keys digest, mtime_ns, path, size, found others"),
        ({"files": [{"path": 1, "size": 1, "mtime_ns": 1, "digest": ""}]}, "path: expected str, found int"),
        ({"more": 1}, "expected the keys"),
    ],
)
def test_a_manifest_with_other_things_in_it(finished, tmp_path, changed, said):
    manifest = json.loads((finished / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **changed}))
    with pytest.raises(FormatError, match=said):
        Manifest.load(tmp_path)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '"text"', ""])
def test_a_manifest_that_is_none(proteins, tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    (tmp_path / "chunks").mkdir()
    for flag in ("--resume", "--restart"):
        assert f"{tmp_path}/manifest.json" in refused(proteins[0], "-o", tmp_path, *SUMS, flag)
    assert (tmp_path / "chunks").exists()


def test_a_folder_of_another_project_with_a_manifest_is_left_alone(proteins, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "access.log").write_text("theirs")
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    assert "expected the keys" in refused(proteins[0], "-o", tmp_path, *SUMS, "--restart")
    assert (tmp_path / "logs" / "access.log").read_text() == "theirs"


@pytest.mark.parametrize("words", [("missing.fa",), ("{}", "--devices", "gpu"), ("{}", "--model", "no_such:thing")])
def test_a_restart_that_cant_begin_removes_nothing(proteins, finished, words):
    before = (finished / "embeddings.h5").read_bytes()
    files = [word.format(proteins[0]) for word in words]
    refused(*files, "-o", finished, "--restart", "-q", code=2 if "--devices" in words else 1)
    assert (finished / "embeddings.h5").read_bytes() == before
    again = embed("-o", finished, "--resume", "-q")
    assert again.returncode == 0, again.stderr


def test_status_passes_over_what_is_no_event(finished, tmp_path):
    from seekset.inference.events import read_events

    kept = (finished / "events.jsonl").read_text()
    strange = [
        '{"event": "chunk_finished", "time": 1.0}',
        '{"event": "worker_started", "time": 1.0, "rank": [1]}',
        '{"event": "run_started", "time": 1.0, "sequences": "many"}',
        '{"event": ["a"], "time": 1.0}',
        "[" * 100_000,
        "{",
    ]
    (tmp_path / "events.jsonl").write_text("\n".join([*strange, kept]))
    assert len(list(read_events(tmp_path / "events.jsonl"))) == len(kept.splitlines())


def test_sequences_longer_than_allowed_are_cut_with_a_word_or_refused(proteins, tmp_path):
    path, sequences = proteins
    run = embed(path, "-o", tmp_path / "out", *SUMS[:-1], "--max-length", 20)
    assert run.returncode == 0
    assert "199 of 300 sequences are longer than 20 residues and are cut" in run.stderr
    cut = {name: letters[:20] for name, letters in sequences.items()}
    assert_same(vectors(tmp_path / "out"), expected(cut))
    told = refused(path, "-o", tmp_path / "b", *SUMS, "--max-length", 20, "--overflow", "error")
    assert "has 59 residues, but at most 20 are allowed" in told


def test_status_tells_of_the_run(proteins, tmp_path):
    import subprocess
    import sys

    assert embed(proteins[0], "-o", tmp_path / "out", *SUMS).returncode == 0
    words = [sys.executable, "-m", "seekset", "status", str(tmp_path / "out")]
    told = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout)
    assert (told["state"], told["done"], told["failed"]) == ("ended (complete)", 300, 0)
    assert told["workers"][0]["device"] == "cpu"
    plain = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert plain.startswith("ended (complete): 300 of 300 sequences")


def status(folder, *words):
    import subprocess
    import sys

    command = [sys.executable, "-m", "seekset", "status", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_status_tells_a_killed_run_from_one_that_runs(proteins, tmp_path):
    from runs import begin, wait_for

    out = tmp_path / "out"
    slow = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.3", "--max-tokens", 100, "-q")
    run = begin(proteins[0], "-o", out, *slow)
    try:
        wait_for(lambda: events(out, "chunk_finished"))
        assert status(out).stdout.startswith("running: ")
    finally:
        run.kill()
        run.communicate()
    told = status(out).stdout
    assert told.startswith("ended (killed): ")
    assert "busy" not in told
    assert " left" not in told
    assert "ended (killed)" in status(out, "--watch").stdout


def test_status_before_the_manifest_is_there(proteins, tmp_path):
    from seekset.inference.lock import FolderLock

    out = tmp_path / "out"
    out.mkdir()
    with FolderLock(out):
        assert status(out).stdout == "preparing: files are indexed and the encoder is loaded\n"
        assert json.loads(status(out, "--json").stdout)["state"] == "preparing"
    assert "there is no manifest.json" in status(out).stderr


def report(folder):
    import subprocess
    import sys

    command = [sys.executable, "-m", "seekset", "report", str(folder), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


@pytest.mark.parametrize(
    "content, words, said",
    [
        (b">a\nMK\n", ("--model", "odd_encoders:Unloadable"), "can't be loaded: the encoder can't be made: Runt"),
        (b">a\nMK\n", ("--model", "odd_encoders:Dying"), "failed in a first trial: its process was ended by SIGKILL"),
        (b"", SUMS, "there are no sequences"),
    ],
)
def test_a_run_that_could_not_begin_says_why(tmp_path, content, words, said):
    (tmp_path / "a.fa").write_bytes(content)
    out = tmp_path / "out"
    assert said in refused(tmp_path / "a.fa", "-o", out, *words, SEEKSET_DYING="yes")
    told = json.loads(status(out, "--json").stdout)["state"]
    assert told.startswith("ended (while preparing: ")
    assert said in told
    assert (report(out)["state"], status(out).stdout, status(out, "--watch").stdout) == (told, f"{told}\n", f"{told}\n")
    assert [moment["kind"] for moment in report(out)["moments"]] == ["not begun"]
    # The folder is as good as a new one.
    (tmp_path / "a.fa").write_bytes(b">a\nMK\n")
    assert embed(tmp_path / "a.fa", "-o", out, *SUMS).returncode == 0
    assert status(out).stdout.startswith("ended (complete): 1 of 1 sequences")


@pytest.mark.parametrize("number, said", [(signal.SIGKILL, "killed"), (signal.SIGTERM, "SIGTERM was received")])
def test_a_run_that_was_ended_while_it_prepared_says_so(proteins, tmp_path, number, said):
    from runs import begin, wait_for

    out = tmp_path / "out"
    run = begin(proteins[0], "-o", out, "--model", "odd_encoders:SlowToLoad", "-q")
    wait_for((out / "logs" / "check.log").exists)
    assert status(out).stdout.startswith("preparing: ")
    run.send_signal(number)
    run.communicate()
    told = f"ended (while preparing: {said})"
    assert (status(out).stdout, report(out)["state"]) == (f"{told}\n", told)


def test_a_later_run_that_could_not_begin_does_not_hide_the_one_before(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    refused("-o", out, "--resume", "--max-tokens", 7)
    found = status(out)
    assert found.stdout.startswith("ended (complete): 300 of 300 sequences, ")
    assert "a later run ended while preparing: " in found.stderr
    assert report(out)["done"] == 300
    # Once its results were removed, it is no more.
    words = ("-o", out, "--restart", "--model", "odd_encoders:Dying")
    refused(json.loads((out / "manifest.json").read_text())["files"][0]["path"], *words, SEEKSET_DYING="yes")
    assert status(out).stdout.startswith("ended (while preparing: odd_encoders:Dying")
    assert report(out)["done"] == 0


def test_speeds_are_those_of_the_last_run_that_had_workers(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    names = ("sequences_per_second", "tokens_per_second", "seconds", "workers", "done")
    before = json.loads(status(out, "--json").stdout)
    assert before["sequences_per_second"] * before["seconds"] == pytest.approx(300)
    assert embed("-o", out, "--resume", "-q").returncode == 0
    after = json.loads(status(out, "--json").stdout)
    assert [after[name] for name in names] == [before[name] for name in names]
    told = report(out)
    assert [told["sequences_per_second"], told["speeds_over"]] == [after["sequences_per_second"], after["seconds"]]
    assert [worker["sequences"] for worker in told["workers"]] == [300]


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda lines: lines[:0], "expected the end of a run, found none; embeddings.h5 says that all is done"),
        (lambda lines: [line[:-2] for line in lines], "are passed over: {}; the first is line 1"),
        (lambda lines: [lines[0], lines[1][:-9], *lines[2:]], "are passed over: 1; the first is line 2"),
        (lambda lines: [*lines[:-1], lines[-1][:30]], "embeddings.h5 says that all is done"),
    ],
)
def test_a_finished_run_whose_events_are_damaged_has_finished(finished, tmp_path, damage, said):
    out = shutil.copytree(finished, tmp_path / "out")
    lines = (finished / "events.jsonl").read_text().splitlines()
    (out / "events.jsonl").write_text("\n".join(damage(lines)))
    found = status(out)
    assert found.stdout.startswith("ended (complete): 300 of 300 sequences")
    assert said.format(len(lines)) in found.stderr
    told = report(out)
    assert (told["state"], told["done"], told["failed"]) == ("ended (complete)", 300, 0)
    # What goes on there is told again, whatever the last line was.
    assert embed("-o", out, "--resume", "-q").returncode == 0
    assert status(out).stdout.startswith("ended (complete): 300 of 300 sequences")
    assert [event["event"] for event in events(out)][-3:] == ["run_preparing", "run_started", "run_ended"]


def test_an_unfinished_run_whose_events_are_lost_is_not_called_finished(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    (out / "events.jsonl").unlink()
    (out / "embeddings.h5").unlink()
    found = status(out)
    assert found.stdout == "ended (unknown)\n"
    assert "--resume goes on with what is there" in found.stderr
    assert report(out)["state"] == "ended (unknown)"


def test_whoever_goes_on_with_other_devices_is_told(tmp_path):
    write_fasta(tmp_path / "a.fa", 20)
    out = tmp_path / "out"
    assert embed(tmp_path / "a.fa", "-o", out, *SUMS, "--devices", "cpu,cpu").returncode == 0
    said = "goes on with --devices cpu, where the run before had cpu,cpu"
    assert said not in embed("-o", out, "--resume").stderr, "nothing is left to compute"
    for words, told in ((("--devices", "cpu,cpu"), False), ((), True), ((), False)):
        next((out / "chunks").iterdir()).unlink()
        run = embed("-o", out, "--resume", *words, CUDA_VISIBLE_DEVICES="")
        assert run.returncode == 0, run.stderr
        assert (said in run.stderr) == told, run.stderr


def test_a_result_that_cant_be_written_is_told_by_status(tmp_path):
    write_fasta(tmp_path / "a.fa", 5)
    out = tmp_path / "out"
    assert embed(tmp_path / "a.fa", "-o", out, *SUMS).returncode == 0
    (out / "embeddings.h5").unlink()
    (out / "embeddings.h5").mkdir()
    assert "embeddings.h5: Is a directory" in refused(tmp_path / "a.fa", "-o", out, *SUMS, "--resume")
    assert status(out).stdout.startswith("ended (no embeddings.h5: ")


def test_a_run_in_the_same_folder_is_refused_with_who_has_it(proteins, tmp_path):
    from runs import begin, wait_for

    slow = ("--model", "odd_encoders:Sums", "--model-arg", "seconds=0.3", "--max-tokens", 100, "-q")
    first = begin(proteins[0], "-o", tmp_path / "out", *slow)
    try:
        wait_for(lambda: events(tmp_path / "out", "chunk_begun"))
        told = refused(proteins[0], "-o", tmp_path / "out", *slow, "--resume")
        assert f"another run is using this folder: process {first.pid} on {os.uname().nodename}" in told
    finally:
        first.kill()
        first.communicate()


def test_a_lock_of_another_host_counts_while_it_is_fresh(proteins, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    lock = out / "run.lock"
    lock.write_text(json.dumps({"pid": 7, "host": "elsewhere", "since": "today"}))
    assert "process 7 on elsewhere, since today" in refused(proteins[0], "-o", out, *SUMS)
    os.utime(lock, (time.time() - 100, time.time() - 100))
    assert embed(proteins[0], "-o", out, *SUMS).returncode == 0


def test_failed_sequences_are_listed_and_the_rest_is_there(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 60, poison=17)
    words = ("--model", "odd_encoders:Troubled", "--model-arg", "trouble=nan", "-q", "--max-tokens", 200)
    run = embed(tmp_path / "a.fa", "-o", tmp_path / "out", *words)
    assert run.returncode == 1
    assert "1 of 60 sequences have no vector" in run.stderr
    assert failed(tmp_path / "out") == {"poison": "the encoder gave NaN or infinity"}
    line = json.loads((tmp_path / "out" / "failed.jsonl").read_text())
    assert (line["row"], line["length"]) == (17, len(sequences["poison"]))
    rest = {name: letters for name, letters in sequences.items() if name != "poison"}
    assert_same(vectors(tmp_path / "out"), expected(rest))


@pytest.mark.parametrize(
    "model, said",
    [
        ("odd_encoders:sums", "gives a row for each residue, found a function that is given batches alone; make it a"),
        (
            "odd_encoders:Sums",
            "found one that takes device, seconds; make it a class with __init__(self, device, per_t",
        ),
        ("odd_encoders:OnePerSequence", "expected a row for each of"),
        ("kmer", "k-mers are counted in whole sequences: there are no vectors per token"),
    ],
)
def test_a_vector_for_each_residue_of_an_encoder_that_gives_none(proteins, tmp_path, model, said):
    told = refused(proteins[0], "-o", tmp_path / "out", "--model", model, "--per-token", "-q")
    assert said in told
    assert "or leave --per-token out" in told
    assert len(told.strip().splitlines()) == 1


def test_a_function_is_an_encoder_of_whole_sequences(proteins, tmp_path):
    path, sequences = proteins
    run = embed(path, "-o", tmp_path / "out", "--model", "odd_encoders:sums", "-q")
    assert run.returncode == 0, run.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_an_encoder_that_writes_into_its_batch_pairs_no_vector_with_another_sequence(tmp_path, arrays):
    sequences = write_fasta(tmp_path / "a.fa", 30)
    words = ("--model", "odd_encoders:Scribbling", "--model-arg", f"arrays={arrays}", "-q")
    run = embed(tmp_path / "a.fa", "-o", tmp_path / "out", *words)
    assert run.returncode == 0, run.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))


def test_an_encoder_of_letters_that_writes_into_its_batch_neither(tmp_path):
    sequences = write_fasta(tmp_path / "a.fa", 30)
    words = ("--model", "odd_encoders:Scribbling", "--model-arg", "letters=true", "-q")
    run = embed(tmp_path / "a.fa", "-o", tmp_path / "out", *words)
    assert run.returncode == 0, run.stderr
    found = {name: int(one[0]) for name, one in vectors(tmp_path / "out").items()}
    assert found == {name: len(letters) for name, letters in sequences.items()}


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_one_long_sequence_has_a_batch_of_its_own_and_the_others_keep_to_the_budget(tmp_path, layout):
    sequences = {**write_fasta(tmp_path / "a.fa", 100), "long": "MKV" * 1000}
    with (tmp_path / "a.fa").open("a") as file:
        file.write(f">long\n{sequences['long']}\n")
    words = ("--model", "odd_encoders:Counting", "--model-arg", f"layout={layout}", "--max-tokens", 200, "-q")
    notes = ("--model-arg", f"notes={tmp_path / 'notes'}")
    run = embed(tmp_path / "a.fa", "-o", tmp_path / "out", *words, *notes)
    assert run.returncode == 0, run.stderr
    assert_same(vectors(tmp_path / "out"), expected(sequences))
    batches = sorted(tuple(map(int, line.split())) for line in (tmp_path / "notes").read_text().splitlines())
    *others, longest = batches
    assert longest == (3002, 1)
    assert all(tokens <= 200 for tokens, _ in others)
    assert sum(count for _, count in others) == 100
    # And they are no smaller than they need be.
    tokens = sum(len(letters) + 2 for name, letters in sequences.items() if name != "long")
    assert len(others) <= 1.5 * tokens / 200
    # What is computed and saved as one is no larger, either.
    sizes = sorted((event["tokens"], event["sequences"]) for event in events(tmp_path / "out", "chunk_finished"))
    assert sizes[-1] == (3002, 1)
    assert all(tokens <= 200 for tokens, _ in sizes[:-1])
    assert sum(count for _, count in sizes) == 101
    assert "it was 200 and is 300" in refused("-o", tmp_path / "out", "--resume", "--max-tokens", 300)
    again = embed("-o", tmp_path / "out", "--resume", "--max-tokens", 200, "-q")
    assert again.returncode == 0, again.stderr
