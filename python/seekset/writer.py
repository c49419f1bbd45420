"""Writing TFRecord files: any bytes, ``tf.train.Example`` and ``SequenceExample``."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from seekset import _core
from seekset.encoding import Kind, encode_example, encode_sequence_example

if TYPE_CHECKING:
    from types import TracebackType

    from seekset.examples import Payload

__all__ = ["TFRecordWriter"]


class TFRecordWriter:
    """A TFRecord file under way, with the ``.idx`` that DALI reads beside it.

    The file appears at its name when it is closed, whole; if the block raises, what was there before stays.

    Args:
        path: The file. One that is there already is replaced.
        compression: ``"gzip"`` or ``"zlib"`` for all of the file, as TensorFlow does it, or ``None``.
        index: Whether to write ``path + ".idx"``. A compressed file gets none, because no reader could use it.

    >>> with TFRecordWriter("new.tfrecord") as out:
    ...     out.write_example({"x": [0.5, 1.5], "label": 3})
    ...     out.write(b"any bytes")
    ...     out.records
    2
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        compression: Literal["gzip", "zlib"] | None = None,
        index: bool = True,
    ) -> None:
        self._path = Path(path)
        # Said now and about the file itself: at the end, what was written would be lost.
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not self._path.parent.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._core = _core.TFRecordWriter(self._path, compression=compression, index=index)
        self._open = True

    @property
    def path(self) -> Path:
        """Where the file will be."""
        return self._path

    @property
    def records(self) -> int:
        """How many records were written so far."""
        return self._core.records

    def write(self, payload: Payload) -> None:
        """Add a record of these bytes."""
        self._core.write(payload)

    def write_example(self, features: Mapping[str, Any], kinds: Mapping[str, Kind] | None = None) -> None:
        """Add a ``tf.train.Example``; see :func:`encode_example`."""
        self._core.write(encode_example(features, kinds))

    def write_sequence_example(
        self,
        context: Mapping[str, Any],
        sequences: Mapping[str, Sequence[Any]],
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        """Add a ``tf.train.SequenceExample``; see :func:`encode_sequence_example`."""
        self._core.write(encode_sequence_example(context, sequences, kinds))

    def close(self) -> None:
        """Give the file, and its index, their names. Closing again does nothing."""
        if self._open:
            self._open = False
            self._core.publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._open = False
            self._core.discard()

    def __repr__(self) -> str:
        return f"<TFRecordWriter {str(self._path)!r}, {'open' if self._open else 'closed'}>"
