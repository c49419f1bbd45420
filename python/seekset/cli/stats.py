"""``seekset stats``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seekset.cli.files import find_each, open_fasta
from seekset.cli.options import PATH, common_options, drawing, index_option, plot_option
from seekset.cli.terminal import say, show_faults, show_json, show_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@click.command(name="stats")
@click.argument("files", nargs=-1, required=True, type=PATH)
@plot_option(draws="the distribution of lengths of one file")
@index_option
@common_options(json="a JSON object for each file, one a line")
def command(files: tuple[str, ...], plot: str | None, index: str | None, as_json: bool, quiet: bool) -> None:
    """Show how many records FILES have and how long they are.

    The figures come from each file's index, which is made if it is missing. FILES may be globs and folders, and an
    index stands for its files.
    """
    from seekset.errors import SeeksetError
    from seekset.files import find_fastas
    from seekset.lengths import describe

    paths, faults = find_each(files, find_fastas)
    if plot is not None and len(paths) > 1:
        raise click.UsageError("--plot draws one file, but several were given")
    if index is not None and max(len(paths), len(files)) > 1:
        raise click.UsageError("--index names one index, but several files were given")
    facts: list[dict[str, Any]] = []
    drawn: list[str] = []
    for file in map(str, paths):
        try:
            with open_fasta(file, index, duplicates="first") as fasta:
                facts.append({"file": file, **describe(fasta.lengths)})
                if plot is not None:
                    with drawing(plot):
                        draw(fasta.lengths, file, plot)
                    drawn.append(plot)
        except (SeeksetError, OSError) as error:
            faults.append(error)
    if as_json:
        for fact in facts:
            show_json(fact)
    elif facts and not quiet:
        show_table(list(facts[0]), [list(fact.values()) for fact in facts])
        for picture in drawn:
            say(f"picture: {picture}")
    show_faults(faults)


def draw(lengths: NDArray[np.int64], name: str, out: str) -> None:
    """Draw the distribution of lengths on a logarithmic axis."""
    import numpy as np

    from seekset.lengths import describe
    from seekset.pictures import picture

    facts = describe(lengths)
    shown = lengths[lengths > 0]
    with picture(out, size=(8, 4.5)) as (_, [axes]):
        if shown.size:
            low, high = float(shown.min()), float(shown.max())
            axes.hist(shown, bins=np.geomspace(low, max(high, low + 1) * 1.0001, 80).tolist(), color="#33658a")
            axes.set_xscale("log")
            for label, style in (("median", "--"), ("n50", ":")):
                axes.axvline(facts[label], color="#f26419", linestyle=style, label=f"{label} {facts[label]:,.0f}")
            axes.legend(frameon=False)
        axes.set(xlabel="letters per record", ylabel="records", title=f"{name}: {facts['records']:,} records")
