"""A run is gone on with over the same bytes alone: an index knows lengths and ids, and two designs may share both."""

import json
import os
import shutil

import pytest

from runs import assert_same, begin, embed, events, expected, vectors, wait_for, write_fasta
from seekset.errors import MismatchError
from seekset.inference import run_multi_gpu_inference

SUMS = ("--model", "odd_encoders:Sums", "--max-tokens", 200, "-q")
CONFIG = {"model": "odd_encoders:Sums", "max_tokens": 200, "devices": "cpu"}


def write_permuted(path, sequences):
    """The same ids and lengths in the same places, and other letters."""
    turned = {name: letters[::-1] for name, letters in sequences.items()}
    path.write_text("".join(f">{name} of the test\n{letters}\n" for name, letters in turned.items()))
    return turned


@pytest.fixture
def designs(tmp_path):
    """Two files and what is in them."""
    ours = write_fasta(tmp_path / "ours.fa", 60)
    theirs = write_permuted(tmp_path / "theirs.fa", ours)
    assert (tmp_path / "ours.fa").stat().st_size == (tmp_path / "theirs.fa").stat().st_size
    return ours, theirs


def refused(*words):
    run = embed(*words)
    assert run.returncode == 1, run.stderr
    assert "Traceback" not in run.stderr
    return run.stderr


def test_another_file_of_the_same_lengths_and_ids_is_refused_by_its_name(designs, tmp_path):
    _, theirs = designs
    out = tmp_path / "out"
    assert embed(tmp_path / "ours.fa", "-o", out, *SUMS).returncode == 0
    before = (out / "embeddings.h5").read_bytes()
    # Also with the time of the first: it is another path.
    for time_ns in ((tmp_path / "theirs.fa").stat().st_mtime_ns, (tmp_path / "ours.fa").stat().st_mtime_ns):
        os.utime(tmp_path / "theirs.fa", ns=(time_ns, time_ns))
        told = refused(tmp_path / "theirs.fa", "-o", out, *SUMS, "--resume")
        said = f"the content of {tmp_path}/theirs.fa is not that of {tmp_path}/ours.fa when the run began"
        assert said in told
        assert "Give the files of then, in their order, another folder, or --restart" in told
        with pytest.raises(MismatchError, match=said):
            run_multi_gpu_inference(tmp_path / "theirs.fa", out, CONFIG)
    assert (out / "embeddings.h5").read_bytes() == before
    assert embed(tmp_path / "theirs.fa", "-o", out, *SUMS, "--restart").returncode == 0
    assert_same(vectors(out), expected(theirs))


def test_a_file_that_was_changed_in_its_place_is_refused_until_it_is_put_back(designs, tmp_path):
    ours, _ = designs
    out = tmp_path / "out"
    shutil.copyfile(tmp_path / "ours.fa", tmp_path / "a.fa")
    assert embed(tmp_path / "a.fa", "-o", out, *SUMS).returncode == 0
    next((out / "chunks").iterdir()).unlink()
    shutil.copyfile(tmp_path / "theirs.fa", tmp_path / "a.fa")
    for words in ((), (tmp_path / "a.fa",)):
        told = refused(*words, "-o", out, *SUMS, "--resume")
        assert f"the content of {tmp_path}/a.fa has changed since the run began" in told
    shutil.copyfile(tmp_path / "ours.fa", tmp_path / "a.fa")
    again = embed("-o", out, "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(ours))


def test_letters_that_are_edited_during_a_run_end_it_and_are_not_mixed_by_a_resume(designs, tmp_path):
    ours, _ = designs
    out = tmp_path / "out"
    shutil.copyfile(tmp_path / "ours.fa", tmp_path / "a.fa")
    run = begin(tmp_path / "a.fa", "-o", out, *SUMS, "--model-arg", "seconds=0.1", "--devices", "cpu,cpu")
    wait_for(lambda: events(out, "chunk_finished"))
    # As `sed -i` does it.
    (tmp_path / "theirs.fa").replace(tmp_path / "a.fa")
    _, told = run.communicate(timeout=60)
    assert run.returncode == 1
    assert f"{tmp_path}/a.fa" in told
    assert f"the content of {tmp_path}/a.fa has changed since the run began" in refused("-o", out, "--resume")
    assert not (out / "embeddings.h5").exists()
    (tmp_path / "ours.fa").replace(tmp_path / "a.fa")
    again = embed("-o", out, "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(ours))


@pytest.mark.parametrize("how", ["touched", "copied", "moved"])
def test_the_same_bytes_are_the_same_input_whenever_and_wherever_they_were_written(designs, tmp_path, how):
    ours, _ = designs
    out = tmp_path / "out"
    assert embed(tmp_path / "ours.fa", "-o", out, *SUMS).returncode == 0
    before = json.loads((out / "manifest.json").read_text())
    next((out / "chunks").iterdir()).unlink()
    path = tmp_path / ("ours.fa" if how == "touched" else "elsewhere.fa")
    match how:
        case "touched":
            os.utime(path, (1, 1))
        case "copied":
            shutil.copyfile(tmp_path / "ours.fa", path)
        case "moved":
            (tmp_path / "ours.fa").rename(path)
    done = run_multi_gpu_inference(path, out, CONFIG)[0]
    assert_same(vectors(done.parent), expected(ours))
    # There it is looked for from now on, and it is the same run.
    [told] = json.loads((out / "manifest.json").read_text())["files"]
    assert told == {
        "path": str(path),
        "size": path.stat().st_size,
        "mtime_ns": path.stat().st_mtime_ns,
        "digest": before["files"][0]["digest"],
    }
    if how == "copied":
        (tmp_path / "ours.fa").unlink()
    next((out / "chunks").iterdir()).unlink()
    again = embed("-o", out, "--resume", "-q")
    assert again.returncode == 0, again.stderr
    assert_same(vectors(out), expected(ours))


@pytest.mark.usefixtures("designs")
def test_files_are_compared_one_by_one_in_their_order(tmp_path):
    out = tmp_path / "out"
    both = (tmp_path / "ours.fa", tmp_path / "theirs.fa")
    write_fasta(tmp_path / "more.fa", 3)
    assert embed(*both, "-o", out, *SUMS).returncode == 0
    told = refused(*both[::-1], "-o", out, *SUMS, "--resume")
    assert f"the content of {tmp_path}/theirs.fa is not that of {tmp_path}/ours.fa when the run began" in told
    told = refused(*both, tmp_path / "more.fa", "-o", out, *SUMS, "--resume")
    assert "it began with the content of 2 files, and 3 are given" in told
    assert embed(*both, "-o", out, *SUMS, "--resume").returncode == 0
