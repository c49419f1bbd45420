"""Shares of ranks and workers, for many worlds without a process."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from seekset.world import Share, World, detect

SIZES = (1, 2, 3, 5, 8)
ROWS = (0, 1, 2, 4, 5, 7, 23, 24, 25)


def shares(rows, size, workers, even):
    return [
        [Share(rows, World(rank, size, worker, workers), even) for worker in range(workers)] for rank in range(size)
    ]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workers", SIZES)
def test_all_places_come_once_unless_they_are_to_be_even(size, workers):
    for rows in ROWS:
        found = [share.places() for rank in shares(rows, size, workers, "none") for share in rank]
        assert sorted(np.concatenate(found)) == list(range(rows))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("workers", SIZES)
def test_even_shares_are_as_large_on_all_ranks(size, workers):
    for rows in ROWS:
        dropped = [np.concatenate([s.places() for s in rank]) for rank in shares(rows, size, workers, "drop")]
        assert {len(rank) for rank in dropped} == {rows // size}
        assert sorted(np.concatenate(dropped)) == list(range(rows // size * size))
        padded = [np.concatenate([s.places() for s in rank]) for rank in shares(rows, size, workers, "pad")]
        assert {len(rank) for rank in padded} == {-(-rows // size)}
        counts = np.bincount(np.concatenate(padded), minlength=rows)
        assert set(counts) <= ({1, 2} if rows >= size else set(range(size + 1)))
        assert (counts >= 1).all()


@pytest.mark.parametrize("even", ["none", "drop", "pad"])
def test_parts_of_a_share_are_parts_of_its_places(even):
    for rank in shares(23, 3, 2, even):
        for share in rank:
            whole = share.places()
            assert len(whole) == len(share)
            assert [share.place(position) for position in range(len(share))] == whole.tolist()
            for start in range(len(share) + 2):
                assert share.places(start).tolist() == whole[start:].tolist()
                assert share.places(start, start + 2).tolist() == whole[start : start + 2].tolist()


def test_a_padded_share_repeats_rows_from_the_start():
    assert [Share(5, World(rank, 3), "pad").places().tolist() for rank in range(3)] == [[0, 3], [1, 4], [2, 0]]
    assert [Share(1, World(rank, 3), "pad").places().tolist() for rank in range(3)] == [[0], [0], [0]]


@pytest.mark.parametrize(
    "world, message",
    [
        ((0, 0), "world size must be at least 1, but is 0"),
        ((-1, 2), "rank must be from 0 to 1, for a world size of 2, but is -1"),
        ((2, 2), "rank must be from 0 to 1, for a world size of 2, but is 2"),
        ((0, 1, 3, 3), "worker must be from 0 to 2, for a number of workers of 3, but is 3"),
        ((0, 1, 0, 0), "number of workers must be at least 1, but is 0"),
    ],
)
def test_worlds_that_can_not_be_are_refused(world, message):
    with pytest.raises(ValueError, match=message):
        World(*world)


def test_choices_that_are_none_are_refused():
    with pytest.raises(ValueError, match='even must be "none", "drop" or "pad", not \'odd\''):
        Share(1, World(), "odd")


def test_a_process_alone_is_the_only_rank():
    assert detect() == World(0, 1)


def test_torchrun_says_rank_and_size(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert detect() == World(3, 8)
    monkeypatch.setenv("RANK", "x")
    with pytest.raises(ValueError, match="RANK and WORLD_SIZE must be numbers, but are 'x' and '8'"):
        detect()


def test_an_initialised_process_group_goes_before_the_environment(run):
    source = """
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore
        from seekset.world import detect
        print(detect())
        dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
        print(detect())
    """
    assert run(source, RANK="3", WORLD_SIZE="8").splitlines() == [str(World(3, 8)), str(World(1, 4))]


def test_megatrons_data_parallel_group_goes_before_all(monkeypatch):
    state = SimpleNamespace(
        model_parallel_is_initialized=lambda: True,
        get_data_parallel_rank=lambda: 1,
        get_data_parallel_world_size=lambda: 2,
    )
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", state)
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert detect() == World(1, 2)
