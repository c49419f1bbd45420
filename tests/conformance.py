"""What every dataset must keep: exactly once, the same again, resumable anywhere. One helper for all of them.

Items are told apart by `key`, which makes something comparable of each. `make()` gives a fresh dataset; it must be
picklable (a module's function or a partial of one), because some checks start a fresh process.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import chain

from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from seekset.datasets import Stream
from seekset.loading import ResumableBatchSampler
from seekset.world import World

RANKS = (1, 2, 3, 5)
WORKERS = (0, 1, 2, 3)
BATCH = 3


def as_is(item):
    return item


def in_a_list(items):
    """A collate function that leaves items as they are."""
    return list(items)


class Conformance:
    """The checks, for one kind of dataset."""

    def __init__(self, make, key=as_is):
        self.make = make
        self.key = key

    def keys(self, items):
        return [self.key(item) for item in items]

    def loader(self, data, workers, kind=DataLoader, sampler=None, **options):
        """A loader whose batches are lists of items: of places that a sampler gives, or of a stream."""
        options |= {"batch_sampler": sampler} if sampler is not None else {"batch_size": BATCH}
        options |= {"multiprocessing_context": "fork"} if workers else {}
        return kind(data, num_workers=workers, collate_fn=in_a_list, **options)

    def batches(self, loader):
        return [self.keys(batch) for batch in loader]

    # --- what is delivered ------------------------------------------------------------------------------------------

    def every_item_comes_once(self):
        """Over all ranks and workers, whether a sampler or a stream shares out."""
        expected = sorted(self.keys(self.make()[place] for place in range(len(self.make()))))
        assert len(set(expected)) == len(expected), "keys must tell items apart"
        for ranks in RANKS:
            data = self.make()
            samplers = [ResumableBatchSampler(data, BATCH, world=World(rank, ranks)) for rank in range(ranks)]
            delivered = [data.__getitems__(batch) for sampler in samplers for batch in sampler]
            assert sorted(self.keys(chain(*delivered))) == expected, f"{ranks} ranks"
            for workers in WORKERS:
                places = [(worker, max(workers, 1)) for worker in range(max(workers, 1))]
                streams = [Stream(data, world=World(rank, ranks, *place)) for rank in range(ranks) for place in places]
                assert sorted(self.keys(chain(*streams))) == expected, f"{ranks} ranks, {workers} workers"

    def loaders_deliver_every_item_once(self):
        """The same with real loaders, for some of the worlds."""
        data = self.make()
        expected = sorted(self.keys(data[place] for place in range(len(data))))
        for workers in WORKERS:
            stream = self.batches(self.loader(Stream(data), workers))
            assert sorted(chain(*stream)) == expected, f"{workers} workers"
        halves = [self.loader(Stream(data, world=World(rank, 2)), 2) for rank in range(2)]
        assert sorted(chain(*chain(*map(self.batches, halves)))) == expected
        sampled = [ResumableBatchSampler(data, BATCH, world=World(rank, 2)) for rank in range(2)]
        halves = [self.loader(data, 2, sampler=sampler) for sampler in sampled]
        assert sorted(chain(*chain(*map(self.batches, halves)))) == expected

    def orders_are_pure_functions_of_seed_and_epoch(self, *, shuffled):
        """A fresh dataset gives the same, a second `iter` too; another epoch another order of the same items."""
        first, second = self.make(), self.make()
        epochs = []
        for epoch in range(3):
            first.set_epoch(epoch)
            second.set_epoch(epoch)
            epochs.append(self.keys(Stream(first)))
            assert epochs[-1] == self.keys(Stream(second)) == self.keys(Stream(first))
            assert epochs[-1] == list(chain(*self.batches(self.loader(first, 0, sampler=_sampler(first)))))
        assert sorted(epochs[0]) == sorted(epochs[1])
        assert (epochs[0] != epochs[1] != epochs[2]) == shuffled

    def epochs_reach_persistent_workers(self):
        data = self.make()
        for make_sampler in (_sampler, lambda _: None):
            sampler = make_sampler(data)
            source = data if sampler is not None else Stream(data)
            loader = self.loader(source, 2, sampler=sampler, persistent_workers=True)
            for epoch in (0, 1, 1, 4):
                data.set_epoch(epoch)
                fresh = self.make()
                fresh.set_epoch(epoch)
                alone = Stream(fresh) if sampler is None else fresh
                expected = self.batches(self.loader(alone, 2, sampler=sampler and _sampler(fresh)))
                assert self.batches(loader) == expected, f"epoch {epoch}"
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

    def streams_resume_at_every_item(self):
        data = self.make()
        whole = self.keys(Stream(data))
        data.set_epoch(1)
        following = self.keys(Stream(data))
        for done in range(len(whole) + 1):
            stream = Stream(self.make())
            items = iter(stream)
            assert [self.key(next(items)) for _ in range(done)] == whole[:done]
            resumed = Stream(self.make())
            resumed.load_state_dict(stream.state_dict())
            assert self.keys(resumed) == (whole[done:] or following), f"after {done} items"

    def stateful_loaders_resume_at_every_batch(self, workers, *, streamed):
        """torchdata's loader, in a fresh object."""
        whole, following = (self.stateful_epoch(workers, streamed, epoch) for epoch in (0, 1))
        loader = self.stateful(workers, streamed=streamed)
        batches, states = iter(loader), []
        for expected in whole:
            assert self.keys(next(batches)) == expected
            states.append(loader.state_dict())
        # With workers, a fresh loader takes its time: the first, the middle, the last but one.
        places = range(len(whole) - 1) if workers == 0 else sorted({0, len(whole) // 2, len(whole) - 2})
        for place in places:
            assert self.resumed(states[place], workers, streamed) == whole[place + 1 :], f"after {place + 1} batches"
        assert next(batches, None) is None
        assert self.resumed(loader.state_dict(), workers, streamed) == following, "after the last batch"

    def a_fresh_process_agrees(self):
        """About the order of an epoch, and about what comes after a state of torchdata's loader."""
        data = self.make()
        data.set_epoch(2)
        order, states, rests = self.keys(Stream(data)), [], []
        for streamed in (True, False):
            loader = self.stateful(0, streamed=streamed)
            batches = iter(loader)
            next(batches)
            states.append(loader.state_dict())
            rests.append(self.batches(batches))
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(_in_a_fresh_process, self, states).result() == (order, rests)

    def stateful(self, workers, *, streamed, data=None):
        data = self.make() if data is None else data
        if streamed:
            return self.loader(Stream(data), workers, StatefulDataLoader)
        return self.loader(data, workers, StatefulDataLoader, _sampler(data))

    def stateful_epoch(self, workers, streamed, epoch):
        data = self.make()
        data.set_epoch(epoch)
        return self.batches(self.stateful(workers, streamed=streamed, data=data))

    def resumed(self, state, workers, streamed):
        loader = self.stateful(workers, streamed=streamed)
        loader.load_state_dict(state)
        return self.batches(loader)


def _sampler(data):
    return ResumableBatchSampler(data, BATCH)


def _take(loader, count):
    batches = iter(loader)
    return [next(batches) for _ in range(count)]


def _in_a_fresh_process(conformance, states):
    data = conformance.make()
    data.set_epoch(2)
    resumed = [conformance.resumed(state, 0, streamed) for state, streamed in zip(states, (True, False), strict=True)]
    return conformance.keys(Stream(data)), resumed
