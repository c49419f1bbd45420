"""Pools over anything: every row once, the same again however slow readers are, resumable anywhere, within bytes."""

import tracemalloc
from dataclasses import replace
from itertools import chain, islice, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixed_shards import Slow, SlowLines, SlowRows, mixed, write_sources, write_text
from seekset import _core
from seekset.inspection import schedule
from seekset.ledger import Ledger
from seekset.mixing import MixPlan
from seekset.quality import measure
from seekset.shards import Census, Field, Shard
from seekset.sources import Source
from seekset.world import World

# Shards of a source: uneven, empty and of one row among them.
shards = st.lists(st.sampled_from([0, 1, 2, 3, 7]), min_size=1, max_size=4)
some_sources = st.lists(shards, min_size=1, max_size=3)
# One row, less than a shard, one shard, more than all.
pool_sizes = st.sampled_from([1, 2, 7, 200])
rules = st.fixed_dictionaries(
    {"pool_rows": pool_sizes},
    optional={
        "open_shards": st.integers(1, 3),
        "decoders": st.integers(1, 3),
        "refill_threshold": st.integers(0, 1),
        "max_bytes": st.sampled_from([None, "1MB"]),
        "weights": st.just([3, 1, 2]),
    },
)
# Rows are pooled, whoever reads them; or drawn from all shards, where they can be read singly.
pools = st.tuples(rules, st.sampled_from([Slow(), SlowLines(), SlowRows()]))
ways = pools | st.tuples(
    st.fixed_dictionaries({"mixing": st.just("global")}, optional={"weights": st.just([3, 1, 2])}), st.just(SlowRows())
)
stops = st.sampled_from(["all_exhausted", "first_exhausted", "cycle_until_all_exhausted"])
WORLDS = [
    [World(rank, ranks, worker, workers) for rank in range(ranks) for worker in range(workers)]
    for ranks, workers in product((1, 2, 3), (1, 2, 3))
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """`folders()` is a new folder: hypothesis calls one test many times."""
    return lambda: tmp_path_factory.mktemp("pool")


def written(folder, counts):
    return write_text(folder, {f"source {number}": rows for number, rows in enumerate(counts)})


def made(sources, way, **options):
    """A dataset by one of the ways, with weights for as many sources as there are."""
    rules, reader = way
    weights = {"weights": rules["weights"][: len(sources)]} if "weights" in rules else {}
    return mixed(sources, reader=reader, **{**rules, **weights, **options})


def key(item):
    return int(item["x"] if isinstance(item, dict) else item)


def keys(items):
    return [key(item) for item in items]


@settings(max_examples=25)
@given(some_sources, ways, st.sampled_from(WORLDS), st.integers(0, 2**63 - 1))
def test_every_row_comes_once_and_at_the_same_place_again(folders, counts, way, worlds, seed):
    sources, rows = written(folders(), counts), sum(map(sum, counts))
    streams = [made(sources, way, seed=seed, world=world) for world in worlds]
    delivered = [keys(stream) for stream in streams]
    assert sorted(chain(*delivered)) == list(range(rows))
    assert max(map(len, delivered)) - min(map(len, delivered)) <= 2
    for stream, before in zip(streams, delivered, strict=True):
        assert keys(stream) == before
        shards, places = stream.planned()
        assert (stream.mix.firsts[shards] + places).tolist() == before


def planned_shards(counts, *, singly):
    """Sources of shards with so many rows, of which only the numbers are known."""

    def shard(path, rows):
        return Shard(Path(path), 0, 0, "", Census(rows, (Field("x", "<i8", ()),), 9, 9 * rows, 0 if singly else 100))

    numbered = [(f"{source}", enumerate(rows)) for source, rows in enumerate(counts)]
    return tuple(
        Source(name, tuple(shard(f"{name}/{number}.npz", rows) for number, rows in shards)) for name, shards in numbered
    )


@settings(max_examples=60)
@given(some_sources, rules, st.sampled_from(["pool", "global"]), stops, st.integers(0, 2**63 - 1))
def test_every_world_gets_every_row_once_by_plan(counts, rules, mixing, stop, seed):
    """For all numbers of ranks and workers: which row goes where is arithmetic, and needs none of them to run."""
    given = {name: rules[name] for name in ("pool_rows", "open_shards") if name in rules}
    given["weights"] = tuple(rules["weights"][: len(counts)]) if "weights" in rules else None
    plan = MixPlan(planned_shards(counts, singly=mixing == "global"), threshold=0, mixing=mixing, stop=stop, **given)
    for worlds in WORLDS:
        delivered = []
        for world in worlds:
            shards, rows = plan.planned(world, seed, 0)
            delivered.append((plan.firsts[shards] + rows).tolist())
            assert len(rows) == plan.length(world)
        if stop == "all_exhausted":
            assert sorted(chain(*delivered)) == list(range(sum(map(sum, counts))))
        elif stop == "first_exhausted":
            assert len(set(chain(*delivered))) == sum(map(len, delivered))
        else:
            assert set(chain(*delivered)) == set(range(sum(map(sum, counts))))


@given(some_sources, st.sampled_from(["drop", "pad"]), st.integers(1, 3), st.integers(1, 4), pool_sizes)
def test_even_ranks_have_as_many_rows_of_which_none_is_twice_theirs(counts, even, workers, ranks, pool_rows):
    plan = MixPlan(planned_shards(counts, singly=False), even=even, pool_rows=pool_rows, threshold=0)
    of_ranks = []
    for rank in range(ranks):
        parts = (plan.planned(World(rank, ranks, worker, workers), 0, 0) for worker in range(workers))
        of_ranks.append(list(chain(*((plan.firsts[shards] + rows).tolist() for shards, rows in parts))))
        assert len(set(of_ranks[-1])) == len(of_ranks[-1])
    rows = sum(map(sum, counts))
    assert {len(one) for one in of_ranks} == {rows // ranks if even == "drop" else -(-rows // ranks)}
    whole = sorted(chain(*of_ranks))
    assert len(set(whole)) == (len(whole) if even == "drop" else rows)


@given(
    some_sources,
    st.sampled_from(["first_exhausted", "cycle_until_all_exhausted"]),
    st.sampled_from(["pool", "global"]),
    st.sampled_from([None, (3, 1, 2)]),
    st.integers(1, 3),
    st.integers(1, 4),
    pool_sizes,
)
def test_even_ranks_end_together_where_sources_do_not(counts, stop, mixing, weights, workers, ranks, pool_rows):
    weights = weights and weights[: len(counts)]
    given = {"stop": stop, "mixing": mixing, "weights": weights, "pool_rows": pool_rows, "threshold": 0}
    plan = MixPlan(planned_shards(counts, singly=mixing == "global"), even="drop", **given)
    delivered = []
    for worker in range(workers):
        readers = [World(rank, ranks, worker, workers) for rank in range(ranks)]
        # Each alone would end with its own sources: nobody goes on beyond the first to do so, and none ends before.
        alone = [
            _core.count_turns([end - start for start, end in plan.shares(reader)], weights, stop) for reader in readers
        ]
        for reader in readers:
            shards, rows = plan.planned(reader, 7, 0)
            delivered.append((plan.firsts[shards] + rows).tolist())
            assert len(rows) == plan.length(reader) == min(alone)
            assert plan.ledger(reader, 7, 0) == Ledger.of(delivered[-1])
            assert (plan.quality(reader, 7, 0, 2) is None) == (len(rows) == 0)
    if stop == "first_exhausted":
        assert len(set(chain(*delivered))) == sum(map(len, delivered))


@settings(max_examples=15)
@given(
    some_sources,
    ways,
    stops,
    st.sampled_from(["none", "drop"]),
    st.sampled_from([World(), World(0, 2), World(1, 2, 1, 2), World(2, 3, 2, 3)]),
)
def test_a_stream_resumes_at_every_position(folders, counts, way, stop, even, world):
    sources = written(folders(), counts)

    def fresh():
        return made(sources, way, world=world, stop=stop, even=even)

    whole = keys(fresh())
    stream = fresh()
    assert len(whole) == stream.mix.length(world)
    items = iter(stream)
    states = [stream.state_dict(), *(stream.state_dict() for _ in items)]
    for done, state in enumerate(states[:-1]):
        resumed = fresh()
        resumed.load_state_dict(state)
        assert keys(resumed) == whole[done:], f"after {done} rows"


@settings(max_examples=15)
@given(some_sources, st.sampled_from([1, 2, 3, 50]), st.sampled_from([None, [3, 1, 2]]), st.integers(0, 3))
def test_rows_that_are_read_singly_are_kept_as_pooled_ones_are(folders, counts, batch, weights, done):
    sources = write_sources(folders(), {str(number): rows for number, rows in enumerate(counts)})
    given = {"mixing": "global", "weights": weights and weights[: len(counts)], "seed": 7}
    whole = keys(mixed(sources, **given))
    assert sorted(whole) == list(range(sum(map(sum, counts))))
    assert list(chain(*(one["x"].tolist() for one in mixed(sources, batch_size=batch, **given)))) == whole
    stream, resumed = mixed(sources, **given), mixed(sources, **given)
    items = iter(stream)
    taken = keys(islice(items, done))
    if len(taken) < len(whole):
        resumed.load_state_dict(stream.state_dict())
        assert keys(resumed) == whole[len(taken) :]


@settings(max_examples=12)
@given(
    st.lists(st.lists(st.sampled_from([0, 1, 40, 300]), min_size=1, max_size=5), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 400_000),
    st.integers(0, 200),
    st.sampled_from([np.savez, np.savez_compressed]),
)
def test_no_more_bytes_are_used_than_were_allowed(folders, counts, open_shards, decoders, more, start, save):
    folder, rng = folders(), np.random.default_rng(0)
    for number, rows in enumerate(counts):
        (folder / str(number)).mkdir()
        for shard, count in enumerate(rows):
            # Packed, some rows are as long as they are, and others next to nothing.
            x = rng.integers(0, 2**62, (count, 40)) * rng.integers(0, 2, (count, 1))
            save(folder / str(number) / f"{shard}.npz", x=x)
    sources = {str(number): folder / str(number) for number in range(len(counts))}
    given = {"open_shards": open_shards, "decoders": decoders, "batch_size": 7}
    least = mixed(sources, pool_rows=1, max_bytes=None, **given).plan(quality_batch=None).peak_bytes
    most = max(1, least + more)
    data = mixed(sources, max_bytes=most, pool_rows=10_000, **given)
    assert data.plan(quality_batch=None).peak_bytes <= most
    for _ in data:
        assert data.report()["peak_bytes"] <= most
    data.ledger.check()
    # A pool that begins in the middle reads much at once, and has no more room.
    resumed = mixed(sources, max_bytes=most, pool_rows=10_000, **given)
    items = iter(data)
    list(islice(items, start // 7))
    resumed.load_state_dict(data.state_dict())
    list(resumed)
    assert resumed.report()["peak_bytes"] <= most


@pytest.mark.parametrize("mixing, rows", [("pool", 20_000_000), ("global", 3_000_000)])
def test_the_ledger_of_many_rows_takes_little_memory(mixing, rows):
    plan = MixPlan(planned_shards([[rows]], singly=True), mixing=mixing)
    tracemalloc.start()
    try:
        assert plan.ledger(World(), 0, 0).count == rows
        assert tracemalloc.get_traced_memory()[1] < 32_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mixing", ["pool", "global"])
def test_what_is_told_of_many_rows_takes_little_memory(mixing):
    plan = MixPlan(planned_shards([[1_500_000], [1_500_000]], singly=True), mixing=mixing, max_rows=2_000_000)
    tracemalloc.start()
    try:
        assert plan.rows == (1_000_000, 1_000_000)
        assert schedule(plan, seed=0) == [[100_000, 100_000]] * 10
        assert plan.quality(World(), 0, 0, 100, most=50_000).of_rows == 2_000_000
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@settings(max_examples=40)
@given(some_sources, rules, st.sampled_from(["pool", "global"]), stops, st.integers(1, 12), st.integers(0, 2**63 - 1))
def test_the_quality_and_the_schedule_are_those_of_the_order_as_it_is_planned(counts, rules, mixing, stop, batch, seed):
    given = {name: rules[name] for name in ("pool_rows", "open_shards") if name in rules}
    given["weights"] = tuple(rules["weights"][: len(counts)]) if "weights" in rules else None
    plan = MixPlan(planned_shards(counts, singly=mixing == "global"), threshold=0, mixing=mixing, stop=stop, **given)
    shards, rows = plan.planned(World(), seed, 1)
    if not len(rows):
        assert plan.quality(World(), seed, 1, batch) is None
        return
    delivered = plan.firsts[shards] + rows
    read = delivered
    if mixing == "pool":
        # A pool of one row is the order of reading; what is read again counts from its first time.
        in_turn = replace(plan, pool_rows=1).planned(World(), seed, 1)
        numbers = (plan.firsts[in_turn[0]] + in_turn[1]).tolist()
        read = [numbers.index(number) for number in delivered.tolist()]
    found = plan.quality(World(), seed, 1, batch)
    assert found == measure(shards, plan.source_of[shards], read, batch=batch)
    assert plan.quality(World(), seed, 1, batch, most=len(rows) // 2).of_rows == len(rows)
    first = plan.planned(World(), seed, 0)[0]
    parts = np.array_split(plan.source_of[first], min(10, len(first)))
    assert schedule(plan, seed=seed) == [np.bincount(part, minlength=len(counts)).tolist() for part in parts]


def test_digests_of_orders_tell_seeds_and_epochs_apart():
    for mixing in ("pool", "global"):
        plan = MixPlan(planned_shards([[60], [30]], singly=True), mixing=mixing, pool_rows=20, threshold=15)
        orders = {(seed, epoch): plan.planned(World(), seed, epoch) for seed in range(3) for epoch in range(3)}
        digests = {plan.order_digest(World(), *drawn) for drawn in orders}
        assert len(digests) == len({np.stack(order).tobytes() for order in orders.values()}) == 9
        assert plan.order_digest(World(), 2, 1) == replace(plan).order_digest(World(), 2, 1)
    # One that was written down is found again.
    counts = planned_shards([[300, 20], [7, 400]], singly=False)
    plan = MixPlan(counts, weights=(2, 1), pool_rows=80, threshold=60, open_shards=2)
    assert plan.order_digest(World(1, 2), 3, 4) == "e5523630f16db293"


def test_forty_million_rows_are_counted_without_one():
    """400 shards of 100 000 rows, a pool of two million: the first million rows of the order, pooled and global."""
    plan = MixPlan(planned_shards([[100_000] * 300, [100_000] * 100], singly=True), pool_rows=2_000_000, threshold=0)
    assert plan.length(World()) == 40_000_000
    assert [plan.length(World(rank, 7, 2, 3)) for rank in (0, 6)] == [1_904_762, 1_904_761]
    stretches, rows = plan.order(World(), 1, plan.pool_rows).order(1_000_000)
    assert len(np.unique(stretches * 2**32 + rows)) == 1_000_000
    everything = replace(plan, mixing="global")
    order = everything.order(World(), 1, 1)
    shards, rows = everything.placed(*order.order(1_000_000), World(), 7, 0)
    assert len(np.unique(plan.firsts[shards] + rows)) == 1_000_000
    assert len(np.unique(shards)) == 400
