"""Pickles of numbers, loaded without trust: whatever they name beside a short list of names is refused.

A pickle is a program. It may call whatever it can name, and set attributes of what it gets; numpy's own constructors
can be talked into reading memory that is not theirs (a dtype's flags are part of its pickle). So nothing it names is
the real thing here: names stand for makers that check what they are given, and arrays stay bytes until they are used.
"""

from __future__ import annotations

import io
import pickle
import re
from math import prod
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from seekset.errors import FormatError, MemoryLimitError
from seekset.shards.opcodes import find_excess

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["PickledArray", "PickledDtype", "check_arrays", "contain", "load_pickle", "with_arrays"]

# Numbers and strings of fixed size, and nothing that holds objects or fields.
_CODE = re.compile(r"[biufc](?:1|2|4|8|16)|[SU]\d{1,9}")
_MOST_AXES = 32
# What an item of a set takes, so that a short pickle can't ask for many large sets.
_ITEM_BYTES = 64
_DEEPEST = 200
_PARTS = "an array is made of a version, a shape, a dtype, an order and bytes"
# From here on pickles come in frames, which are read whole; older ones would be read byte by byte.
_WITH_FRAMES = b"\x80\x04"

_state = attrgetter("state")
# Of an array's state (version, shape, dtype, whether it is in Fortran's order, bytes): what it is, and its bytes.
_what = itemgetter(1, 2, 3)
_raw = itemgetter(4)


# Whether this process may end of a pickle that fills memory, because it is there for nothing else.
_contained = False


def contain() -> None:
    """Leave out what keeps this process alive: its memory is limited, and there is another one to see it end."""
    global _contained  # noqa: PLW0603 (it is the process that is contained)
    _contained = True


class PickledDtype:
    """A dtype as a pickle has it: a code such as ``f4``, and then a state of which only the order of bytes counts."""

    __slots__ = ("numpy",)

    def __init__(self, code: Any) -> None:
        if type(code) is bytes:
            code = code.decode("ascii", "replace")
        if type(code) is not str or _CODE.fullmatch(code) is None:
            what = repr(code[:20]) if type(code) is str else type(code).__name__
            raise pickle.UnpicklingError(f"dtype {what} is refused: only plain numbers and strings are read")
        self.numpy: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        order, *inside = state[1:5]
        if order not in ("<", ">", "|") or any(part is not None for part in inside):
            raise pickle.UnpicklingError("a dtype with fields is refused: only plain numbers and strings are read")
        self.numpy = self.numpy.newbyteorder(order)


class PickledArray:
    """A numpy array as a pickle has it; thousands of them become a column by joining their bytes."""

    __slots__ = ("state",)
    __hash__ = None  # type: ignore[assignment]

    state: tuple[Any, tuple[int, ...], PickledDtype, bool, bytes | bytearray]

    def __setstate__(self, state: Any) -> None:
        # Checked when the pickle has been read: until then, it could be set again.
        self.state = state

    def array(self) -> NDArray[Any]:
        """As an array of its own."""
        _, shape, dtype, fortran, raw = self.state
        return np.frombuffer(bytearray(raw), dtype.numpy).reshape(shape, order="F" if fortran else "C")


class _Maker:
    """Something that a pickle may call by its name. There is no attribute that it could set."""

    __slots__ = ("makers",)

    def __init__(self, makers: _Makers) -> None:
        self.makers = makers

    def __setstate__(self, state: Any) -> NoReturn:
        raise pickle.UnpicklingError("a function has no state to set")


class _Reconstruct(_Maker):
    __slots__ = ()

    def __call__(self, kind: Any, _shape: Any, _code: Any) -> PickledArray:
        makers = self.makers
        if kind is not makers.ndarray:
            raise pickle.UnpicklingError("only plain arrays are read, not what is derived from them")
        makers.arrays = True
        return PickledArray()


class _FromBuffer(_Maker):
    __slots__ = ()

    def __call__(self, raw: Any, dtype: Any, shape: Any, order: Any, *axes: Any) -> PickledArray:
        if order not in ("C", "F") or any(axis is not None for axis in axes):
            raise pickle.UnpicklingError("the axes of an array are in the order C or F")
        self.makers.arrays = True
        made = PickledArray()
        made.state = (1, shape, dtype, order == "F", raw)
        return made


