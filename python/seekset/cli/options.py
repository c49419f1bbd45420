"""Options that more than one command has."""

from __future__ import annotations

import click

__all__ = ["index_option"]

index_option = click.option(
    "--index", type=click.Path(), help="Where the index is, or is to be written; FILE.sidx unless given."
)
