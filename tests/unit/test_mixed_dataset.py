"""Many sources of shards as one stream: what every dataset keeps, and what is this one's own."""

import gc
import json
import os
import random
import shutil
import threading
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import ChainDataset, DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from conformance import StreamConformance, in_a_list
from hex_shards import ApartShards, hex_examples, write_hex
from mixed_shards import ApartNpz, Lines, Slow, mixed, number, numbers, tagged, write_sources, write_text
from seekset.augment import hex_symmetries
from seekset.datasets import (
    StreamingMixedShardDataset,
    check_disjoint,
    create_datasets,
    discover_and_split_multiple_data,
)
from seekset.errors import MemoryLimitError, MismatchError, SeeksetError, StaleIndexError
from seekset.mixing import MixPlan
from seekset.shards import PickleShards, take_census
from seekset.sources import Source
from seekset.world import World

# Uneven shards, one that is empty and one of a single row: 13 rows, 0 to 6 of `a` and 7 to 12 of `b`.
COUNTS = {"a": [4, 0, 3], "b": [5, 1]}
SIZES = {"one row": 1, "less than a shard": 3, "one shard": 5, "more than all": 100}


@pytest.fixture
def sources(tmp_path):
    return write_sources(tmp_path, COUNTS)


@pytest.fixture
def even_sources(tmp_path):
    """Sources of 30 and 60 rows."""
    return write_sources(tmp_path, {"a": [10] * 3, "b": [20] * 3})


@pytest.fixture
def games(tmp_path):
    """Two directories of pickled Hex shards with 5 and 4 rows, which their only stones tell apart."""
    folders = [tmp_path / "games" / name for name in "ab"]
    for folder, rows, first in zip(folders, ([3, 2], [4]), (0, 5), strict=True):
        folder.mkdir(parents=True)
        for shard, count in enumerate(rows):
            write_hex(folder / f"shuffled_{shard:04}.pkl.gz", positions(first, count))
            first += count  # noqa: PLW2901
    return folders


def positions(first, count):
    """Positions whose numbers are the places of their only stones."""
    examples = hex_examples(count, channels=2)
    for row, example in enumerate(examples):
        example["board"] = np.zeros((2, 13, 13), dtype=np.float32)
        example["board"][0, 0, first + row] = 1
        example["value"] = (first + row) / 16
    return examples


def stone(item):
    return int(item["board"].reshape(2, -1).sum(0).argmax())


def xs(items):
    return [number(item) for item in items]


def flat(batches):
    return list(chain(*map(numbers, batches)))


def loader(data, workers=0, **options):
    options |= {"multiprocessing_context": options.get("multiprocessing_context", "fork")} if workers else {}
    return DataLoader(data, num_workers=workers, **{"batch_size": None, **options})


# --- the contract of all streams --------------------------------------------------------------------------------------

CHECKS = (
    "every_item_comes_once",
    "loaders_deliver_every_item_once",
    "epochs_reach_persistent_workers",
    "streams_resume_at_every_item",
    "a_fresh_process_agrees",
)


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_stream_keeps(sources, check):
    getattr(StreamConformance(partial(mixed, sources, pool_rows=4, seed=3), key=number), check)()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_stateful_loaders_resume_at_every_batch(sources, workers):
    made = partial(mixed, sources, pool_rows=4, seed=3)
    StreamConformance(made, key=number).stateful_loaders_resume_at_every_batch(workers)


