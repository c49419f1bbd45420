"""The symmetries of Hex boards, against one cell at a time and against the rules of the game."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import seekset
from seekset.augment import hex_symmetries

NONE, TURN, MAIN, OTHER = SYMMETRIES = range(4)
KEEPS, SWAPS = (NONE, TURN), (MAIN, OTHER)


# Where a cell goes, said in coordinates.
def goes(symmetry, row, column, last):
    return {
        NONE: (row, column),
        TURN: (last - row, last - column),
        MAIN: (column, row),
        OTHER: (last - column, last - row),
    }[symmetry]


def reference(example, symmetry):
    """The example under a symmetry, one cell at a time."""
    board, policy = example["board"], example["policy"]
    size = board.shape[-1]
    seen_board, seen_policy = np.empty_like(board), np.empty_like(policy)
    swap = symmetry in SWAPS
    for row in range(size):
        for column in range(size):
            there = goes(symmetry, row, column, size - 1)
            for channel in range(len(board)):
                to = 1 - channel if swap and channel < 2 else channel
                cell = board[channel, row, column]
                seen_board[to, *there] = 1 - cell if swap and channel == 2 else cell
            seen_policy.reshape(size, size)[there] = policy.reshape(size, size)[row, column]
    value, player = example["value"], example["player_to_move"]
    return {
        **example,
        "board": seen_board,
        "policy": seen_policy,
        "value": 1 - value if swap else value,
        "player_to_move": 1 - player if swap else player,
    }


@st.composite
def examples(draw, size=None, channels=None):
    """Positions: no cell has two stones, and values are eighths, of which 1 - x is exact."""
    size = size or draw(st.integers(1, 7))
    stones = draw(arrays.arrays(np.int8, (size, size), elements=st.integers(0, 2)))
    player = draw(st.integers(0, 1))
    planes = [stones == 1, stones == 2, np.full_like(stones, player)]
    shape = draw(st.sampled_from([(size * size,), (size, size)]))
    return {
        "board": np.stack(planes[: channels or draw(st.sampled_from([2, 3]))]).astype(np.float32),
        "policy": draw(arrays.arrays(np.float32, shape, elements=st.floats(0, 1, width=32))),
        "value": draw(st.integers(0, 8)) / 8,
        "player_to_move": player,
        "has_policy": draw(st.booleans()),
        "move_number": draw(st.integers(0, 300)),
    }


def equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
        assert np.asarray(one[name]).dtype == np.asarray(other[name]).dtype
    return True


def stacked(rows):
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def draws_for(symmetries, rng=None):
    low = (rng or np.random.default_rng(0)).integers(2**62, size=len(symmetries), dtype=np.uint64)
    return np.array(symmetries, dtype=np.uint64) << np.uint64(62) | low


def wins(stones, *, rows):
    """Whether stones join the first row to the last, or the first column to the last, from neighbour to neighbour."""
    size = len(stones)
    open_cells = [(0, k) if rows else (k, 0) for k in range(size)]
    reached = set()
    while open_cells:
        row, column = cell = open_cells.pop()
        if cell in reached or not (0 <= row < size and 0 <= column < size and stones[row, column]):
            continue
        reached.add(cell)
        open_cells += [(row + down, column + right) for down, right in ((1, 0), (0, 1), (1, -1))]
        open_cells += [(row - down, column - right) for down, right in ((1, 0), (0, 1), (1, -1))]
    return any(cell[0 if rows else 1] == size - 1 for cell in reached)


# --- what the symmetries are ------------------------------------------------------------------------------------------


@given(examples(), st.sampled_from(SYMMETRIES))
def test_every_cell_goes_where_its_coordinates_say(example, symmetry):
    assert equal(hex_symmetries.apply(example, symmetry), reference(example, symmetry))


@given(examples(), st.sampled_from(SYMMETRIES), st.sampled_from(SYMMETRIES))
def test_one_symmetry_after_another_is_a_symmetry(example, first, second):
    after = hex_symmetries.apply(hex_symmetries.apply(example, first), second)
    assert equal(after, hex_symmetries.apply(example, first ^ second))


@given(examples())
def test_each_undoes_itself_and_both_reflections_are_the_half_turn(example):
    apply = hex_symmetries.apply
    for symmetry in SYMMETRIES:
        assert equal(apply(apply(example, symmetry), symmetry), example)
    assert equal(apply(apply(example, MAIN), OTHER), apply(example, TURN))
    assert equal(apply(apply(example, OTHER), MAIN), apply(example, TURN))


@given(examples(channels=2))
def test_who_has_won_has_won_in_the_colour_of_the_other_sides(example):
    first, second = example["board"]
    before = wins(first, rows=True), wins(second, rows=False)
    for symmetry in SYMMETRIES:
        seen = hex_symmetries.apply(example, symmetry)["board"]
        after = wins(seen[0], rows=True), wins(seen[1], rows=False)
        assert after == (before if symmetry in KEEPS else before[::-1])


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_a_winning_chain_stays_one(symmetry):
    # Down through neighbours only, with a step down and to the left in it.
    chain = np.zeros((13, 13), dtype=np.float32)
    column = 7
    for row in range(13):
        chain[row, column] = 1
        if row in {2, 3, 8}:
            column -= 1
        elif row == 5:
            chain[row, column + 1] = 1
            column += 1
    assert wins(chain, rows=True)
    example = {"board": np.stack([chain, np.zeros_like(chain)]), "value": 1.0}
    seen = hex_symmetries.apply(example, symmetry)
    mine, other = (0, 1) if symmetry in KEEPS else (1, 0)
    assert wins(seen["board"][mine], rows=mine == 0)
    assert not seen["board"][other].any()
    assert seen["value"] == (1.0 if symmetry in KEEPS else 0.0)


def test_a_quarter_turn_would_break_chains():
    # Neighbours down and to the left become cells that share no edge: why there are four symmetries and not eight.
    stones = np.zeros((2, 2))
    stones[0, 1] = stones[1, 0] = 1
    assert wins(stones, rows=True)
    assert not wins(np.rot90(stones), rows=False)


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_the_policy_of_a_cell_is_found_where_its_stone_is(symmetry):
    for cell in range(169):
        board, policy = np.zeros((2, 13, 13), dtype=np.float32), np.zeros(169, dtype=np.float32)
        board.reshape(2, 169)[0, cell] = policy[cell] = 1
        seen = hex_symmetries.apply({"board": board, "policy": policy}, symmetry)
        channel = 0 if symmetry in KEEPS else 1
        assert seen["board"][channel].ravel().argmax() == seen["policy"].argmax()


# --- batches ----------------------------------------------------------------------------------------------------------


@given(st.data())
def test_a_batch_is_its_rows_one_by_one(data):
    size, channels = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([2, 3]))
    flat = [
        {**row, "policy": row["policy"].ravel()}
        for row in data.draw(st.lists(examples(size, channels), min_size=1, max_size=9))
    ]
    symmetries = data.draw(st.lists(st.sampled_from(SYMMETRIES), min_size=len(flat), max_size=len(flat)))
    expected = stacked([reference(row, symmetry) for row, symmetry in zip(flat, symmetries, strict=True)])
    columns = stacked(flat)
    kept = {name: column.copy() for name, column in columns.items()}
    assert equal(hex_symmetries.augment_batch(columns, draws_for(symmetries)), expected)
    assert equal(columns, kept)

    tensors = {name: torch.from_numpy(column) for name, column in columns.items()}
    found = hex_symmetries.augment_batch(tensors, draws_for(symmetries))
    assert all(isinstance(tensor, torch.Tensor) for tensor in found.values())
    assert equal({name: tensor.numpy() for name, tensor in found.items()}, expected)
    assert equal(columns, kept)


def test_a_whole_batch_can_have_one_symmetry():
    rng = np.random.default_rng(3)
    rows = [{"board": rng.integers(0, 2, (2, 5, 5)), "policy": rng.random((5, 5))} for _ in range(4)]
    for symmetry in SYMMETRIES:
        one_by_one = stacked([hex_symmetries.apply(row, symmetry) for row in rows])
        assert equal(hex_symmetries.apply(stacked(rows), symmetry), one_by_one)


def test_a_batch_may_be_empty():
    columns = {"board": np.zeros((0, 3, 13, 13)), "policy": np.zeros((0, 169)), "value": np.zeros(0)}
    assert equal(hex_symmetries.augment_batch(columns, np.empty(0, dtype=np.uint64)), columns)


def test_the_top_two_bits_of_a_draw_decide():
    columns = {"board": np.zeros((5, 2, 3, 3)), "policy": np.tile(np.arange(9), (5, 1))}
    draws = np.array([2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    cells = hex_symmetries.augment_batch(columns, draws)["policy"]
    assert [row.tolist() for row in cells] == [
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
        [8, 7, 6, 5, 4, 3, 2, 1, 0],
        [8, 7, 6, 5, 4, 3, 2, 1, 0],
        [0, 3, 6, 1, 4, 7, 2, 5, 8],
        [8, 5, 2, 7, 4, 1, 6, 3, 0],
    ]


# --- examples ---------------------------------------------------------------------------------------------------------


def test_an_example_is_drawn_as_its_row_of_a_batch():
    example = {"board": np.zeros((2, 4, 4)), "policy": np.arange(16)}
    seen = []
    for seed in range(40):
        draw = np.random.default_rng(seed).integers(2**64, dtype=np.uint64)
        found = hex_symmetries(example, np.random.default_rng(seed))
        columns = {name: field[None] for name, field in example.items()}
        assert equal(found, {k: v[0] for k, v in hex_symmetries.augment_batch(columns, np.array([draw])).items()})
        seen.append(tuple(found["policy"]))
    assert len(set(seen)) == 4


def test_the_four_are_equally_likely():
    draws = np.random.default_rng(7).integers(2**64, size=40_000, dtype=np.uint64)
    columns = {"board": np.zeros((40_000, 2, 2, 2), dtype=np.int8), "policy": np.tile(np.arange(4), (40_000, 1))}
    _, counts = np.unique(hex_symmetries.augment_batch(columns, draws)["policy"], axis=0, return_counts=True)
    # Four standard deviations.
    assert np.abs(counts - 10_000).max() < 350


@pytest.mark.parametrize(
    "player, other",
    [
        (0, 1),
        (True, False),
        (1.0, 0.0),
        (np.int64(1), np.int64(0)),
        (np.float32(0), np.float32(1)),
        (np.array([1], dtype=np.uint8), np.array([0], dtype=np.uint8)),
        (np.array(False), np.array(True)),
        (torch.tensor(1), torch.tensor(0)),
        (torch.tensor([True]), torch.tensor([False])),
    ],
)
def test_fields_come_back_as_what_they_were(player, other):
    for field in ("player_to_move", "value"):
        found = hex_symmetries.apply({"board": np.zeros((2, 3, 3)), field: player}, MAIN)[field]
        assert type(found) is type(other)
        assert found == other
        assert getattr(found, "dtype", None) == getattr(other, "dtype", None)
        assert getattr(found, "shape", None) == getattr(other, "shape", None)


def test_other_fields_and_a_policy_that_is_none_stay_as_they_are():
    metadata = {"game": 7}
    example = {"board": np.zeros((2, 3, 3)), "policy": None, "metadata": metadata, "has_policy": False}
    for symmetry in SYMMETRIES:
        found = hex_symmetries.apply(example, symmetry)
        assert found["policy"] is None
        assert found["metadata"] is metadata
        assert found["has_policy"] is False
        assert list(found) == list(example)


def test_what_is_given_is_not_changed_and_not_shared():
    board, policy = np.zeros((3, 3, 3)), np.zeros(9)
    for symmetry in SYMMETRIES:
        found = hex_symmetries.apply({"board": board, "policy": policy}, symmetry)
        found["board"] += 1
        found["policy"] += 1
    assert not board.any()
    assert not policy.any()


def test_it_pickles_as_the_one_it_is():
    assert pickle.loads(pickle.dumps(hex_symmetries)) is hex_symmetries
    assert repr(hex_symmetries) == "seekset.augment.hex_symmetries"


def test_it_works_without_torch():
    source = "import sys; import seekset.augment; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


# --- what is no Hex ---------------------------------------------------------------------------------------------------

BOARD = np.zeros((2, 13, 13))
MOVER = np.zeros((3, 13, 13))
MOVER[2, 4, 4] = 1


@pytest.mark.parametrize(
    "example, message",
    [
        ({}, "a Hex position has a board, but the fields are none"),
        ({"x": 1, "y": 2}, "a Hex position has a board, but the fields are x, y"),
        ({"board": None, "x": 1}, "a Hex position has a board, but the fields are board, x"),
        ({"board": [[0]]}, "board of a Hex position must be an array, but is a list"),
        ({"board": 1.5}, r"the board of a Hex position must be (2 or 3, n, n), but is ()"),
        ({"board": np.zeros((2, 13, 12))}, "must be (2 or 3, n, n), but is (2, 13, 12)"),
        ({"board": np.zeros((4, 13, 13))}, "must be (2 or 3, n, n), but is (4, 13, 13)"),
        ({"board": np.zeros((8, 1, 13, 13))}, "must be (2 or 3, n, n), but is (8, 1, 13, 13)"),
        ({"board": np.full((2, 3, 3), "x")}, "board of a Hex position must be numbers, but is <U1"),
        (
            {"board": BOARD, "policy": np.zeros(170)},
            "policy of a Hex position must be 169 numbers or (13, 13), for its board of (13, 13), but is (170,)",
        ),
        ({"board": BOARD, "policy": np.zeros((13, 12))}, "but is (13, 12)"),
        ({"board": BOARD, "value": np.zeros(2)}, "value of a Hex position must be one number, but is (2,)"),
        ({"board": BOARD, "value": -1.0}, "value of a Hex position must be from 0 to 1, but is -1.0"),
        ({"board": BOARD, "value": float("nan")}, "value of a Hex position must be from 0 to 1, but is nan"),
        ({"board": BOARD, "player_to_move": 2}, "player_to_move of a Hex position must be 0 or 1, but is 2"),
        ({"board": BOARD, "player_to_move": "red"}, "player_to_move of a Hex position must be an array, but is a str"),
        (
            {"board": MOVER},
            "the third channel of a Hex board must be the player to move, 0 or 1 in all cells, but is from 0.0 to 1.0",
        ),
        ({"board": np.full((3, 3, 3), 2.0)}, "0 or 1 in all cells, but is from 2.0 to 2.0"),
    ],
)
def test_rows_that_are_no_hex_boards_are_refused_whatever_is_drawn(example, message):
    for symmetry in SYMMETRIES:
        with pytest.raises(seekset.MismatchError) as raised:
            hex_symmetries.apply(example, symmetry)
        assert message in str(raised.value)


@pytest.mark.parametrize(
    "columns, draws, message",
    [
        ({"board": BOARD}, [0], "board must be (rows, 2 or 3, n, n), but is (2, 13, 13)"),
        ({"board": BOARD[None]}, [0, 0], "a draw of 64 bits for each of 1 rows, but draws are uint64 of shape (2,)"),
        (
            {"board": np.zeros((3, 2, 5, 5)), "value": np.array([0, 0.5, 7])},
            [0, 0, 0],
            "value of a Hex position must be from 0 to 1, but is 7.0 in row 2",
        ),
        (
            {"board": np.zeros((3, 2, 5, 5)), "policy": np.zeros((2, 25))},
            [0, 0, 0],
            "policy must have 3 rows, as board has, but its shape is (2, 25)",
        ),
        ({"board": np.stack([MOVER * 0, MOVER])}, [0, 0], "0 or 1 in all cells, but is from 0.0 to 1.0 in row 1"),
    ],
)
def test_batches_that_are_no_hex_boards_are_refused_with_the_row(columns, draws, message):
    with pytest.raises(seekset.MismatchError) as raised:
        hex_symmetries.augment_batch(columns, np.array(draws, dtype=np.uint64))
    assert message in str(raised.value)


def test_draws_are_of_64_bits():
    with pytest.raises(seekset.MismatchError, match="but draws are int64"):
        hex_symmetries.augment_batch({"board": BOARD[None]}, np.array([0]))


@pytest.mark.parametrize("symmetry", [-1, 4, "x"])
def test_there_are_four_symmetries(symmetry):
    with pytest.raises(ValueError, match="a symmetry is a number from 0 to 3, not"):
        hex_symmetries.apply({"board": BOARD}, symmetry)
