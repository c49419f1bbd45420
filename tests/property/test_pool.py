"""Pools over anything: every row once, the same again however slow readers are, resumable anywhere, within bytes."""

from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixed_shards import Slow, SlowLines, mixed, write_sources, write_text
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
    },
)
readers = st.sampled_from([Slow(), SlowLines()])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """`folders()` is a new folder: hypothesis calls one test many times."""
    return lambda: tmp_path_factory.mktemp("pool")


def written(folder, counts):
    return write_text(folder, {f"source {number}": rows for number, rows in enumerate(counts)})


def key(item):
    return int(item["x"] if isinstance(item, dict) else item)


def keys(items):
    return [key(item) for item in items]


@settings(max_examples=25)
@given(some_sources, rules, readers, st.integers(0, 3), st.integers(1, 3), st.integers(0, 2**63 - 1))
def test_every_row_comes_once_and_at_the_same_place_again(folders, counts, rules, reader, workers, ranks, seed):
    sources, rows = written(folders(), counts), sum(map(sum, counts))
    worlds = [World(rank, ranks, worker, max(1, workers)) for rank in range(ranks) for worker in range(max(1, workers))]
    streams = [mixed(sources, reader=reader, seed=seed, world=world, **rules) for world in worlds]
    delivered = [keys(stream) for stream in streams]
    assert sorted(chain(*delivered)) == list(range(rows))
    assert max(map(len, delivered)) - min(map(len, delivered)) <= 2
    for stream, before in zip(streams, delivered, strict=True):
        assert keys(stream) == before
        shards, places = stream.planned()
        assert (stream.mix.firsts[shards] + places).tolist() == before


@settings(max_examples=15)
@given(
    some_sources,
    rules,
    readers,
    st.sampled_from(["all_exhausted", "first_exhausted", "cycle_until_all_exhausted"]),
    st.sampled_from([World(), World(0, 2), World(1, 2, 1, 2)]),
)
def test_a_stream_resumes_at_every_position(folders, counts, rules, reader, stop, world):
    sources = written(folders(), counts)

    def made():
        return mixed(sources, reader=reader, world=world, stop=stop, **rules)

    whole = keys(made())
    stream = made()
    assert len(whole) == stream.mix.length(world)
    items = iter(stream)
    states = [stream.state_dict(), *(stream.state_dict() for _ in items)]
    for done, state in enumerate(states[:-1]):
        resumed = made()
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
    st.integers(1, 3),
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
