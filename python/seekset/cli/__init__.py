"""The command line. One file per command; each imports what it needs when it runs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from seekset.cli.terminal import plain_warnings, show_error

__all__ = ["cli", "main"]

_COMMANDS = {
    "aggregate": "seekset.cli.aggregate",
    "demo": "seekset.cli.demo",
    "eden": "seekset.cli.eden",
    "embed": "seekset.cli.embed",
    "faidx": "seekset.cli.faidx",
    "get": "seekset.cli.get",
    "index": "seekset.cli.index",
    "plan": "seekset.cli.plan",
    "pool": "seekset.cli.pool",
    "report": "seekset.cli.report",
    "stats": "seekset.cli.stats",
    "status": "seekset.cli.status",
    "tfrecord": "seekset.cli.tfrecord",
    "tfrecord-index": "seekset.cli.tfrecord_index",
}


class _Commands(click.Group):
    """A group whose commands are imported when they are looked at."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's)
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name]).command
        return command


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"seekset {version('seekset')}")
        ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def cli(**_: Any) -> None:
    """Large files of records, by seeking straight to the bytes.

    Exit codes: 0 done, 1 something is wrong with a file, 2 the command was used wrongly, 130 interrupted.
    """
    click.get_current_context().with_resource(plain_warnings())


def main() -> None:
    """Run the command line and end the process."""
    debug = "--debug" in sys.argv
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if debug or not _is_told(error):
            raise
        show_error(error)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _is_told(error: Exception) -> bool:
    from seekset.errors import SeeksetError

    return isinstance(error, (SeeksetError, OSError))
