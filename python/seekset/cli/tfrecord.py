"""``seekset tfrecord``: what can be done with TFRecord files besides indexing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seekset.cli.terminal import progress_bar, show_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@click.group(name="tfrecord")
def command() -> None:
    """Look into TFRecord files."""


@command.command(name="verify")
@click.argument("files", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="Show nothing but faults.")
def verify(files: tuple[str, ...], quiet: bool) -> None:
    """Compare all checksums of FILES, of lengths and of payloads.

    Every fault is told with file, record and byte offset; the exit code is 1 if there is one. FILES may be globs and
    folders.
    """
    from seekset import _core
    from seekset.indexing import Progress, side_by_side
    from seekset.tfrecord import find_tfrecords

    paths = find_tfrecords(files)

    def one(file: Path, tell: Callable[[int, int], None]) -> tuple[Path, int, list[str]]:
        return file, *_core.survey_tfrecord(file, tell)

    with progress_bar("verifying", quiet=quiet) as told:
        done = sorted(side_by_side(paths, one, watch=Progress(paths, told)))
    for _, _, faults in done:
        for fault in faults:
            click.echo(fault)
    if not quiet:
        show_table(("file", "records", "faults"), [(file, records, len(faults)) for file, records, faults in done])
    if any(faults for _, _, faults in done):
        click.get_current_context().exit(1)
