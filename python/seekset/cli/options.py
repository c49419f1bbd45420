"""Options that more than one command has."""

from __future__ import annotations

import click

__all__ = ["PATH", "index_option"]

# Whether a file is there and may be read is found out, and told, by whoever reads it.
PATH = click.Path(readable=False)

index_option = click.option(
    "--index",
    type=PATH,
    help="Where the index is; made if it is not there, refused if it is of another file. FILE.sidx unless given.",
)
