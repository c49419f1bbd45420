"""Augmentation: rows as they could have been as well, drawn by numbers that belong to the row.

:data:`hex_symmetries` is for positions of the game of Hex. Of an example of one's own, ``augment=`` takes any callable
(example, generator) -> example.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seekset.errors import MismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["HexSymmetries", "hex_symmetries"]

_BOARD, _POLICY, _PLAYER, _VALUE = "board", "policy", "player_to_move", "value"

# Stones of both players, without and with a plane that says who moves.
_CHANNELS = (2, 3)
_MOVER = 2

_NUMBERS = (bool, int, float)

# A symmetry's number is two bits: turn the board by half, and reflect it at its main diagonal. The two commute and each
# undoes itself; so one symmetry after another is the exclusive or of their numbers.
_TURN, _REFLECT = 1, 2
_COUNT = 4

# The top two bits of 64 are the symmetry: the best of a multiplicative hash, and the first of a generator's.
_SHIFT = np.uint64(62)


class HexSymmetries:
    """The four symmetries of a Hex board, as an augmentation: :data:`hex_symmetries` is the one to use.

    | number | symmetry | colours |
    |---|---|---|
    | 0 | none | stay |
    | 1 | half turn | stay |
    | 2 | reflection at the main diagonal, from the first cell to the last | swap |
    | 3 | reflection at the other diagonal | swap |

    Where the colours swap, the first two channels of ``board`` change places, ``player_to_move`` is the other, in a
    third channel too, and ``value`` becomes 1 - value. ``policy`` moves with its cells. Fields that are none of these
    stay as they are.

    Examples have a ``board`` of shape (2 or 3, n, n) for any n, and as far as they have them, a ``policy`` of n * n
    numbers or (n, n), or none, a ``player_to_move`` that is 0 or 1 and a ``value`` from 0 to 1. Anything else raises a
    :class:`seekset.MismatchError`. Fields are numpy arrays or tensors, and come back as what they were; those given
    are never changed.

    >>> board = np.array([[[1, 1], [0, 0]], [[0, 0], [0, 1]]], dtype=np.float32)
    >>> example = {"board": board, "policy": np.arange(4), "value": 0.75, "player_to_move": 0}
    >>> seen = hex_symmetries.apply(example, 2)
    >>> seen["board"].astype(int).tolist(), seen["policy"], seen["value"], seen["player_to_move"]
    ([[[0, 0], [0, 1]], [[1, 0], [1, 0]]], array([0, 2, 1, 3]), 0.25, 1)
    """

    # Why reflections swap the colours: one player joins the first row to the last, the other the first column to the
    # last. A cell's neighbours are one step down, one to the right, one down and to the left, and those steps back. The
    # transpose exchanges the first two and turns the third around; the half turn turns all around. So both keep
    # neighbours, and so does one after the other, the reflection at the other diagonal. No other way of laying the
    # square onto itself does: all others make a step down and to the left one down and to the right, which is none. The
    # half turn exchanges the two sides of each player, and the game is as it was. A reflection makes rows of columns: a
    # chain that won for one player joins the sides of the other now, and wins only if it is the other's. So the stones
    # must change colour, and with them who moves and who wins.

    def __call__(self, example: Mapping[str, Any], generator: np.random.Generator) -> dict[str, Any]:
        """An example under one of the symmetries, drawn from the generator's next 64 bits.

        >>> example = {"board": np.zeros((2, 13, 13)), "value": 1.0}
        >>> hex_symmetries(example, np.random.default_rng(0))["value"]
        0.0
        """
        return self.apply(example, int(generator.integers(2**64, dtype=np.uint64) >> _SHIFT))

    def augment_batch(self, columns: Mapping[str, Any], draws: NDArray[np.uint64]) -> dict[str, Any]:
        """A batch, each row under the symmetry that is the top two bits of its draw.

        >>> columns = {"board": np.zeros((3, 2, 5, 5)), "player_to_move": np.array([0, 0, 1])}
        >>> draws = np.array([0, 2 << 62, 3 << 62], dtype=np.uint64)
        >>> hex_symmetries.augment_batch(columns, draws)["player_to_move"]
        array([0, 1, 0])
        """
        position = _Position.of(columns)
        if not position.batched:
            raise MismatchError(f"{_BOARD} must be (rows, 2 or 3, n, n), but is {np.shape(columns[_BOARD])}")
        if draws.dtype != np.uint64 or draws.shape != (position.rows,):
            raise MismatchError(
                f"there must be a draw of 64 bits for each of {position.rows} rows, but draws are "
                f"{draws.dtype} of shape {draws.shape}"
            )
        return _applied(columns, position, (draws >> _SHIFT).astype(np.intp))

    def apply(self, fields: Mapping[str, Any], symmetry: int) -> dict[str, Any]:
        """An example, or all rows of a batch, under the symmetry of this number."""
        if symmetry not in range(_COUNT):
            raise ValueError(f"a symmetry is a number from 0 to {_COUNT - 1}, not {symmetry!r}")
        position = _Position.of(fields)
        return _applied(fields, position, np.full(position.rows, symmetry, dtype=np.intp))

    def __reduce__(self) -> str:
        # By name: there is one, and it has no state.
        return "hex_symmetries"

    def __repr__(self) -> str:
        return "seekset.augment.hex_symmetries"


class _Position(NamedTuple):
    """What was found to be Hex: the fields that have to do with it, with a first axis of rows, as numpy arrays."""

    arrays: dict[str, NDArray[Any]]
    batched: bool
    rows: int
    side: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> _Position:
        """Look at all that a symmetry would count on, drawn or not, so that an error does not depend on chance."""
        if fields.get(_BOARD) is None:
            raise MismatchError(f"a Hex position has a {_BOARD}, but the fields are {', '.join(fields) or 'none'}")
        given = {name: fields[name] for name in (_BOARD, _POLICY, _PLAYER, _VALUE) if fields.get(name) is not None}
        for name, values in given.items():
            if not hasattr(values, "shape") and not isinstance(values, _NUMBERS):
                raise MismatchError(f"{name} of a Hex position must be an array, but is a {type(values).__name__}")
        arrays = {name: np.asarray(values) for name, values in given.items()}
        shape = arrays[_BOARD].shape
        batched = len(shape) == len("bchw")
        _check_board(shape, shape[1:] if batched else shape)
        if not batched:
            arrays = {name: array[None] for name, array in arrays.items()}
        rows, _, side, _ = arrays[_BOARD].shape
        _check_shapes(arrays, rows, side)
        _check_values(arrays, batched=batched)
        return cls(arrays, batched, rows, side)


def _check_board(given: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if len(shape) != len("chw") or shape[0] not in _CHANNELS or shape[1] != shape[2]:
        raise MismatchError(f"the {_BOARD} of a Hex position must be (2 or 3, n, n), but is {given}")


def _check_shapes(arrays: dict[str, NDArray[Any]], rows: int, side: int) -> None:
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise MismatchError(f"{name} of a Hex position must be numbers, but is {array.dtype}")
        if array.shape[:1] != (rows,):
            raise MismatchError(f"{name} must have {rows} rows, as {_BOARD} has, but its shape is {array.shape}")
    if _POLICY in arrays and arrays[_POLICY].shape[1:] not in ((side * side,), (side, side)):
        raise MismatchError(
            f"{_POLICY} of a Hex position must be {side * side} numbers or ({side}, {side}), for its {_BOARD} of "
            f"({side}, {side}), but is {arrays[_POLICY].shape[1:]}"
        )
    for name in (_PLAYER, _VALUE):
        if name in arrays and arrays[name].size != rows:
            raise MismatchError(f"{name} of a Hex position must be one number, but is {arrays[name].shape[1:]}")


def _check_values(arrays: dict[str, NDArray[Any]], *, batched: bool) -> None:
    """What 1 - x would make nonsense of."""

    def check(fits: NDArray[np.bool_], expected: str, found: Callable[[int], object]) -> None:
        if not fits.all():
            row = int(np.argmin(fits))
            where = f" in row {row}" if batched else ""
            raise MismatchError(f"{expected}, but is {found(row)}{where}")

    rows = len(arrays[_BOARD])
    for name, expected in ((_PLAYER, "0 or 1"), (_VALUE, "from 0 to 1")):
        if name in arrays:
            one_each = arrays[name].reshape(rows)
            fits = (one_each == 0) | (one_each == 1) if name == _PLAYER else (one_each >= 0) & (one_each <= 1)
            check(fits, f"{name} of a Hex position must be {expected}", one_each.__getitem__)
    if arrays[_BOARD][:, _MOVER:].size:
        movers = arrays[_BOARD][:, _MOVER].reshape(rows, -1)
        first = movers[:, 0]
        fits = ((first == 0) | (first == 1)) & (movers == first[:, None]).all(axis=1)
        expected = f"the third channel of a Hex {_BOARD} must be the player to move, 0 or 1 in all cells"
        check(fits, expected, lambda row: f"from {movers[row].min()} to {movers[row].max()}")


def _applied(fields: Mapping[str, Any], position: _Position, symmetries: NDArray[np.intp]) -> dict[str, Any]:
    """The fields with those of Hex replaced, each row by its symmetry."""
    arrays, side = position.arrays, position.side
    swapped = symmetries & _REFLECT != 0
    made = {_BOARD: _moved(arrays[_BOARD], symmetries, swapped)}
    if made[_BOARD].shape[1] > _MOVER:
        made[_BOARD][swapped, _MOVER] = made[_BOARD][swapped, _MOVER] == 0
    if _POLICY in arrays:
        policy = arrays[_POLICY]
        made[_POLICY] = _moved(policy.reshape(position.rows, 1, side, side), symmetries).reshape(policy.shape)
    for name in (_PLAYER, _VALUE):
        if name in arrays:
            made[name] = arrays[name].copy()
            made[name][swapped] = 1 - made[name][swapped]
    if not position.batched:
        made = {name: array[0, ...] for name, array in made.items()}
    return {**fields, **{name: _as_given(array, fields[name]) for name, array in made.items()}}


def _moved(
    planes: NDArray[Any], symmetries: NDArray[np.intp], swapped: NDArray[np.bool_] | None = None
) -> NDArray[Any]:
    """Rows of planes with their cells moved; where ``swapped``, with the first two planes exchanged, too.

    Rows of one symmetry are moved together: four copies of blocks are quicker than one look-up for each cell.
    """
    out = planes.copy()
    for symmetry in range(1, _COUNT):
        rows = np.flatnonzero(symmetries == symmetry)
        if not len(rows):
            continue
        some = planes[rows]
        if symmetry & _REFLECT:
            some = some.swapaxes(-1, -2)
        if symmetry & _TURN:
            some = some[..., ::-1, ::-1]
        if swapped is not None and symmetry & _REFLECT:
            some = some[:, [1, 0, *range(2, some.shape[1])]]
        out[rows] = some
    return out


def _as_given(array: NDArray[Any], given: Any) -> Any:
    """An array as what the field was: a tensor, an array, or a number of Python's or numpy's."""
    if isinstance(given, np.ndarray):
        return array
    if isinstance(given, np.generic):
        return array[()]
    if isinstance(given, _NUMBERS):
        return type(given)(array[()])
    # Who has a tensor has imported torch.
    return sys.modules["torch"].from_numpy(array)


hex_symmetries: HexSymmetries = HexSymmetries()
"""The symmetries of Hex boards: for ``augment=``."""
