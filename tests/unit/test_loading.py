"""Samplers and streams, over a dataset that lies in memory."""

import json
from functools import partial

import numpy as np
import pytest

from conformance import CHECKS, Conformance
from seekset.datasets import Stream
from seekset.datasets.order import Order
from seekset.errors import MismatchError
from seekset.loading import ResumableBatchSampler, ResumableSampler
from seekset.world import World


class Numbers:
    """The numbers below n, shuffled: the smallest dataset with an order of its own."""

    def __init__(self, count, *, shuffle=True, seed=0):
        self.order = Order(count, shuffle=shuffle, seed=seed)
        self.count = count

    epoch = property(lambda self: self.order.epoch)
    drawn = property(lambda self: {"seed": self.order.seed, "shuffle": self.order.shuffle})

    def set_epoch(self, epoch):
        self.order.set_epoch(epoch)

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        return self.__getitems__([place])[0]

    def __getitems__(self, places):
        return self.order.rows(np.array(places, dtype=np.int64)).tolist()

    def state_dict(self):
        return {"epoch": self.epoch, **self.drawn}

    def load_state_dict(self, state):
        if state["shuffle"] != self.order.shuffle:
            raise MismatchError("state mismatch: shuffle")
        self.order.seed, self.order.epoch = state["seed"], state["epoch"]


CONFORMANCE = Conformance(partial(Numbers, 14))


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_dataset_keeps(check):
    getattr(CONFORMANCE, check)()


def test_every_item_of_few_or_none_comes_once():
    for count in (0, 1, 2):
        Conformance(partial(Numbers, count)).every_item_comes_once()


@pytest.mark.parametrize("shuffle", [True, False])
def test_orders_are_pure_functions_of_seed_and_epoch(shuffle):
    make = partial(Numbers, 14, shuffle=shuffle, seed=7)
    Conformance(make).orders_are_pure_functions_of_seed_and_epoch(shuffled=shuffle)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_stateful_loaders_resume_at_every_batch(workers, streamed):
    CONFORMANCE.stateful_loaders_resume_at_every_batch(workers, streamed=streamed)


