"""Values of features into the bytes of a ``tf.train.Example`` or ``SequenceExample``.

>>> import seekset
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from seekset import _core
from seekset.errors import MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["encode_example", "encode_sequence_example"]

Kind: TypeAlias = Literal["float32", "int64", "bytes"]
Items: TypeAlias = "NDArray[np.float32] | NDArray[np.int64] | list[bytes]"

_KINDS = ("float32", "int64", "bytes")
_STRINGS = (bytes, bytearray, memoryview, str)
_INTEGERS = (int, np.integer)
_EXACT_IN_FLOAT32 = 2**24
_BEYOND_INT64 = 2**63


def encode_example(features: Mapping[str, Any], kinds: Mapping[str, Kind] | None = None) -> bytes:
    """The bytes of a ``tf.train.Example`` with these features.

    Values are numbers, text, bytes, lists of one of them, or arrays, which are written row by row. Integers and bools
    become int64, floats float32, text UTF-8. ``kinds`` says so where a value can't: an empty list needs it. Integers
    that int64, or float32 among floats, can't hold as they are are refused, and so are kinds of other features.

    >>> payload = encode_example({"x": [0.5, 1.5], "none": []}, kinds={"none": "bytes"})
    >>> seekset.decode_example(payload)
    {'x': array([0.5, 1.5], dtype=float32), 'none': []}
    """
    named = _features(features, kinds)
    _refuse_other_names(kinds, features)
    return _core.encode_example(named)


def encode_sequence_example(
    context: Mapping[str, Any],
    sequences: Mapping[str, Sequence[Any]],
    kinds: Mapping[str, Kind] | None = None,
) -> bytes:
    """The bytes of a ``tf.train.SequenceExample``: a context as in :func:`encode_example`, and lists of steps.

    Each step is what the value of a feature can be. All steps of a list are of one kind, empty ones too.

    >>> len(encode_sequence_example({"id": 7}, {"words": [["a"], [], ["b", "c"]]}))
    49
    """
    named, lists = _features(context, kinds), _sequences(sequences, kinds or {})
    _refuse_other_names(kinds, [*context, *sequences])
    return _core.encode_sequence_example(named, lists)


def _refuse_other_names(kinds: Mapping[str, Kind] | None, names: Collection[str]) -> None:
    for name in kinds or ():
        if name not in names:
            raise MismatchError(f"kinds speaks of {name!r}, but there are only {', '.join(map(repr, names)) or 'none'}")


def _check_names(features: Any) -> None:
    if not isinstance(features, Mapping):
        raise TypeError(f"features must map names to values, not be {type(features).__name__}")
    for name in features:
        if not isinstance(name, str):
            raise TypeError(f"feature {name!r}: a name is text, not {type(name).__name__}")


def _features(features: Mapping[str, Any], kinds: Mapping[str, Kind] | None) -> list[tuple[str, Items]]:
    _check_names(features)
    return [(name, as_items(name, value, (kinds or {}).get(name))) for name, value in features.items()]


def _sequences(sequences: Mapping[str, Sequence[Any]], kinds: Mapping[str, Kind]) -> list[tuple[str, list[Items]]]:
    _check_names(sequences)
    return [(name, _steps(name, steps, kinds.get(name))) for name, steps in sequences.items()]


def _steps(name: str, steps: Sequence[Any], kind: Kind | None) -> list[Items]:
    """All steps of one list, of one kind: that of the steps which show it."""
    several = isinstance(steps, Collection) and getattr(steps, "shape", None) != ()
    if not several or isinstance(steps, (*_STRINGS, Mapping)):
        raise TypeError(f"feature {name!r}: give a list of steps, not {type(steps).__name__}")
    if kind is None and (shown := {_kind_of(name, step) for step in steps if not _is_empty_list(step)}):
        if "bytes" in shown and len(shown) > 1:
            raise TypeError(f"feature {name!r}: its steps are of several kinds: {', '.join(sorted(shown))}")
        kind = "float32" if "float32" in shown else shown.pop()
    return [as_items(name, step, kind) for step in steps]


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def as_items(name: str, value: Any, kind: Kind | None) -> Items:
    """The values of one feature as the extension takes them."""
    if kind is None:
        kind = _kind_of(name, value)
    elif kind not in _KINDS:
        raise ValueError(f"feature {name!r}: its kind must be one of {', '.join(_KINDS)}, not {kind!r}")
    if kind == "bytes":
        return _strings(name, value)
    array = _array(name, value) if not _is_empty_list(value) else np.empty(0, np.int64)
    return _floats(name, value, array) if kind == "float32" else _integers(name, value, array)


def _kind_of(name: str, value: Any) -> Kind:
    """What a value is, by its type."""
    if isinstance(value, _STRINGS):
        return "bytes"
    if _is_empty_list(value):
        raise MismatchError(
            f"feature {name!r} is an empty list, which has no kind; say which it is: kinds={{{name!r}: 'int64'}}"
        )
    if isinstance(value, (list, tuple)) and any(isinstance(item, _STRINGS) for item in value):
        return "bytes"
    array = _array(name, value)
    _refuse_large_integers(name, value, array)
    match array.dtype.kind:
        case "f":
            return "float32"
        case "i" | "u" | "b":
            return "int64"
        case "S" | "U":
            return "bytes"
        case "O" if all(isinstance(item, _STRINGS) for item in array.flat):
            return "bytes"
    raise TypeError(f"feature {name!r}: a value is numbers, text or bytes, not {_type_of(value)}")


def _type_of(value: Any) -> str:
    kinds = {type(item).__name__ for item in value} if isinstance(value, (list, tuple)) else set()
    return f"a list of {', '.join(sorted(kinds))}" if kinds else type(value).__name__


def _array(name: str, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"feature {name!r}: a value is numbers, text or bytes in even rows: {error}") from None


def _strings(name: str, value: Any) -> list[bytes]:
    if isinstance(value, _STRINGS):
        value = [value]
    elif isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    elif not isinstance(value, (list, tuple)):
        value = [value]
    for item in value:
        if not isinstance(item, _STRINGS):
            raise TypeError(f"feature {name!r}: expected text or bytes, found {type(item).__name__}")
    return [item.encode() if isinstance(item, str) else bytes(item) for item in value]


def _floats(name: str, value: Any, array: NDArray[Any]) -> NDArray[np.float32]:
    if array.dtype.kind not in "fiub":
        raise TypeError(f"feature {name!r}: expected numbers, found {array.dtype}")
    with np.errstate(over="ignore"):
        floats = np.ascontiguousarray(array, dtype=np.float32).ravel()
    if not np.array_equal(np.isfinite(floats), np.isfinite(array.ravel())):
        raise MismatchError(f"feature {name!r} holds a number that does not fit into float32")
    if not (isinstance(value, np.ndarray) and array.dtype.kind == "f"):
        _refuse_rounded_integers(name, value, floats)
    return floats


def _refuse_rounded_integers(name: str, value: Any, floats: NDArray[np.float32]) -> None:
    """Floats may be rounded, which is what float32 means; integers are ids and counts, and are not."""
    large = np.flatnonzero(np.isfinite(floats) & (np.abs(floats) >= _EXACT_IN_FLOAT32))
    if large.size == 0:
        return
    items = np.asarray(value, dtype=object).ravel()
    for at in large.tolist():
        if isinstance(items[at], _INTEGERS) and int(items[at]) != int(floats[at]):
            raise MismatchError(f"feature {name!r} holds {items[at]}, which float32 can't hold as it is")


def _refuse_large_integers(name: str, value: Any, array: NDArray[Any]) -> None:
    """Integers beyond 64 bits, which numpy makes objects, unsigned or floats of."""
    if array.dtype.kind not in "Of" or isinstance(value, np.ndarray):
        return
    if array.dtype.kind == "f" and not (np.abs(array) >= _BEYOND_INT64).any():
        return
    items = np.asarray(value, dtype=object).ravel().tolist()
    if all(isinstance(item, _INTEGERS) for item in items):
        wrong = next(item for item in items if not -_BEYOND_INT64 <= item < _BEYOND_INT64)
        raise MismatchError(f"feature {name!r} holds {wrong}, which does not fit into int64")


def _integers(name: str, value: Any, array: NDArray[Any]) -> NDArray[np.int64]:
    _refuse_large_integers(name, value, array)
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise MismatchError(f"feature {name!r} holds {array.max()}, which does not fit into int64")
    if array.dtype.kind not in "iub":
        raise TypeError(f"feature {name!r}: expected integers, found {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64).ravel()
