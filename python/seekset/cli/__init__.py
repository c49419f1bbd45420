"""The command line. One file per command; each is imported when it is used, and imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from seekset.cli.endings import EXIT_CODES, code_of
from seekset.cli.options import debug_option
from seekset.cli.terminal import Manners, plain_warnings

__all__ = ["ASKED", "STAGES", "cli", "main"]

# Commands by stage, each with its module and what its help begins with: so the list of them is shown without importing
# any.
STAGES = {
    "Index": {
        "index": ("index", "Index FASTA files (plain or bgzip)."),
        "faidx": ("faidx", "Write FILE.fai, byte for byte as samtools does."),
        "tfrecord-index": ("tfrecord_index", "Write FILE.idx for each TFRecord FILE."),
    },
    "Look": {
        "get": ("get", "Print records or regions of FILE as FASTA."),
        "stats": ("stats", "Show how many records FILES have and how long they are."),
        "tfrecord": ("tfrecord", "Look into TFRecord files."),
        "report": ("report", "Write one HTML page about WHAT."),
    },
    "Plan": {
        "plan": ("plan", "Pack the sequences of INDEX into batches."),
    },
    "Batch": {
        "pool": ("pool", "Look at mixed pools of shards before training on them."),
        "eden": ("eden", "Make and check the databases of Sharded Eden."),
    },
    "Run": {
        "embed": ("embed", "Run an encoder over every sequence of FILES."),
        "status": ("status", "Show how far the run in FOLDER is."),
        "aggregate": ("aggregate", "Put the results of a run into one HDF5 file."),
    },
    "Other": {
        "demo": ("demo", "Show the main jobs end to end, on generated data."),
        "doctor": ("doctor", "Show versions, threads, devices and optional parts."),
        "completion": ("completion", "Print a completion script for your shell."),
    },
}
_COMMANDS = {name: about for commands in STAGES.values() for name, about in commands.items()}

# Set by the scripts of `seekset completion` when a shell asks what may follow.
ASKED = "_SEEKSET_COMPLETE"


class _Commands(click.Group):
    """A group whose commands are imported when they are used, and listed by stage."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (click's)
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"seekset.cli.{_COMMANDS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, 2)
            hint = f"is {' or '.join(near)} meant?" if near else f"there are {', '.join(_COMMANDS)}"
            ctx.fail(f"there is no command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's)
        widest = max(map(len, _COMMANDS))
        for stage, commands in STAGES.items():
            with formatter.section(stage):
                formatter.write_dl([(name.ljust(widest), about) for name, (_, about) in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"seekset {version('seekset')}")
        ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@debug_option
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def cli(**_: Any) -> None:
    """Large files of records, by seeking straight to the bytes.

    Commands show tables on a terminal and plain text in a pipe. Those that have something to tell take --json and
    --quiet, and all take --debug.
    """
    click.get_current_context().with_resource(plain_warnings())


def main() -> None:
    """Run the command line and end the process."""
    manners = Manners()
    try:
        _open_streams()
        code = _run(manners)
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 (each has its line and its code)
        code = code_of(error, debug=manners.debug)
    sys.exit(code)


def _open_streams() -> None:
    """Let what was closed by whoever started this (``>&-``) lead nowhere, instead of to an error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (until the process ends)


def _run(manners: Manners) -> int:
    if asked := os.environ.get(ASKED):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "seekset", ASKED, asked)
    try:
        with cli.make_context("seekset", sys.argv[1:], obj=manners) as context:
            cli.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return 0
