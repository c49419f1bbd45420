"""``seekset faidx``."""

from __future__ import annotations

import warnings

import click

from seekset.cli.options import PATH
from seekset.errors import SeeksetWarning
from seekset.progress import progress_bar


@click.command(name="faidx")
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=PATH, help="Where to write; FILE.fai unless given.")
@click.option("--like-samtools", is_flag=True, help="Leave out what samtools leaves out instead of refusing it.")
@click.option("-q", "--quiet", is_flag=True, help="Show nothing but errors.")
def command(file: str, output: str | None, like_samtools: bool, quiet: bool) -> None:
    """Write FILE.fai, byte for byte as samtools does (and FILE.gzi for bgzip files).

    Names that repeat, records without sequence and blanks inside lines are refused, because a .fai would lose them.
    """
    from seekset.fai import faidx

    with progress_bar("indexing", quiet=quiet) as tell, warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", SeeksetWarning)
        written = faidx(file, output, like_samtools=like_samtools, progress=tell)
    if not quiet:
        click.echo(written)