RULES = {
    **{f"a pool of {name}": {"pool_rows": rows} for name, rows in SIZES.items()},
    "a low threshold": {"pool_rows": 8, "refill_threshold": 0},
    "two open shards": {"pool_rows": 4, "open_shards": 2},
    "global": {"mixing": "global"},
    "weights": {"weights": {"a": 1, "b": 5}, "pool_rows": 5},
    "no bound of bytes": {"max_bytes": None, "pool_rows": 3, "decoders": 2},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_what_every_stream_keeps_by_other_rules(sources, rules):
    conformance = StreamConformance(partial(mixed, sources, seed=3, **rules), key=number)
    assert conformance.expected() == list(range(13))
    conformance.streams_resume_at_every_item()
    conformance.orders_are_pure_functions_of_seed_and_epoch(shuffled=rules.get("pool_rows") != 1)
    conformance.stateful_loaders_resume_at_every_batch(0)


@pytest.mark.parametrize("rules", [{"mixing": "global"}, {"open_shards": 2, "pool_rows": 3, "weights": [3, 1]}])
def test_every_row_comes_once_by_other_rules(sources, rules):
    StreamConformance(partial(mixed, sources, **rules), key=number).every_item_comes_once()


@pytest.mark.parametrize("workers", [0, 2])
def test_global_mixing_and_batches_resume_in_loaders(sources, workers):
    for rules, key in (({"mixing": "global"}, number), ({"batch_size": 2, "pool_rows": 4}, numbers)):
        conformance = StreamConformance(partial(mixed, sources, **rules), key=key)
        conformance.stateful_loaders_resume_at_every_batch(workers)


@pytest.mark.parametrize("rules", [{}, {"drop_last": True}, {"mixing": "global"}])
def test_streams_of_batches_resume_at_every_batch(sources, rules):
    StreamConformance(
        partial(mixed, sources, batch_size=3, pool_rows=4, **rules), numbers
    ).streams_resume_at_every_item()


@pytest.mark.parametrize("stop", ["first_exhausted", "cycle_until_all_exhausted"])
def test_streams_with_other_ends_resume_at_every_item(sources, stop):
    conformance = StreamConformance(partial(mixed, sources, stop=stop, pool_rows=3, weights=[3, 1]), number)
    conformance.streams_resume_at_every_item()
    conformance.stateful_loaders_resume_at_every_batch(2)


def test_objects_of_fasta_shards_are_kept_as_rows_are(write):
    for name in ("a0", "a1", "b0"):
        write(b"".join(b">%s.%d\nACGT\n" % (name.encode(), row) for row in range(4)), f"{name}.fa")
    folder = write(b">a2.0\nAC\n", "a2.fa").parent
    made = partial(mixed, {"a": f"{folder}/a*.fa", "b": f"{folder}/b*.fa"}, pool_rows=3)
    for rules in ({}, {"mixing": "global"}, {"open_shards": 2}):
        conformance = StreamConformance(partial(made, **rules), key=lambda item: item["id"])
        assert len(set(conformance.expected())) == 13
        conformance.streams_resume_at_every_item()
        conformance.orders_are_pure_functions_of_seed_and_epoch(shuffled=True)


def test_objects_of_a_reader_of_ones_own_are_kept_as_rows_are(write):
    folder = write(b"a b c d", "0.txt").parent
    write(b"", "1.txt")
    write(b"e f g", "2.txt")
    conformance = StreamConformance(partial(mixed, [folder], reader=Lines(), pool_rows=2))
    conformance.every_item_comes_once()
    conformance.loaders_deliver_every_item_once()
    conformance.streams_resume_at_every_item()


@pytest.mark.parametrize("reader", [PickleShards(), ApartShards()])
def test_pickles_come_through_decoders_in_threads_or_processes(games, reader):
    made = partial(mixed, games, reader=reader, pool_rows=3)
    rows = list(map(stone, made(decoders=2)))
    assert sorted(rows) == list(range(9))
    # More workers than shards: rows are split, and no worker is empty.
    assert sorted(map(stone, loader(made(), 2))) == list(range(9))
    assert all(len(made(world=World(worker=worker, workers=4)).planned()[0]) >= 2 for worker in range(4))
    data, resumed = made(decoders=2), made(decoders=2)
    resumed.load_state_dict(begun(data, 4))
    assert list(map(stone, resumed)) == rows[4:]


def test_an_empty_pickle_first_does_not_make_objects_of_the_others(games):
    write_hex(games[0] / "shuffled_0000.pkl.gz", [])
    assert sorted(map(stone, mixed(games))) == [3, 4, 5, 6, 7, 8]


# --- what it gives ----------------------------------------------------------------------------------------------------


def test_items_are_dicts_of_tensors_with_the_fields_of_the_shards(sources, games):
    item = next(iter(mixed(sources)))
    assert (item["x"].dtype, item["y"].dtype, item["y"].shape) == (torch.int64, torch.float32, (2,))
    assert item["y"].tolist() == [number(item) / 4] * 2
    batch = next(iter(mixed(games, batch_size=4)))
    shapes = {name: tuple(column.shape) for name, column in batch.items()}
    assert shapes["board"] == (4, 2, 13, 13)
    assert shapes["policy"] == (4, 169)
    assert shapes["value"] == shapes["player_to_move"] == (4,)


@pytest.mark.parametrize("rules", [{"pool_rows": 3}, {"pool_rows": 3, "reader": ApartNpz()}, {"mixing": "global"}])
def test_complex_numbers_come_as_they_are(tmp_path, rules):
    x = np.arange(6)
    columns = {"wide": x + 1j * x[::-1], "narrow": (x - 1j).astype("c8"), "many": (x + 0.5j * x).reshape(6, 1) * [0, 1]}
    np.savez(tmp_path / "0.npz", x=x, **columns)
    np.savez(tmp_path / "1.npz", x=x[:0], **{name: column[:0] for name, column in columns.items()})
    items = list(mixed([tmp_path], **rules))
    assert sorted(xs(items)) == x.tolist()
    for item in items:
        for name, column in columns.items():
            found = item[name].numpy()
            assert (found.dtype, found.tolist()) == (column.dtype, column[number(item)].tolist())


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_batches_are_the_rows_in_the_same_order(sources, rules):
    singly = xs(mixed(sources, **rules))
    for size in (1, 4, 13, 50):
        batches = list(loader(mixed(sources, batch_size=size, **rules)))
        assert flat(batches) == singly
        assert [len(batch["x"]) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    dropped = mixed(sources, batch_size=4, drop_last=True, **rules)
    assert flat(dropped) == singly[:12]
    assert len(dropped) == 3


@pytest.mark.parametrize("base", [Slow, Lines])
def test_a_batch_that_is_whole_does_not_wait_for_the_next_shard(tmp_path, base):
    class Held(base):
        """The second shard, once counted, is read when it may be."""

        may = None

        def read(self, path):
            if self.may is not None and path.name == "01.txt":
                assert self.may.wait(60), "a batch waited for a shard that it has no rows of"
            return super().read(path)

    reader = Held()
    data = mixed(write_text(tmp_path, {"a": [4, 4]}), reader=reader, pool_rows=4, refill_threshold=2, batch_size=3)
    reader.may = threading.Event()
    batches = iter(data)
    first = next(batches)
    reader.may.set()
    parts = [first, *batches]
    keys = [list(map(int, part["x"] if isinstance(part, dict) else part)) for part in parts]
    assert set(keys[0]) < set(range(4))
    assert sorted(chain(*keys)) == list(range(8))


def test_batches_of_workers_are_the_rows_of_workers(sources):
    rows, batches = mixed(sources, pool_rows=4), mixed(sources, pool_rows=4, batch_size=2)
    for worker in range(2):
        world = World(worker=worker, workers=2)
        one = mixed(sources, pool_rows=4, batch_size=2, world=world)
        assert flat(one) == xs(mixed(sources, pool_rows=4, world=world))
    assert sorted(flat(loader(batches, 2))) == sorted(xs(rows))


@pytest.mark.parametrize("weights,shares", [(None, (1 / 3, 2 / 3)), ([1, 1], (0.5, 0.5)), ([1, 3], (0.25, 0.75))])
@pytest.mark.parametrize("mixing", ["pool", "global"])
def test_every_prefix_has_of_each_source_its_share(even_sources, weights, shares, mixing):
    for worker in range(2):
        world = World(worker=worker, workers=2)
        rows = xs(mixed(even_sources, weights=weights, pool_rows=7, mixing=mixing, world=world))
        of_b = np.cumsum([x >= 30 for x in rows])
        of_a = np.arange(1, len(rows) + 1) - of_b
        for done, a, b in zip(range(1, len(rows) + 1), of_a, of_b, strict=True):
            if a == 15 or b == 30:
                break  # a source is exhausted
            assert abs(a - done * shares[0]) <= 1
            assert abs(b - done * shares[1]) <= 1


@pytest.mark.parametrize("stop", ["all_exhausted", "first_exhausted", "cycle_until_all_exhausted"])
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("batch", [None, 4])
def test_lengths_are_exact(even_sources, stop, workers, batch):
    data = mixed(even_sources, weights=[1, 1], stop=stop, batch_size=batch, pool_rows=9)
    assert len(list(loader(data, workers))) == data.length(max(1, workers))
    if workers < 2:
        assert len(data) == data.length()


def test_streams_end_with_the_first_source_or_when_all_have_ended_once(even_sources):
    rules = {"weights": [1, 1], "pool_rows": 9}
    first = xs(mixed(even_sources, stop="first_exhausted", **rules))
    assert {x for x in first if x < 30} == set(range(30))
    assert len(first) in (59, 60)
    assert len(set(first)) == len(first)
    cycle = xs(mixed(even_sources, stop="cycle_until_all_exhausted", **rules))
    assert {x for x in cycle if x >= 30} == set(range(30, 90))
    assert len(cycle) in (119, 120)


def test_even_shares_drop_or_repeat_a_row(sources):
    def shares(even):
        return [xs(mixed(sources, even=even, world=World(rank, 3))) for rank in range(3)]

    dropped, padded = shares("drop"), shares("pad")
    assert [len(share) for share in dropped] == [4, 4, 4]
    assert len(set(chain(*dropped))) == 12
    assert [len(share) for share in padded] == [5, 5, 5]
    assert set(chain(*padded)) == set(range(13))
    assert [len(mixed(sources, even="pad", world=World(rank, 3))) for rank in range(3)] == [5, 5, 5]
    with pytest.raises(ValueError, match="even must be one of"):
        mixed(sources, even="odd")


@pytest.mark.parametrize("stop", ["first_exhausted", "cycle_until_all_exhausted"])
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("workers", [0, 2])
def test_even_ranks_have_as_many_items_whatever_ends_an_epoch(tmp_path, stop, batch, workers):
    uneven = write_sources(tmp_path, {"many": [10, 11], "few": [3]})
    lengths = []
    for rank in range(2):
        rules = {"weights": [1, 1], "even": "drop", "stop": stop, "batch_size": batch}
        data = mixed(uneven, world=World(rank, 2), **rules)
        items = list(loader(data, workers))
        assert len(items) == data.length(max(1, workers))
        data.ledger.check()
        lengths.append(len(items))
    assert lengths[0] == lengths[1] > 0


@pytest.mark.parametrize("stop", ["first_exhausted", "cycle_until_all_exhausted"])
def test_ranks_that_end_many_rows_apart_are_not_padded(sources, stop):
    with pytest.raises(ValueError, match=f'even="pad" .* but with stop="{stop}" .*; use even="drop"'):
        mixed(sources, stop=stop, even="pad")


def test_weights_may_be_numbers_of_numpy(sources):
    for weights in (np.array([1, 5]), np.array([1, 5], dtype="u1")):
        assert mixed(sources, weights=weights).mix.weights == (1, 5)
    halves = mixed(sources, weights=[0.25, 0.75]).mix.weights
    assert mixed(sources, weights=np.array([0.25, 0.75], dtype="f4")).mix.weights == halves
    for wrong in (np.float64("nan"), np.int64(0), np.complex128(1)):
        with pytest.raises(ValueError, match="weights must be numbers above 0, but one is"):
            mixed(sources, weights=[1, wrong])


def test_a_source_without_rows_may_have_no_weight(sources, tmp_path):
    split = discover_and_split_multiple_data([tmp_path / "a", tmp_path / "b"], ["all", "none"], validation=0)
    assert list(split.weights.values()) == [1, 0]
    assert sorted(xs(mixed(split.train, weights=split.weights))) == list(range(7))


@pytest.mark.parametrize("mixing", ["pool", "global"])
def test_an_epoch_can_have_fewer_rows(even_sources, mixing):
    data = mixed(even_sources, max_rows=9, mixing=mixing)
    rows = xs(data)
    data.ledger.check()
    assert len(rows) == len(data) == 9
    assert sorted(rows) == [0, 1, 2, 30, 31, 32, 33, 34, 35]
    ranks = [xs(mixed(even_sources, max_rows=9, mixing=mixing, world=World(rank, 2))) for rank in range(2)]
    assert sorted(chain(*ranks)) == sorted(rows)


def test_epochs_are_whole_and_a_second_iteration_is_too(sources):
    data = mixed(sources, pool_rows=4)
    for _ in range(2):
        items = iter(data)
        next(items)
        items.close()
        assert sorted(xs(data)) == list(range(13))
    two = zip(data, data, strict=True)
    assert all(number(one) == number(other) for one, other in two)


def test_a_transform_takes_the_place_of_items(sources):
    rows = xs(mixed(sources))
    assert list(mixed(sources, transform=number)) == rows
    assert list(mixed(sources, transform=numbers, batch_size=13)) == [tuple(rows)]


def test_what_plan_says_comes_true(sources):
    data = mixed(sources, pool_rows=4, seed=5)
    plan = data.plan(quality_batch=2)
    assert (plan.rows, plan.length, plan.pool_rows) == ({"a": 7, "b": 6}, 13, 4)
    shards, rows = data.planned()
    firsts = np.array([0, 4, 4, 7, 12])
    assert xs(data) == (firsts[shards] + rows).tolist()
    assert data.report()["peak_bytes"] <= plan.peak_bytes
    assert mixed(sources, pool_rows=4, seed=5).plan().digest == plan.digest
    data.set_epoch(1)
    assert data.plan().digest != plan.digest
    assert plan.quality is not None


def test_no_payload_is_read_for_a_plan(sources):
    mixed(sources)
    for path in sources["a"].glob("*.npz"):
        stat = path.stat()
        path.write_bytes(b"\0" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert mixed(sources).plan().length == 13


# --- states -----------------------------------------------------------------------------------------------------------


def test_states_are_small_and_plain(even_sources):
    data = mixed(even_sources, pool_rows=30)
    items = iter(data)
    list(islice(items, 17))
    state = data.state_dict()
    assert len(json.dumps(state)) < 1000
    assert json.loads(json.dumps(state)) == state
    assert (state["epoch"], state["position"], state["version"]) == (0, 17, 1)


def test_a_seed_that_was_drawn_is_kept_by_states(sources):
    data = mixed(sources, seed=None)
    other = mixed(sources, seed=None)
    assert data.seed != other.seed
    rows = xs(data)
    items = iter(data)
    list(islice(items, 5))
    other.load_state_dict(data.state_dict())
    assert xs(other) == rows[5:]
    assert other.seed == data.seed
    with pytest.raises(MismatchError, match="seed was None"):
        other.load_state_dict({**data.state_dict(), "seed": None})


@pytest.mark.parametrize("seed", [-1, True, 2**63])
def test_a_state_with_a_seed_that_is_none_changes_nothing(sources, seed):
    data = mixed(sources, seed=None)
    before = data.seed
    with pytest.raises(MismatchError, match="seed must be a whole number from 0 on"):
        data.load_state_dict({**begun(mixed(sources, seed=None)), "seed": seed})
    assert (data.seed, sorted(xs(data))) == (before, list(range(13)))


def begun(data, rows=3):
    items = iter(data)
    list(islice(items, rows))
    return data.state_dict()


def test_states_of_other_worlds_and_rules_are_refused(sources):
    state = begun(mixed(sources, pool_rows=4))
    for rules, message in (
        ({"world": World(0, 2)}, "world_size was 1 and is 2 here"),
        ({"world": World(worker=0, workers=2)}, "workers was 1 and is 2 here"),
        ({"pool_rows": 5}, "pool_rows was 4 and is 5 here"),
        ({"refill_threshold": 1}, "threshold was 3 and is 1 here"),
        ({"weights": [1, 2]}, r"weights was None and is \[1, 2\] here"),
        ({"stop": "first_exhausted"}, "stop was 'all_exhausted' and is 'first_exhausted' here"),
        ({"mixing": "global"}, "mixing was 'pool' and is 'global' here"),
        ({"open_shards": 2}, "open_shards was 1 and is 2 here"),
        ({"max_rows": 5}, "max_rows was None and is 5 here"),
        ({"seed": 1}, "seed was 0 and is 1 here"),
        ({"even": "pad"}, "even was 'none' and is 'pad' here"),
    ):
        with pytest.raises(MismatchError, match=f"state mismatch: {message}"):
            mixed(sources, **{"pool_rows": 4, **rules}).load_state_dict(state)


def test_a_state_of_another_rank_is_as_good(sources):
    """Ranks go in step: a checkpoint of the first serves all."""
    ranks = [partial(mixed, sources, pool_rows=4, world=World(rank, 2)) for rank in range(2)]
    data = ranks[1]()
    data.load_state_dict(begun(ranks[0]()))
    assert xs(data) == xs(ranks[1]())[3:]


def test_a_state_of_a_pool_with_other_rows_is_refused_with_what_to_give(tmp_path):
    """How many rows are pooled decides which follows which: as where bytes are reckoned otherwise elsewhere."""
    x = np.random.default_rng(0).integers(0, 2**62, (2000, 100))
    for part in range(4):
        np.savez_compressed(tmp_path / f"{part}.npz", x=x[part * 500 : part * 500 + 500])
    made = partial(mixed, [tmp_path], pool_rows=1000, batch_size=100)
    data = made(max_bytes="4MB")
    held, rest = data.plan(quality_batch=None).pool_rows, [batch["x"][:, 0].tolist() for batch in data][3:]
    state = begun(made(max_bytes="4MB"))
    assert state["pool"] == {"rank": 0, "worker": 0, "rows": held}
    for most, here in (("3.5MB", 400), (None, 1000)):
        refusing = made(max_bytes=most)
        with pytest.raises(
            MismatchError, match=rf"rank 0, worker 0, held {held} rows and holds {here} here.* give max_bytes=\d+"
        ) as error:
            refusing.load_state_dict(state)
        assert refusing.state_dict()["position"] == 0
        resumed = made(max_bytes=int(str(error.value).partition("max_bytes=")[2].partition(",")[0]))
        resumed.load_state_dict(state)
        assert [batch["x"][:, 0].tolist() for batch in resumed] == rest
    # Of no more bytes than it takes, it is the same order.
    made(max_bytes="4.0001MB").load_state_dict(state)


@pytest.mark.parametrize(
    "pool",
    [None, 3, {}, {"rank": 0, "worker": 0}, {"rank": "a", "worker": 0, "rows": 4}, {"rank": 1, "worker": 0, "rows": 4}],
)
def test_a_state_that_says_nonsense_of_its_pool_is_refused(sources, pool):
    data = mixed(sources, pool_rows=4)
    with pytest.raises(MismatchError, match="state mismatch: pool must say how many rows it held"):
        data.load_state_dict({**data.state_dict(), "pool": pool})


def test_a_changed_shard_is_named_and_a_moved_folder_is_none(sources, tmp_path):
    data = mixed(sources, pool_rows=4)
    state, rest = begun(data), xs(data)[3:]
    shutil.move(tmp_path / "a", tmp_path / "elsewhere")
    moved = {**sources, "a": tmp_path / "elsewhere"}
    resumed = mixed(moved, pool_rows=4)
    resumed.load_state_dict(state)
    assert xs(resumed) == rest
    np.savez(tmp_path / "b" / "00.npz", x=np.arange(8, 13), y=np.zeros((5, 2), "f4"))
    with pytest.raises(MismatchError, match=r"b/00\.npz, shard 3 \(from 0\), of source 'b', is not the one"):
        mixed(moved, pool_rows=4).load_state_dict(state)
    fewer = {"a": moved["a"], "b": []}
    with pytest.raises(MismatchError, match="there were 5 shards, and there are 3 here"):
        mixed(fewer, pool_rows=4).load_state_dict(state)


@pytest.mark.parametrize("state", [None, {}, {"version": 1}, {"version": 2}])
def test_what_is_no_state_is_refused(sources, state):
    with pytest.raises(MismatchError, match="state mismatch"):
        mixed(sources).load_state_dict(state)


def test_a_state_is_loaded_twice_over(sources):
    data = mixed(sources, pool_rows=3)
    rows = xs(data)
    for steps in ((2, 3, 5), (1, 1, 9)):
        done, state = 0, None
        for step in steps:
            fresh = mixed(sources, pool_rows=3)
            if state is not None:
                fresh.load_state_dict(state)
            items = iter(fresh)
            assert xs(islice(items, step)) == rows[done : done + step]
            done, state = done + step, fresh.state_dict()


# --- watching it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("rules", [{}, {"mixing": "global"}, {"batch_size": 4}])
def test_the_ledger_proves_an_epoch_complete(sources, workers, rules):
    data = mixed(sources, pool_rows=4, **rules)
    with pytest.raises(SeeksetError, match="0 rows were delivered of 13"):
        data.ledger.check()
    for epoch in range(2):
        data.set_epoch(epoch)
        list(loader(data, workers))
        data.ledger.check()
    if not workers:
        items = iter(data)
        next(items)
        with pytest.raises(SeeksetError, match=r"the epoch is not complete: \d rows were delivered of 13"):
            data.ledger.check()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", ["first_exhausted", "cycle_until_all_exhausted"])
def test_the_ledger_knows_where_workers_end(even_sources, workers, stop):
    data = mixed(even_sources, weights=[1, 1], stop=stop)
    list(loader(data, workers))
    data.ledger.check()


def test_the_ledger_of_a_resumed_epoch_counts_what_came_before(sources):
    data = mixed(sources, pool_rows=4)
    data.load_state_dict(begun(mixed(sources, pool_rows=4), 5))
    list(data)
    data.ledger.check()


def test_the_ledger_does_not_count_a_batch_that_is_left_out(sources):
    data = mixed(sources, batch_size=4, drop_last=True)
    list(data)
    with pytest.raises(SeeksetError, match="12 rows were delivered of 13"):
        data.ledger.check()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_report_counts_rows_by_source(sources, workers):
    data = mixed(sources, pool_rows=4)
    list(loader(data, workers))
    report = data.report()
    assert report["rows"] == report["of"] == {"a": 7, "b": 6}
    assert report["shards"] == {"a": 3, "b": 2}
    assert (report["epoch"], report["pooled"], report["skipped"]) == (0, 0, 0)
    assert report["shards_read"] >= 4
    assert report["peak_bytes"] > 0
    assert report["waited_s"] >= 0


def test_a_report_of_fewer_workers_does_not_count_those_that_are_gone(sources):
    data = mixed(sources)
    for workers in (3, 2):
        list(loader(data, workers))
    assert data.report()["rows"] == {"a": 7, "b": 6}


def test_provenance_names_source_shard_and_row(sources):
    places = {0: ("a", "00.npz", 0), 5: ("a", "02.npz", 1), 11: ("b", "00.npz", 4), 12: ("b", "01.npz", 0)}
    for rules in ({}, {"mixing": "global"}):
        data = mixed(sources, return_provenance=True, **rules)
        found = {number(item): data.provenance(item) for item in data}
        for x, (source, shard, row) in places.items():
            assert found[x] == [(source, sources[source] / shard, row)]
        batched = mixed(sources, return_provenance=True, batch_size=5, **rules)
        assert [one for batch in batched for one in batched.provenance(batch)] == list(chain(*found.values()))
    collated = next(iter(DataLoader(mixed(sources, return_provenance=True), batch_size=13)))
    assert len(data.provenance(collated)) == 13


def test_verbose_logs_what_is_read(sources, caplog):
    with caplog.at_level("INFO", "seekset"):
        list(mixed(sources, pool_rows=4, verbose=True))
    assert "position 13 of 13 in epoch 0" in caplog.text


# --- augmentation -----------------------------------------------------------------------------------------------------


def several(item, generator):
    """As many as its number says, each with a number that was drawn."""
    return [{"x": item["x"], "drawn": int(generator.integers(2**31))} for _ in range(number(item) % 3)]


def drawn(item):
    return number(item), int(item["drawn"])


def test_a_state_within_a_row_is_none_of_batches(sources):
    """A batch begins with a row, and would give the parts again that were delivered."""
    data = mixed(sources, augment=several, pool_rows=4)
    items, refused = iter(data), 0
    whole = list(map(drawn, mixed(sources, augment=several, pool_rows=4)))
    for done, _ in enumerate(items, 1):
        state, batches = data.state_dict(), mixed(sources, augment=several, pool_rows=4, batch_size=3)
        if state["parts"]:
            refused += 1
            with pytest.raises(MismatchError, match="state mismatch: 1 of what augmentation made of a row"):
                batches.load_state_dict(state)
        else:
            batches.load_state_dict(state)
            rest = [zip(batch["x"].tolist(), batch["drawn"].tolist(), strict=True) for batch in batches]
            assert list(chain(*rest)) == whole[done:] or done == len(whole)
    assert refused > 0


def test_what_augmentation_draws_depends_on_seed_epoch_and_row_alone(sources):
    made = partial(mixed, sources, augment=several, pool_rows=4)
    expected = sorted(map(drawn, made()))
    assert [x for x, _ in expected] == [x for x in range(13) for _ in range(x % 3)]
    assert len({draw for _, draw in expected}) == len(expected)
    for workers in (1, 2):
        assert sorted(map(drawn, loader(made(), workers))) == expected
    batches = [zip(batch["x"].tolist(), batch["drawn"].tolist(), strict=True) for batch in made(batch_size=4)]
    assert list(chain(*batches)) == list(map(drawn, made()))
    assert sorted(map(drawn, made(mixing="global"))) == expected
    assert sorted(map(drawn, made(seed=1))) != expected
    other = made()
    other.set_epoch(1)
    assert sorted(map(drawn, other)) != expected


def test_streams_resume_between_what_augmentation_made_of_a_row(sources):
    data = partial(mixed, sources, augment=several, pool_rows=4)
    whole = list(map(drawn, data()))
    for done in range(len(whole)):
        one, fresh = data(), data()
        items = iter(one)
        assert list(map(drawn, islice(items, done))) == whole[:done]
        fresh.load_state_dict(json.loads(json.dumps(one.state_dict())))
        assert list(map(drawn, fresh)) == whole[done:]
        fresh.ledger.check()


def test_augmented_batches_say_where_each_of_their_rows_is_from(sources):
    data = mixed(sources, augment=several, pool_rows=4, batch_size=5, return_provenance=True)
    for batch in data:
        places = data.provenance(batch)
        assert len(places) == len(batch["x"])
        firsts = {("a", "00.npz"): 0, ("a", "02.npz"): 4, ("b", "00.npz"): 7, ("b", "01.npz"): 12}
        assert [firsts[one.source, one.shard.name] + one.row for one in places] == list(numbers(batch))


def pair(item, generator):
    return (item, int(generator.integers(100)))


def test_a_tuple_that_augmentation_gives_is_one_example(write):
    folder = write(b"a b c d", "0.txt").parent
    items = list(mixed([folder], reader=Lines(), augment=pair))
    assert sorted(item for item, _ in items) == ["a", "b", "c", "d"]
    assert list(chain(*mixed([folder], reader=Lines(), augment=pair, batch_size=3))) == items


def test_hex_symmetries_are_drawn_for_each_row(games):
    made = partial(StreamingMixedShardDataset, games, random_seed=3, pool_size=4)
    rows = {tuple(item["board"].flatten().tolist()) for item in made()}
    batched = {tuple(row.flatten().tolist()) for batch in made(batch_size=4) for row in batch["board"]}
    worked = {tuple(item["board"].flatten().tolist()) for item in loader(made(), 2)}
    plain = {tuple(item["board"].flatten().tolist()) for item in made(enable_augmentation=False)}
    assert rows == batched == worked != plain
    assert len(made()) == len(rows) == 9


def test_rows_that_are_no_hex_boards_say_so(sources):
    with pytest.raises(
        MismatchError, match=r"npz: row \d of source '.' \(epoch 0, stream position 0\): a Hex position"
    ):
        next(iter(mixed(sources, augment=hex_symmetries)))


def test_a_position_that_is_none_is_named_where_it_is_delivered(tmp_path):
    value = np.ones(6, "f4")
    value[4] = 7
    np.savez(tmp_path / "a.npz", board=np.zeros((6, 2, 5, 5), "f4"), value=value)
    messages = set()
    for batch in (None, 2, 6):
        data, seen = mixed({"games": tmp_path / "a.npz"}, augment=hex_symmetries, batch_size=batch), 0
        with pytest.raises(MismatchError, match=r"a\.npz: row 4 of source 'games'.*value of a Hex position") as error:  # noqa: PT012
            for item in data:
                seen += item["value"].numel()
        messages.add(str(error.value).replace(" in row 0", ""))
        position = int(str(error.value).partition("stream position ")[2].partition(")")[0])
        assert seen == position // (batch or 1) * (batch or 1)
    assert len(messages) == 1


# --- what it leaves alone ---------------------------------------------------------------------------------------------


def test_no_global_generator_is_touched(games):
    def states():
        return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002

    before = states()
    list(StreamingMixedShardDataset(games, pool_size=4, batch_size=2))
    assert states() == before


def children():
    return {path.parent.name for path in Path("/proc").glob("[0-9]*/stat") if parent_of(path) == os.getpid()}


def parent_of(stat):
    try:
        return int(stat.read_text().rpartition(") ")[2].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize("how", ["close", "collect", "error", "end"])
def test_an_iterator_leaves_nothing_behind(games, how):
    reader = ApartShards()
    mixed(games, reader=reader)
    gc.collect()  # what failed in tests before may still hold an iterator
    threads, processes, files = set(threading.enumerate()), children(), len(list(Path("/proc/self/fd").iterdir()))
    items = iter(mixed(games, reader=reader, pool_rows=2, decoders=2))
    next(items)
    assert set(threading.enumerate()) != threads
    assert children() != processes
    if how == "close":
        items.close()
    elif how == "error":
        with pytest.raises(KeyboardInterrupt):
            items.throw(KeyboardInterrupt())
    elif how == "end":
        list(items)
    else:
        del items
        gc.collect()
    assert set(threading.enumerate()) == threads
    assert children() == processes
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_a_fork_ends_though_a_thread_of_its_parent_was_at_a_shard(tmp_path, run):
    """A loader's threads hold its lock now and then; a fork has none of them, and the lock as it was."""
    np.savez(tmp_path / "0.npz", x=np.arange(10))
    printed = run("""
        import os, signal, sys, threading, warnings
        from seekset.mixing import MixPlan
        from seekset.shards import take_census
        from seekset.shards.loader import ShardLoader
        from seekset.sources import Source
        from seekset.world import World

        warnings.simplefilter("ignore")  # newer Pythons warn of forks among threads, which is what is tried here
        shards, _ = take_census(["0.npz"], progress=False)
        plan = MixPlan((Source("a", tuple(shards)),))
        loader = ShardLoader(plan, 2)
        held, over = threading.Event(), threading.Event()

        def hold():
            with loader._shared.changed:
                held.set()
                over.wait()

        def child(end):
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)  # ends a child that hangs
                end()
                sys.exit(7)  # with all that is to be done at the exit of a process
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        codes = [child(lambda: None), child(loader.close)]
        over.set()
        holder.join()
        [[stretch]] = plan.stretches(World())
        loader.ask(0, stretch)
        print(codes, len(loader.wait(0).packed))
        loader.close()
    """)
    assert printed == "[7, 7] 10\n"


def test_an_iterator_that_was_never_asked_starts_nothing(games):
    threads = set(threading.enumerate())
    items = iter(mixed(games))
    assert set(threading.enumerate()) == threads
    del items


def by_all_rules(sources):
    """A dataset for each of the rules, with rows that say which it is of; and all of them, one after another."""
    datasets = [mixed(sources, seed=3, transform=partial(tagged, name), **rules) for name, rules in RULES.items()]
    return datasets, ChainDataset(datasets)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_may_be_started_in_any_way(sources, method):
    """One start of two workers for all rules: starting takes seconds, and the rules nothing."""
    datasets, whole = by_all_rules(sources)
    expected = list(loader(whole, 2, multiprocessing_context="fork"))
    assert list(loader(whole, 2, multiprocessing_context=method)) == expected
    for data in datasets:
        data.ledger.check()


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_workers_deliver_every_row_once_by_all_rules(sources, workers):
    datasets, whole = by_all_rules(sources)
    assert sorted(map(tuple, loader(whole, workers))) == sorted((name, row) for name in RULES for row in range(13))
    for data in datasets:
        data.ledger.check()


def test_stateful_loaders_bring_a_seed_that_was_drawn(sources):
    def stateful():
        data = mixed(sources, seed=None, pool_rows=4)
        return StatefulDataLoader(data, 3, num_workers=2, collate_fn=in_a_list, multiprocessing_context="fork")

    first = stateful()
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    rest = [xs(batch) for batch in batches]
    resumed = stateful()
    resumed.load_state_dict(state)
    assert [xs(batch) for batch in resumed] == rest


# --- directories, and parts of them -----------------------------------------------------------------------------------


def test_ranges_choose_shards_of_directories(games):
    def stones(ranges, **options):
        return sorted(map(stone, StreamingMixedShardDataset(games, ranges, enable_augmentation=False, **options)))

    assert stones(None) == stones(["all", "all"]) == list(range(9))
    assert stones(["1", "none"]) == [3, 4]
    assert stones(["0-1", "0"]) == list(range(9))
    assert len(stones(["all", "all"], max_examples_unaugmented=4)) == 4


def test_training_and_validation_share_no_shard(tmp_path):
    folders = [str(path) for path in write_sources(tmp_path, {"a": [2, 3, 4, 5, 6], "b": [7, 8]}).values()]
    split = discover_and_split_multiple_data(folders, ["all", "0-1"])
    assert [[path.name for path in paths] for paths in split.train.values()] == [
        ["00.npz", "01.npz", "02.npz", "03.npz"],
        ["00.npz"],
    ]
    assert [[path.name for path in paths] for paths in split.validation.values()] == [["04.npz"], ["01.npz"]]
    assert list(split.weights.values()) == [5 / 7, 2 / 7]
    train, held_out = create_datasets(folders, random_seed=1, enable_augmentation=False)
    assert not set(xs(train)) & set(xs(held_out))
    assert set(xs(train)) | set(xs(held_out)) == set(range(35))
    check_disjoint(train, held_out)
    with pytest.raises(MismatchError, match=r"04\.npz \(source .*a'\) is in both datasets"):
        check_disjoint(mixed(folders), held_out)
    with pytest.raises(ValueError, match="validation must be a share"):
        discover_and_split_multiple_data(folders, validation=1)


def test_a_copy_of_a_shard_is_found(sources, tmp_path):
    (tmp_path / "copies").mkdir()
    shutil.copy(tmp_path / "b" / "00.npz", tmp_path / "copies" / "renamed.npz")
    with pytest.raises(MismatchError, match=r"renamed\.npz .* has the size and both ends of, .*b/00\.npz"):
        check_disjoint(mixed(sources), mixed([tmp_path / "copies"]))


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_a_budget_that_cannot_hold_a_shard_names_it(sources):
    with pytest.raises(MismatchError, match=r"a/0\d\.npz|b/00\.npz: a budget of 1000 bytes .* can't hold"):
        mixed(sources, max_bytes=1000)


def test_bytes_bound_the_pool_where_rows_do_not(tmp_path):
    x = np.random.default_rng(0).integers(0, 2**62, (2000, 100))
    for part in range(4):
        np.savez_compressed(tmp_path / f"{part}.npz", x=x[part * 500 : part * 500 + 500])
    data = mixed([tmp_path], max_bytes="4MB", pool_rows=10**6)
    assert data.plan(quality_batch=None).pool_rows < 2000
    assert sum(len(batch["x"]) for batch in mixed([tmp_path], max_bytes="4MB", batch_size=64)) == 2000
    for _ in data:
        assert data.report()["peak_bytes"] <= 4_000_000
    data.ledger.check()


@pytest.mark.parametrize("open_shards", [1, 5, 10])
def test_many_open_shards_are_read_within_the_bytes(tmp_path, open_shards):
    """The first row of all needs every one of them, but they are not all on their way at once."""
    sources = {name: tmp_path / name for name in ("some", "others")}
    for name, folder in sources.items():
        folder.mkdir()
        for shard in range(20):
            write_hex(folder / f"{shard:02}.pkl.gz", hex_examples(40, seed=20 * (name == "some") + shard))
    made = partial(mixed, sources, open_shards=open_shards, batch_size=100)
    most = made(pool_rows=1600, max_bytes=None).plan(quality_batch=None).peak_bytes
    data = made(pool_rows=1600, max_bytes=most)
    for _ in data:
        assert data.report()["peak_bytes"] <= most
    data.ledger.check()


@pytest.mark.parametrize("name", ["0.npz", "0.pkl"])
def test_two_million_positions_of_hex_stay_under_a_gigabyte(tmp_path, name):
    """As `StreamingMixedShardDataset` has it: counted from what the rows of one shard take, without two million."""
    examples = hex_examples(200, without_policy=[7])
    write_hex(tmp_path / "0.pkl", examples)
    columns = PickleShards().read(tmp_path / "0.pkl").columns
    np.savez(tmp_path / "0.npz", **columns)
    [shard], _ = take_census([tmp_path / name])
    plan = MixPlan((Source("games", (shard,) * 15_000),), pool_rows=2_000_000, threshold=0, max_bytes=5 * 10**9)
    size = plan.sized(World())
    assert size.pool_rows == 2_000_000
    assert size.peak < 10**9


def test_a_process_with_more_memory_than_allowed_stops_and_says_where_it_is(sources):
    data = mixed(sources, max_process_bytes="1MB")
    with pytest.raises(
        MemoryLimitError, match=r"anonymous memory, and 1000000 are allowed: the pool has .* position 0 of 13"
    ):
        next(iter(data))


def test_a_pool_that_is_full_leaves_room_for_its_process(tmp_path, run):
    """More rows than memory is allowed for: the pool is as full as it may be, and the epoch comes to its end."""
    rng = np.random.default_rng(0)
    for shard in range(40):
        np.savez(tmp_path / f"{shard:02}.npz", x=rng.random((2000, 2048), dtype="f4"))
    found = run("""
        from seekset.datasets import StreamingMixedShardDataset

        options = {"enable_augmentation": False, "random_seed": 0, "batch_size": 500}
        data = StreamingMixedShardDataset(["."], max_memory_gb=0.85, **options)
        assert data.mix.max_bytes == 233_333_333 and data.plan(quality_batch=None).pool_rows < 80_000
        print(sum(len(batch["x"]) for batch in data))
        data.ledger.check()
    """)
    assert int(found) == 80_000


def test_what_a_pool_may_have_is_a_fixed_part_of_the_memory(sources, tmp_path):
    """The order of rows follows from it, so that it must not follow from what a process has at the moment."""
    made = partial(StreamingMixedShardDataset, [tmp_path / "a"], enable_augmentation=False)
    assert (made().mix.max_bytes, made(max_memory_gb=None).mix.max_bytes) == (3 * 10**9, None)
    assert made(max_memory_gb=1, max_bytes="10MB").mix.max_bytes == 10**7


def test_memory_stays_the_same_over_many_epochs(tmp_path, run):
    """What a process has beyond mapped files, after each of 30 epochs, of which each fills and empties a pool."""
    rng = np.random.default_rng(0)
    for shard in range(8):
        np.savez(tmp_path / f"{shard}.npz", x=rng.random((500, 200)).astype("f4"))
    found = run("""
        from seekset.datasets import MixedShardDataset
        from seekset.datasets.delivery import anonymous_memory

        data, used = MixedShardDataset(["."], batch_size=50, pool_rows=1500, decoders=2), []
        for epoch in range(30):
            data.set_epoch(epoch)
            assert sum(len(batch["x"]) for batch in data) == 4000
            data.ledger.check()
            used.append(anonymous_memory())
        print(*used)
    """)
    used = list(map(int, found.split()))
    # An epoch has 3.2 MB of rows, so that even a tenth that stayed each time would show; allocators take steps of 2.
    assert len(used) == 30
    assert np.median(used[20:]) - np.median(used[10:20]) < 3_000_000


def test_a_shard_that_was_replaced_since_it_was_counted_is_found(sources):
    data = mixed(sources, pool_rows=1)
    np.savez(sources["b"] / "01.npz", x=np.arange(4), y=np.zeros((4, 2), "f4"))
    with pytest.raises(StaleIndexError, match=r"01\.npz: row 0 of source 'b' .*it has changed since"):
        list(data)
