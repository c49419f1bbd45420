"""The order of an epoch, computed."""

import pickle

import numpy as np
import pytest

from seekset import Permutation


def test_orders_are_the_same_in_every_version():
    assert list(Permutation(10)) == [7, 3, 1, 8, 5, 4, 9, 2, 0, 6]
    assert list(Permutation(10, seed=0, epoch=1)) == [3, 7, 5, 0, 1, 8, 9, 2, 4, 6]
    assert list(Permutation(10, seed=1, epoch=0)) == [5, 8, 4, 9, 3, 1, 2, 7, 6, 0]
    assert Permutation(2**62, 42, 3)[123_456_789] == 1_752_614_689_156_910_399


@pytest.mark.parametrize("count", [0, 1, 2, 3, 255, 256, 257, 1000])
def test_every_row_has_one_place(count):
    order = Permutation(count, 5, 6)
    rows = order.take(np.arange(count))
    assert rows.dtype == np.int64
    assert sorted(rows) == list(range(count)) == [order.place_of(row) for row in rows]
    assert [order[place] for place in range(count)] == rows.tolist()
    assert len(order) == count


def test_places_count_as_python_counts():
    order = Permutation(10)
    assert (order[-1], order[-10]) == (order[9], order[0])
    for outside in (10, -11, 2**62):
        with pytest.raises(IndexError, match="out of range"):
            order[outside]
    with pytest.raises(IndexError, match="row 10 is out of range"):
        order.take(np.array([0, 10]))


def test_a_million_million_rows_take_no_memory():
    order = Permutation(10**12, 1, 2)
    rows = order.take(np.arange(1000))
    assert len(set(rows.tolist())) == 1000
    assert rows.max() > 9 * 10**11
    assert rows.min() < 10**11


def test_numbers_that_are_none_are_refused():
    for seed, epoch in [(-1, 0), (0, -1), (2**64, 0)]:
        with pytest.raises(OverflowError):
            Permutation(1, seed, epoch)
    with pytest.raises(ValueError, match="-1 were asked for"):
        Permutation(-1)
    with pytest.raises(ValueError, match=r"at most 2\^63 rows"):
        Permutation(2**63 + 1)


def test_permutations_are_values():
    order = Permutation(10, 1, 2)
    assert pickle.loads(pickle.dumps(order)) == order == Permutation(10, 1, 2)
    assert len({order, Permutation(10, 1, 2), Permutation(10, 1, 3)}) == 2
    assert repr(order) == "Permutation(10, seed=1, epoch=2)"
