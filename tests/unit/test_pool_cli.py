"""`seekset pool inspect`, run as people run it: in a process of its own."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from seekset.cli.pool import _show
from seekset.datasets import StreamingMixedShardDataset
from seekset.inspection import inspect
from seekset.mixing import MixPlan
from seekset.report.of_pool import draw_pool, pool_figures
from seekset.shards import take_census
from seekset.sources import Source
from seekset.world import World


@pytest.fixture
def cli(tmp_path):
    """`cli("games/a", ...)` runs `seekset pool inspect` in tmp_path and gives what came out."""

    def run(*words):
        command = [sys.executable, "-m", "seekset", "pool", "inspect", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture
def games(tmp_path, monkeypatch):
    """Directories games/a with 4 shards and games/b with 6, of 10 rows each."""
    monkeypatch.chdir(tmp_path)
    for name, count in (("a", 4), ("b", 6)):
        (tmp_path / "games" / name).mkdir(parents=True)
        for k in range(count):
            np.savez(tmp_path / "games" / name / f"{k}.npz", x=np.arange(20.0).reshape(10, 2) + k)
    return "games/a", "games/b"


def tables(text):
    return [[line.split("\t") for line in part.splitlines()] for part in text.split("\n\n")]


def test_a_pool_is_told_by_source_as_a_whole_and_by_decile(cli, games):
    done = cli(*games, "--pool-rows", 20, "--batch", 10)
    assert (done.returncode, done.stderr) == (0, "")
    sources, facts, quality = tables(done.stdout)
    assert sources == [
        ["source", "shards", "rows", "weight"],
        ["games/a", "4", "40", "40.000 %"],
        ["games/b", "6", "60", "60.000 %"],
    ]
    assert facts[0] == ["rows", "pool rows", "peak bytes", "order digest"]
    assert facts[1][:2] == ["100", "20"]
    assert [row[0] for row in quality] == [
        "part of the epoch",
        *(f"{k}-{k + 10} %" for k in range(0, 100, 10)),
        "all",
        "ideal",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["games/a", "games/b", "--ranges", "all", "2-3,5", "--plot", "mix.png"],
        ["games/a", "--ranges", "all", "--ranges", "2-3,5", "--plot", "mix.png", "--", "games/b"],
        ["--ranges=all", "--ranges=2-3,5", "games/a", "games/b", "--plot", "mix.png"],
    ],
)
def test_ranges_are_one_for_each_directory_at_once_or_one_by_one(cli, games, tmp_path, words):
    done = cli(*words)
    assert (done.returncode, done.stderr) == (0, "seekset: picture: mix.png\n")
    assert [row[2] for row in tables(done.stdout)[0]] == ["rows", "40", "30"]
    assert (tmp_path / "mix.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, []),
        ({"pool_size": 30, "refill_threshold": 5}, ["--pool-rows", 30, "--threshold", 5]),
        ({"open_shards": 3, "max_memory_gb": None}, ["--open-shards", 3, "--max-bytes", "none"]),
        ({"max_bytes": "265kB"}, ["--max-bytes", "265kB"]),
        ({"random_seed": 7, "mixing": "global"}, ["--seed", 7, "--mixing", "global"]),
        ({"weights": [1, 3]}, ["--weights", 1, 3]),
        ({"weights": [0.5, 0.25]}, ["--weights", 0.5, "--weights", 0.25]),
    ],
)
def test_what_is_told_is_what_a_dataset_plans(cli, games, options, words):
    options = {"random_seed": 0, "enable_augmentation": False, **options}
    plan = StreamingMixedShardDataset(games, ["0-2", "all"], **options).plan(quality_batch=20)
    done = cli(*games, "--ranges", "0-2", "all", "--batch", 20, *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["order_digest"] == plan.digest
    assert {one["source"]: one["rows"] for one in facts["sources"]} == plan.rows == {"games/a": 30, "games/b": 60}
    assert (facts["rows"], facts["peak_bytes"]) == (plan.length, plan.peak_bytes)
    assert facts["pool_rows"] == (0 if options.get("mixing") else plan.pool_rows)
    assert facts["quality"] == plan.quality.facts()


def test_weights_are_parts_of_all_turns(cli, games):
    facts = json.loads(cli(*games, "--weights", 1, 3, "--json").stdout)
    assert [one["weight"] for one in facts["sources"]] == [0.25, 0.75]
    facts = json.loads(cli(*games, "--ranges", "none", "all", "--weights", 1, 3, "--json").stdout)
    assert [one["weight"] for one in facts["sources"]] == [0, 1]


def test_directories_without_a_row_have_no_quality(cli, games):
    done = cli(*games, "--ranges", "none", "none")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(tables(done.stdout)) == 2
    assert json.loads(cli("games/a", "--ranges", "none", "--json").stdout)["quality"] is None


def test_a_sample_of_very_many_rows_is_called_one(games, capsys):
    """As of more than ten million rows, which would take a test its time."""
    found = take_census([f"{folder}/{k}.npz" for folder in games for k in range(4)], progress=False)[0]
    plan = MixPlan((Source("a", tuple(found)),))
    looked = inspect(plan, seed=0, batch=2)
    sample = replace(looked, quality=plan.quality(World(), 0, 0, 2, most=20))
    remark = "mixing was measured on 20 of 80 rows, in batches spread evenly over the epoch"
    for inspection, said in ((looked, ""), (sample, f"seekset: {remark}\n")):
        _show(inspection, {"rows": 80})
        assert capsys.readouterr().err == said
        page = "".join(map(str, draw_pool(pool_figures(plan, inspection, "a pool", seed=0))))
        assert (f"{remark.capitalize()}." in page) == bool(said)


def test_torch_is_not_needed(games, tmp_path):
    program = "import sys; sys.modules['torch'] = None; sys.argv[0] = 'seekset'; from seekset.cli import main; main()"
    command = [sys.executable, "-c", program, "pool", "inspect", *games]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300, check=False).returncode == 0


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["games/c"], 1, "seekset: games/c: there is no such directory\n"),
        (["games"], 1, "seekset: games: there is no shard in it; give the range"),
        (["games/a", "games/a"], 2, "games/a is given twice"),
        (["games/a", "games/b", "--ranges", "all"], 2, "there are 1 shard ranges for 2 directories"),
        (["games/a", "--ranges", "2-4"], 2, "games/a: range '2-4' is outside of the shards: there are 4, 0 to 3"),
        (["games/a", "--ranges", "some"], 2, "games/a: range 'some': expected"),
        (["games/a", "--ranges"], 2, "--ranges"),
        (["--ranges", "all", "games/a"], 2, "DIRECTORIES"),
        (["games/a", "--weights", "1", "2"], 2, "there are 2 weights for 1 directories"),
        (["games/a", "--weights", "0"], 2, "weights must be numbers above 0"),
        (["games/a", "--pool-rows", "0"], 2, "--pool-rows"),
        (["games/a", "--pool-rows", "5", "--threshold", "6"], 2, "from 0 to the 5 rows of the pool, but is 6"),
        (["games/a", "--max-bytes", "much"], 2, "--max-bytes"),
        (["games/a", "--max-bytes", "0"], 2, 'at least 1, or "none" for no limit'),
        (["games/a", "--max-bytes", "10"], 1, "seekset: games/a/1.npz: a budget of 10 bytes"),
        (["games/a", "--max-bytes", "10"], 1, "raise --max-bytes, or cut shards smaller\n"),
        (["games/a", "--plot", "x.what"], 2, "--plot x.what"),
        (["games/a", "--ranges", "none", "--plot", "x.png"], 2, "no rows"),
        ([], 2, "DIRECTORIES"),
    ],
)
def test_what_is_wrong_is_said_in_words(cli, games, words, code, message):
    done = cli(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_shards_that_do_not_fit_are_named(cli, games, tmp_path):
    np.savez(tmp_path / "games/b/3.npz", y=np.zeros(3))
    done = cli(*games)
    assert done.returncode == 1
    assert "games/b/3.npz (source 'games/b'): its rows have y f8[], but those of games/a/0.npz have" in done.stderr
    np.savez_compressed(tmp_path / "games/b/3.npz", x=np.zeros((3, 2)))
    done = cli(*games, "--mixing", "global")
    assert done.returncode == 1
    assert "which --mixing global needs; use --mixing pool" in done.stderr
    (tmp_path / "games/b/3.npz").write_bytes(b"no zip")
    done = cli(*games)
    assert done.returncode == 1
    assert done.stderr.startswith("seekset: games/b/3.npz: expected a zip archive")


# --- readers ----------------------------------------------------------------------------------------------------------

LINES = """
import numpy as np


