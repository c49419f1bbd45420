"""``seekset tfrecord-index``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from seekset.cli.files import find_each
from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import show_faults, show_json, show_table
from seekset.numbers import amount
from seekset.progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from seekset.tfrecord import Verify


@click.command(name="tfrecord-index")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, help="Where to write the index (one file only).")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Files worked on at a time; one per core unless given.")
@click.option(
    "--verify",
    type=click.Choice(["lengths", "full", "none"]),
    default="lengths",
    show_default=True,
    help="Which checksums to compare: those of lengths, those of payloads as well, or none at all.",
)
@common_options(json="a JSON object for each file, one a line")
def command(
    files: tuple[str, ...], output: str | None, jobs: int | None, verify: str, as_json: bool, quiet: bool
) -> None:
    """Write FILE.idx for each TFRecord FILE.

    It is what DALI's tfrecord2idx writes. FILES may be globs and folders. With - the bytes come from stdin; their index
    goes to -o, or to stdout without it. An index is written whole or not at all. If one file can't be indexed, the
    others still are.
    """
    from seekset.tfrecord import find_tfrecords

    compared: Verify = None if verify == "none" else verify  # type: ignore[assignment]
    if files == ("-",):
        if as_json and output is None:
            raise click.UsageError("the index of stdin goes to stdout, where --json would be, too: give -o")
        _index_stdin(output, compared, as_json=as_json, quiet=quiet)
        return
    if "-" in files:
        raise click.UsageError("- means stdin and can't be given with files")
    paths, faults = find_each(files, find_tfrecords)
    if output is not None and len(paths) + len(faults) > 1:
        raise click.UsageError("-o names one index, but several files were given")
    show_faults(faults + _index_files(paths, output, jobs, compared, as_json=as_json, quiet=quiet))


def _index_stdin(output: str | None, verify: Verify, *, as_json: bool, quiet: bool) -> None:
    from seekset import _core

    stdin = sys.stdin.buffer
    records, text = _core.index_tfrecord_stream(stdin, "<stdin>", output, verify)
    if text is not None:
        click.echo(text, nl=False)
    elif as_json:
        show_json({"file": "-", "records": records, "index": output})
    elif not quiet:
        show_table(("file", "records", "index"), [("-", records, output)])


def _index_files(
    paths: list[Path], output: str | None, jobs: int | None, verify: Verify, *, as_json: bool, quiet: bool
) -> list[Exception]:
    """Index all files and give the errors of those that can't be; they do not keep the others from theirs."""
    import time
    from collections.abc import Callable

    from seekset.errors import SeeksetError
    from seekset.indexing import Progress, side_by_side
    from seekset.tfrecord import beside, create_tfrecord_index

    def one(file: Path, tell: Callable[[int, int], None]) -> tuple[Path, int | Exception, float]:
        start = time.perf_counter()
        try:
            records = create_tfrecord_index(file, output, verify=verify, progress=tell)
        except (SeeksetError, OSError) as error:
            return file, error, 0.0
        return file, records, time.perf_counter() - start

    with progress_bar("indexing", quiet=quiet or as_json) as told:
        watch = Progress(paths, told)
        done = sorted(side_by_side(paths, one, watch=watch, jobs=jobs), key=lambda result: result[0])
    made = [(file, records, seconds) for file, records, seconds in done if isinstance(records, int)]
    if as_json:
        for file, records, seconds in made:
            facts = {"file": file, "records": records, "bytes": watch.sizes[file], "seconds": seconds}
            show_json({**facts, "index": output or beside(file)})
    elif made and not quiet:
        rows = [(f, n, _speed(n, watch.sizes[f], seconds), output or beside(f)) for f, n, seconds in made]
        show_table(("file", "records", "speed", "index"), rows)
    return [error for _, error, _ in done if isinstance(error, Exception)]


def _speed(records: int, size: int, seconds: float) -> str:
    seconds = max(seconds, 1e-9)
    return f"{amount(records / seconds, 'records/s')}, {amount(size / seconds, 'B/s')}"
