"""What commands show: tables on a terminal, plain text in a pipe, JSON for programs."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import click

from seekset.errors import SeeksetWarning, in_one_line
from seekset.visible import one_line, visible

__all__ = [
    "Manners",
    "plain_warnings",
    "say",
    "show_data",
    "show_error",
    "show_faults",
    "show_json",
    "show_line",
    "show_table",
]


@dataclass
class Manners:
    """How a command is to talk, as the options say that all commands have."""

    debug: bool = False
    quiet: bool = False


def say(text: object) -> None:
    """Tell people one line on stderr, beside what the command prints."""
    click.echo(f"seekset: {one_line(text)}", err=True)


def show_line(text: object) -> None:
    """Print one line for people; what can't be seen in it is spelled out, in a pipe as well."""
    click.echo(one_line(text))


def show_data(text: object) -> None:
    """Print one line of what a command was asked for: as it is in a pipe, spelled out on a terminal, as ``ls`` does."""
    if sys.stdout.isatty():
        click.echo(visible(str(text)))
    else:
        # As bytes: from text, click would take what looks like a colour.
        click.echo(str(text).encode("utf-8", "surrogateescape"))


def show_error(error: BaseException | str) -> None:
    """Say in one line what is wrong."""
    say(in_one_line(error))


def show_faults(faults: Sequence[Exception]) -> None:
    """Say in one line each what is wrong with files, and end with the exit code for it; with --debug, raise them."""
    context = click.get_current_context()
    if faults and context.find_root().ensure_object(Manners).debug:
        raise ExceptionGroup("some files are wrong", faults)
    for fault in faults:
        show_error(fault)
    if faults:
        context.exit(1)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show what seekset warns of and logs in one line each, without its place in the code; nothing if it is quiet."""
    manners = click.get_current_context().find_root().ensure_object(Manners)

    def remark(message: object) -> None:
        # Nobody may look any more: that is no reason to end.
        with suppress(OSError):
            if not manners.quiet:
                say(message)

    with warnings.catch_warnings(), _plain_logs(remark):
        show = warnings.showwarning

        def show_plainly(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, SeeksetWarning):
                remark(message)
            else:
                show(message, category, *place, **more)

        warnings.showwarning = show_plainly
        yield


@contextmanager
def _plain_logs(remark: Callable[[object], None]) -> Iterator[None]:
    import logging

    class Remarks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            remark(record.getMessage())

    log, remarks = logging.getLogger("seekset"), Remarks(logging.WARNING)
    log.addHandler(remarks)
    try:
        yield
    finally:
        log.removeHandler(remarks)


def show_json(facts: Mapping[str, Any]) -> None:
    """Print one JSON object in a line; paths are text."""
    import json

    click.echo(json.dumps(facts, default=str))


def show_table(heads: Sequence[str], rows: Sequence[Sequence[object]], *, names: Collection[str] = ()) -> None:
    """Print a table: drawn on a terminal, columns parted by tabs in a pipe. Numbers stand to the right.

    Ids and paths are data: what can't be seen in them is spelled out, so that a row is a line and a cell a column.
    ``names`` are the columns whose numbers are no amounts, as ids of processes.
    """
    if not sys.stdout.isatty():
        for row in (heads, *rows):
            click.echo("\t".join(visible(str(value)) for value in row))
        return
    from rich.console import Console

    from seekset.cli.tables import DrawnTable

    Console().print(DrawnTable(heads, rows, names=names))
