"""Examples into columns: a list of dicts becomes one array for each field that holds numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from seekset.errors import FormatError, MemoryLimitError
from seekset.shards.rows import Field, Rows, is_numeric
from seekset.shards.unpickling import PickledArray, check_arrays

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["OPTIONAL", "stack_examples"]

# A field that may be None in any shard, so that all shards have the flag that says where it is not.
OPTIONAL = frozenset({"policy"})

# What a number without a dtype of its own becomes: torch's defaults.
_PLAIN = {float: "<f4", int: "<i8", bool: "|b1"}
_MISSING = object()

_Kind: TypeAlias = tuple[str, tuple[int, ...]]


def stack_examples(
    examples: Sequence[Any], path: Path, *, max_bytes: int
) -> tuple[Rows, tuple[str, ...], tuple[str, ...]] | None:
    """Columns of examples that are dicts, the fields that are no numbers, and those that are always ``None``.

    Nothing where no field is a number.

    The first example says which fields there are. A field that is ``None`` somewhere is zeros there, and a column
    ``has_...`` says so. An example that lacks a field, or has it in another shape or dtype, is a bad row.

    >>> games = [{"value": 0.5, "policy": None, "note": "a"}, {"value": 1.0, "policy": np.ones(2), "note": "b"}]
    >>> rows, dropped, absent = stack_examples(games, "a.pkl", max_bytes=1000)
    >>> rows.columns["policy"].tolist(), rows.columns["has_policy"].tolist(), dropped
    ([[0.0, 0.0], [1.0, 1.0]], [False, True], ('note',))
    >>> stack_examples(games[:1], "a.pkl", max_bytes=1000)[1:]
    (('note',), ('policy',))
    """
    if not examples or type(examples[0]) is not dict or any(type(name) is not str for name in examples[0]):
        return None
    bad: dict[int, str] = {}
    sound = _dicts(examples, bad)
    stacks = [_Stack(name, _values(name, sound), bad) for name in examples[0]]
    numeric = [stack for stack in stacks if stack.kind is not None]
    if not numeric:
        return None
    _check_size(numeric, path, max_bytes)
    columns = {stack.name: stack.column() for stack in numeric}
    for stack in numeric:
        if stack.flags is not None:
            name = f"has_{stack.name}"
            if name in columns:
                raise FormatError(
                    f"{path}: field {stack.name!r} may be None, and {name!r} would say where, but is a field itself"
                )
            columns[name] = stack.flags
    absent = tuple(stack.name for stack in stacks if stack.kind is None and _is_none(stack.values, bad))
    dropped = dict.fromkeys(stack.name for stack in stacks if stack.kind is None and stack.name not in absent)
    dropped.update(dict.fromkeys(_more_names(sound)))
    return Rows(columns=_zeroed(columns, list(bad)), bad=dict(sorted(bad.items()))), tuple(dropped), absent


def _dicts(examples: Sequence[Any], bad: dict[int, str]) -> Sequence[dict[str, Any]]:
    """The examples, with empty ones in the place of those that are no dicts."""
    if set(map(type, examples)) == {dict}:
        return examples
    for row, example in enumerate(examples):
        if type(example) is not dict:
            bad[row] = f"expected an example that is a dict, found {_described(example)}"
    return [{} if row in bad else example for row, example in enumerate(examples)]


def _values(name: str, examples: Sequence[dict[str, Any]]) -> list[Any]:
    try:
        return list(map(itemgetter(name), examples))
    except KeyError:
        return [example.get(name, _MISSING) for example in examples]


def _is_none(values: Sequence[Any], bad: dict[int, str]) -> bool:
    """Whether a field is ``None`` in every row that is not bad."""
    sound = [value for row, value in enumerate(values) if row not in bad]
    return bool(sound) and all(value is None for value in sound)


def _more_names(examples: Sequence[dict[str, Any]]) -> list[str]:
    """Fields that later examples have, but the first has not."""
    if len(set(map(len, examples))) == 1:
        return []
    names: set[Any] = set().union(*examples) - set(examples[0])
    return sorted(name for name in names if type(name) is str)


def _check_size(stacks: Iterable[_Stack], path: Path, max_bytes: int) -> None:
    """A pickle may name one large array in many examples: what it becomes is not bounded by what it takes."""
    size = sum(len(stack.values) * Field(stack.name, *stack.kind).row_bytes for stack in stacks if stack.kind)
    if size > max_bytes:
        raise MemoryLimitError(
            f"{path}: its columns take {size} bytes, but {max_bytes} are allowed; give the reader a larger max_bytes"
        )


def _zeroed(columns: dict[str, NDArray[Any]], rows: list[int]) -> dict[str, NDArray[Any]]:
    if not rows:
        return columns
    copies = {name: column.copy() for name, column in columns.items()}
    for column in copies.values():
        column[rows] = 0
    return copies


class _Stack:
    """The values of one field, on their way to be a column."""

    def __init__(self, name: str, values: list[Any], bad: dict[int, str]) -> None:
        self.name, self.values = name, values
        self.flags: NDArray[np.bool_] | None = None
        types = set(map(type, values)) - {type(None)}
        # Arrays from a pickle are checked before anything is asked of them, and all of them together.
        self.arrays = (
            check_arrays(value for value in values if type(value) is PickledArray) if PickledArray in types else None
        )
        self.kind = _kind(next((value for value in values if value is not None and value is not _MISSING), None))
        if self.kind is None:
            return
        self.present = self._present()
        if len(self.present) < len(values) or name in OPTIONAL:
            self.flags = np.array([value is not None for value in values], dtype=np.bool_)
        if len(types) > 1 or not self._alike():
            self._sort_out(bad)
        if types & {int, float} and not _all_fit(self.present, self.kind[0]):
            self._sort_out_large(bad)

    def _present(self) -> list[Any]:
        return [value for value in self.values if value is not None]

    def _sort_out(self, bad: dict[int, str]) -> None:
        """Note the rows whose value is missing or of another kind; they are None from then on."""
        for row, value in enumerate(self.values):
            if value is not None and (value is _MISSING or _kind(value) != self.kind):
                self._leave_out(row, "nothing" if value is _MISSING else _described(value), bad)
        self.present = self._present()

    def _sort_out_large(self, bad: dict[int, str]) -> None:
        """Note the rows whose number does not fit into the column."""
        for row, value in enumerate(self.values):
            if type(value) in (int, float) and not _fits(value):
                found = f"an integer of {value.bit_length()} bits" if type(value) is int else repr(value)
                self._leave_out(row, found, bad)
        self.present = self._present()

    def _leave_out(self, row: int, found: str, bad: dict[int, str]) -> None:
        bad.setdefault(row, f"field {self.name!r}: expected {_told(self.kind)}, found {found}")
        self.values[row] = None

    def column(self) -> NDArray[Any]:
        """The values as one array; zeros where there is none."""
        field = Field(self.name, *(self.kind or ("", ())))
        if self.arrays is not None and len(self.arrays[1]) == len(self.present) and not self._turned(field.dtype):
            return self._joined(field)
        column = np.zeros((len(self.values), *field.shape), dtype=field.dtype)
        flags = [value is not None for value in self.values]
        column[flags] = [value.array() if type(value) is PickledArray else value for value in self.present]
        return column

    def _alike(self) -> bool:
        """Whether values of one type are of one dtype and shape; told without a look at each where it can be."""
        if self.arrays is not None:
            return len(self.arrays[0]) == 1
        return type(self.present[0]) in _PLAIN or len(set(map(_kind, self.present))) == 1

    def _turned(self, dtype: str) -> bool:
        """Whether the bytes of arrays are in another order than those of a column."""
        return any(found.numpy.str != dtype or fortran for _, found, fortran in (self.arrays or ((), ()))[0])

    def _joined(self, field: Field) -> NDArray[Any]:
        """Arrays of one kind, one after another; zeros for those that are not there."""
        raws: Iterable[Any] = (self.arrays or ((), ()))[1]
        if len(self.present) < len(self.values):
            zeros = bytes(field.row_bytes)
            raws = [zeros if value is None else value.state[4] for value in self.values]
        column = np.frombuffer(b"".join(raws), field.dtype)
        if field.dtype == "|b1":
            # A damaged file may have other bytes than 0 and 1.
            column = column.view("|u1") != 0
        return column.reshape(len(self.values), *field.shape)


def _kind(value: Any) -> _Kind | None:
    """The dtype and shape of a number or an array of numbers; nothing for all else."""
    if type(value) in _PLAIN:
        return _PLAIN[type(value)], ()
    if type(value) is PickledArray:
        dtype, shape = value.state[2].numpy, value.state[1]
    elif isinstance(value, (np.ndarray, np.generic)):
        dtype, shape = value.dtype, value.shape
    else:
        return None
    return (dtype.newbyteorder("<").str, shape) if is_numeric(dtype) else None


def _all_fit(values: list[Any], dtype: str) -> bool:
    """Whether numbers without a dtype of their own fit into that of their column."""
    numbers = [value for value in values if type(value) in (int, float)]
    if not numbers:
        return True
    if dtype == _PLAIN[int]:
        return _fits(min(numbers)) and _fits(max(numbers))
    sizes = np.abs(np.array(numbers, dtype="<f8"))
    return not bool((np.isfinite(sizes) & (sizes > _LARGEST)).any())


def _fits(value: float) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return not (abs(value) > _LARGEST and abs(value) != float("inf"))


# From halfway to the next power of two on, float32 would be infinite.
_LARGEST = float(np.finfo(np.float32).max) * (1 + 2**-25)


def _told(kind: _Kind | None) -> str:
    return "something else" if kind is None else f"{np.dtype(kind[0])} of shape {kind[1]}"


def _described(value: Any) -> str:
    if type(value) is PickledArray:
        return _told((value.state[2].numpy.str, value.state[1]))
    kind = _kind(value)
    return _told(kind) if kind is not None else type(value).__name__
