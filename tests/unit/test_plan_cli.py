"""`seekset plan`, run as people run it: in a process of its own."""

import json
import subprocess
import sys

import pytest

import seekset

# Lengths 8, 3, 12 and 5.
PROTEINS = b">a\nMKVLAAGI\n>b\nMKV\n>c\nMKVLAAGIVGLC\n>d\nMKVLA\n"


@pytest.fixture
def cli(tmp_path):
    """`cli("p.fa", ...)` runs `seekset plan` in tmp_path and gives what came out."""

    def run(*words):
        command = [sys.executable, "-m", "seekset", "plan", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture
def proteins(write):
    return write(PROTEINS, "p.fa")


def table(text):
    return [line.split("\t") for line in text.splitlines()]


def test_a_plan_tells_batches_and_efficiency(cli, proteins):
    done = cli("p.fa", "--tokens", 20)
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout) == [
        ["batches", "sequences", "pieces", "tokens", "efficiency", "cut"],
        ["2", "4", "4", "36", "90.000 %", "0"],
    ]


def test_ranks_have_a_table_of_their_own(cli, proteins):
    done = cli("p.fa", "--tokens", 20, "--world-size", 2)
    assert table(done.stdout)[3:] == [
        ["rank", "batches", "sequences", "tokens", "deviation"],
        ["0", "1", "2", "19", "5.556 %"],
        ["1", "1", "2", "17", "-5.556 %"],
    ]


def test_machines_are_told_in_json(cli, proteins):
    facts = json.loads(cli("p.fa", "--tokens", 20, "--world-size", 3, "--json").stdout)
    assert {key: facts[key] for key in ("index", "batches", "sequences", "pieces", "tokens", "cut")} == {
        "index": "p.fa",
        "batches": 2,
        "sequences": 4,
        "pieces": 4,
        "tokens": 36,
        "cut": 0,
    }
    assert facts["efficiency"] == pytest.approx(0.9)
    assert [rank["tokens"] for rank in facts["ranks"]] == [19, 17, 0]
    assert facts["ranks"][2]["deviation"] == -1


@pytest.mark.parametrize("name", ["many.sidx", "many.json"])
def test_an_index_over_many_files_is_planned(cli, proteins, write, tmp_path, name):
    write(b">e\nMKVLAAGIVG\n", "q.fa")
    seekset.SequenceIndex.create([proteins, tmp_path / "q.fa"], tmp_path / name)
    done = cli(name, "--tokens", 20)
    assert (done.returncode, done.stderr) == (0, "")
    assert table(done.stdout)[1][1:4] == ["5", "5", "48"]


def test_a_plan_is_written_where_it_is_told(cli, proteins, tmp_path):
    done = cli("p.fa", "--tokens", 20, "-o", "p.arrow")
    assert (done.returncode, done.stderr) == (0, "seekset: plan: p.arrow\n")
    plan = seekset.Plan.load(tmp_path / "p.arrow", seekset.Fasta(proteins))
    assert [batch.rows.tolist() for batch in plan] == [[2, 1], [0, 3]]


def test_options_reach_the_plan(cli, proteins):
    def tell(*words):
        return json.loads(cli("p.fa", "--json", *words).stdout)

    assert tell("--table", "none")["tokens"] == 28
    assert tell("--max-length", 5, "--overflow", "split", "--overlap", 1)["pieces"] == 7
    padded = tell("--layout", "padded", "--tokens", 28)
    assert (padded["batches"], padded["efficiency"]) == (2, pytest.approx(36 / (28 - 4 + 2 * 7 + 4)))


def test_sequences_that_are_cut_are_told_of(cli, proteins):
    done = cli("p.fa", "--max-length", 5)
    assert done.returncode == 0
    assert done.stderr.startswith(
        "seekset: 2 sequences are longer than --max-length, which is 5, and are cut; --overflow split"
    )
    assert table(done.stdout)[1][-1] == "2"
    assert cli("p.fa", "--max-length", "none").stderr == ""


def test_repeated_ids_do_not_matter(cli, write):
    write(b">a\nMK\n>a\nMKV\n", "twice.fa")
    assert table(cli("twice.fa").stdout)[1][1] == "2"


@pytest.mark.parametrize("data, world_size", [(PROTEINS, 1), (PROTEINS, 12), (PROTEINS, 30), (b">a\n", 4), (b"", 2)])
def test_a_picture_is_drawn(cli, write, tmp_path, data, world_size):
    write(data, "p.fa")
    done = cli("p.fa", "--world-size", world_size, "--plot", "plan.png")
    assert (done.returncode, done.stderr) == (0, "seekset: picture: plan.png\n")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["missing.fa"], 1, "seekset: missing.fa: No such file or directory\n"),
        (
            ["p.fa", "--max-length", "none", "--max-tokens", "10"],
            1,
            "smaller than the longest sequence: row 2 costs 14",
        ),
        (
            ["p.fa", "--max-length", "none", "--max-tokens", "10"],
            1,
            "raise --max-tokens to 14, or set --max-length to 8 or less",
        ),
        (["p.fa", "--max-length", "5", "--overflow", "error"], 1, "the first is row 0 with 8 letters"),
        (
            ["p.fa", "--max-length", "5", "--overflow", "error"],
            1,
            "--overflow truncate cuts them, --overflow split splits",
        ),
        (
            ["p.fa", "--max-length", "none", "--overflow", "split"],
            1,
            "--overflow split needs a --max-length to split at",
        ),
        (["p.fa", "--max-length", "0"], 2, "--max-length"),
        (["p.fa", "-o", "p.fa"], 1, "it is no plan"),
        (["p.fa", "--overlap", "3"], 2, "--overlap needs --overflow split"),
        (["p.fa", "--tokens", "0"], 2, "--tokens"),
        (["p.fa", "--world-size", "0"], 2, "--world-size"),
        (["p.fa", "--max-length", "some"], 2, "--max-length"),
        (["p.fa", "--plot", "x.what"], 2, "--plot x.what"),
        ([], 2, "INDEX"),
    ],
)
def test_what_is_wrong_is_said_in_words(cli, proteins, words, code, message):
    seekset.Fasta(proteins).close()
    done = cli(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert proteins.read_bytes() == PROTEINS
