"""Sample databases, and the table of contigs that windows are made from, out of FASTA files."""

from __future__ import annotations

import errno
import os
import warnings
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from seekset import _core
from seekset.eden import create_sample_database, extract_sample_id, sample_database_path
from seekset.errors import DuplicateIdError, MismatchError, SeeksetWarning
from seekset.extras import missing
from seekset.fasta import Fasta
from seekset.files import AnyPath, as_path
from seekset.publishing import published, refuse_to_replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["SPLITS", "SampleReport", "build_sample_databases", "find_tables", "write_contigs"]

# What splits are called, in the order of their shares.
SPLITS = ("train", "val", "test")

# The word that asks for a sample of each file.
_EACH_FILE = "file"


_PARQUET = b"PAR1"


class SampleReport(NamedTuple):
    """A sample database that was built."""

    sample: str
    path: Path
    ids: list[str]
    lengths: list[int]


# The rows of a sample's contigs, by file: 8 bytes each, because there may be a hundred million.
_Rows: TypeAlias = "dict[Path, array[int]]"


def build_sample_databases(
    files: Sequence[AnyPath],
    folder: AnyPath,
    *,
    sample: str | None = None,
    replace: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[SampleReport]:
    """Write a database for each sample that FASTA files hold, and tell of each when it is written.

    Ids tell their sample, as in ``BCR__ECT-SAMPLE__CONTIG``. With ``sample`` all records go into one database of that
    name; with ``sample="file"`` those of each file go into one of the file's name, and get ids that tell it.

    Without ``replace``, a database that is there already is a ``FileExistsError``, before anything is written.

    >>> for report in build_sample_databases(["genome.fa"], "dbs", sample="file"):
    ...     report.path, report.ids, report.lengths
    (PosixPath('dbs/genome/glm_dataset_genome.sqlite'), ['genome__S-genome__chr1', 'genome__S-genome__chr2'], [27, 9])
    """
    paths = [as_path(file) for file in files]
    # Where names are given, before files are read, which may have to be indexed; then, as ids tell them.
    _refuse_outputs(_databases(folder, _named(paths, sample)), replace=replace)
    samples, total = _group(paths, sample)
    databases = dict(zip(samples, _databases(folder, samples), strict=True))
    _refuse_outputs(databases.values(), replace=replace)
    done = 0

    def contigs(of_files: _Rows, report: SampleReport) -> Iterator[tuple[str, str]]:
        nonlocal done
        for file, rows in of_files.items():
            # One file is open at a time: there may be more of them than a process may have open.
            fasta = Fasta(file, duplicates="first")
            for row in rows:
                record = fasta[row]
                contig, letters = _contig(file, record.id, sample), record.sequence
                report.ids.append(contig)
                report.lengths.append(len(letters))
                yield contig, letters
                done += len(letters)
                if progress is not None:
                    progress(done, total)

    for name, of_files in sorted(samples.items()):
        report = SampleReport(name, databases[name], [], [])
        try:
            create_sample_database(name, contigs(of_files, report), folder)
        except DuplicateIdError as error:
            raise _twice(report, of_files) from error
        yield report


def _named(files: list[Path], sample: str | None) -> Iterable[str]:
    """The samples that are known before any id is."""
    if sample == _EACH_FILE:
        return map(_sample_of, files)
    return () if sample is None else (sample,)


def _databases(folder: AnyPath, samples: Iterable[str]) -> list[Path]:
    try:
        return [sample_database_path(folder, sample) for sample in samples]
    except ValueError as error:
        raise MismatchError(f"{error}; give another with --sample NAME") from None


def _twice(report: SampleReport, of_files: _Rows) -> DuplicateIdError:
    """The error of the contig that was read last, which was met before."""
    contig, source = report.ids[-1], [file for file, rows in of_files.items() for _ in rows]
    first, second = source[report.ids.index(contig)], source[len(report.ids) - 1]
    where = f"twice in {first}" if first == second else f"in {first} and in {second}"
    remedy = "rename one" if first == second else "rename one, or make a sample of each file with --sample file"
    return DuplicateIdError(f"sample {report.sample!r}: contig {contig!r} is {where}; {remedy}")


def _group(files: list[Path], sample: str | None) -> tuple[dict[str, _Rows], int]:
    """The records of each sample, and all their letters. All ids are looked at before a letter is read."""
    samples: dict[str, _Rows] = {}
    of_file: dict[str, Path] = {}
    empty: list[Path] = []
    total = 0
    for file in files:
        fasta = Fasta(file, duplicates="first")
        if not len(fasta):
            empty.append(file)
        total += int(fasta.lengths.sum())
        name = _sample_of(file) if sample == _EACH_FILE else sample
        if sample == _EACH_FILE and name is not None and of_file.setdefault(name, file) != file:
            raise MismatchError(f"{file} and {of_file[name]} both give sample {name!r}: rename one")
        for row, id in enumerate(fasta):  # noqa: A001 (what it is)
            contig = _contig(file, id, sample)
            if sample == _EACH_FILE and _core.sample_of(contig) != name:
                raise MismatchError(
                    f"{file}: its name can't be told from the id {contig!r}; rename it, or give --sample NAME"
                )
            told = _told(file, contig) if name is None else name
            samples.setdefault(told, {}).setdefault(file, array("q")).append(row)
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        message = f"{empty[0]}{more}: expected contigs, found none"
        if not samples:
            raise MismatchError(message)
        warnings.warn(message, SeeksetWarning, stacklevel=3)
    return samples, total


def _contig(file: Path, id: str, sample: str | None) -> str:  # noqa: A002 (what it is)
    """What a record is called in its database."""
    return f"{_stem(file)}__S-{_sample_of(file)}__{id}" if sample == _EACH_FILE else id


def _sample_of(file: Path) -> str:
    return _stem(file).replace("-", ".")


def _told(file: Path, contig: str) -> str:
    try:
        return extract_sample_id(contig)
    except ValueError as error:
        raise MismatchError(
            f"{file}: {error}; give --sample NAME for one sample, or --sample file for one of each file"
        ) from None


def _stem(file: Path) -> str:
    """A file's name without the endings that say what kind of file it is.

    >>> _stem(Path("a/x-1.v2.fa.gz"))
    'x-1.v2'
    """
    return Path(file.stem if file.suffix in {".gz", ".bgz", ".bgzf"} else file.name).stem


def find_tables(parquet: AnyPath, splits: Sequence[float] | None = None, *, replace: bool = False) -> list[Path]:
    """Where the tables of contigs are written: that of all, then one for each split beside it.

    What is in their way is an error: so it is told before any work is done.

    >>> find_tables("tables/contigs.parquet", [0.9, 0.1])[1:]
    [PosixPath('tables/train_split.parquet'), PosixPath('tables/val_split.parquet')]
    """
    try:
        import pyarrow as pa  # noqa: F401 (whether it is there)
    except ImportError:
        raise missing("writing Parquet", "pyarrow", "eden") from None

    path = as_path(parquet)
    tables = [path, *_split_tables(path, SPLITS[: len(splits or ())])]
    stale = _stale_tables(path, splits)
    if path in tables[1:]:
        raise MismatchError(f"{path}: the table of all contigs can't have the name of a split's; give another path")
    for table in (*tables, *stale):
        _refuse_other_than_parquet(table)
    _refuse_outputs(tables, replace=replace)
    if stale and not replace:
        message = "contigs of this split of an earlier run may be in others now; --replace removes it"
        raise FileExistsError(errno.EEXIST, message, str(stale[0]))
    return tables


def _split_tables(path: Path, splits: Iterable[str]) -> list[Path]:
    return [path.with_name(f"{name}_split.parquet") for name in splits]


def _stale_tables(path: Path, splits: Sequence[float] | None) -> list[Path]:
    """Tables of splits that are there, but not asked for beside others: they would share contigs with these."""
    others = _split_tables(path, SPLITS[len(splits) :] if splits else ())
    return [table for table in others if table != path and os.path.lexists(table)]


def write_contigs(
    reports: Sequence[SampleReport],
    parquet: AnyPath,
    splits: Sequence[float] | None = None,
    *,
    replace: bool = False,
) -> list[Path]:
    """Write the table of all contigs, and one for each split beside it. Returns what was written.

    A contig's split follows from a hash of its id: it is the same whatever other contigs there are. Where shares add up
    to less than 1, the rest of the contigs is in no split, and a warning says how many they are. Without ``replace``, a
    table that is there already is a ``FileExistsError``; so is that of a split for which no share is given. With
    ``replace`` such a table is removed, and a warning says so: its contigs may be in the splits that are written.

    >>> reports = list(build_sample_databases(["genome.fa"], "dbs", sample="file", replace=True))
    >>> [path.name for path in write_contigs(reports, "contigs.parquet", [0.9, 0.05, 0.05])]
    ['contigs.parquet', 'train_split.parquet', 'val_split.parquet', 'test_split.parquet']
    """
    tables = find_tables(parquet, splits, replace=replace)
    import pyarrow as pa

    ids = [contig for report in reports for contig in report.ids]
    lengths = [length for report in reports for length in report.lengths]
    table = pa.table({"contig_id": pa.array(ids, pa.string()), "length": pa.array(lengths, pa.int64())})
    for stale in _stale_tables(tables[0], splits):
        stale.unlink()
        message = f"{stale}: removed, since contigs of this split of an earlier run may be in others now"
        warnings.warn(message, SeeksetWarning, stacklevel=2)
    _write_table(table, tables[0])
    if splits is not None:
        # By name, as WindowDataset has them, so that both part contigs alike.
        shares = dict(sorted(zip(SPLITS, splits, strict=False)))
        of = _core.split_of(ids, list(shares.values()))
        if none := int((of < 0).sum()):
            message = f"{none} of {len(ids)} contigs are in no split: the shares add up to {sum(splits):g}"
            warnings.warn(message, SeeksetWarning, stacklevel=2)
        for path, name in zip(tables[1:], SPLITS, strict=False):
            _write_table(table.filter(pa.array(of == list(shares).index(name))), path)
    return tables


def _refuse_outputs(paths: Iterable[Path], *, replace: bool) -> None:
    """An error if no files can be made at these paths, or if there are some and they may not be replaced."""
    there = []
    for path in paths:
        if path.is_dir():
            raise _os_error(errno.EISDIR, path)
        if os.path.lexists(path):
            there.append(path)
        folder = next(parent for parent in path.parents if os.path.lexists(parent))
        if not folder.is_dir():
            raise _os_error(errno.ENOTDIR, folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _os_error(errno.EACCES, folder)
    if there and not replace:
        more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
        message = f"there is a file already{more}; --replace replaces {'them' if more else 'it'}"
        raise FileExistsError(errno.EEXIST, message, str(there[0]))


def _os_error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def _refuse_other_than_parquet(path: Path) -> None:
    """An error if there is a file that is no Parquet table: only those are replaced."""
    refuse_to_replace(path, "Parquet table", lambda start: start.startswith(_PARQUET))


def _write_table(table: Any, path: Path) -> None:
    """Write beside and rename, so that no half of a table is ever taken for all of it."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    with published(path) as part:
        pq.write_table(table, part)
