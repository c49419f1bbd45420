"""Ranks of a real process group: that they found the same shards is seen before the first row."""

import json
import os
import subprocess
import sys
from itertools import count

import pytest

from mixed_shards import write_text
from seekset.datasets.ranks import compare
from seekset.errors import MismatchError

RANK = """
import json, os, sys
import torch.distributed as dist
from torch.utils.data import DataLoader
from mixed_shards import SlowRows, number
from seekset.datasets import MixedShardDataset
from seekset.errors import MismatchError, SeeksetError
from seekset.world import World


class Fails(SlowRows):
    # One shard can't be counted by some ranks.
    def count(self, path):
        if path.name == sys.argv[1] and os.environ["RANK"] in sys.argv[2]:
            raise SeeksetError(f"{path}: not at the moment")
        return super().count(path)


rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[4]}", rank=rank, world_size=2)
rules = json.loads(sys.argv[3])
seed = rules.pop("seed", 0)
rules["seed"] = seed[rank] if isinstance(seed, list) else seed
world = World(rank, 2) if rules.pop("given", False) else None
workers, checks = rules.pop("workers", 0), rules.pop("checks", False)
data = MixedShardDataset(["texts"], reader=Fails(0), on_error="skip", world=world, **rules)
said = {"left_out": len(data.skipped()["shards"])}
try:
    if checks:
        data.check_ranks()
    said["rows"] = [number(item) for item in DataLoader(data, batch_size=None, num_workers=workers)]
except MismatchError as error:
    said["error"] = str(error)
    try:
        next(iter(data))
    except MismatchError as again:
        said["again"] = str(again) == said["error"]
print(json.dumps(said))
dist.destroy_process_group()
"""


@pytest.fixture
def ranks(tmp_path):
    """`ranks(...)` is what two ranks say; those that are named can't count a shard."""

    groups = (tmp_path / f"group {number}" for number in count())

    def ranks(shard="", failing="", **rules):
        group = next(groups)
        write_text(tmp_path, {"texts": [4, 3, 2]})
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GLOO_SOCKET_IFNAME": "lo"}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, shard, failing, json.dumps(rules), group],
                cwd=tmp_path,
                env={**environment, "RANK": str(number), "WORLD_SIZE": "2"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2)
        ]
        try:
            ended = [process.communicate(timeout=200) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        assert [process.returncode for process in processes] == [0, 0], ended
        return [json.loads(printed.splitlines()[-1]) for printed, _ in ended]

    return ranks


@pytest.mark.parametrize("rules", [{}, {"workers": 2}, {"workers": 2, "checks": True}, {"given": True}])
def test_ranks_that_found_the_same_have_every_row_once(ranks, rules):
    found = ranks(pool_rows=2, **rules)
    assert sorted(row for one in found for row in one["rows"]) == list(range(9))


@pytest.mark.parametrize("rules", [{}, {"checks": True, "workers": 2}, {"checks": True, "given": True}])
def test_ranks_of_which_one_left_a_shard_out_are_all_told_which(ranks, rules):
    first, second = ranks("01.txt", "1", **rules)
    assert (first["left_out"], second["left_out"]) == (0, 1)
    assert first["error"] == second["error"]
    assert "rank 0 has 9 rows of 3 shards (00.txt and 2 more, " in first["error"]
    assert "; rank 1 has 6 rows of 2 shards (00.txt and 1 more, " in first["error"]
    assert first["error"].startswith("ranks mismatch: ")
    # What was refused is not begun: whoever asks again is told again.
    assert "rows" not in first
    if "given" not in rules:
        assert first["again"]
        assert second["again"]


def test_ranks_with_seeds_of_their_own_have_parts_of_one_shuffle_only_where_there_is_none(ranks):
    assert sorted(row for one in ranks(seed=[1, 2]) for row in one["rows"]) == list(range(9))
    first, second = ranks(seed=[1, 2], mixing="global")
    assert first["error"] == second["error"]
    assert "rank 1 has 9 rows of 3 shards (" in first["error"]


def test_ranks_that_left_out_the_same_shard_agree(ranks):
    first, second = ranks("01.txt", "01")
    assert (first["left_out"], second["left_out"]) == (1, 1)
    assert sorted(first["rows"] + second["rows"]) == [0, 1, 2, 3, 7, 8]


def test_many_ranks_are_told_in_short():
    compare(["the same"] * 3, "begin again")
    with pytest.raises(MismatchError) as error:
        compare(["4 rows"] * 20 + ["3 rows"], "begin again")
    assert str(error.value) == (
        "ranks mismatch: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more have 4 rows; rank 20 has 3 rows; begin again"
    )
