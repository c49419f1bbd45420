"""``seekset get``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from seekset.cli.files import one_fasta, open_fasta
from seekset.cli.options import PATH, common_options, index_option
from seekset.cli.terminal import show_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seekset.fasta import Fasta
    from seekset.regions import Region

# Letters read at a time: a chromosome passes through without being in memory as a whole.
_STEP = 1 << 22

# Letters per line where the file's own lines differ.
_WIDTH = 60


class _Dashes(click.Command):
    """A command whose words may begin with a dash, and which says how."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            wanted = next((word for word in given if word.startswith(error.option_name)), error.option_name)
            hint = f"an id that begins with a dash stands behind --, as in `{ctx.command_path} FILE -- {wanted}`"
            raise click.UsageError(f"there is no option {wanted}; {hint}", ctx) from None


@click.command(name="get", cls=_Dashes)
@click.argument("file", type=PATH)
@click.argument("regions", nargs=-1)
@click.option("-r", "--region-file", type=PATH, help="Read regions from this file, one per line (- for stdin).")
@click.option("-w", "--width", type=click.IntRange(min=1), help="Letters per line; as in FILE unless given.")
@click.option("-i", "--reverse-complement", is_flag=True, help="Give the reverse complement.")
@click.option(
    "--duplicates",
    type=click.Choice(["error", "first"]),
    default="error",
    show_default=True,
    help="Where two records of FILE have one id: refuse FILE, or let the id mean the first.",
)
@index_option
@common_options(json="a JSON object for each region, one a line", but="records and errors")
def command(
    file: str,
    regions: tuple[str, ...],
    region_file: str | None,
    width: int | None,
    reverse_complement: bool,
    duplicates: Literal["error", "first"],
    index: str | None,
    as_json: bool,
    quiet: bool,  # noqa: ARG001 (remarks are kept back by the option itself)
) -> None:
    """Print records or regions of FILE as FASTA.

    A REGION is an id (seq_7) or part of a record (chr1:101-200, chr1:101-, chr1:-200), counted from 1, both ends
    included, as in samtools. Braces tell an id from a region where both are possible: {chr1:1-5} or {chr1}:1-5.
    """
    from seekset.regions import parse_region

    wanted = [*regions, *_listed(region_file)]
    if not wanted:
        raise click.UsageError("give at least one id or region, or a file of them with -r")
    with open_fasta(one_fasta(file), index, duplicates=duplicates) as fasta:
        # All regions are understood before anything is printed.
        for region in [parse_region(fasta, text) for text in wanted]:
            if as_json:
                _print_json(fasta, region, reverse=reverse_complement)
                continue
            show_data(f">{region.text}{'/rc' if reverse_complement else ''}")
            letters = width or fasta[region.row].line_width or _WIDTH
            for lines in _wrapped(fasta, region, letters, reverse=reverse_complement):
                click.echo(lines)


def _wrapped(fasta: Fasta, region: Region, width: int, *, reverse: bool) -> Iterator[str]:
    """The letters of a region in lines, some MB at a time."""
    record = fasta[region.row]
    step = max(_STEP // width, 1) * width
    for done in range(0, region.end - region.start, step):
        more = min(step, region.end - region.start - done)
        if reverse:
            stop = region.end - done
            letters = record.reverse_complement(stop - more, stop)
        else:
            start = region.start + done
            letters = record[start : start + more]
        yield "\n".join(letters[at : at + width] for at in range(0, more, width))


def _listed(path: str | None) -> list[str]:
    """The regions in a file."""
    if path is None:
        return []
    with click.open_file(path, encoding="utf-8", errors="surrogateescape") as file:
        return [line.strip() for line in file if line.strip()]


def _print_json(fasta: Fasta, region: Region, *, reverse: bool) -> None:
    """A region as an object: where it lies, counted from 0, and its letters, some MB at a time."""
    import json

    facts = {
        "region": region.text,
        "id": fasta[region.row].id,
        "start": region.start,
        "end": region.end,
        "reverse_complement": reverse,
    }
    click.echo(json.dumps(facts)[:-1] + ', "sequence": "', nl=False)
    for letters in _wrapped(fasta, region, _STEP, reverse=reverse):
        click.echo(json.dumps(letters)[1:-1], nl=False)
    click.echo('"}')
