"""Sample databases, and the table of contigs that windows are made from, out of FASTA files."""

from __future__ import annotations

import errno
import os
from array import array
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from seekset import _core
from seekset.eden import create_sample_database, extract_sample_id, sample_database_path
from seekset.errors import DuplicateIdError, MismatchError
from seekset.extras import missing
from seekset.fasta import Fasta
from seekset.files import AnyPath, as_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["SPLITS", "SampleReport", "build_sample_databases", "write_contigs"]

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
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[SampleReport]:
    """Write a database for each sample that FASTA files hold, and tell of each when it is written.

    Ids tell their sample, as in ``BCR__ECT-SAMPLE__CONTIG``. With ``sample`` all records go into one database of that
    name; with ``sample="file"`` those of each file go into one of the file's name, and get ids that tell it.

    >>> for report in build_sample_databases(["genome.fa"], "dbs", sample="file"):
    ...     report.path, report.ids, report.lengths
    (PosixPath('dbs/genome/glm_dataset_genome.sqlite'), ['genome__S-genome__chr1', 'genome__S-genome__chr2'], [27, 9])
    """
    samples, total = _group([as_path(file) for file in files], sample)
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
        report = SampleReport(name, sample_database_path(folder, name), [], [])
        try:
            create_sample_database(name, contigs(of_files, report), folder)
        except DuplicateIdError as error:
            raise DuplicateIdError(f"sample {name!r}: {error}") from error
        yield report


def _group(files: list[Path], sample: str | None) -> tuple[dict[str, _Rows], int]:
    """The records of each sample, and all their letters. All ids are looked at before a letter is read."""
    samples: dict[str, _Rows] = {}
    of_file: dict[str, Path] = {}
    total = 0
    for file in files:
        fasta = Fasta(file, duplicates="first")
        total += int(fasta.lengths.sum())
        name = _sample_of(file) if sample == _EACH_FILE else sample
        if sample == _EACH_FILE and name is not None and of_file.setdefault(name, file) != file:
            raise MismatchError(f"{file} and {of_file[name]} both give sample {name!r}: rename one")
        for row, id in enumerate(fasta):  # noqa: A001 (what it is)
            contig = _contig(file, id, sample)
            if sample == _EACH_FILE and _core.sample_of(contig) != name:
                raise MismatchError(
                    f"{file}: its name can't be told from the id {contig!r}; rename it, or give one sample"
                )
            told = _told(file, contig) if name is None else name
            samples.setdefault(told, {}).setdefault(file, array("q")).append(row)
    for name in samples:
        try:
            sample_database_path("", name)
        except ValueError as error:
            raise MismatchError(str(error)) from None
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
        raise MismatchError(f"{file}: {error}; give a sample, or 'file' for one of each file") from None


def _stem(file: Path) -> str:
    """A file's name without the endings that say what kind of file it is.

    >>> _stem(Path("a/x-1.v2.fa.gz"))
    'x-1.v2'
    """
    return Path(file.stem if file.suffix in {".gz", ".bgz", ".bgzf"} else file.name).stem


def write_contigs(
    reports: Sequence[SampleReport], parquet: AnyPath, splits: Sequence[float] | None = None
) -> list[Path]:
    """Write the table of all contigs, and one for each split beside it. Returns what was written.

    A contig's split follows from a hash of its id: it is the same whatever other contigs there are.

    >>> reports = list(build_sample_databases(["genome.fa"], "dbs", sample="file"))
    >>> [path.name for path in write_contigs(reports, "contigs.parquet", [0.9, 0.05, 0.05])]
    ['contigs.parquet', 'train_split.parquet', 'val_split.parquet', 'test_split.parquet']
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise missing("writing Parquet", "pyarrow", "eden") from None

    path = as_path(parquet)
    ids = [contig for report in reports for contig in report.ids]
    lengths = [length for report in reports for length in report.lengths]
    table = pa.table({"contig_id": pa.array(ids, pa.string()), "length": pa.array(lengths, pa.int64())})
    written = [_write_table(table, path)]
    if splits is not None:
        # By name, as WindowDataset has them, so that both part contigs alike.
        shares = dict(sorted(zip(SPLITS, splits, strict=False)))
        of = _core.split_of(ids, list(shares.values()))
        for number, name in sorted(enumerate(shares), key=lambda pair: SPLITS.index(pair[1])):
            written.append(_write_table(table.filter(pa.array(of == number)), path.with_name(f"{name}_split.parquet")))
    return written


def refuse_other_than_parquet(path: Path) -> None:
    """An error if there is a file that is no Parquet table: only those are replaced."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(_PARQUET)) != _PARQUET:
                raise MismatchError(f"{path}: there is a file already, and it is no Parquet table; give another path")


def _write_table(table: Any, path: Path) -> Path:
    """Write beside and rename, so that no half of a table is ever taken for all of it."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    refuse_other_than_parquet(path)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as file:
        try:
            pq.write_table(table, file)
            file.flush()
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)  # noqa: PTH101 (a temporary file is readable by its owner alone)
            os.replace(file.name, path)  # noqa: PTH105
        except BaseException:
            os.unlink(file.name)  # noqa: PTH108
            raise
    return path
