"""Pickles of objects, loaded without trust: whatever they name beside a short list of names is refused.

A pickle is a program. It may call whatever it can name, and set attributes of what it gets; numpy's own constructors
can be talked into reading memory that is not theirs (a dtype's flags are part of its pickle). So nothing it names is
the real thing here: names stand for makers that check what they are given, and arrays stay bytes until all is read.

What comes here was read by the extension before (``rust/core/src/pickle``), which has refused what would end a process:
numbers of the memo, lengths and keys that ask for all of its memory or its stack.
"""

from __future__ import annotations

import io
import pickle
import re
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from seekset.errors import FormatError, MemoryLimitError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["load_objects", "load_pickle"]

# Numbers and strings of fixed size, and nothing that holds objects or fields.
_CODE = re.compile(r"[biufc](?:1|2|4|8|16)|[SU]\d{1,9}")
_MOST_AXES = 32
# What an item of a set takes, so that a short pickle can't ask for many large sets.
_ITEM_BYTES = 64
_DEEPEST = 200
_STATE = 5
_PARTS = "an array is made of a version, a shape, a dtype, an order and bytes"
# From here on pickles come in frames, which are read whole; older ones would be read byte by byte.
_WITH_FRAMES = b"\x80\x04"


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
    """A numpy array as a pickle has it."""

    __slots__ = ("state",)
    __hash__ = None  # type: ignore[assignment]

    state: Any

    def __setstate__(self, state: Any) -> None:
        # Checked when the pickle has been read: until then, it could be set again.
        self.state = state

    def array(self) -> NDArray[Any]:
        """As an array of its own, if its parts fit together."""
        if type(getattr(self, "state", None)) is not tuple or len(self.state) != _STATE:
            raise pickle.UnpicklingError(_PARTS)
        _, shape, dtype, fortran, raw = self.state
        expected = _checked_bytes(shape, dtype)
        if type(raw) not in (bytes, bytearray):
            raise pickle.UnpicklingError(f"an array is made of bytes, not of {type(raw).__name__}")
        if len(raw) != expected:
            raise pickle.UnpicklingError(
                f"an array of {dtype.numpy} and shape {shape} has {expected} bytes, but {len(raw)} were found"
            )
        if not expected:
            return np.zeros(shape, dtype.numpy)
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
            raise _TooMuch


def _checked_bytes(shape: Any, dtype: Any) -> int:
    """How many bytes an array has."""
    if type(dtype) is not PickledDtype or type(shape) is not tuple:
        raise pickle.UnpicklingError(_PARTS)
    if len(shape) > _MOST_AXES or any(type(size) is not int or size < 0 for size in shape):
        raise pickle.UnpicklingError("a shape is a few numbers that are not negative")
    return dtype.numpy.itemsize * prod(shape)


class _Refused(Exception):  # noqa: N818 (it never leaves this module)
    """A name that is not on the list."""


class _TooMuch(Exception):  # noqa: N818 (nor does this)
    """More bytes than a pickle may ask for."""


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


def load_objects(data: bytes, path: Path, *, max_bytes: int) -> Sequence[Any]:
    """The examples of a pickle that the extension has read, as objects with real arrays."""
    found, has_arrays = load_pickle(data, path, max_bytes=max_bytes)
    examples: Sequence[Any] = found["examples"] if type(found) is dict else found
    try:
        return _with_arrays(examples, path) if has_arrays else examples
    except pickle.UnpicklingError as error:
        raise FormatError(f"{path}: expected a pickle, but it can't be read: {error}") from None


def load_pickle(data: bytes, path: Path, *, max_bytes: int) -> tuple[Any, bool]:
    """What a pickle holds, with :class:`PickledArray` for its arrays, and whether there are any.

    Whatever is wrong with it is a ``FormatError`` with the file's name, or a ``MemoryLimitError``; that the machine has
    no memory left is no fault of it, and a ``MemoryError``.
    """
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
        raise
    except _TooMuch:
        raise MemoryLimitError(f"{path}: unpickling it takes more than max_bytes ({max_bytes}) of memory") from None
    except Exception as error:  # noqa: BLE001 (a pickle that is damaged raises what it pleases)
        raise FormatError(f"{path}: expected a pickle, but it can't be read: {_said(error)}") from None
    if file.read(1):
        raise FormatError(f"{path}: expected a pickle and nothing after it, but found more bytes")
    return found, makers.arrays


def _said(error: Exception) -> str:
    """What an error says, in one short line; it may quote the pickle."""
    text = str(error)[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _with_arrays(found: Any, path: Path) -> Any:
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
