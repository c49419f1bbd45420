"""``tf.train.Example`` and ``SequenceExample``: payloads of records into columns of numpy arrays.

>>> import seekset
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from seekset import _core
from seekset.batch import Batch, NestedBatch
from seekset.encoding import as_items
from seekset.errors import MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Feature",
    "decode_example",
    "decode_examples",
    "decode_sequence_example",
    "decode_sequence_examples",
    "infer_features",
]

Payload: TypeAlias = bytes | bytearray | memoryview
Values: TypeAlias = "NDArray[Any] | list[bytes]"
Column: TypeAlias = "NDArray[Any] | list[bytes] | Batch | NestedBatch"
Columns: TypeAlias = dict[str, Column]

_DTYPES = ("float32", "int64", "int32", "bytes")

# Records that shapes are inferred from.
INFERRED_FROM = 100


@dataclass(frozen=True)
class Feature:
    """What a feature's values become, how many of them a record has, and what stands in where it is missing.

    Args:
        dtype: ``"float32"``, ``"int64"``, ``"int32"`` (a value that does not fit is an error) or ``"bytes"``.
        shape: ``()`` for exactly one value; ``(64,)`` or ``(3, 4)`` for as many, stacked; ``None`` for any number,
            ragged; ``(None, 4)`` for any number of rows of four.
        default: Values of records without the feature, one for all or as many as the shape has. Without a default, a
            record without the feature is an error.

    >>> Feature("int64", (2,), default=-1)
    Feature(dtype='int64', shape=(2,), default=-1)
    """

    dtype: str
    shape: tuple[int | None, ...] | None = ()
    default: Any = None

    def __post_init__(self) -> None:
        name = self.dtype if isinstance(self.dtype, str) else np.dtype(self.dtype).name
        if name not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, not {name}")
        object.__setattr__(self, "dtype", name)
        shape: Any = self.shape
        if shape is not None:
            shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
            for place, size in enumerate(shape):
                if (size is None and place > 0) or (size is not None and int(size) < 0):
                    raise ValueError(f"a shape has sizes, of which the first may be None; not {self.shape!r}")
            shape = tuple(None if size is None else int(size) for size in shape)
        object.__setattr__(self, "shape", shape)

    @property
    def ragged(self) -> bool:
        """Whether records may have any number of values."""
        return self.shape is None or self.shape[:1] == (None,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes in its shape that are fixed."""
        return cast("tuple[int, ...]", self.shape[self.ragged :] if self.shape else ())

    def default_values(self, name: str) -> list[Any] | None:
        """The default's values as the extension takes them."""
        if self.default is None:
            return None
        kind: Any = "int64" if self.dtype == "int32" else self.dtype
        values: list[Any] = list(as_items(name, self.default, kind))
        if self.dtype == "int32" and (wrong := [value for value in values if not -(2**31) <= value < 2**31]):
            raise MismatchError(f"feature {name!r}: its default holds {wrong[0]}, which does not fit into int32")
        one_for_all = not self.ragged and len(values) == 1
        return values * prod(self.sizes) if one_for_all else values


FeatureLike: TypeAlias = "Feature | str | tuple[str, Any]"
Features: TypeAlias = Mapping[str, FeatureLike]


def as_feature(name: str, given: FeatureLike) -> Feature:
    """A feature from the short ways to say it: ``"int64"``, ``("float32", (64,))``, ``("bytes", None)``."""
    if isinstance(given, Feature):
        return given
    if isinstance(given, tuple):
        if len(given) != 2:  # noqa: PLR2004
            raise ValueError(f"feature {name!r}: give a dtype, (dtype, shape) or seekset.Feature, not {given!r}")
        return Feature(*given)
    return Feature(given)


class Schema:
    """Features ready for use: made once for many batches."""

    def __init__(self, features: Features) -> None:
        if not isinstance(features, Mapping):
            raise TypeError(f"features must map names to what they are, not be {type(features).__name__}")
        self.features: dict[str, Feature] = {name: as_feature(name, given) for name, given in features.items()}
        self.core: _core.ExampleSchema = _core.ExampleSchema(
            [
                (name, feature.dtype, list(feature.sizes), feature.ragged, feature.default_values(name))
                for name, feature in self.features.items()
            ]
        )

    def columns(self, payloads: Any, rows: NDArray[np.int64] | None = None, *, sequences: bool = False) -> Columns:
        """One column for each feature, of payloads or of rows of a file."""
        parts = _core.decode_examples(payloads, self.core, rows=rows, sequences=sequences)
        named = zip(self.features.items(), parts, strict=True)
        return {name: _column(feature, *part) for (name, feature), part in named}


def as_schema(features: Features | Schema) -> Schema:
    """Features ready for use."""
    return features if isinstance(features, Schema) else Schema(features)


def _column(feature: Feature, values: Any, inner: NDArray[np.int64] | None, steps: NDArray[np.int64] | None) -> Column:
    if feature.dtype == "bytes" and (steps is not None or feature.shape != ()):
        values = _objects(values, feature.sizes)
    if steps is None:
        return values if inner is None else Batch(values, inner)
    return Batch(values, steps) if inner is None else NestedBatch(values, inner, steps)


