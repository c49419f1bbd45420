"""``seekset faidx``."""

from __future__ import annotations

import click

from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import show_data, show_json
from seekset.progress import progress_bar


@click.command(name="faidx")
@click.argument("file", type=PATH)
@click.option("-o", "--output", type=PATH, help="Where to write; FILE.fai unless given.")
@click.option("--like-samtools", is_flag=True, help="Leave out what samtools leaves out instead of refusing it.")
@common_options()
def command(file: str, output: str | None, like_samtools: bool, as_json: bool, quiet: bool) -> None:
    """Write FILE.fai, byte for byte as samtools does.

    A bgzip file gets its FILE.gzi as well. Names that repeat, records without sequence and blanks inside lines are
    refused, because a .fai would lose them.
    """
    from seekset.fai import faidx

    with progress_bar("indexing", quiet=quiet or as_json) as tell:
        written = faidx(file, output, like_samtools=like_samtools, progress=tell)
    if as_json:
        with written.open("rb") as lines:
            show_json({"file": file, "index": written, "records": sum(1 for _ in lines)})
    elif not quiet:
        show_data(written)
