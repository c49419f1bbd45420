"""Parquet shards, through pyarrow: numbers and lists of a fixed size are columns."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seekset.errors import FormatError, MismatchError, MissingExtraError
from seekset.files import SUFFIXES, AnyPath, as_path, state_of
from seekset.rows import row_numbers
from seekset.shards.fit import flag_of
from seekset.shards.packed import measured
from seekset.shards.readers import is_of_the_system
from seekset.shards.rows import Census, Field, Rows, bounded_census, is_numeric, little_endian

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray
    from pyarrow.parquet import ParquetFile

__all__ = ["ParquetShards"]

# What a row of objects takes beside its length as a pickle.
_OBJECT_BYTES = 512
_MOST_KEPT = 1024


class ParquetShards:
    """Reads Parquet shards. Needs pyarrow.

    If all columns are numbers, or lists of a fixed size of them, rows are columns; a column with nulls is zeros there,
    and a column ``has_...`` says where it is not. If any column is something else, rows are objects: a dict each.

    Args:
        measure: Whether a shard is read once when it is counted, to see what its rows take packed. Without, the footer
            is enough, and a row is taken for as long as it is unpacked: a pool is smaller then than its bytes allow.

    >>> import pyarrow as pa, pyarrow.parquet
    >>> pa.parquet.write_table(pa.table({"x": [1, 2, 3], "y": [0.5, None, 1.5]}), "a.parquet")
    >>> rows = ParquetShards().read_rows("a.parquet", [1, 2])
    >>> {name: column.tolist() for name, column in rows.columns.items()}
    {'x': [2, 3], 'y': [0.0, 1.5], 'has_y': [False, True]}
    """

    suffixes: tuple[str, ...] = SUFFIXES["parquet"]

    def __init__(self, *, measure: bool = False) -> None:
        self.measure = measure
        self.identity = "parquet/1 measured" if measure else "parquet/1"
        self._with_nulls: dict[tuple[Path, tuple[int, ...]], tuple[str, ...]] = {}

    def count(self, path: AnyPath) -> Census:
        """What is known of a shard, from its footer; of nulls in lists, from the column itself."""
        path = as_path(path)
        with _opened(path) as file:
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            decoded = max((group.total_byte_size for group in groups), default=0)
            fields = _fields(file.schema_arrow)
            rows: int = file.metadata.num_rows
            if fields is None:
                # Of objects, nothing but reading them tells how long the longest is.
                known = measured(Census(rows, None, 0, 0, decoded), self._groups(file, path), path)
                return replace(
                    known,
                    row_bytes=known.row_bytes + _OBJECT_BYTES,
                    packed_bytes=known.packed_bytes + _OBJECT_BYTES * rows,
                )
            flags = tuple(map(flag_of, self._nullable(file, fields, path)))
            known = bounded_census(rows, fields + flags, decoded_bytes=2 * decoded)
            return measured(known, self._groups(file, path), path) if self.measure else known

    def _groups(self, file: ParquetFile, path: Path) -> Iterator[Rows]:
        """All rows, a row group at a time."""
        for number in range(file.num_row_groups):
            yield self._rows(file, file.read_row_group(number), path)

    def read(self, path: AnyPath) -> Rows:
        """All rows of a shard."""
        path = as_path(path)
        with _opened(path) as file:
            return self._rows(file, file.read(), path)

    def read_rows(self, path: AnyPath, rows: Any) -> Rows:
        """The rows with these numbers, in that order; the row groups that they are in are read."""
        path = as_path(path)
        with _opened(path) as file:
            wanted = row_numbers(rows, file.metadata.num_rows)
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            ends = np.cumsum(sizes, dtype=np.int64)
            of_group = np.searchsorted(ends, wanted, side="right")
            needed = np.unique(of_group)
            # Where each group that is read begins in the table that they make.
            starts = np.cumsum([0, *(sizes[number] for number in needed)], dtype=np.int64)[:-1]
            inside = wanted - (ends[of_group] - np.array(sizes, dtype=np.int64)[of_group]) if wanted.size else wanted
            places = starts[np.searchsorted(needed, of_group)] + inside if wanted.size else wanted
            table = file.read_row_groups(needed.tolist()).take(places)
            return self._rows(file, table, path)

    def _rows(self, file: ParquetFile, table: pa.Table, path: Path) -> Rows:
        fields = _fields(file.schema_arrow)
        if fields is None:
            return Rows(objects=table.to_pylist())
        bad: dict[int, str] = {}
        columns = {field.name: _column(table.column(field.name), field, bad) for field in fields}
        for name in self._nullable(file, fields, path):
            columns[flag_of(name).name] = _valid(table.column(name))
        for column in columns.values() if bad else ():
            column[list(bad)] = 0
        return Rows(columns=columns, bad=dict(sorted(bad.items())))

    def _nullable(self, file: ParquetFile, fields: tuple[Field, ...], path: Path) -> tuple[str, ...]:
        """The columns that have nulls, in any row of the file; kept, because it may take reading them."""
        state = (path, state_of(path))
        known = self._with_nulls.get(state)
        if known is None:
            known = _nullable(file, fields, path)
            if len(self._with_nulls) >= _MOST_KEPT:
                self._with_nulls.clear()
            self._with_nulls[state] = known
        return known

    def __repr__(self) -> str:
        return f"ParquetShards(measure={self.measure})"


class _opened:  # noqa: N801 (a context, as functions are)
    """A Parquet file that is open; what pyarrow says of damaged ones becomes an error with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> ParquetFile:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise MissingExtraError(
                f"{self.path}: Parquet is read by pyarrow, which is not installed: pip install 'seekset[parquet]'",
                name="pyarrow",
            ) from None
        self.path.open("rb").close()  # what is no file is told by the system
        try:
            self._file = ParquetFile(str(self.path), memory_map=True)
        except BaseException as error:
            self._tell(error)
            raise
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._file.close()
        self._tell(error)

    def _tell(self, error: BaseException | None) -> None:
        from pyarrow import ArrowException

        known = isinstance(error, (FormatError, MismatchError)) or is_of_the_system(error)
        if isinstance(error, (ArrowException, OSError, ValueError)) and not known:
            raise FormatError(f"{self.path}: expected a Parquet file: {error}") from None


