"""What every dataset must keep: exactly once, the same again, resumable anywhere. One helper for all of them.

Items are told apart by `key`, which makes something comparable of each. `make()` gives a fresh dataset; it must be
picklable (a module's function or a partial of one), because some checks start a fresh process.
"""

import atexit
import json
import multiprocessing
import traceback
from contextlib import suppress
from functools import cache
from itertools import chain, product
from types import MappingProxyType

import pytest
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from seekset.datasets import Stream
from seekset.errors import MismatchError
from seekset.loading import ResumableBatchSampler
from seekset.world import World

RANKS = (1, 2, 3, 5)
WORKERS = (0, 1, 2, 3)
BATCH = 3

# What every map-style dataset keeps, by the names of the checks; those that need arguments are called by themselves.
CHECKS = (
    "every_item_comes_once",
    "loaders_deliver_every_item_once",
    "epochs_reach_persistent_workers",
    "streams_resume_at_every_item",
    "samplers_resume_at_every_batch",
    "positions_can_be_given_where_loaders_run_ahead",
    "samplers_refuse_states_of_another_order",
    "streams_that_refuse_a_state_are_as_they_were",
    "stateful_loaders_bring_the_seed",
    "a_fresh_process_agrees",
)


def as_is(item):
    return item


def in_a_list(items):
    """A collate function that leaves items as they are."""
    return list(items)


