"""Streams of items as streams of batches that fit."""

import json
import math
import random
from functools import partial
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import StreamConformance
from reference import wrap
from seekset.datasets import SequenceDataset, Stream
from seekset.errors import MismatchError
from seekset.packing import PackingStream, VarlenCollator

COST = VarlenCollator("esm").cost


def as_cost(item):
    return item


def lengths_like_those_of_proteins(count, most=1022):
    """Log-normal with a median of 280 and a mean of 350 residues."""
    draw = random.Random(1)
    return [min(most, max(20, round(math.exp(draw.gauss(math.log(280), 0.66))))) for _ in range(count)]


# --- packing ----------------------------------------------------------------------------------------------------------


@given(
    costs=st.lists(st.integers(0, 20), max_size=80),
    items=st.integers(1, 30),
    tokens=st.integers(1, 100),
)
def test_nothing_is_lost_whatever_the_buffer(costs, items, tokens):
    batches = list(PackingStream(costs, 20, as_cost, buffer_items=items, buffer_tokens=tokens))
    assert sorted(chain(*batches)) == sorted(costs)
    assert all(len(batch) > 0 for batch in batches)
    assert all(sum(batch) <= 20 for batch in batches)


@pytest.mark.parametrize("budget", [4096, 16384])
def test_batches_of_a_stream_like_proteins_are_full(budget):
    costs = [length + 2 for length in lengths_like_those_of_proteins(20_000)]
    batches = list(PackingStream(costs, budget, as_cost))
    assert sorted(chain(*batches)) == sorted(costs)
    assert sum(costs) / (len(batches) * budget) >= 0.97


def test_what_stays_is_a_part_of_the_buffer_even_if_no_batch_is_full():
    stream = PackingStream(Stream([60] * 1000), 100, as_cost, buffer_items=64)
    batches = iter(stream)
    for _ in range(900):
        assert next(batches) == [60]
        assert len(stream.state_dict()["stayed"]) <= 8
    assert len(list(batches)) == 100


def test_no_buffer_has_a_tail_of_its_own():
    """Ten buffers of 10 items of 30 each: alone, each would end with a batch that is a third full."""
    batches = list(PackingStream([30] * 100, 99, as_cost, buffer_items=10))
    assert sorted(map(len, batches)) == [1] + [3] * 33


def test_an_item_over_the_budget_is_refused_by_name():
    items = [{"id": "short", "sequence": "LAG"}, {"id": "long", "sequence": "L" * 50}]
    with pytest.raises(MismatchError, match="'long' costs 52 tokens, but a batch may have 40"):
        list(PackingStream(items, 40, COST))
    with pytest.raises(MismatchError, match="an item costs 9 tokens"):
        list(PackingStream([9], 8, as_cost))


