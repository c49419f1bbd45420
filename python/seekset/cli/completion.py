"""``seekset completion``."""

from __future__ import annotations

import click

from seekset.cli.options import debug_option


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@debug_option
def command(shell: str) -> None:
    """Print a completion script for your shell.

    It completes commands, options, choices and paths. Type the line for this terminal only, or put it into the file
    that the shell reads when it starts:

    \b
      bash   eval "$(seekset completion bash)"          ~/.bashrc
      zsh    eval "$(seekset completion zsh)"           ~/.zshrc, after compinit
      fish   seekset completion fish | source           ~/.config/fish/config.fish
    """  # noqa: D301 (click wants the character)
    from click.shell_completion import get_completion_class

    from seekset.cli import ASKED, cli

    kind = get_completion_class(shell)
    if kind is None:  # click knows these three
        raise click.UsageError(f"there is no completion for {shell}")
    # Not `source()`, which looks for a bash on this machine: the script may be for another.
    script = kind(cli, {}, "seekset", ASKED)
    click.echo(kind.source_template % script.source_vars())
