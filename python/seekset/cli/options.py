"""Options that more than one command has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from seekset.cli.terminal import Manners
from seekset.errors import SeeksetError

__all__ = ["PATH", "common_options", "debug_option", "drawing", "index_option", "plot_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Path(click.Path):
    """A path; none that is empty, as one is whose variable was never set: it would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


# Whether a file is there and may be read is found out, and told, by whoever reads it.
PATH = _Path(readable=False)

index_option: Callable[[_Command], _Command] = click.option(
    "--index",
    type=PATH,
    help="Where the index is; made if it is not there, refused if it is of another file. FILE.sidx unless given.",
)


@contextmanager
def drawing(out: str) -> Iterator[None]:
    """Say of a picture that can't be drawn what is wrong in the words of its option."""
    try:
        yield
    except SeeksetError:
        raise
    except ValueError as error:
        raise click.UsageError(f"--plot {out}: {error}") from None


def _check_plot(context: click.Context, _: click.Parameter, out: str | None) -> str | None:
    from seekset.extras import require
    from seekset.pictures import check_picture

    if out is not None and not context.resilient_parsing:
        with drawing(out):
            check_picture(out)
        require("--plot", "matplotlib", "plot")
    return out


def plot_option(*, draws: str) -> Callable[[_Command], _Command]:
    """The option for a picture. Whether it may go where it is to go is found out before anything is computed."""
    return click.option("--plot", type=PATH, callback=_check_plot, help=f"Draw {draws} (a picture: .png, .svg, .pdf).")


def _manners(context: click.Context) -> Manners:
    return context.find_root().ensure_object(Manners)


def _note_debug(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        _manners(context).debug = True


def _note_quiet(context: click.Context, _: click.Parameter, wanted: bool) -> bool:
    if wanted:
        _manners(context).quiet = True
    return wanted


# Before the command or after it. It is read first: what other options are wrong with may be what is looked for.
debug_option: Callable[[_Command], _Command] = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_note_debug,
    help="Show the traceback of an error.",
)


def common_options(*, json: str = "one JSON object", but: str = "errors") -> Callable[[_Command], _Command]:
    """The options of every command that tells something: ``--json``, ``--quiet`` and ``--debug``.

    Args:
        json: What is printed for programs.
        but: What is shown even if it is to be quiet.
    """

    def decorate(command: _Command) -> _Command:
        command = debug_option(command)
        quiet = f"Show nothing but {but}."
        command = click.option("-q", "--quiet", is_flag=True, callback=_note_quiet, help=quiet)(command)
        return click.option("--json", "as_json", is_flag=True, help=f"Print {json}, and nothing else.")(command)

    return decorate
