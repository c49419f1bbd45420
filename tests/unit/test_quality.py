"""Mixing quality: by hand for small orders, by theory for large ones."""

import json
import math
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seekset
from seekset.quality import Mixing, Runs, measure, measure_sample, plot

# 50 shards of 200 rows in two sources, 40 shards and 10.
ROWS, SHARD, OF_FIRST = 10_000, 200, 8_000


def of_order(order, **options):
    """The quality of delivering rows in this order, if they are read in theirs."""
    order = np.asarray(order)
    return measure(order // SHARD, order // OF_FIRST, order, **{"batch": 100, **options})


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_a_small_order_is_measured_as_by_hand():
    # Batches: shards {0, 1}, {1}, {0, 2}; neighbours: 0|1, 1|1, 1|1, 1|0, 0|2.
    quality = measure([0, 1, 1, 1, 0, 2], [0, 1, 1, 1, 0, 0], [0, 2, 1, 3, 4, 5], batch=2, deciles=3)
    assert (quality.rows, quality.batch, quality.batches) == (6, 2, 3)
    assert [one.shards for one in quality.deciles] == [2, 1, 2]
    assert quality.whole.shards == pytest.approx(5 / 3)
    # Two rows of six are of one shard in (2 + 6 + 0) of 30 pairs.
    chance = 8 / 30
    assert [one.neighbours for one in quality.deciles] == pytest.approx([0, 1 / chance, 0])
    assert quality.whole.neighbours == pytest.approx(2 / 5 / chance)
    # One row of each source is expected in a batch.
    assert [one.sources for one in quality.deciles] == [0, 2, 2]
    assert quality.whole.sources == pytest.approx(4 / 3)
    # Two rows of six changed places: 1 - 6 * 2 / (6 * 35).
    assert quality.whole.correlation == pytest.approx(1 - 12 / 210)
    assert [one.correlation for one in quality.deciles] == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("sizes, batch", [([3, 2, 1], 2), ([2, 2, 2], 4), ([1, 1, 1, 1], 3), ([5, 1], 2), ([4], 3)])
def test_the_ideal_is_the_mean_of_all_batches_that_could_be(sizes, batch):
    shards = np.repeat(np.arange(len(sizes)), sizes)
    batches = list(combinations(shards, batch))
    expected = np.mean([len(set(one)) for one in batches])
    found = measure(shards, shards, np.arange(len(shards)), batch=batch).ideal
    assert found.shards == pytest.approx(expected)
    shares = np.array(sizes) * batch / len(shards)
    squares = [((np.bincount(one, minlength=len(sizes)) - shares) ** 2 / shares).sum() for one in batches]
    assert found.sources == pytest.approx(np.mean(squares) / max(1, len(sizes) - 1))


def test_the_ideal_of_equal_shards_is_the_formula():
    missing = math.comb(ROWS - SHARD, 100) / math.comb(ROWS, 100)
    ideal = of_order(range(ROWS)).ideal
    assert ideal.shards == pytest.approx(50 * (1 - missing), rel=1e-9)
    assert ideal.shards == pytest.approx(43.4, abs=0.05)
    assert ideal == Mixing(ideal.shards, 1.0, 9_900 / 9_999, 0.0)


# --- by theory --------------------------------------------------------------------------------------------------------


def test_a_random_order_is_near_the_ideal_in_every_decile():
    quality = of_order(np.random.default_rng(1).permutation(ROWS))
    assert len(quality.deciles) == 10
    whole, ideal = quality.whole, quality.ideal
    # Four standard deviations or more: of 100 batches' mean for the whole, of 10 for a decile.
    assert whole.shards == pytest.approx(ideal.shards, abs=0.8)
    assert whole.neighbours == pytest.approx(1, abs=0.3)
    assert whole.sources == pytest.approx(ideal.sources, abs=0.57)
    assert whole.correlation == pytest.approx(0, abs=0.04)
    for one in quality.deciles:
        assert one.shards == pytest.approx(ideal.shards, abs=2.5)
        assert one.neighbours == pytest.approx(1, abs=0.9)
        assert one.sources == pytest.approx(ideal.sources, abs=1.8)
        assert one.correlation == pytest.approx(0, abs=0.13)


def test_the_mean_of_many_random_orders_is_the_ideal():
    rng = np.random.default_rng(2)
    shards = np.repeat(np.arange(12), [1, 1, 2, 3, 5, 8, 13, 21, 34, 5, 5, 2])
    found = []
    for _ in range(400):
        order = rng.permutation(len(shards))
        found.append(measure(shards[order], shards[order] % 3, order, batch=10).whole)
    ideal = measure(shards, shards % 3, np.arange(len(shards)), batch=10).ideal
    assert np.mean(found, axis=0) == pytest.approx(ideal, abs=0.03)


def test_the_order_of_reading_is_as_bad_as_can_be():
    quality = of_order(range(ROWS))
    assert quality.whole.shards == 1
    assert quality.whole.correlation == pytest.approx(1)
    # All pairs but the 49 at the seams.
    chance = 199 / 9_999
    assert quality.whole.neighbours == pytest.approx((9_999 - 49) / 9_999 / chance)
    # A batch of the first source only: (100 - 80)**2 / 80 + 20**2 / 20; of the second: 80**2 / 80 + 80**2 / 20.
    assert [one.sources for one in quality.deciles] == pytest.approx([25] * 8 + [400] * 2)
    assert of_order(range(ROWS)[::-1]).whole.correlation == pytest.approx(-1)


def test_sources_that_take_turns_are_far_below_chance():
    rng = np.random.default_rng(3)
    first, second = rng.permutation(OF_FIRST), OF_FIRST + rng.permutation(ROWS - OF_FIRST)
    order = np.concatenate([first.reshape(-1, 4), second.reshape(-1, 1)], axis=1).ravel()
    quality = of_order(order)
    assert quality.whole.sources == 0
    assert quality.whole.shards == pytest.approx(quality.ideal.shards, abs=0.8)


def test_a_drain_that_is_less_mixed_shows_in_its_decile():
    rng = np.random.default_rng(4)
    order = np.concatenate([rng.permutation(9_000), np.arange(9_000, ROWS)])
    quality = of_order(order)
    assert min(one.shards for one in quality.deciles[:9]) > 35
    assert quality.deciles[9].shards == 1
    assert quality.deciles[9].correlation == pytest.approx(1)


@given(st.lists(st.integers(0, 20), min_size=2, max_size=40))
def test_the_correlation_is_that_of_polars(read):
    found = measure(np.zeros(len(read), int), np.zeros(len(read), int), read, batch=len(read)).whole.correlation
    frame = pl.DataFrame({"read": read, "place": range(len(read))})
    expected = 0.0 if len(set(read)) == 1 else frame.select(pl.corr("read", "place", method="spearman")).item()
    assert found == pytest.approx(expected, abs=1e-12)


# --- odd cases --------------------------------------------------------------------------------------------------------


def test_shards_and_sources_may_have_any_numbers():
    order = np.random.default_rng(5).permutation(ROWS)
    renamed = measure(10**12 - order // SHARD * 7, -(order // OF_FIRST), order + 5, batch=100)
    assert renamed == of_order(order)
    assert measure(order // SHARD, order // OF_FIRST, order * 10**9, batch=100) == of_order(order)


def test_a_last_batch_that_is_not_full_is_left_out():
    quality = measure([0, 1, 0, 1, 5, 5, 5], [0] * 7, range(7), batch=4)
    assert (quality.rows, quality.batches, len(quality.deciles)) == (4, 1, 1)
    assert quality.whole.shards == 2


def test_fewer_rows_than_a_batch_are_one():
    quality = measure([0, 1, 1], [0, 1, 1], [0, 1, 2], batch=256)
    assert (quality.rows, quality.batch, quality.batches) == (3, 3, 1)
    assert quality.whole == quality.deciles[0]
    assert quality.whole.shards == quality.ideal.shards == 2
    assert quality.whole.sources == quality.ideal.sources == 0


def test_one_row_of_each_shard_can_not_be_worse_than_chance():
    quality = measure(range(20), [0] * 20, range(20), batch=5)
    assert quality.whole == Mixing(5, 1, 0, pytest.approx(1))
    assert quality.ideal == Mixing(pytest.approx(5), 1, 0, 0)


def test_one_row_is_mixed():
    quality = measure([3], [4], [5])
    assert quality.whole == quality.ideal == Mixing(1, 1, 0, 0)


def test_batches_are_shared_out_over_the_deciles():
    quality = measure(np.arange(70) // 10, [0] * 70, range(70), batch=10, deciles=3)
    assert quality.parts == ["0-33 %", "33-67 %", "67-100 %"]
    assert len(quality.deciles) == 3


@pytest.mark.parametrize(
    "shards, sources, read, options, error, message",
    [
        ([], [], [], {}, seekset.MismatchError, "there are no rows"),
        ([0, 1], [0], [0, 1], {}, seekset.MismatchError, "must be of one length, but have 2, 1, 2 rows"),
        ([0.5], [0], [0], {}, TypeError, "shards must be integers, not float64"),
        ([0], [0], [[0]], {}, ValueError, "read_order must have one dimension"),
        ([0], [0], [0], {"batch": 0}, ValueError, "batch and deciles must be at least 1, but are 0 and 10"),
        ([0], [0], [0], {"deciles": 0}, ValueError, "batch and deciles must be at least 1, but are 256 and 0"),
    ],
)
def test_orders_that_can_not_be_are_refused(shards, sources, read, options, error, message):
    with pytest.raises(error, match=message):
        measure(shards, sources, read, **options)


# --- samples ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.integers(1, 300), st.integers(1, 5000))
def test_runs_are_whole_batches_that_part_nothing_and_reach_both_ends(rows, batch, most):
    runs = Runs.of(rows, batch=batch, most=most)
    picked = runs.picked(0, rows)
    assert picked.sum() == sum(runs.ends - runs.starts)
    assert (runs.starts[1:] >= runs.ends[:-1]).all()
    if rows <= most or rows < batch:
        assert picked.all()
        return
    assert not (runs.starts % batch).any()
    assert not (runs.ends % batch).any()
    assert batch * min(10, rows // batch) <= picked.sum() <= max(most, 10 * batch)
    if len(runs.starts) > 1:
        assert (runs.starts[0], runs.ends[-1]) == (0, rows // batch * batch)
    pieces = [runs.picked(start, min(77, rows - start)) for start in range(0, rows, 77)]
    assert np.concatenate(pieces).tolist() == picked.tolist()


def test_a_sample_is_measured_against_the_odds_of_all_rows():
    order = np.random.default_rng(6).permutation(ROWS)
    whole = of_order(order)
    runs = Runs.of(ROWS, batch=100, most=2000)
    some = order[runs.picked(0, ROWS)]
    counts = {"of_shards": np.bincount(order // SHARD), "of_sources": np.bincount(order // OF_FIRST)}
    sample = measure_sample(some // SHARD, some // OF_FIRST, some, batch=100, **counts)
    assert (sample.rows, sample.of_rows, sample.batches, len(sample.deciles)) == (2000, ROWS, 20, 10)
    assert sample.ideal == whole.ideal
    # Four standard deviations of the mean of twenty batches.
    assert sample.whole.shards == pytest.approx(whole.whole.shards, abs=1.8)
    assert sample.whole.neighbours == pytest.approx(1, abs=0.7)
    assert (sample.remark is None, whole.remark) == (False, None)
    assert sample.facts()["of_rows"] == ROWS


# --- what people see --------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_decile_all_and_the_ideal():
    heads, rows = of_order(range(ROWS)).table()
    assert [row[0] for row in rows] == [f"{k}-{k + 10} %" for k in range(0, 100, 10)] + ["all", "ideal"]
    assert all(len(row) == len(heads) for row in rows)
    assert rows[-2] == ["all", "1.00", "50.00x", "100.00", "1.000"]
    assert rows[-1] == ["ideal", "43.44", "1.00x", "0.99", "0.000"]


def test_facts_are_plain_numbers():
    quality = of_order(range(ROWS))
    facts = json.loads(json.dumps(quality.facts()))
    assert facts["all"]["shards"] == 1
    assert facts["ideal"]["shards"] == quality.ideal.shards
    assert len(facts["deciles"]) == 10


def test_the_picture_is_one(tmp_path):
    for rows in (range(ROWS), range(3)):
        plot(of_order(rows), tmp_path / "mix.png", title="a mix")
        assert (tmp_path / "mix.png").read_bytes().startswith(b"\x89PNG")