def _objects(values: list[bytes], sizes: tuple[int, ...]) -> NDArray[np.object_]:
    """Byte strings in an array: numpy's own strings would drop zero bytes at their ends."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    rows = len(values) // prod(sizes) if prod(sizes) else 0
    return array.reshape(rows, *sizes)


def decode_example(payload: Payload) -> dict[str, Values]:
    """All features of one ``Example``: arrays of float32 or int64, lists of bytes.

    >>> payload = seekset.encode_example({"x": [0.5, 1.5], "label": 3, "name": "first"})
    >>> decode_example(payload)
    {'x': array([0.5, 1.5], dtype=float32), 'label': array([3]), 'name': [b'first']}
    """
    return dict(_core.decode_example(payload))


def decode_sequence_example(payload: Payload) -> tuple[dict[str, Values], dict[str, list[Values | None]]]:
    """The context of one ``SequenceExample``, and its feature lists step by step.

    >>> payload = seekset.encode_sequence_example({"id": 7}, {"words": [["a"], ["b", "c"]]})
    >>> decode_sequence_example(payload)
    ({'id': array([7])}, {'words': [[b'a'], [b'b', b'c']]})
    """
    return dict(_core.decode_example(payload)), dict(cast("Any", _core.decode_example(payload, sequences=True)))


def decode_examples(payloads: Sequence[Payload], features: Features | None = None) -> Columns:
    """One column for each feature of many ``Example`` payloads, decoded in parallel without the GIL.

    ``features`` maps names to what is wanted of them, in short or as :class:`Feature`:

    - ``"int64"``: one value per record, a column of shape ``(n,)``;
    - ``("float32", (64,))``: 64 values per record, ``(n, 64)``;
    - ``("int64", None)``: any number, a :class:`~seekset.Batch` of values and offsets;
    - ``("float32", (None, 4))``: any number of rows of four, a ``Batch`` with values of shape ``(total, 4)``.

    Columns of one ``"bytes"`` value per record are lists of bytes; other byte strings are in arrays of objects, so that
    they have their shape. Without ``features``, they are inferred from the first records.

    >>> payloads = [seekset.encode_example({"x": [0.5, 1.5], "tags": ["a"] * n, "label": n}) for n in (1, 2)]
    >>> columns = decode_examples(payloads, {"x": ("float32", (2,)), "label": "int64", "tags": ("bytes", None)})
    >>> columns["x"].shape, columns["label"], columns["tags"].offsets
    ((2, 2), array([1, 2]), array([0, 1, 3]))
    """
    payloads = list(payloads)
    return as_schema(infer_features(payloads) if features is None else features).columns(payloads)


def decode_sequence_examples(
    payloads: Sequence[Payload],
    context_features: Features | None = None,
    sequence_features: Features | None = None,
) -> tuple[Columns, Columns]:
    """Columns of the contexts and of the feature lists of many ``SequenceExample`` payloads.

    A context column is as in :func:`decode_examples`. In a column of feature lists, the shape is that of a step, and
    records have any number of those: it is a :class:`~seekset.Batch` whose offsets count steps, or, where steps have
    any number of values, a :class:`~seekset.NestedBatch`. A default stands in for steps without values; with one, a
    record without the list has no steps.

    >>> payloads = [seekset.encode_sequence_example({"id": n}, {"x": [[n, n]] * n}) for n in (1, 2)]
    >>> context, lists = decode_sequence_examples(payloads, {"id": "int64"}, {"x": ("int64", (2,))})
    >>> context["id"], lists["x"].values.tolist(), lists["x"].offsets
    (array([1, 2]), [[1, 1], [2, 2], [2, 2]], array([0, 1, 3]))
    """
    payloads = list(payloads)
    context = infer_features(payloads) if context_features is None else context_features
    lists = infer_features(payloads, sequences=True) if sequence_features is None else sequence_features
    return as_schema(context).columns(payloads), as_schema(lists).columns(payloads, sequences=True)


def infer_features(payloads: Iterable[Payload], *, sequences: bool = False) -> dict[str, Feature]:
    """What the features of some payloads look like, ready to be given as ``features=``.

    A feature that has as many values in each of the first 100 records, but at least one, is of that fixed shape; others
    are ragged, with an empty default where a record lacks them. ``sequences`` asks for the feature lists of
    ``SequenceExample`` payloads instead, by their steps.

    >>> infer_features([seekset.encode_example({"x": [0.5, 1.5], "label": 3})])
    {'label': Feature(dtype='int64', shape=(), default=None), 'x': Feature(dtype='float32', shape=(2,), default=None)}
    """
    first = [payload for payload, _ in zip(payloads, range(INFERRED_FROM), strict=False)]
    return inferred(first, sequences=sequences)


def inferred(payloads: Any, rows: NDArray[np.int64] | None = None, *, sequences: bool) -> dict[str, Feature]:
    """The features of payloads, or of rows of a file."""
    found = _core.infer_features(payloads, rows=rows, sequences=sequences)
    return {name: _inferred(dtype, count, missing) for name, dtype, count, missing in found}


def _inferred(dtype: str, count: int | None, missing: bool) -> Feature:
    if count is None:
        return Feature(dtype, None, default=[] if missing else None)
    return Feature(dtype, () if count == 1 else (count,))