class StreamConformance:
    """The checks of streams: of one kind of iterable dataset. `make(world=...)` makes it."""

    def __init__(self, make, key=as_is):
        self.make = make
        self.key = key

    def keys(self, items):
        return [self.key(item) for item in items]

    def stream(self, epoch=0, **options):
        """A fresh stream at an epoch."""
        stream = self.make(**options)
        stream.set_epoch(epoch)
        return stream

    def loader(self, data, workers, kind=DataLoader, sampler=None, **options):
        """A loader whose batches are lists of items: of places that a sampler gives, or of a stream."""
        options |= {"batch_sampler": sampler} if sampler is not None else {"batch_size": BATCH}
        options |= {"multiprocessing_context": "fork"} if workers else {}
        return kind(data, num_workers=workers, collate_fn=in_a_list, **options)

    def batches(self, loader):
        return [self.keys(batch) for batch in loader]

    def expected(self):
        """The keys of all items, sorted."""
        return sorted(self.keys(self.stream()))

    # --- what is delivered ------------------------------------------------------------------------------------------

    def every_item_comes_once(self):
        """Over all ranks and workers."""
        expected = self.expected()
        assert len(set(expected)) == len(expected), "keys must tell items apart"
        for ranks, workers in product(RANKS, (1, 2, 3)):
            worlds = [World(rank, ranks, worker, workers) for rank in range(ranks) for worker in range(workers)]
            streams = [self.stream(world=world) for world in worlds]
            assert sorted(self.keys(chain(*streams))) == expected, f"{ranks} ranks, {workers} workers"

    def loaders_deliver_every_item_once(self):
        """The same with real loaders, for some of the worlds."""
        expected = self.expected()
        for workers in WORKERS:
            assert sorted(chain(*self.batches(self.loader(self.stream(), workers)))) == expected, f"{workers} workers"
        halves = [self.loader(self.stream(world=World(rank, 2)), 2) for rank in range(2)]
        assert sorted(chain(*chain(*map(self.batches, halves)))) == expected

    def orders_are_pure_functions_of_seed_and_epoch(self, *, shuffled):
        """A fresh stream gives the same, a second `iter` too; another epoch another order of the same items."""
        epochs = []
        for epoch in range(3):
            first = self.stream(epoch)
            epochs.append(self.keys(first))
            assert epochs[-1] == self.keys(first) == self.keys(self.stream(epoch))
        assert sorted(epochs[0]) == sorted(epochs[1])
        assert (epochs[0] != epochs[1] != epochs[2]) == shuffled

    def epochs_reach_persistent_workers(self):
        stream = self.stream()
        loader = self.loader(stream, 2, persistent_workers=True)
        for epoch in (0, 1, 1, 4):
            stream.set_epoch(epoch)
            assert self.batches(loader) == self.batches(self.loader(self.stream(epoch), 2)), f"epoch {epoch}"
        del loader

    # --- resuming ---------------------------------------------------------------------------------------------------

    def streams_resume_at_every_item(self):
        whole, following = (self.keys(self.stream(epoch)) for epoch in (0, 1))
        for done in range(len(whole) + 1):
            stream = self.stream()
            items = iter(stream)
            assert [self.key(next(items)) for _ in range(done)] == whole[:done]
            resumed = self.stream()
            resumed.load_state_dict(json.loads(json.dumps(stream.state_dict())))
            assert self.keys(resumed) == (whole[done:] or following), f"after {done} items"
            assert (resumed.epoch == 0) == (done < len(whole)), f"after {done} items"

    def stateful_loaders_resume_at_every_batch(self, workers, *, streamed=True):
        """torchdata's loader, in a fresh object."""
        whole, following = (self.batches(self.stateful(workers, streamed=streamed, epoch=epoch)) for epoch in (0, 1))
        loader = self.stateful(workers, streamed=streamed)
        batches, states = iter(loader), []
        for expected in whole:
            assert self.keys(next(batches)) == expected
            states.append(loader.state_dict())
        # With workers, a fresh loader takes its time: the first, the middle, the last but one.
        places = range(len(whole) - 1) if workers == 0 else sorted({0, (len(whole) - 1) // 2, len(whole) - 2})
        for place in places:
            assert self.resumed(states[place], workers, streamed) == whole[place + 1 :], f"after {place + 1} batches"
        assert next(batches, None) is None
        assert self.resumed(loader.state_dict(), workers, streamed) == following, "after the last batch"

    def a_fresh_process_agrees(self):
        """About the order of an epoch, and about what comes after a state of torchdata's loader."""
        order, states, rests = self.keys(self.stream(2)), [], []
        for streamed in self.styles:
            loader = self.stateful(0, streamed=streamed)
            batches = iter(loader)
            next(batches)
            states.append(loader.state_dict())
            rests.append(self.batches(batches))
        assert in_a_fresh_process(_told_anew, self, states) == (order, rests)

    styles = (True,)

    def stateful(self, workers, *, streamed, epoch=0):
        assert streamed, "a stream has no places for a sampler"
        return self.loader(self.stream(epoch), workers, StatefulDataLoader)

    def resumed(self, state, workers, streamed):
        loader = self.stateful(workers, streamed=streamed)
        loader.load_state_dict(state)
        return self.batches(loader)


class Conformance(StreamConformance):
    """The checks for one kind of map-style dataset: as a stream, and with samplers. `make()` makes it.

    It shuffles; `make(**unshuffled)` makes one that does not, and `make(seed=...)` one with another seed.
    """

    styles = (True, False)

    def __init__(self, make, key=as_is, unshuffled=MappingProxyType({"shuffle": False})):
        super().__init__(make, key)
        self.unshuffled = dict(unshuffled)

    def data(self, epoch=0, **options):
        """A fresh dataset at an epoch."""
        data = self.make(**options)
        data.set_epoch(epoch)
        return data

    def stream(self, epoch=0, **options):
        return Stream(self.data(epoch), **options)

    def expected(self):
        data = self.make()
        return sorted(self.keys(data[place] for place in range(len(data))))

    # --- what is delivered ------------------------------------------------------------------------------------------

    def every_item_comes_once(self):
        """Over all ranks and workers, whether a sampler or a stream shares out."""
        super().every_item_comes_once()
        data, expected = self.make(), self.expected()
        for ranks in RANKS:
            samplers = [ResumableBatchSampler(data, BATCH, world=World(rank, ranks)) for rank in range(ranks)]
            delivered = [data.__getitems__(batch) for sampler in samplers for batch in sampler]
            assert sorted(self.keys(chain(*delivered))) == expected, f"{ranks} ranks"

    def loaders_deliver_every_item_once(self):
        super().loaders_deliver_every_item_once()
        data = self.make()
        sampled = [ResumableBatchSampler(data, BATCH, world=World(rank, 2)) for rank in range(2)]
        halves = [self.loader(data, 2, sampler=sampler) for sampler in sampled]
        assert sorted(chain(*chain(*map(self.batches, halves)))) == self.expected()

    def orders_are_pure_functions_of_seed_and_epoch(self, *, shuffled):
        super().orders_are_pure_functions_of_seed_and_epoch(shuffled=shuffled)
        for epoch in range(3):
            data = self.data(epoch)
            assert self.keys(Stream(data)) == list(chain(*self.batches(self.loader(data, 0, sampler=_sampler(data)))))

    def epochs_reach_persistent_workers(self):
        super().epochs_reach_persistent_workers()
        data = self.make()
        loader = self.loader(data, 2, sampler=_sampler(data), persistent_workers=True)
        for epoch in (0, 1, 1, 4):
            data.set_epoch(epoch)
            fresh = self.data(epoch)
            assert self.batches(loader) == self.batches(self.loader(fresh, 2, sampler=_sampler(fresh)))
        del loader

    # --- resuming ---------------------------------------------------------------------------------------------------

    def samplers_resume_at_every_batch(self):
        """In a fresh object; at the end of an epoch with the next one."""
        whole = self.sampled_epochs(2)
        per_epoch = len(whole) // 2
        for done in range(per_epoch + 1):
            data = self.make()
            sampler = _sampler(data)
            taken = _take(self.loader(data, 0, sampler=sampler), done)
            fresh = self.make()
            resumed = _sampler(fresh)
            resumed.load_state_dict(sampler.state_dict())
            rest = self.batches(self.loader(fresh, 0, sampler=resumed))
            expected = whole[done:per_epoch] or whole[per_epoch:]
            assert rest == expected, f"after {done} batches"
            assert [self.keys(batch) for batch in taken] == whole[:done]

    def sampled_epochs(self, count):
        data, epochs = self.make(), []
        for epoch in range(count):
            data.set_epoch(epoch)
            epochs += self.batches(self.loader(data, 0, sampler=_sampler(data)))
        return epochs

    def positions_can_be_given_where_loaders_run_ahead(self):
        """A plain loader with workers has asked for more batches than it has delivered."""
        whole = self.sampled_epochs(1)
        data = self.make()
        sampler = _sampler(data)
        _take(self.loader(data, 2, sampler=sampler), 2)
        fresh = self.make()
        resumed = _sampler(fresh)
        resumed.load_state_dict(sampler.state_dict(position=2))
        assert self.batches(self.loader(fresh, 2, sampler=resumed)) == whole[2:]

    def samplers_refuse_states_of_another_order(self):
        """Before the first row, and what is saved meanwhile is what was loaded; then it is as if none had been."""
        data, whole = self.make(), self.sampled_epochs(1)
        sampler = _sampler(data)
        _take(self.loader(data, 0, sampler=sampler), 1)
        state = json.loads(json.dumps(sampler.state_dict()))
        seed = data.state_dict()["seed"]
        others = [({"seed": seed + 9}, f"seed was {seed} and is {seed + 9} here")]
        others.append((self.unshuffled, "shuffle was True and is False here"))
        for other, message in others:
            fresh = self.make(**other)
            resumed = _sampler(fresh)
            resumed.load_state_dict(state)
            assert resumed.state_dict() == state
            with pytest.raises(MismatchError, match=f"state mismatch: {message}"):
                next(iter(resumed))
            untouched = self.make(**other)
            assert resumed.state_dict() == _sampler(untouched).state_dict()
            assert list(resumed) == list(_sampler(untouched))
        # A seed may still come with the dataset's own state.
        fresh = self.make(seed=seed + 9)
        resumed = _sampler(fresh)
        resumed.load_state_dict(state)
        fresh.load_state_dict(data.state_dict())
        assert self.batches(self.loader(fresh, 0, sampler=resumed)) == whole[1:]

    def streams_that_refuse_a_state_are_as_they_were(self):
        """Where it is the dataset that refuses, and where it is the position, though the dataset would not."""
        stream = self.stream(1)
        next(iter(stream))
        state = json.loads(json.dumps(stream.state_dict()))
        for other, given in ((self.unshuffled, state), ({"seed": 5}, {**state, "position": 10**6})):
            here, untouched = (Stream(self.make(**other)) for _ in range(2))
            with pytest.raises(MismatchError, match="state mismatch"):
                here.load_state_dict(given)
            assert (here.epoch, here.state_dict()) == (0, untouched.state_dict())
            assert self.keys(here) == self.keys(untouched)

    def stateful_loaders_bring_the_seed(self):
        """torchdata's loader loads the state of a dataset after that of its sampler: the seed is the state's."""
        other = self.make().state_dict()["seed"] + 9
        for streamed, workers in product(self.styles, (0, 2)):
            whole = self.batches(self.stateful(workers, streamed=streamed))
            loader = self.stateful(workers, streamed=streamed)
            _take(loader, 1)
            fresh = self.stateful(workers, streamed=streamed, seed=other)
            fresh.load_state_dict(loader.state_dict())
            assert self.batches(fresh) == whole[1:], f"{workers} workers, {'a stream' if streamed else 'a sampler'}"

    def stateful(self, workers, *, streamed, epoch=0, **options):
        data = self.data(epoch, **options)
        if streamed:
            return self.loader(Stream(data), workers, StatefulDataLoader)
        return self.loader(data, workers, StatefulDataLoader, _sampler(data))


def _sampler(data):
    return ResumableBatchSampler(data, BATCH)


def _take(loader, count):
    batches = iter(loader)
    return [next(batches) for _ in range(count)]


def _told_anew(conformance, states):
    """The order of an epoch, and what comes after states."""
    styles = zip(states, conformance.styles, strict=True)
    resumed = [conformance.resumed(state, 0, streamed) for state, streamed in styles]
    return conformance.keys(conformance.stream(2)), resumed


def in_a_fresh_process(function, *arguments):
    """What a module's function gives in a process that was not forked and knows nothing but its arguments."""
    connection = _fresh_process()
    connection.send((function, arguments))
    sound, answer = connection.recv()
    assert sound, answer
    return answer


@cache
def _fresh_process():
    """The connection to it: one process for all who ask, because it takes seconds to start."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    # Daemons may start no workers of a loader.
    process = context.Process(target=_answer, args=(theirs,))
    process.start()
    theirs.close()
    # Before processes that are no daemons are waited for.
    atexit.register(ours.close)
    return ours


def _answer(connection):
    with suppress(EOFError):
        while True:
            function, arguments = connection.recv()
            try:
                connection.send((True, function(*arguments)))
            except Exception:  # noqa: BLE001 (whatever it is, it is told where the test is)
                connection.send((False, traceback.format_exc()))
