"""What commands show: tables and bars on a terminal, plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

__all__ = ["amount", "progress_bar", "show_table"]


@contextmanager
def progress_bar(label: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A callback (done, total) that draws a bar on a terminal; ``None`` where nothing is to be drawn."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)

        def tell(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield tell


def show_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: drawn on a terminal, columns parted by tabs in a pipe. Numbers stand to the right."""
    if not sys.stdout.isatty():
        for row in (heads, *rows):
            click.echo("\t".join(map(str, row)))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for column, head in enumerate(heads):
        numeric = all(isinstance(row[column], (int, float)) for row in rows)
        table.add_column(head, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Ids and paths are data: whatever they hold, they are shown as they are.
        table.add_row(*(f"{value:,}" if isinstance(value, int) else escape(str(value)) for value in row))
    Console().print(table)


def amount(number: float, unit: str) -> str:
    """A number in the shape people read.

    >>> amount(1_234_567, "records/s")
    '1.23 M records/s'
    """
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {prefix}{unit if unit == 'B/s' else ' ' + unit}"
    return f"{number:.3g} {unit}"