def _fields(schema: pa.Schema) -> tuple[Field, ...] | None:
    """The columns, if all of them are numbers or lists of a fixed size of them."""
    fields = [_field(one.name, one.type) for one in schema]
    return None if not fields or None in fields else tuple(one for one in fields if one is not None)


def _field(name: str, kind: pa.DataType) -> Field | None:
    from pyarrow import types

    shape: list[int] = []
    while types.is_fixed_size_list(kind):
        shape.append(kind.list_size)
        kind = kind.value_type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return None
    dtype = np.dtype(kind.to_pandas_dtype())
    return Field(name, dtype.str, tuple(shape)) if is_numeric(dtype) else None


def _nullable(file: ParquetFile, fields: tuple[Field, ...], path: Path) -> tuple[str, ...]:
    names: list[str] = []
    for column, field in enumerate(fields):
        found = _nulls(file, column)
        # In a list, what is counted may be in the list: the column itself tells.
        if found is None or (found and field.shape):
            found = file.read(columns=[field.name]).column(0).null_count
        if found:
            flag = flag_of(field.name).name
            if any(other.name == flag for other in fields):
                raise FormatError(f"{path}: column {field.name!r} has nulls, and {flag!r} is a column itself")
            names.append(field.name)
    return tuple(names)


def _nulls(file: ParquetFile, column: int) -> int | None:
    """How many nulls a column has by the statistics of the file, if it has them."""
    found = 0
    for number in range(file.num_row_groups):
        statistics = file.metadata.row_group(number).column(column).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        found += statistics.null_count
    return found


def _valid(values: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.array(values.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _column(chunked: pa.ChunkedArray, field: Field, bad: dict[int, str]) -> NDArray[Any]:
    """The values of a column, with zeros for nulls; a list with a null in it, at any depth, is a bad row."""
    import pyarrow as pa

    values = pa.concat_arrays(chunked.chunks) if chunked.num_chunks else pa.array([], chunked.type)
    column = np.zeros((len(values), *field.shape), field.dtype)
    rows = np.flatnonzero(_valid(values))
    values = values.drop_null()
    for depth in range(1, len(field.shape) + 1):
        # Flattening passes over lists that are null: only where there are none do values stay at their places.
        values, items = values.flatten(), prod(field.shape[:depth])
        if values.null_count:
            whole = _valid(values).reshape(len(rows), items).all(axis=1)
            for row in rows[~whole]:
                bad.setdefault(
                    int(row), f"column {field.name!r}: expected {prod(field.shape)} numbers, found nulls among them"
                )
            rows, values = rows[whole], values.filter(pa.array(np.repeat(whole, items)))
    dense = np.asarray(values.to_numpy(zero_copy_only=False))
    column[rows] = little_endian(dense).reshape(len(rows), *field.shape)
    return column