class _Scalar(_Maker):
    __slots__ = ()

    def __call__(self, dtype: Any, raw: Any) -> Any:
        if type(dtype) is not PickledDtype or type(raw) is not bytes or len(raw) != dtype.numpy.itemsize:
            raise pickle.UnpicklingError("a number is made of a dtype and its bytes")
        return np.frombuffer(raw, dtype.numpy)[0] if raw else dtype.numpy.type()


class _Dtype(_Maker):
    __slots__ = ()

    def __call__(self, code: Any, *_options: Any) -> PickledDtype:
        return PickledDtype(code)


class _Encode(_Maker):
    """Bytes, as protocols have them that know text only."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError("bytes are written as text in latin1")
        self.makers.take(len(text))
        return text.encode("latin1")


class _Bytes(_Maker):
    __slots__ = ()

    def __call__(self, *content: Any) -> bytes:
        if content:
            raise pickle.UnpicklingError("bytes are called by their name only where there are none")
        return b""


class _ByteArray(_Maker):
    __slots__ = ()

    def __call__(self, raw: Any = b"", *encoding: Any) -> bytearray:
        content = self.makers.encode(raw, *encoding) if encoding else raw
        if type(content) is not bytes:
            raise pickle.UnpicklingError(f"a bytearray is made of bytes, not of {type(content).__name__}")
        self.makers.take(len(content))
        return bytearray(content)


class _Complex(_Maker):
    __slots__ = ()

    def __call__(self, real: Any, imaginary: Any) -> complex:
        if type(real) is not float or type(imaginary) is not float:
            raise pickle.UnpicklingError("a complex number is made of two floats")
        return complex(real, imaginary)


class _Set(_Maker):
    __slots__ = ()

    def __call__(self, items: Any) -> set[Any]:
        if type(items) is not list:
            raise pickle.UnpicklingError(f"a set is made of a list, not of {type(items).__name__}")
        self.makers.take(_ITEM_BYTES * len(items))
        return set(items)


class _FrozenSet(_Set):
    __slots__ = ()

    def __call__(self, items: Any) -> frozenset[Any]:  # type: ignore[override]
        return frozenset(super().__call__(items))


class _Makers:
    """What the names in one pickle stand for, and the bytes that all of them may still take together."""

    def __init__(self, most: int) -> None:
        self.left = most
        self.arrays = False
        self.ndarray = object()
        self.encode = _Encode(self)
        self.by_name: dict[tuple[str, str], Any] = {
            ("_codecs", "encode"): self.encode,
            ("numpy", "dtype"): _Dtype(self),
            ("numpy", "ndarray"): self.ndarray,
        }
        plain = {"bytes": _Bytes, "bytearray": _ByteArray, "complex": _Complex, "set": _Set, "frozenset": _FrozenSet}
        for name, kind in plain.items():
            # Older protocols have the name that Python 2 had.
            self.by_name["builtins", name] = self.by_name["__builtin__", name] = kind(self)
        for home in ("numpy.core", "numpy._core"):
            self.by_name[f"{home}.multiarray", "_reconstruct"] = _Reconstruct(self)
            self.by_name[f"{home}.multiarray", "scalar"] = _Scalar(self)
            self.by_name[f"{home}.numeric", "_frombuffer"] = _FromBuffer(self)

    def take(self, count: int) -> None:
        """Count bytes that are about to be made out of what is there already."""
        self.left -= count
        if self.left < 0:
            raise MemoryError


Kind: TypeAlias = "tuple[tuple[int, ...], PickledDtype, bool]"


def check_arrays(arrays: Iterable[PickledArray]) -> tuple[set[Kind], list[bytes | bytearray]]:
    """The different shapes, dtypes and orders of arrays, and the bytes of each, which must be as many as those ask for.

    Thousands of arrays are mostly of one kind: nothing here looks at one after another.
    """
    try:
        states: list[Any] = list(map(_state, arrays))
        if set(map(type, states)) - {tuple}:
            raise pickle.UnpicklingError(_PARTS)
        raws, kinds = list(map(_raw, states)), list(map(_what, states))
        sizes = {kind: _checked_bytes(*kind) for kind in set(kinds)}
        if wrong := set(map(type, raws)) - {bytes, bytearray}:
            raise pickle.UnpicklingError(f"an array is made of bytes, not of {wrong.pop().__name__}")
        if set(map(len, raws)) != set(sizes.values()) or len(sizes) > 1:
            for (shape, dtype, _), raw in zip(kinds, raws, strict=True):
                if len(raw) != (expected := sizes[shape, dtype, _]):
                    raise pickle.UnpicklingError(
                        f"an array of {dtype.numpy} and shape {shape} has {expected} bytes, but {len(raw)} were found"
                    )
    except (AttributeError, IndexError, TypeError):
        raise pickle.UnpicklingError(_PARTS) from None
    return set(sizes), raws


def _checked_bytes(shape: Any, dtype: Any, _fortran: Any) -> int:
    """How many bytes an array has."""
    if type(dtype) is not PickledDtype or type(shape) is not tuple:
        raise pickle.UnpicklingError(_PARTS)
    if len(shape) > _MOST_AXES or any(type(size) is not int or size < 0 for size in shape):
        raise pickle.UnpicklingError("a shape is a few numbers that are not negative")
    return dtype.numpy.itemsize * prod(shape)


class _Refused(Exception):  # noqa: N818 (it never leaves this module)
    """A name that is not on the list."""


class _Unpickler(pickle.Unpickler):
    """C's unpickler, in which names are looked up on the list and nowhere else."""

    def __init__(self, file: Any, makers: _Makers) -> None:
        super().__init__(file)
        self.makers = makers

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name."""
        try:
            return self.makers.by_name[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None


def load_pickle(data: bytes, path: Path, *, max_bytes: int) -> tuple[Any, bool]:
    """What a pickle holds, with :class:`PickledArray` for its arrays, and whether there are any.

    Whatever is wrong with it is a ``FormatError`` with the file's name.
    """
    if not _contained and (excess := find_excess(data)):
        raise FormatError(f"{path}: expected a pickle, but it can't be read: {excess}")
    makers = _Makers(max_bytes)
    file: Any = io.BytesIO(data)
    if data[:2] < _WITH_FRAMES:
        file = io.BufferedReader(file, 1 << 16)
    try:
        found = _Unpickler(file, makers).load()
    except _Refused as refused:
        raise FormatError(
            f"{path}: expected a pickle of plain values and numpy arrays, but it names {refused}, which is refused"
        ) from None
    except MemoryError:
        raise MemoryLimitError(
            f"{path}: unpickling it takes more memory than there is, or more than max_bytes ({max_bytes})"
        ) from None
    except Exception as error:  # noqa: BLE001 (a pickle that is damaged raises what it pleases)
        raise FormatError(f"{path}: expected a pickle, but it can't be read: {_said(error)}") from None
    if file.read(1):
        raise FormatError(f"{path}: expected a pickle and nothing after it, but found more bytes")
    return found, makers.arrays


def _said(error: Exception) -> str:
    """What an error says, in one short line; it may quote the pickle."""
    text = str(error)[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def with_arrays(found: Any, path: Path) -> Any:
    """The same value with real arrays in the place of pickled ones, however they are nested."""
    done: dict[int, Any] = {}

    def visit(value: Any, depth: int) -> Any:
        kind = type(value)
        if kind not in (dict, list, tuple, PickledArray) or value == ():
            return value
        if id(value) in done:
            return done[id(value)]
        if depth > _DEEPEST:
            raise FormatError(f"{path}: expected values nested up to {_DEEPEST} deep, but these are deeper")
        if kind is PickledArray:
            check_arrays([value])
            done[id(value)] = value.array()
        elif kind is tuple:
            done[id(value)] = tuple(visit(one, depth + 1) for one in value)
        else:
            # In place, and noted before what it holds is visited: it may hold itself.
            done[id(value)] = value
            for key, one in list(value.items() if kind is dict else enumerate(value)):
                value[key] = visit(one, depth + 1)
        return done[id(value)]

    return visit(found, 0)
