"""``seekset index``."""

from __future__ import annotations

from errno import EACCES, EPERM, EROFS
from typing import TYPE_CHECKING

import click

from seekset.cli.files import find_each
from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import say, show_faults, show_json, show_table
from seekset.numbers import amount
from seekset.progress import progress_bar

if TYPE_CHECKING:
    from seekset.indexing import IndexReport
    from seekset.sequences import SequenceIndex

_NOT_ALLOWED = {EACCES, EPERM, EROFS}


@click.command(name="index")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, help="Make one sequence index of all FILES, and write it here.")
@click.option("--unique", is_flag=True, help="With -o: refuse FILES in which two records have one id.")
@click.option("--index", type=PATH, help="Where the index of the FILE goes, if not beside it (one file only).")
@click.option("-f", "--force", is_flag=True, help="Build indexes anew even if they fit.")
@click.option("--verify", is_flag=True, help="Read the finished indexes through and compare all checksums.")
@common_options(json="a JSON object for each file, one a line (with -o, one object)")
def command(
    files: tuple[str, ...],
    output: str | None,
    unique: bool,
    index: str | None,
    force: bool,
    verify: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Index FASTA files (plain or bgzip).

    Each FILE gets a FILE.sidx beside it. FILES may be globs and folders. Indexes that fit their files are left as they
    are. If one file can't be indexed, the others still are.

    With -o, a sequence index is written as well: one list of all records of all FILES, the longest first, which plans
    and batches are made from. It is JSON, which people can read, if the path ends in .json, and Arrow if not.
    """
    if output is not None and index is not None:
        raise click.UsageError("--index is for one file's own index, and can't be given with -o")
    if index is not None and len(files) > 1:
        raise click.UsageError("--index names one index, but several files were given")
    if output is not None:
        _index_sequences(files, output, unique=unique, force=force, verify=verify, as_json=as_json, quiet=quiet)
    elif unique:
        raise click.UsageError("--unique is for sequence indexes: give -o")
    else:
        _index_each(files, index, force=force, verify=verify, as_json=as_json, quiet=quiet)


def _index_each(
    files: tuple[str, ...], index: str | None, *, force: bool, verify: bool, as_json: bool, quiet: bool
) -> None:
    from seekset.files import find_fastas
    from seekset.indexing import IndexFault, IndexReport, index_files

    paths, faults = find_each(files, find_fastas)
    if index is not None and len(paths) > 1:
        raise click.UsageError("--index names one index, but several files were given")
    with progress_bar("indexing", quiet=quiet or as_json) as tell:
        found = list(index_files(paths, index=index, force=force, verify=verify, progress=tell))
    found.sort(key=lambda one: paths.index(one.path))
    reports = [one for one in found if isinstance(one, IndexReport)]
    faults += [_with_remedy(one.error) for one in found if isinstance(one, IndexFault)]
    if as_json:
        for report in reports:
            show_json(report._asdict())
    elif reports and not quiet:
        heads = ("file", "records", "letters", "speed", "index")
        show_table(heads, [(r.path, r.records, r.letters, _speed(r), r.index_path) for r in reports])
    for report in () if quiet else reports:
        if report.repeated_ids:
            say(f"{report.path}: {_count(report.repeated_ids)} an id that an earlier one has")
        if report.remark is not None:
            say(f"{report.path}: {report.remark}")
    show_faults(faults)


def _with_remedy(error: Exception) -> Exception:
    """An index that may not be written where it belongs may go elsewhere."""
    if isinstance(error, OSError) and error.errno in _NOT_ALLOWED and str(error.filename).endswith(".sidx"):
        remedy = "--index names another place for the index of one file"
        return type(error)(error.errno, f"{error.strerror}; {remedy}", error.filename)
    return error


def _index_sequences(
    files: tuple[str, ...], output: str, *, unique: bool, force: bool, verify: bool, as_json: bool, quiet: bool
) -> None:
    from seekset.files import find_fastas
    from seekset.sequences import SequenceIndex

    # A file that is named twice is refused, and not passed over: one of the two may have been meant to be another.
    paths = [path for word in files for path in find_fastas(word)]
    with progress_bar("indexing", quiet=quiet or as_json) as tell:
        index = SequenceIndex.create(
            paths, output, duplicates="error" if unique else "keep", force=force, progress=tell
        )
    if verify:
        index.verify()
    facts = _describe(index, output)
    if as_json:
        show_json(facts)
    elif not quiet:
        show_table(list(facts), [list(facts.values())])


def _describe(index: SequenceIndex, output: str) -> dict[str, object]:
    from seekset.lengths import describe

    lengths = describe(index.lengths)
    return {
        "index": output,
        "files": len(index.files),
        "sequences": len(index),
        "tokens": index.total_tokens,
        **{name: lengths[name] for name in ("shortest", "median", "longest")},
    }


def _count(records: int) -> str:
    return "1 record has" if records == 1 else f"{records} records have"


def _speed(report: IndexReport) -> str:
    if not report.built:
        return "was there"
    seconds = max(report.seconds, 1e-9)
    return f"{amount(report.records / seconds, 'records/s')}, {amount(report.file_bytes / seconds, 'B/s')}"