@pytest.mark.parametrize("even, counts", [("none", [4, 4, 3]), ("drop", [3, 3, 3]), ("pad", [4, 4, 4])])
def test_ranks_are_even_if_asked(even, counts):
    worlds = [World(rank, 3) for rank in range(3)]
    assert [len(ResumableSampler(range(11), even=even, world=world)) for world in worlds] == counts
    batches = [len(ResumableBatchSampler(range(11), 2, even=even, world=world)) for world in worlds]
    assert batches == [-(-count // 2) for count in counts]
    assert [len(list(Stream(range(11), even=even, world=world))) for world in worlds] == counts


def test_a_last_batch_that_is_not_full_may_be_dropped():
    assert list(ResumableBatchSampler(range(7), 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert list(ResumableBatchSampler(range(6), 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]


def test_states_are_json_and_the_same_on_all_ranks():
    samplers = [ResumableBatchSampler(range(20), 3, world=World(rank, 2)) for rank in range(2)]
    for sampler in samplers:
        batches = iter(sampler)
        next(batches)
    states = [json.loads(json.dumps(sampler.state_dict())) for sampler in samplers]
    expected = {"version": 1, "epoch": 0, "position": 1, "rows": 20, "world_size": 2, "even": "none"}
    assert states[0] == states[1] == {**expected, "batch_size": 3, "drop_last": False}


@pytest.mark.parametrize(
    "there, message",
    [
        (ResumableSampler(range(9)), "rows was 9 and is 10 here"),
        (ResumableSampler(range(10), world=World(0, 2)), "world_size was 2 and is 1 here"),
        (ResumableSampler(range(10), even="pad"), "even was 'pad' and is 'none' here"),
    ],
)
def test_states_of_another_setting_are_refused(there, message):
    with pytest.raises(MismatchError, match=f"state mismatch: {message}"):
        ResumableSampler(range(10)).load_state_dict(there.state_dict())


def test_a_state_that_an_epoch_replaced_is_not_compared():
    sampler = ResumableSampler(Numbers(4, seed=1))
    sampler.load_state_dict(ResumableSampler(Numbers(4, seed=2)).state_dict(position=3))
    sampler.set_epoch(1)
    assert (list(sampler), sampler.state_dict()["seed"]) == ([0, 1, 2, 3], 1)


def test_states_that_are_none_are_refused():
    for state in ({}, {"version": 2}):
        with pytest.raises(MismatchError, match="expected version 1"):
            ResumableSampler(range(10)).load_state_dict(state)
    with pytest.raises(MismatchError, match="expected what state_dict gave, found list"):
        ResumableSampler(range(10)).load_state_dict([])


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("position", -1, "position must be a whole number from 0 on, found -1"),
        ("position", "x", "position must be a whole number from 0 on, found 'x'"),
        ("position", 11, "position was 11, but an epoch ends at 10 here"),
        ("epoch", None, "epoch must be a whole number from 0 on, found None"),
        ("epoch", 1.0, "epoch must be a whole number from 0 on, found 1.0"),
    ],
)
def test_states_of_a_place_that_is_none_are_refused(name, value, message):
    for here in (ResumableSampler(range(10)), ResumableBatchSampler(range(10), 1), Stream(range(10))):
        with pytest.raises(MismatchError, match=f"state mismatch: {message}"):
            here.load_state_dict({**here.state_dict(), name: value})


def test_positions_that_are_given_must_lie_in_the_epoch():
    sampler = ResumableBatchSampler(range(10), 4)
    assert sampler.state_dict(position=3)["position"] == 3
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=f"position must be from 0 to 3, where the epoch ends, but is {wrong}"):
            sampler.state_dict(position=wrong)
    with pytest.raises(TypeError, match="position must be a whole number, not str"):
        sampler.state_dict(position="x")


def test_the_state_of_a_longer_rank_at_its_end_is_the_end_for_a_shorter_one_too():
    first, second = (ResumableSampler(range(3), world=World(rank, 2)) for rank in range(2))
    assert list(first) == [0, 2]
    second.load_state_dict(first.state_dict())
    assert (second.epoch, list(second)) == (1, [1])


def test_the_loop_of_a_resumed_run_may_set_the_epoch_it_is_in():
    sampler = ResumableSampler(range(4))
    sampler.load_state_dict({**sampler.state_dict(position=3), "epoch": 2})
    assert sampler.epoch == 2
    sampler.set_epoch(2)
    assert list(sampler) == [3]
    sampler.load_state_dict({**sampler.state_dict(position=3), "epoch": 2})
    sampler.set_epoch(3)
    assert list(sampler) == [0, 1, 2, 3]


def test_an_epoch_set_on_the_dataset_starts_at_its_first_place():
    data = Numbers(4)
    sampler = ResumableSampler(data)
    list(sampler)
    assert sampler.state_dict()["position"] == 4
    data.set_epoch(5)
    assert (sampler.state_dict()["epoch"], sampler.state_dict()["position"]) == (5, 0)


def test_arguments_that_are_none_are_refused():
    with pytest.raises(ValueError, match="batch_size must be at least 1, but is 0"):
        ResumableBatchSampler(range(4), 0)
    with pytest.raises(ValueError, match="at_once must be at least 1, but is 0"):
        Stream(range(4), at_once=0)
    for seed, wanted in ((-1, "at least 0"), (2**63, f"at most {2**63 - 1}")):
        with pytest.raises(ValueError, match=f"seed must be {wanted}, but is {seed}"):
            Order(4, seed=seed)
    with pytest.raises(TypeError, match="seed must be a whole number, not float"):
        Order(4, seed=1.5)
