"""``seekset demo``."""

from __future__ import annotations

from pathlib import Path

import click

from seekset.cli.options import debug_option


@click.command(name="demo")
@click.option(
    "--folder", default="demo", show_default=True, type=click.Path(path_type=Path), help="Where to put its files."
)
@debug_option
def command(folder: Path) -> None:
    """Show the main jobs end to end, on generated data.

    It takes less than two minutes, and writes about 200 MB into a folder of its own: one that holds files the demo did
    not make is refused.
    """
    from seekset.demo import run
    from seekset.demo.folder import claim

    claim(folder)
    run(folder)
