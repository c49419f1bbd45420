"""TFRecord files that are compressed as a whole, made plain."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from seekset import _core
from seekset.errors import MismatchError
from seekset.files import as_path
from seekset.tfrecord import _checked, beside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seekset.files import AnyPath
    from seekset.tfrecord import Verify

__all__ = ["decompress_tfrecord"]

_SUFFIXES = {".gz", ".gzip", ".z", ".zlib", ".zz"}


def decompress_tfrecord(
    path: AnyPath,
    out: AnyPath | None = None,
    *,
    index: bool = False,
    overwrite: bool = False,
    verify: Verify = "lengths",
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Decompress a gzip or zlib TFRecord file, as DALI needs it, and return the path of the plain one.

    It is one pass in bounded memory. The checksums of the compression, and those that ``verify`` names, are compared on
    the way, and the plain file appears whole or not at all.

    Args:
        path: The compressed file.
        out: Where the plain file goes. If not given, ``path`` loses its ``.gz``, ``.gzip``, ``.z``, ``.zlib``, ``.zz``.
        index: Whether to write the index for DALI as well, beside the plain file.
        overwrite: Whether a file that is there already is replaced. If not, it is a ``FileExistsError``.
        verify: Which checksums of records are compared: ``"lengths"``, ``"full"`` or ``None``.
        progress: Called with compressed bytes done and compressed bytes in all.

    >>> import gzip, pathlib
    >>> _ = pathlib.Path("more.tfrecord.gz").write_bytes(gzip.compress(pathlib.Path("train.tfrecord").read_bytes()))
    >>> decompress_tfrecord("more.tfrecord.gz", index=True)
    PosixPath('more.tfrecord')
    >>> pathlib.Path("more.tfrecord.idx").read_text().splitlines()
    ['0 21', '21 22', '43 25']
    """
    packed = as_path(path)
    plain = _without_suffix(packed) if out is None else as_path(out)
    try:
        _core.decompress_tfrecord(
            packed, plain, beside(plain) if index else None, _checked(verify), replace=overwrite, progress=progress
        )
    except FileExistsError as error:
        raise _told(error, packed, named=out is not None) from None
    return plain


def _without_suffix(packed: Path) -> Path:
    """Where the plain file goes; a name without a suffix stays and is refused, since no file is its own result."""
    return packed.with_suffix("") if packed.suffix.lower() in _SUFFIXES else packed


def _told(error: FileExistsError, packed: Path, *, named: bool) -> Exception:
    """The error of a file that is there already, with what to do about it."""
    if not os.path.samefile(error.filename, packed):  # noqa: PTH121 (the core gives names)
        what = "there is a file already; overwrite=True (--replace) replaces it"
        return FileExistsError(errno.EEXIST, what, error.filename)
    if named:
        return FileExistsError(errno.EEXIST, "it is the compressed file itself; give another path", error.filename)
    return MismatchError(f"{packed}: its name has no .gz or .zlib to leave out; say where the plain file goes (-o)")
