"""What --plot writes and what it does not replace."""

import subprocess
import sys

import numpy as np
import pytest

from seekset.errors import MismatchError
from seekset.quality import measure, plot

PROTEINS = b">seq_1 one\nMTKIALSDFG\nHKQWE\n>seq_2\nMKV\n"
COMMANDS = [["stats", "p.fa"], ["plan", "p.fa"], ["pool", "inspect", "games"]]


@pytest.fixture
def cli(tmp_path, write):
    """`cli("plan", ...)` runs a command in a folder with a FASTA file and a folder of shards."""
    write(PROTEINS, "p.fa")
    (tmp_path / "games").mkdir()
    np.savez(tmp_path / "games" / "0.npz", value=np.arange(5.0))

    def run(*words):
        command = [sys.executable, "-m", "seekset", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_picture_goes_to_the_very_path_and_replaces_an_older_one(cli, tmp_path, command):
    done = cli(*command, "--plot", "drawn")
    assert (done.returncode, done.stderr) == (0, "seekset: picture: drawn\n")
    assert (tmp_path / "drawn").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "drawn").rename(tmp_path / "drawn.svg")
    done = cli(*command, "--plot", "drawn.svg")
    assert (done.returncode, done.stderr) == (0, "seekset: picture: drawn.svg\n")
    assert b"<svg" in (tmp_path / "drawn.svg").read_bytes()
    assert not {"drawn", "drawn.png"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_picture_is_not_replaced_and_nothing_is_begun(cli, tmp_path, names, command):
    kept = {"thesis.png": b"mine", "data": PROTEINS, "page.svg": b"<?xml version='1.0'?>\n<feed/>\n"}
    for name, content in kept.items():
        (tmp_path / name).write_bytes(content)
    before = names()
    for name, content in kept.items():
        done = cli(*command, "--plot", name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"seekset: {name}: it is there, is no picture, and is not replaced; give another path\n"
        assert (tmp_path / name).read_bytes() == content
    assert names() == before


def test_a_picture_that_cannot_be_written_is_named_as_it_was_given_and_not_told_of(cli, names):
    done = cli("stats", "p.fa", "--plot", "missing/x.png")
    assert (done.returncode, done.stderr) == (1, "seekset: missing/x.png: No such file or directory\n")
    done = cli("stats", "p.fa", "--plot", "games")
    assert (done.returncode, done.stderr) == (1, "seekset: games: Is a directory\n")
    assert names() == ["games", "p.fa", "p.fa.sidx"]


def test_what_a_process_has_open_is_no_place_for_a_picture(cli):
    done = cli("stats", "p.fa", "--plot", "/dev/stdout")
    assert (done.returncode, done.stdout) == (1, "")
    assert "/dev/stdout: it is there, is no picture" in done.stderr


def test_an_empty_file_holds_nothing_that_could_be_lost(tmp_path, write):
    plot(measure([0, 1], [0, 0], [0, 1]), write(b"", "mix.pdf"))
    assert (tmp_path / "mix.pdf").read_bytes().startswith(b"%PDF-")


def test_formats_that_are_not_known_are_told_before_anything_is_computed(cli, names, write):
    done = cli("plan", "p.fa", "--plot", "x.what")
    assert done.returncode == 2
    assert "--plot x.what: a picture is a png, svg, " in done.stderr
    assert names() == ["games", "p.fa"]
    with pytest.raises(MismatchError, match="is no picture"):
        plot(measure([0, 1], [0, 0], [0, 1]), write(b"mine", "mine.png"))
