"""The files that paths, folders and globs name."""

import gzip
import subprocess
import sys
import warnings

import pytest

import seekset
from frames import records
from seekset.datasets import SequenceDataset, TFRecordDataset, TFRecordIterableDataset
from seekset.files import find_fastas
from seekset.shards import find_shards
from seekset.tfrecord import find_tfrecords


@pytest.fixture
def cli(tmp_path):
    """`cli("stats", ...)` runs a command in the test's folder."""

    def run(*words):
        command = [sys.executable, "-m", "seekset", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


FIND = {"fa": find_fastas, "tfrecord": find_tfrecords, "npz": find_shards}


@pytest.mark.parametrize("pattern", ["", "/*"], ids=["folder", "glob"])
@pytest.mark.parametrize("suffix", FIND)
def test_a_link_that_leads_nowhere_is_an_error_and_no_missing_part(tmp_path, suffix, pattern):
    (tmp_path / f"a.{suffix}").write_bytes(b"")
    link = tmp_path / f"b.{suffix}"
    link.symlink_to("/nowhere/else")
    with pytest.raises(FileNotFoundError, match=r"a link that leads nowhere \(to /nowhere/else\)") as error:
        FIND[suffix](f"{tmp_path}{pattern}")
    assert error.value.filename == str(link)
    link.unlink()
    link.symlink_to(tmp_path / f"a.{suffix}")
    assert FIND[suffix](f"{tmp_path}{pattern}") == [tmp_path / f"a.{suffix}", link]


def test_links_of_other_names_than_those_looked_for_do_not_matter(tmp_path):
    (tmp_path / "a.fa").write_bytes(b">a\n")
    (tmp_path / "notes").symlink_to("/nowhere")
    assert find_fastas(tmp_path) == [tmp_path / "a.fa"]


@pytest.mark.parametrize("name", ["a.fa", "a.tfrecord"])
def test_a_file_that_is_there_twice_is_told_and_read_twice(tmp_path, name):
    for twin in (name, f"{name}.gz"):
        (tmp_path / twin).write_bytes(b"x")
    find = FIND[name[2:]]
    with pytest.warns(
        seekset.SeeksetWarning, match=rf"both .*{name} and {name}\.gz are read; where they hold the same"
    ):
        assert len(find(tmp_path)) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(find([tmp_path / name, tmp_path / f"{name}.gz"])) == 2  # somebody wants both


@pytest.mark.parametrize("find", FIND.values())
def test_empty_text_is_not_the_current_folder(find):
    with pytest.raises(ValueError, match="a path is empty text"):
        find("")


@pytest.mark.parametrize("command", [["index"], ["embed", "-o", "out"], ["pool", "inspect"], ["stats"]])
def test_commands_refuse_an_empty_path(cli, command, write, names):
    write(b">a\nAC\n", "a.fa")
    done = cli(*command, "")
    assert (done.returncode, "the path is empty" in done.stderr) == (2, True)
    assert names() == ["a.fa"]


@pytest.mark.parametrize("make", [TFRecordDataset, TFRecordIterableDataset, SequenceDataset])
def test_no_files_are_no_dataset(make):
    with pytest.raises(ValueError, match=r"there are no .* files: .* is empty"):
        make([])


@pytest.mark.parametrize("work", [seekset.Fasta, seekset.faidx])
@pytest.mark.parametrize("name", ["a.fa.gz", "a.fa.bgz", "A.FA.GZ"])
def test_nothing_at_all_is_no_compressed_fasta(write, names, work, name):
    path = write(b"", name)
    with pytest.raises(seekset.FormatError, match="expected compressed data, as its name says, found no bytes at all"):
        work(path)
    assert names() == [name]


def test_nothing_at_all_is_no_compressed_tfrecord(write, cli):
    path = write(b"", "a.tfrecord.gz")
    with pytest.raises(seekset.FormatError, match="found no bytes at all: it may have been cut short"):
        seekset.TFRecordFile(path)
    done = cli("tfrecord", "verify", path)
    assert (done.returncode, "found no bytes at all" in done.stdout + done.stderr) == (1, True)
    assert len(seekset.TFRecordFile(write(b"", "b.tfrecord"))) == 0
    assert len(seekset.TFRecordFile(write(gzip.compress(records()), "c.tfrecord.gz"))) == 0


@pytest.mark.parametrize("command", ["status", "aggregate"])
def test_a_file_is_no_folder_of_a_run(cli, write, command):
    done = cli(command, write(b">a\n", "a.fa"))
    assert (done.returncode, "folder of `seekset embed`" in done.stderr) == (1, True)
