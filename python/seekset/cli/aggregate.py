"""``seekset aggregate``."""

from __future__ import annotations

from typing import Literal

import click

from seekset.cli.options import PATH
from seekset.progress import progress_bar


@click.command(name="aggregate")
@click.argument("folder", type=PATH)
@click.option("-o", "--output", type=PATH, help="The file to write; FOLDER/embeddings.h5 unless given.")
@click.option(
    "--order",
    type=click.Choice(["input", "length"]),
    default="input",
    show_default=True,
    help="The order of sequences.",
)
@click.option(
    "--output-dtype", type=click.Choice(["float32", "float16"]), help="Of the vectors; the encoder's unless given."
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(
    folder: str, output: str | None, order: Literal["input", "length"], output_dtype: str | None, quiet: bool
) -> None:
    """Put the results of `seekset embed` in FOLDER into one HDF5 file, again or elsewhere."""
    from seekset.inference.aggregate import aggregate_run

    with progress_bar(f"aggregate {folder}", quiet=quiet) as progress:
        written = aggregate_run(folder, order=order, out=output, dtype=output_dtype, progress=progress)
    click.echo(str(written))
