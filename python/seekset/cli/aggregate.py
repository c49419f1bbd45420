"""``seekset aggregate``."""

from __future__ import annotations

from typing import Literal

import click

from seekset.cli.options import PATH, common_options
from seekset.cli.terminal import show_data, show_json
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
    "--output-dtype", type=click.Choice(["float32", "float16"]), help="Type of the vectors; the encoder's unless given."
)
@common_options()
def command(
    folder: str,
    output: str | None,
    order: Literal["input", "length"],
    output_dtype: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Put the results of a run into one HDF5 file.

    FOLDER is that of `seekset embed`, which does the same at its end. Use this to do it again, or in another form.
    Nothing is computed.
    """
    from seekset.inference.aggregate import aggregate_run

    with progress_bar(f"aggregate {folder}", quiet=quiet or as_json) as progress:
        written = aggregate_run(folder, order=order, out=output, dtype=output_dtype, progress=progress)
    if as_json:
        show_json({"output": written, "bytes": written.stat().st_size, "order": order})
    elif not quiet:
        show_data(written)
