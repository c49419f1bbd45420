"""A packed batch on its way from a worker to its loader."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from seekset import _core
from seekset.datasets import PackedDataset
from seekset.datasets.batch import PackedBatch
from seekset.sequences import SequenceIndex
from sequences import write_fasta

LENGTHS = [40, 7, 0, 61, 12, 1, 33, 33, 90, 2]


@pytest.fixture
def index(tmp_path):
    SequenceIndex.create([write_fasta(tmp_path / "a.fa", LENGTHS)], tmp_path / "a.sidx").close()
    return tmp_path / "a.sidx"


def received(batch):
    return pickle.loads(pickle.dumps(batch))


def check_same(found, expected):
    assert type(found) is PackedBatch
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert type(found[name]) is type(value), name
        if not isinstance(value, torch.Tensor):
            assert found[name] == value, name
            continue
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("layout", ["packed", "padded"])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_arrives_is_what_was_sent(index, layout, workers):
    ds = PackedDataset(index, max_tokens=100, seed=1, layout=layout)
    loader = DataLoader(ds, batch_size=None, num_workers=workers, multiprocessing_context="fork")
    for found, expected in zip(loader, ds, strict=True):
        check_same(found, expected)
        for value in found.values():
            if isinstance(value, torch.Tensor):
                value.add_(1)  # a tensor over a message could not be written to


@pytest.mark.parametrize("layout, bytes_per_token", [("packed", 1), ("padded", 2)])
def test_a_token_takes_a_byte_on_the_way(tmp_path, layout, bytes_per_token):
    index = SequenceIndex.create([write_fasta(tmp_path / "a.fa", [1000] * 10)], tmp_path / "a.sidx")
    (batch,) = PackedDataset(index, max_tokens=10_020, layout=layout)
    tokens = batch["input_ids"].numel()
    assert bytes_per_token * tokens < len(pickle.dumps(batch)) < bytes_per_token * tokens + 1500


def test_positions_that_somebody_changed_arrive_as_they_are(index):
    batch = next(iter(PackedDataset(index, max_tokens=200)))
    for change in (
        lambda: batch["position_ids"].add_(1),
        lambda: batch.update(position_ids=torch.arange(3)),
        lambda: batch.update(position_ids=batch["position_ids"].int()),
        lambda: batch.update(cu_seqlens=torch.tensor([0, 5, 2], dtype=torch.int32)),
        lambda: batch.update(cu_seqlens=torch.tensor([0, 3])),
        lambda: batch.pop("cu_seqlens"),
        lambda: batch.pop("position_ids"),
    ):
        change()
        check_same(received(batch), batch)


def test_what_people_add_to_a_batch_arrives():
    batch = PackedBatch(
        labels=torch.tensor([[-100, 5], [2**40, -(2**63)]]),
        weights=torch.tensor([0.5, 0.25]),
        half=torch.tensor([1.5], dtype=torch.bfloat16),
        mask=torch.tensor([True, False]),
        strided=torch.arange(12).reshape(3, 4).T[::2],
        none=torch.empty((0, 3), dtype=torch.int64),
        one=torch.tensor(7),
        learned=None,
        names=["a\nb", ""],
    )
    check_same(received(batch), batch)
    learned = received(PackedBatch(learned=torch.ones(2, requires_grad=True)))["learned"]
    assert learned.requires_grad


def test_a_copy_shares_the_tensors():
    batch = PackedBatch(input_ids=torch.arange(3))
    copied = copy.copy(batch)
    assert type(copied) is PackedBatch
    assert copied["input_ids"] is batch["input_ids"]


@pytest.mark.parametrize(
    "numbers, width",
    [
        ([], 1),
        ([0, 255], 1),
        ([256, 65_535], 2),
        ([65_536], 4),
        ([-1, 3], 4),
        ([-(2**31), 2**31 - 1], 4),
        ([2**31], 8),
        ([-(2**63), 2**63 - 1], 8),
    ],
)
def test_numbers_are_sent_in_as_few_bytes_as_hold_them(numbers, width):
    numbers = np.array(numbers, dtype=np.int64)
    content, found = _core.narrowed(numbers)
    assert (found, len(content)) == (width, width * len(numbers))
    assert np.array_equal(_core.widened(content, width), numbers)


def test_a_width_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not 3"):
        _core.widened(b"abc", 3)
