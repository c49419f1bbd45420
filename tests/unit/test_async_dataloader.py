"""Loaders of whole batches, and what their workers are."""

import os
import random
import re
from itertools import chain

import pytest
import torch
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import seekset
from reference import wrap
from seekset.datasets import SequenceDataset
from seekset.loading import PackingStream, VarlenCollator, create_async_dataloader
from seekset.workers import cuda_fault

COLLATOR = VarlenCollator("esm", max_tokens_per_batch=100)


@pytest.fixture
def path(tmp_path):
    draw = random.Random(3)
    path = tmp_path / "x.fa"
    path.write_bytes(b"".join(b">%d\n" % k + wrap("L" * draw.randrange(60), 30) for k in range(80)))
    return path


def stream(path):
    return SequenceDataset(path, chunk_bytes=200)


def ids(batches):
    return [batch["sequence_ids"] for batch in batches]


class Whole(IterableDataset):
    """A dataset that yields whole batches."""

    yields_batches = True

    def __init__(self, call):
        self.call = call

    def __iter__(self):
        yield {"found": self.call()}


# --- loaders ----------------------------------------------------------------------------------------------------------


def test_items_are_packed_and_none_is_lost(path):
    loader = create_async_dataloader(stream(path), num_workers=0, collator=COLLATOR)
    batches = list(loader)
    assert sorted(chain(*ids(batches)), key=int) == [str(k) for k in range(80)]
    assert all(len(batch["input_ids"]) <= 100 for batch in batches)
    assert [len(batch["input_ids"]) for batch in batches] == [batch["cu_seqlens"][-1] for batch in batches]


def test_spawned_workers_stay_and_resume(path):
    """Two epochs of one loader, and the rest of the first in another: processes are slow to start."""
    loader = create_async_dataloader(stream(path), collator=COLLATOR, stateful=True)
    assert isinstance(loader, StatefulDataLoader)
    assert (loader.num_workers, loader.persistent_workers, loader.prefetch_factor) == (2, True, 2)
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    batches = iter(loader)
    first = ids([next(batches) for _ in range(3)])
    state = loader.state_dict()
    rest = ids(batches)
    assert sorted(chain(*first, *rest), key=int) == [str(k) for k in range(80)]
    assert ids(loader) == first + rest
    resumed = create_async_dataloader(stream(path), collator=COLLATOR, stateful=True)
    resumed.load_state_dict(state)
    assert ids(resumed) == rest


def test_datasets_that_yield_batches_are_taken_as_they_are(path):
    loader = create_async_dataloader(Whole(int), num_workers=0)
    assert list(loader) == [{"found": 0}]
    packed = PackingStream(stream(path), 100, COLLATOR.cost)
    lists, batches = (create_async_dataloader(packed, 0, collator) for collator in (None, COLLATOR))
    assert [[item["id"] for item in batch] for batch in lists] == ids(batches)


def test_map_style_datasets_are_streamed():
    items = [{"id": str(k), "sequence": "L" * k} for k in range(20)]
    loader = create_async_dataloader(items, num_workers=2, collator=COLLATOR, multiprocessing_context="fork")
    assert sorted(chain(*ids(loader)), key=int) == [str(k) for k in range(20)]


def test_memory_is_pinned_where_there_is_cuda(path):
    assert create_async_dataloader(stream(path), 0, COLLATOR).pin_memory == torch.cuda.is_available()
    assert create_async_dataloader(stream(path), 0, COLLATOR, pin_memory=False).pin_memory is False


def test_items_need_a_collator_that_packs(path):
    message = "SequenceDataset yields items, not batches: give a VarlenCollator to pack them with, "
    for collator, found in ((None, "none was given"), (list, "not type")):
        with pytest.raises(TypeError, match=message + found):
            create_async_dataloader(stream(path), collator=collator)


# --- workers ----------------------------------------------------------------------------------------------------------


def what_a_worker_is():
    return seekset.threads(), os.environ["CUDA_VISIBLE_DEVICES"], os.environ.get("SEEKSET_TEST_INIT")


def init(worker_id):
    os.environ["SEEKSET_TEST_INIT"] = f"worker {worker_id} sees {os.environ['CUDA_VISIBLE_DEVICES']!r}"


def test_workers_have_one_thread_and_see_no_gpu():
    options = {"num_workers": 1, "multiprocessing_context": "fork", "persistent_workers": False}
    loader = create_async_dataloader(Whole(what_a_worker_is), **options)
    assert list(loader) == [{"found": (1, "", None)}]
    loader = create_async_dataloader(Whole(what_a_worker_is), **options, worker_init_fn=init)
    assert list(loader) == [{"found": (1, "", "worker 0 sees ''")}]


@pytest.mark.parametrize(
    "initialized, forked, remedy",
    [
        (False, False, None),
        (True, False, "CUDA was initialised in worker 3: .*move batches to the GPU in the main process"),
        (False, True, "worker 3 was forked from a process that uses CUDA, .*spawn"),
        (True, True, "worker 3 was forked from a process that uses CUDA, .*spawn"),
    ],
)
def test_workers_with_cuda_in_them_are_at_fault(initialized, forked, remedy):
    fault = cuda_fault(3, initialized=initialized, forked=forked)
    assert fault is None if remedy is None else re.match(remedy, fault)


# There may be no GPU to initialise CUDA with: what torch itself notes when it does is its own flag. In processes of
# their own, where nobody has looked for GPUs before: torch tells of a fork only if somebody has.
WITH_CUDA = """
    import sys
    import torch
    from torch.utils.data import DataLoader
    from seekset.datasets import SequenceDataset, Stream
    from seekset.loading import cuda_safe_worker_init, refuse_cuda_in_worker

    def initialise(worker_id=0):
        torch.cuda._initialized = True

    def attempt(data, init):
        loader = DataLoader(data, num_workers=1, multiprocessing_context="fork", worker_init_fn=init, collate_fn=list)
        try:
            print(len(list(loader)), "batches")
        except RuntimeError as error:
            print(str(error).strip().splitlines()[-1])

"""


def test_workers_that_use_cuda_are_refused_by_datasets_and_forks_of_its_users_by_their_init_alone(run, path):
    """One program, in this order: whether torch watches forks can't be undone."""
    found = run(
        WITH_CUDA
        + """
    attempt(SequenceDataset(sys.argv[1]), initialise)
    attempt(Stream([1, 2, 3]), initialise)
    attempt(Stream([1, 2, 3]), None)
    torch.cuda.is_available()  # after this, torch watches forks
    attempt(Stream([1, 2, 3]), cuda_safe_worker_init)
    initialise()
    refuse_cuda_in_worker()  # this process is no worker
    attempt(Stream([1, 2, 3]), None)
    attempt(Stream([1, 2, 3]), cuda_safe_worker_init)
    """,
        path,
    )
    first, second, *harmless, last = found.splitlines()
    for refused in (first, second):
        assert refused.startswith("RuntimeError: CUDA was initialised in worker 0: ")
    assert harmless == ["3 batches"] * 3
    assert last.startswith("RuntimeError: worker 0 was forked from a process that uses CUDA")