def test_arguments_that_are_none_are_refused():
    for options in ({"max_tokens": 0}, {"buffer_items": 0}, {"buffer_tokens": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be from 1"):
            PackingStream([], **{"max_tokens": 8, "cost": as_cost, **options})
    assert list(PackingStream([5], 2**31 - 1, as_cost)) == [[5]]


# --- the contract of all streams --------------------------------------------------------------------------------------


def packed(path, buffer_items=8, chunk_bytes=200, **options):
    data = SequenceDataset(path, chunk_bytes=chunk_bytes, **options)
    return PackingStream(data, 60, COST, buffer_items=buffer_items)


def ids_of(batch):
    return tuple(item["id"] for item in batch)


@pytest.fixture
def path(tmp_path):
    draw = random.Random(2)
    records = [b">%d\n" % k + wrap("L" * draw.randrange(40), 60) for k in range(60)]
    path = tmp_path / "x.fa"
    path.write_bytes(b"".join(records))
    return path


@pytest.fixture
def conformance(path):
    return StreamConformance(partial(packed, path), key=ids_of)


@pytest.mark.parametrize("items", [1, 7, 16, 1000])
def test_it_resumes_at_every_batch(path, items):
    StreamConformance(partial(packed, path, items), key=ids_of).streams_resume_at_every_item()


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_loaders_resume_at_every_batch(conformance, workers):
    conformance.stateful_loaders_resume_at_every_batch(workers)


def test_epochs_reach_persistent_workers(conformance):
    conformance.epochs_reach_persistent_workers()


def test_loaders_deliver_every_record_once(path):
    conformance = StreamConformance(partial(packed, path), key=ids_of)
    expected = sorted(map(str, range(60)))
    for workers in (0, 1, 2, 3):
        batches = chain(*conformance.batches(conformance.loader(conformance.stream(), workers)))
        assert sorted(chain(*batches)) == expected, f"{workers} workers"


def test_states_in_the_second_iteration_are_of_the_second(path):
    stream = packed(path)
    whole = [ids_of(batch) for batch in stream]
    batches = iter(stream)
    for done in range(1, len(whole)):
        next(batches)
        resumed = packed(path)
        resumed.load_state_dict(json.loads(json.dumps(stream.state_dict())))
        assert [ids_of(batch) for batch in resumed] == whole[done:], f"after {done} batches"


def test_a_stream_over_rows_resumes_too():
    def make():
        return PackingStream(Stream([5, 1, 4, 4, 2, 3, 3, 1, 5, 2] * 3), 7, as_cost, buffer_items=6)

    whole = list(make())
    for done in range(len(whole)):
        stream = make()
        batches = iter(stream)
        for _ in range(done):
            next(batches)
        resumed = make()
        resumed.load_state_dict(stream.state_dict())
        assert list(resumed) == whole[done:]


class Refusing(list):
    """Numbers with a name, which must be that of a state."""

    def __init__(self, name):
        super().__init__([5, 1, 4, 4, 2, 3, 3, 1, 5, 2] * 3)
        self.name = name

    def state_dict(self):
        return {"name": self.name}

    def load_state_dict(self, state):
        if state != self.state_dict():
            raise MismatchError("state mismatch: name")


def test_an_epoch_that_was_set_starts_at_its_first_batch(path):
    whole = [ids_of(batch) for batch in packed(path)]
    stream = packed(path)
    batches = iter(stream)
    next(batches)
    state = stream.state_dict()
    stream.set_epoch(3)
    fresh = packed(path)
    fresh.load_state_dict(stream.state_dict())
    assert (fresh.epoch, [ids_of(batch) for batch in fresh]) == (3, whole)
    resumed = packed(path)
    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    assert [ids_of(batch) for batch in resumed] == whole[1:]
    resumed.load_state_dict(state)
    resumed.set_epoch(1)
    assert [ids_of(batch) for batch in resumed] == whole


def test_a_stream_without_a_state_says_so():
    stream = PackingStream([1, 2, 3], 4, as_cost)
    assert list(stream) == [[3, 1], [2]]
    with pytest.raises(TypeError, match="list has no state_dict and load_state_dict: batches of it can't be resumed"):
        stream.state_dict()


def test_states_that_are_none_are_refused(path):
    stream = packed(path)
    state = stream.state_dict()
    for name, value in (("delivered", -1), ("delivered", "x"), ("stayed", None)):
        with pytest.raises(MismatchError, match="state mismatch"):
            stream.load_state_dict({**state, name: value})
    with pytest.raises(MismatchError, match="buffer_items was 8 and is 9 here"):
        packed(path, 9).load_state_dict(state)
    with pytest.raises(MismatchError, match="expected what state_dict gave, found list"):
        stream.load_state_dict([])
    with pytest.raises(MismatchError, match="expected what state_dict gave, found NoneType"):
        stream.load_state_dict({**state, "data": None})


def test_a_state_that_is_refused_was_never_loaded():
    def make(order):
        return PackingStream(Stream(order), 7, as_cost, buffer_items=6)

    stream = make(Refusing("there"))
    batches = iter(stream)
    next(batches), next(batches), next(batches)
    here = make(Refusing("here"))
    with pytest.raises(MismatchError, match="state mismatch: name"):
        here.load_state_dict(stream.state_dict())
    assert list(here) == list(make(Refusing("here")))