class Lines:
    suffixes = (".txt",)

    def count(self, path):
        return len(path.read_text().splitlines())

    def read(self, path):
        return {"x": np.loadtxt(path, ndmin=2)}


made = Lines()
"""


@pytest.mark.parametrize("reader", ["own:Lines", "own:made"])
def test_each_directory_may_have_a_reader_of_its_own(cli, games, tmp_path, reader):
    (tmp_path / "own.py").write_text(LINES)
    (tmp_path / "games" / "c").mkdir()
    (tmp_path / "games" / "c" / "0.txt").write_text("1 2\n3 4\n5 6\n")
    done = cli("games/a", "games/c/", "--readers", "auto", reader, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert {one["source"]: one["rows"] for one in json.loads(done.stdout)["sources"]} == {"games/a": 40, "games/c": 3}


def test_one_reader_may_be_for_all_directories(cli, games):
    auto, npz = (cli(*games, "--json", *words) for words in ([], ["--readers", "npz"]))
    assert npz.returncode == 0
    assert npz.stdout == auto.stdout
    assert "there is no shard in it" in cli(*games, "--readers", "pickle").stderr


@pytest.mark.parametrize(
    "words, message",
    [
        (["what"], "'what' is none of auto, pickle, npz, tfrecord, fasta, parquet, and no MODULE:NAME"),
        (["no_such_module:Reader"], "no_such_module:Reader can't be had: ModuleNotFoundError"),
        (["json:Reader"], "json:Reader can't be had: AttributeError"),
        (["json:dumps"], "json:dumps is no reader, which has the methods count and read"),
        (["npz", "npz", "npz"], "there are 3 readers for 2 directories: give one for each, or one for all"),
    ],
)
def test_readers_that_are_none_are_refused(cli, games, words, message):
    done = cli(*games, "--readers", *words)
    assert done.returncode == 2
    assert message in done.stderr
