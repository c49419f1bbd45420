"""`seekset eden`, run as people run it: in a process of its own."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import textwrap

import polars as pl
import pytest

import seekset
from eden_stores import read_windows, write_sample, write_windows

GENOMES = b">P__x-A-1__c1 first\nACGTACGTAC\nGTNN\n>P__x-B__c1\nGG\n>P__x-A-1__c2\nacgt\n"


@pytest.fixture
def cli(tmp_path):
    """`cli("build", "g.fa", ...)` runs `seekset eden` in tmp_path and gives what came out."""

    def run(*words, timeout=300):
        command = [sys.executable, "-m", "seekset", "eden", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False)

    return run


def table(text):
    return [line.split("\t") for line in text.splitlines()]


def contents(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT * FROM sequences ORDER BY rowid").fetchall()
    connection.close()
    return rows


# --- build ------------------------------------------------------------------------------------------------------------


def test_records_go_to_the_samples_that_their_ids_name(cli, write, tmp_path):
    write(GENOMES, "g.fa")
    done = cli("build", "g.fa", "-o", "dbs", "--parquet", "contigs.parquet")
    assert (done.returncode, done.stderr) == (0, "seekset: table: contigs.parquet\n")
    assert table(done.stdout) == [
        ["sample", "contigs", "letters", "database"],
        ["A.1", "2", "18", "dbs/A.1/glm_dataset_A.1.sqlite"],
        ["B", "1", "2", "dbs/B/glm_dataset_B.sqlite"],
    ]
    assert contents(tmp_path / "dbs/A.1/glm_dataset_A.1.sqlite") == [
        ("P__x-A-1__c1", "ACGTACGTACGTNN"),
        ("P__x-A-1__c2", "acgt"),
    ]
    contigs = pl.read_parquet(tmp_path / "contigs.parquet")
    assert contigs.rows() == [("P__x-A-1__c1", 14), ("P__x-A-1__c2", 4), ("P__x-B__c1", 2)]
    assert contigs.schema == {"contig_id": pl.String, "length": pl.Int64}


def test_one_sample_takes_all_records_whatever_their_ids(cli, write, tmp_path):
    write(b">chr1\nACGT\n", "a.fa")
    write(b">chr2\nAC\n", "b.fa")
    facts = json.loads(cli("build", "a.fa", "b.fa", "-o", "dbs", "--sample", "human", "--json").stdout)
    path = "dbs/human/glm_dataset_human.sqlite"
    assert facts == {"samples": [{"sample": "human", "contigs": 2, "letters": 6, "database": path}], "tables": []}
    assert contents(tmp_path / path) == [("chr1", "ACGT"), ("chr2", "AC")]


def test_each_file_may_be_a_sample_and_ids_then_tell_it(cli, write, tmp_path):
    write(b">chr1\nACGT\n", "E-coli-K12.fna")
    write(b">chr1\nAC\n", "yeast.v2.fa")
    done = cli("build", "E-coli-K12.fna", "yeast.v2.fa", "-o", "dbs", "--sample", "file")
    assert [row[0] for row in table(done.stdout)[1:]] == ["E.coli.K12", "yeast.v2"]
    ((contig, letters),) = contents(tmp_path / "dbs/E.coli.K12/glm_dataset_E.coli.K12.sqlite")
    assert (contig, letters) == ("E-coli-K12__S-E.coli.K12__chr1", "ACGT")
    assert seekset.extract_sample_id(contig) == "E.coli.K12"


@pytest.mark.parametrize(
    "files, words, message",
    [
        ({"g.fa": b">chr1\nA\n"}, (), "g.fa: the id 'chr1' names no sample"),
        ({"g.fa": b">chr1\nA\n"}, (), "; give --sample NAME for one sample, or --sample file for one of each file\n"),
        (
            {"g.fa": b">a__b-c/d__e\nA\n"},
            (),
            "the sample id 'c/d' can't be the name of a folder; give another with --sample NAME",
        ),
        (
            {"g.fa": b">x\nA\n>x\nC\n"},
            ("--sample", "s"),
            "seekset: sample 's': contig 'x' is twice in g.fa; rename one\n",
        ),
        (
            {"a.fa": b">w\nA\n", "g.fa": b">x\nA\n>y\nC\n", "h.fa": b">z\n>x\nC\n"},
            ("--sample", "s"),
            "'s': contig 'x' is in g.fa and in h.fa; rename one, or make a sample of each file with --sample file\n",
        ),
        ({"g.fa": b"", "h.fa": b""}, ("--sample", "s"), "seekset: g.fa and 1 more: expected contigs, found none\n"),
        ({"a__b.fa": b">x\nA\n"}, ("--sample", "file"), "its name can't be told from the id"),
        ({"a.fa": b">x\nA\n", "a.fna": b">x\nA\n"}, ("--sample", "file"), "both give sample 'a'"),
        ({}, ("missing.fa",), "missing.fa: No such file or directory"),
    ],
)
def test_files_that_are_no_samples_are_named_and_leave_no_database(cli, write, tmp_path, files, words, message):
    for name, content in files.items():
        write(content, name)
    done = cli("build", *files, *words, "-o", "dbs")
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert list(tmp_path.glob("dbs/*/*")) == []


def test_files_other_than_parquet_are_not_replaced(cli, write):
    genome = write(b">BCR__E-S__1\nACGT\n", "g.fa")
    done = cli("build", "g.fa", "-o", "dbs", "--parquet", "g.fa")
    assert done.returncode == 1
    assert "g.fa: it is there, is no Parquet table, and is not replaced" in done.stderr
    assert genome.read_bytes() == b">BCR__E-S__1\nACGT\n"
    assert cli("build", "g.fa", "-o", "dbs", "--parquet", "g.fa", "--replace").returncode == 1
    assert genome.read_bytes() == b">BCR__E-S__1\nACGT\n"


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".sidx"}


def test_databases_and_tables_are_replaced_only_if_asked_for(cli, write, tmp_path):
    write(GENOMES, "g.fa")
    words = ("build", "g.fa", "-o", "dbs", "--parquet", "all.parquet", "--splits", ".6,.4")
    assert cli(*words).returncode == 0
    write(GENOMES.replace(b"ACGT", b"TTTT"), "g.fa")
    before = files_in(tmp_path)
    done = cli(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "seekset: all.parquet: there is a file already (and 2 more); --replace replaces them\n"
    done = cli(*words[:4])
    message = "dbs/A.1/glm_dataset_A.1.sqlite: there is a file already (and 1 more); --replace replaces them"
    assert (done.returncode, done.stderr) == (1, f"seekset: {message}\n")
    (tmp_path / "all.parquet").unlink()
    (tmp_path / "train_split.parquet").unlink()
    assert cli(*words).stderr == "seekset: val_split.parquet: there is a file already; --replace replaces it\n"
    assert files_in(tmp_path).items() <= before.items()
    assert cli(*words, "--replace").returncode == 0
    after = files_in(tmp_path)
    assert after.keys() == before.keys()
    assert contents(tmp_path / "dbs/A.1/glm_dataset_A.1.sqlite")[0] == ("P__x-A-1__c1", "TTTTTTTTACGTNN")


def test_where_no_index_can_be_written_the_remedy_is_one_that_build_has(cli, write, tmp_path):
    write(GENOMES, "g.fa")
    (tmp_path / "g.fa.sidx").mkdir()
    done = cli("build", "g.fa", "-o", "dbs")
    assert done.returncode == 0
    assert done.stderr.startswith("seekset: g.fa.sidx can't be written (")
    assert done.stderr.endswith("; give a copy of the file in a folder that can be written\n")
    assert done.stderr.count("\n") == 1


def test_a_split_that_is_written_no_more_does_not_stay_beside_the_others(cli, write, tmp_path):
    write(GENOMES, "g.fa")
    words = ("build", "g.fa", "-o", "dbs", "--parquet", "t/all.parquet", "--splits")
    stale = tmp_path / "t" / "test_split.parquet"
    assert cli(*words, ".4,.3,.3").returncode == 0
    before = files_in(tmp_path)
    # Its contigs would be in train or val as well.
    for path in ("all", "train_split", "val_split"):
        (tmp_path / "t" / f"{path}.parquet").rename(tmp_path / path)
    done = cli(*words, ".6,.4")
    told = "contigs of this split of an earlier run may be in others now"
    assert (done.returncode, done.stderr) == (1, f"seekset: t/test_split.parquet: {told}; --replace removes it\n")
    assert stale.read_bytes() == before[stale]
    done = cli(*words, ".6,.4", "--replace")
    assert done.returncode == 0
    assert f"seekset: t/test_split.parquet: removed, since {told}\n" in done.stderr
    assert not stale.exists()
    # What is no table is none of ours to remove, and a table of all contigs may have any name.
    stale.write_text("mine")
    done = cli(*words, ".6,.4", "--replace")
    assert (done.returncode, stale.read_text()) == (1, "mine")
    stale.unlink()
    words = ("build", "g.fa", "-o", "dbs", "--parquet", "t/test_split.parquet", "--replace", "--splits", ".6,.4")
    assert cli(*words).returncode == 0
    assert stale.exists()


def test_databases_that_are_named_are_refused_before_a_file_is_indexed(cli, write, tmp_path):
    for sample, name in (("S", "S"), ("file", "g")):
        write_sample(tmp_path / "dbs" / name / f"glm_dataset_{name}.sqlite", [("a", "ACGT")])
        write(GENOMES, "g.fa")
        done = cli("build", "g.fa", "-o", "dbs", "--sample", sample)
        message = f"dbs/{name}/glm_dataset_{name}.sqlite: there is a file already; --replace replaces it"
        assert (done.returncode, done.stderr) == (1, f"seekset: {message}\n")
        assert not (tmp_path / "g.fa.sidx").exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (("-o", "g.fa"), "g.fa: Not a directory"),
        (("-o", "taken"), "taken/B: Not a directory"),
        (("-o", "folders"), "folders/B/glm_dataset_B.sqlite: Is a directory"),
        (("-o", "dbs", "--parquet", "folders"), "folders: Is a directory"),
        (("-o", "dbs", "--parquet", "g.fa/x.parquet"), "g.fa: Not a directory"),
        (
            ("-o", "dbs", "--parquet", "val_split.parquet", "--splits", ".5,.5"),
            "val_split.parquet: the table of all contigs can't have the name of a split's; give another path",
        ),
        (
            ("-o", "dbs", "--parquet", "pipe", "--replace"),
            "pipe: it is there, is no Parquet table, and is not replaced; give another path",
        ),
    ],
)
def test_what_is_in_the_way_of_files_is_told_before_any_is_written(cli, write, tmp_path, words, message):
    write(GENOMES, "g.fa")
    (tmp_path / "taken").mkdir()
    write(b"", "taken/B")
    (tmp_path / "folders/B/glm_dataset_B.sqlite").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    done = cli("build", "g.fa", *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"seekset: {message}\n")
    assert sorted(path.name for path in files_in(tmp_path)) == ["B", "g.fa"]


def test_a_table_that_can_not_be_written_is_named(cli, write):
    write(GENOMES, "g.fa")
    done = cli("build", "g.fa", "-o", "dbs", "--parquet", "/proc/x.parquet")
    assert done.returncode == 1
    assert re.fullmatch(r"seekset: .*'/proc/x\.parquet'.* No such file or directory\n", done.stderr)


def test_folders_that_may_not_be_written_to_are_told_before_anything_is_written(write, tmp_path):
    write(GENOMES, "g.fa")
    tmp_path.chmod(0o755)
    (tmp_path / "locked").mkdir(mode=0o555)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    source = """
        import contextlib, os
        from seekset.cli import cli, main

        words = "eden", "build", "missing.fa", "-o", "x", "--parquet", "y"
        with contextlib.suppress(FileNotFoundError):
            cli(words, standalone_mode=False)  # imports what nobody may not be able to
        if os.geteuid() == 0:  # root may write everywhere, so be nobody
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        main()
    """
    for words in (("-o", "locked"), ("-o", "open", "--parquet", "locked/t/x.parquet")):
        command = [sys.executable, "-c", textwrap.dedent(source), "eden", "build", "g.fa", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "seekset: locked: Permission denied")
    assert list((tmp_path / "open").iterdir()) == []


def test_a_file_without_contigs_among_others_is_told(cli, write):
    write(GENOMES, "g.fa")
    write(b"", "empty.fa")
    done = cli("build", "g.fa", "empty.fa", "-o", "dbs")
    assert (done.returncode, done.stderr) == (0, "seekset: empty.fa: expected contigs, found none\n")


def test_contigs_that_are_in_no_split_are_counted(cli, write, tmp_path):
    write(b"".join(b">P__x-S__%d\nACGT\n" % k for k in range(100)), "g.fa")
    done = cli("build", "g.fa", "-o", "dbs", "--parquet", "all.parquet", "--splits", ".5,.3")
    parted = sum(len(pl.read_parquet(tmp_path / f"{name}_split.parquet")) for name in ("train", "val"))
    told = f"seekset: {100 - parted} of 100 contigs are in no split: the shares add up to 0.8"
    assert told == done.stderr.splitlines()[0]
    assert 0 < parted < 100
    # As WindowDataset does, which takes the same shares.
    splits = {"train": 0.5, "val": 0.3}
    plans = [seekset.WindowPlan(tmp_path / "g.fa", window=4, splits=splits, split=split) for split in splits]
    assert sum(plan.stretches for plan in plans) == parted


def test_splits_are_parted_by_a_hash_that_other_contigs_do_not_change(cli, write, tmp_path):
    write(b"".join(b">P__x-S__%d\nACGT\n" % k for k in range(400)), "g.fa")
    assert cli("build", "g.fa", "-o", "dbs", "--parquet", "t/all.parquet", "--splits", ".8,.1,.1").returncode == 0

    def splits(folder):
        names = ("train", "val", "test")
        return {name: set(pl.read_parquet(tmp_path / folder / f"{name}_split.parquet")["contig_id"]) for name in names}

    first = splits("t")
    assert sum(map(len, first.values())) == 400 == len(set.union(*first.values()))
    assert 280 < len(first["train"]) < 360
    assert all(first.values())
    write(b"".join(b">P__x-S__%d\nACGT\n" % k for k in range(300, 350)), "h.fa")
    assert cli("build", "h.fa", "-o", "dbs2", "--parquet", "u/all.parquet", "--splits", ".8,.1,.1").returncode == 0
    for name, ids in splits("u").items():
        assert ids <= first[name]


@pytest.mark.parametrize(
    "words",
    [("--splits", ".9,.1"), *[("--parquet", "p", "--splits", s) for s in ("x", ".5,.6", "-1,1", ".1,.1,.1,.1", "")]],
)
def test_splits_that_can_not_be_meant_are_refused(cli, write, words):
    write(GENOMES, "g.fa")
    done = cli("build", "g.fa", "-o", "dbs", *words)
    assert done.returncode == 2
    assert "split" in done.stderr


# --- precompute, validate ---------------------------------------------------------------------------------------------


@pytest.fixture
def built(cli, write):
    write(GENOMES, "g.fa")
    assert cli("build", "g.fa", "-o", "dbs", "--parquet", "contigs.parquet", "-q").stdout == ""


def test_windows_are_precomputed_from_the_table(cli, built, tmp_path):
    done = cli("precompute", "contigs.parquet", "train.sqlite", "--window-size", 6, "--stride", 4)
    assert table(done.stdout) == [["database", "windows", "contigs", "too short"], ["train.sqlite", "5", "3", "0"]]
    rows, _ = read_windows(tmp_path / "train.sqlite")
    assert rows == [(0, "P__x-A-1__c1", 0), (1, "P__x-A-1__c1", 1), (2, "P__x-A-1__c1", 2), (3, "P__x-A-1__c2", 0), (4, "P__x-B__c1", 0)]  # fmt: skip # noqa: E501
    words = ("--window-size", 6, "--stride", 4, "--window-min-length-threshold", 3, "--json")
    facts = json.loads(cli("precompute", "contigs.parquet", "train.sqlite", *words).stdout)
    assert facts == {"database": "train.sqlite", "windows": 4, "contigs": 2, "too_short": 1}


def test_wrong_tables_exit_with_1_and_wrong_words_with_2(cli, built):
    done = cli("precompute", "contigs.parquet", "w.sqlite", "--id-column", "name")
    assert (done.returncode, done.stderr) == (
        1,
        "seekset: contigs.parquet: expected a column 'name', found contig_id, length\n",
    )
    for words in (("--stride", 0), ("--stride", 10**10), ("--window-size", 10**30)):
        done = cli("precompute", "contigs.parquet", "w.sqlite", *words)
        assert (done.returncode, f"Invalid value for '{words[0]}'" in done.stderr) == (2, True)


def test_letters_that_no_window_has_are_told_by_precompute(cli, built):
    words = ("precompute", "contigs.parquet", "w.sqlite", "--window-size", 6, "--stride", 7)
    done = cli(*words)
    assert done.returncode == 0
    assert done.stderr == (
        "seekset: 6 of 20 letters (30.0 %) are in no window: the stride of 7 is larger than a window's content of 4 "
        "letters beside bos and eos, and those after the last full window are left out\n"
    )
    assert cli(*words, "-q").stderr == ""


def test_what_was_built_and_precomputed_is_valid(cli, built):
    cli("precompute", "contigs.parquet", "train.sqlite", "--window-size", 6, "--stride", 4)
    done = cli("validate", "dbs", "train.sqlite")
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout) == [
        ["database", "windows", "contigs", "samples", "faults"],
        ["train.sqlite", "5", "3", "2", "0"],
    ]


def test_every_kind_of_fault_is_told_and_the_exit_code_is_1(cli, built, tmp_path):
    rows = [
        ("P__x-A-1__c1", 0),
        ("P__x-A-1__c1", 9),  # begins at letter 36 of 14
        ("P__x-A-1__c2", 0),
        ("P__x-A-1__c2", 0),  # twice
        *[(f"P__x-B__missing{k}", 0) for k in range(8)],
        ("P__x-C__c1", 0),
        ("chr1", 0),
    ]
    metadata = {
        "window_size": 6,
        "stride": 4,
        "window_min_length_threshold": 0,
        "total_windows": 14,
        "distinct_sequences": 99,
    }
    write_windows(tmp_path / "w.sqlite", rows, metadata)
    done = cli("validate", "dbs", "w.sqlite")
    assert done.returncode == 1
    for line in (
        "window 12: contig 'P__x-C__c1' names sample 'C', which has no database",
        "window 13: contig 'chr1' names no sample",
        "window 4: contig 'P__x-B__missing0' is not in dbs/B/glm_dataset_B.sqlite",
        "… and 3 more like these",
        "window 0: contig 'P__x-A-1__c1' has 14 letters, but its last window starts at letter 36",
        "window 2: contig 'P__x-A-1__c2' has 4 letters, which give 1 windows, but there are 2",
        "window 1: contig 'P__x-A-1__c1': expected its window number 1, found number 9",
        "window 3: contig 'P__x-A-1__c2': expected its window number 1, found number 0",
        "distinct_sequences is 99, but there are 12",
    ):
        assert line in done.stdout.splitlines()
    facts = json.loads(cli("validate", "dbs", "w.sqlite", "--json").stdout)
    assert {fault["kind"]: fault["count"] for fault in facts["faults"]} == {
        "sample without a database": 2,
        "missing contig": 8,
        "window beyond the end": 1,
        "other number of windows": 1,
        "numbering": 2,
        "metadata": 1,
    }


METADATA = {"window_size": 6, "stride": 4}


@pytest.mark.parametrize(
    "rows, told",
    [
        ([("c1", -1), ("c1", 0), ("c1", 1)], ["window 0: contig 'c1': expected its window number 0, found number -1"]),
        ([("c1", 1), ("c1", 0), ("c1", 2)], ["window 0: contig 'c1': expected its window number 0, found number 1"]),
        ([("c1", 0), ("c1", 1), ("c1", 1)], ["window 2: contig 'c1': expected its window number 2, found number 1"]),
        ([("c2", -1)], ["window 0: contig 'c2': expected its window number 0, found number -1"]),
        (
            [("c2", 0), ("c1", 0), ("c1", 1), ("c1", 2), ("c2", 0)],
            ["contig 'c2': expected its 2 windows one after another, found them from window 0 to window 4"],
        ),
    ],
)
def test_the_windows_of_a_contig_are_numbered_from_0_on_each_once(cli, write, tmp_path, rows, told):
    write(b">c1\nACGTACGTACGTAC\n>c2\nACGT\n", "g.fa")
    cli("build", "g.fa", "-o", "dbs", "--sample", "S")
    write_windows(tmp_path / "w.sqlite", rows, METADATA)
    done = cli("validate", "dbs", "w.sqlite", "-q")
    assert (done.returncode, done.stdout.splitlines()) == (1, told)


def test_contigs_may_stand_in_any_order(cli, write, tmp_path):
    write(b">c1\nACGTACGTACGTAC\n>c2\nACGT\n", "g.fa")
    cli("build", "g.fa", "-o", "dbs", "--sample", "S")
    write_windows(tmp_path / "w.sqlite", [("c2", 0), ("c1", 0), ("c1", 1), ("c1", 2)], METADATA)
    assert cli("validate", "dbs", "w.sqlite").returncode == 0


def test_a_locked_sample_is_waited_for_once(cli, write, tmp_path):
    """Each wait is 5 s long: 40 of them would run into the timeout of this test."""
    write(b"".join(b">P__x-A__c%d\nACGT\n" % number for number in range(40)), "g.fa")
    cli("build", "g.fa", "-o", "dbs")
    write_windows(tmp_path / "w.sqlite", [(f"P__x-A__c{number}", 0) for number in range(40)], METADATA)
    writer = sqlite3.connect(tmp_path / "dbs/A/glm_dataset_A.sqlite", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    done = cli("validate", "dbs", "w.sqlite", "--json", timeout=100)
    writer.close()
    (fault,) = json.loads(done.stdout)["faults"]
    assert (done.returncode, fault["kind"], fault["count"]) == (1, "unreadable", 40)
    assert "the database is locked" in fault["first"][0]


def test_a_damaged_sample_database_is_a_fault_of_its_contigs(cli, built, tmp_path):
    cli("precompute", "contigs.parquet", "train.sqlite", "--window-size", 6, "--stride", 4)
    (tmp_path / "dbs/B/glm_dataset_B.sqlite").write_bytes(b"no database")
    done = cli("validate", "dbs", "train.sqlite", "-q")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "window 4: contig 'P__x-B__c1': dbs/B/glm_dataset_B.sqlite: whole file: expected a SQLite"
    )


def test_one_database_takes_contigs_whatever_their_ids(cli, write):
    write(b">chr1\nACGT\n", "a.fa")
    cli("build", "a.fa", "-o", "dbs", "--sample", "human", "--parquet", "c.parquet")
    cli("precompute", "c.parquet", "w.sqlite")
    assert cli("validate", "dbs", "w.sqlite").returncode == 0


def test_a_folder_without_databases_is_told(cli, built, tmp_path):
    (tmp_path / "empty").mkdir()
    done = cli("validate", "empty", "train.sqlite")
    assert done.returncode == 1
    assert done.stderr.startswith("seekset: No SQLite files in empty")
    assert cli("validate", "dbs", "missing.sqlite").stderr == "seekset: missing.sqlite: No such file or directory\n"


# --- stats ------------------------------------------------------------------------------------------------------------

HEADS = "window_idx,sequence_id,sample_id,window_in_seq_idx,rank,access_ts\n"


@pytest.fixture
def logs(tmp_path):
    """`logs({"window_access_train_rank0_0123abcd.csv": [3, 4]})` writes logs that name these windows."""
    write_windows(tmp_path / "train.sqlite", [("a", k) for k in range(10)])
    (tmp_path / "logs").mkdir()

    def logs(files):
        for name, windows in files.items():
            rows = "".join(f'{window},"a,""b",S,{window},0,17\n' for window in windows)
            (tmp_path / "logs" / name).write_text(HEADS + rows)

    return logs


def test_coverage_is_counted_over_all_logs_and_for_each_rank(cli, logs):
    logs(
        {
            "window_access_train_rank0_0123abcd.csv": [0, 2, 4],
            "window_access_train_rank0_aaaaaaaa.csv": [0],
            "window_access_train_rank10_bbbbbbbb.csv": [1, 0],
            "notes.csv": [9],
        }
    )
    done = cli("stats", "train.sqlite", "--log-dir", "logs")
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout) == [
        ["windows", "read", "never read", "coverage", "reads", "repeats"],
        ["10", "4", "6", "40.00 %", "6", "2"],
        [""],
        ["times read", "windows"],
        ["0", "6"],
        ["1", "3"],
        ["3", "1"],
        [""],
        ["rank", "logs", "reads", "different windows"],
        ["0", "2", "4", "3"],
        ["10", "1", "2", "2"],
    ]


def test_a_last_line_that_was_cut_is_told_and_not_counted(cli, logs, tmp_path):
    logs({"window_access_train_rank0_0123abcd.csv": [0, 2]})
    path = tmp_path / "logs" / "window_access_train_rank0_0123abcd.csv"
    path.write_text(path.read_text() + "7,a")
    done = cli("stats", "train.sqlite", "--log-dir", "logs", "--json")
    assert done.returncode == 0
    assert done.stderr == f"seekset: logs/{path.name}: the last line was cut and is not counted\n"
    facts = json.loads(done.stdout)
    assert (facts["read"], facts["reads"], facts["times"]) == (2, 2, {"0": 8, "1": 2})


def test_other_columns_are_allowed_and_their_order_does_not_matter(cli, logs, tmp_path):
    logs({})
    path = tmp_path / "logs" / "window_access_my_split_rank3_0123abcd.csv"
    path.write_text("host,rank,window_idx\nx,3,5\n")
    facts = json.loads(cli("stats", "train.sqlite", "--log-dir", "logs", "--json").stdout)
    assert (facts["split"], facts["ranks"]) == ("my_split", [{"rank": 3, "files": 1, "reads": 1, "windows": 1}])


@pytest.mark.parametrize(
    "content, message",
    [
        (HEADS + "10,a,S,0,0,1\n", "line 2: window 10 is none of the database, which has 10"),
        (HEADS + "1,a,S,0,0,1\nx,a,S,0,0,1\n", "line 3: expected the number of a window, found 'x,a,S,0,0,1'"),
        (HEADS + "\n", "line 2: expected the number of a window, found ''"),
        ("a,b\n1,2\n", "line 1: expected a column window_idx, found a, b"),
    ],
)
def test_logs_that_are_none_are_named_with_their_line(cli, logs, tmp_path, content, message):
    logs({})
    (tmp_path / "logs" / "window_access_train_rank0_0123abcd.csv").write_text(content)
    done = cli("stats", "train.sqlite", "--log-dir", "logs")
    assert done.returncode == 1
    assert done.stderr.startswith(f"seekset: logs/window_access_train_rank0_0123abcd.csv: {message}")


def test_logs_of_several_splits_need_a_choice(cli, logs):
    logs({f"window_access_{split}_rank0_0123abcd.csv": [1] for split in ("train", "val")})
    done = cli("stats", "train.sqlite", "--log-dir", "logs")
    assert done.returncode == 2
    assert "there are logs of train, val: give --split" in done.stderr
    assert cli("stats", "train.sqlite", "--log-dir", "logs", "--split", "val").returncode == 0
    done = cli("stats", "train.sqlite", "--log-dir", "logs", "--split", "test")
    assert (done.returncode, done.stderr) == (1, "seekset: logs: expected logs window_access_test_*.csv, found none\n")


def test_a_picture_is_drawn(cli, logs, tmp_path):
    logs({"window_access_train_rank0_0123abcd.csv": [0, 2, 2]})
    done = cli("stats", "train.sqlite", "--log-dir", "logs", "--plot", "seen.png")
    assert (done.returncode, done.stderr) == (0, "seekset: picture: seen.png\n")
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
    assert cli("stats", "train.sqlite", "--log-dir", "logs", "--plot", "seen.xyz").returncode == 2
    (tmp_path / "train.sqlite").rename(tmp_path / "train")
    kept = (tmp_path / "train").read_bytes()
    done = cli("stats", "train", "--log-dir", "logs", "--plot", "train")
    assert (done.returncode, "train: it is there, is no picture" in done.stderr) == (1, True)
    assert (tmp_path / "train").read_bytes() == kept


def test_a_command_is_helped_without_the_extension(cli):
    for name in ("build", "precompute", "validate", "stats"):
        assert cli(name, "--help").returncode == 0
