"""How commands end: what becomes of an error, in one line for people and one number for programs."""

from __future__ import annotations

import os
import select
import sys
import traceback
from contextlib import suppress

import click

from seekset.cli.terminal import show_error
from seekset.visible import visible

__all__ = ["EXIT_CODES", "code_of"]

_WRONG, _MISUSED, _UNEXPECTED, _INTERRUPTED, _UNREAD = 1, 2, 70, 130, 141

EXIT_CODES = {
    0: "done",
    _WRONG: "something is wrong with a file, or not everything could be done",
    _MISUSED: "the command was used wrongly",
    _UNEXPECTED: "an unexpected error (a bug); please report it",
    _INTERRUPTED: "interrupted with Ctrl-C",
    _UNREAD: "whoever read the output went away",
    143: "ended by SIGTERM",
}


def code_of(error: BaseException, *, debug: bool) -> int:
    """The exit code for what ended a command, which is told on stderr; with ``debug``, with the way it took.

    >>> code_of(click.UsageError("no"), debug=False), code_of(SystemExit(3), debug=False)
    (2, 3)
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, (click.exceptions.Abort, KeyboardInterrupt)):
        return _INTERRUPTED
    if isinstance(error, BrokenPipeError) and _is_unread():
        return _UNREAD
    code, said = _told(error)
    with suppress(OSError):  # there may be nobody left to tell
        _tell(error, said, debug=debug)
    return code


def _tell(error: BaseException, said: BaseException | str, *, debug: bool) -> None:
    if isinstance(error, click.ClickException) and type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    elif debug and not isinstance(error, click.ClickException):
        click.echo(visible("".join(traceback.format_exception(error)), keep="\n"), err=True, nl=False)
    else:
        show_error(said)


def _is_unread() -> bool:
    """Whether what reads stdout or stderr has gone. What is still to be written then goes nowhere."""
    gone = False
    for stream in (sys.stdout, sys.stderr):
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        if any(events & select.POLLERR for _, events in poll.poll(0)):
            gone = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return gone


def _usage(error: click.ClickException) -> str:
    """What is wrong with a command line, and where to look."""
    said = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return said if context is None else f"{said} (see `{context.command_path} --help`)"


def _told(error: BaseException) -> tuple[int, BaseException | str]:
    """The exit code for an error, and what is said of it."""
    from seekset.errors import SeeksetError

    if isinstance(error, click.ClickException):
        return error.exit_code, _usage(error)
    if isinstance(error, (SeeksetError, OSError, ExceptionGroup)):
        return _WRONG, error
    if isinstance(error, MemoryError):
        return _WRONG, f"there is not enough memory{f': {error}' if str(error) else ''}"
    if isinstance(error, ImportError) and (remedy := _missing_part(error)) is not None:
        return _WRONG, remedy
    kind = type(error).__name__
    return (
        _UNEXPECTED,
        f"unexpected error: {kind}: {error}; run it again with --debug to see where, and please report it",
    )


def _missing_part(error: ImportError) -> str | None:
    """What to install for a part that is not there; nothing if it is ours that is missing."""
    from seekset.cli.parts import PARTS

    if "pip install" in str(error):
        return str(error)
    name = (error.name or "").partition(".")[0]
    extra = next((part.extra for part in PARTS if part.module.partition(".")[0] == name), None)
    return None if extra is None else f"this needs {name}, which is not installed: pip install 'seekset[{extra}]'"
