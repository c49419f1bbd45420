"""``seekset plan``."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, Literal

import click

from seekset.cli.files import open_sequences
from seekset.cli.options import PATH, common_options, drawing, plot_option
from seekset.cli.terminal import say, show_json, show_table
from seekset.errors import MismatchError, SeeksetWarning

if TYPE_CHECKING:
    from seekset.fasta import Fasta
    from seekset.plan import Plan
    from seekset.sequences import SequenceIndex

# More ranks than this have bars too thin to write on.
_LABELLED = 16


class _Limit(click.ParamType):  # type: ignore[type-arg] # older versions of click have none
    """A whole number from 1 on, or "none"."""

    name = "integer|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value is None or value == "none":
            return None
        return click.IntRange(min=1).convert(value, param, ctx)


@click.command(name="plan")
@click.argument("index", nargs=-1, required=True, type=PATH)
@click.option(
    "--max-tokens",
    "--tokens",
    "tokens",
    type=click.IntRange(min=1),
    default=16384,
    show_default=True,
    help="Most tokens of a batch.",
)
@click.option("--max-length", type=_Limit(), default=1022, show_default=True, help="Most letters of a sequence.")
@click.option(
    "--overflow",
    type=click.Choice(["truncate", "split", "error"]),
    default="truncate",
    show_default=True,
    help="What becomes of longer sequences.",
)
@click.option("--overlap", type=click.IntRange(min=0), default=0, help="Letters that pieces of a split sequence share.")
@click.option(
    "--table",
    type=click.Choice(["esm", "dna", "nucleotide", "bytes", "none"]),
    default="esm",
    show_default=True,
    help="Token table, whose specials count.",
)
@click.option(
    "--layout",
    type=click.Choice(["packed", "padded"]),
    default="packed",
    show_default=True,
    help="One sequence after another, or each filled up to the longest.",
)
@click.option(
    "--world-size", type=click.IntRange(min=1), default=1, show_default=True, help="Ranks that share the batches."
)
@click.option("-o", "--output", type=PATH, help="Write the plan to this file (Arrow).")
@plot_option(draws="how full the batches are and what falls to each rank")
@common_options()
def command(
    index: tuple[str, ...],
    tokens: int,
    max_length: int | None,
    overflow: Literal["truncate", "split", "error"],
    overlap: int,
    table: str,
    layout: Literal["packed", "padded"],
    world_size: int,
    output: str | None,
    plot: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Pack the sequences of INDEX into batches.

    INDEX is a sequence index over many files, as Arrow or JSON, or FASTA files, which may be globs and folders. It
    shows how full the batches are and how evenly tokens fall to ranks; a rank takes every n-th batch.
    """
    if overlap and overflow != "split":
        raise click.UsageError("--overlap needs --overflow split")
    name = ", ".join(index)
    with open_sequences(index) as sequences:
        plan = _planned(
            sequences,
            tokens=None if table == "none" else table,
            max_tokens=tokens,
            max_length=max_length,
            overflow=overflow,
            overlap=overlap,
            layout=layout,
        )
    if output is not None:
        plan.save(output)
    facts, ranks = describe(plan), shares(plan, world_size)
    if plot is not None:
        with drawing(plot):
            draw(plan, ranks, name, plot)
    if as_json:
        show_json({"index": name, **facts, "ranks": ranks})
    elif not quiet:
        _show(facts, ranks)
        for what, path in (("plan", output), ("picture", plot)):
            if path is not None:
                say(f"{what}: {path}")


def _show(facts: dict[str, Any], ranks: list[dict[str, Any]]) -> None:
    show_table(list(facts), [[_percent(value) if key == "efficiency" else value for key, value in facts.items()]])
    if len(ranks) > 1:
        click.echo()
        rows = [[*list(rank.values())[:-1], _percent(rank["deviation"])] for rank in ranks]
        show_table(list(ranks[0]), rows, names=("rank",))


def _planned(sequences: Fasta | SequenceIndex, **rules: Any) -> Plan:
    """A plan; what is said about it names the options of this command, not the arguments of the function."""
    from seekset.plan import Plan

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", SeeksetWarning)
        try:
            plan = Plan.create(sequences, **rules)
        except MismatchError as error:
            raise MismatchError(in_options(str(error))) from error
    for warning in told:
        warnings.warn(in_options(str(warning.message)), warning.category, stacklevel=2)
    return plan


def in_options(message: str) -> str:
    """A message about a plan in the words of the command line.

    >>> in_options('1 sequence is longer than max_length, which is 5, and is cut; overflow="split" keeps all letters')
    '1 sequence is longer than --max-length, which is 5, and is cut; --overflow split keeps all letters'
    """
    for argument, option in _OPTIONS:
        message = re.sub(argument, option, message)
    return message


# The second choice of overflow is named without its argument.
_OPTIONS = (
    (r'(overflow=)?"(truncate|split|error)"', r"--overflow \2"),
    (r"\bmax_tokens\b", "--max-tokens"),
    (r"\bmax_length\b", "--max-length"),
)


def describe(plan: Plan) -> dict[str, Any]:
    """What a plan comes to.

    >>> from seekset import Fasta, Plan
    >>> describe(Plan.create(Fasta("proteins.fa"), max_tokens=40))
    {'batches': 2, 'sequences': 3, 'pieces': 3, 'tokens': 60, 'efficiency': 0.75, 'cut': 0}
    """
    return {
        "batches": len(plan),
        "sequences": plan.sequences,
        "pieces": plan.pieces,
        "tokens": plan.total_tokens,
        "efficiency": plan.efficiency,
        "cut": plan.truncated,
    }


def shares(plan: Plan, world_size: int) -> list[dict[str, Any]]:
    """What falls to each rank, and how far its tokens are from the mean, as a part of it."""
    ranks = zip(plan.shares(world_size), plan.deviations(world_size), strict=True)
    return [{**share._asdict(), "deviation": deviation} for share, deviation in ranks]


def _percent(part: float) -> str:
    return f"{100 * part:.3f} %"


def draw(plan: Plan, ranks: list[dict[str, Any]], name: str, out: str) -> None:
    """Draw how full batches are, and the tokens of each rank."""
    from seekset.pictures import picture

    with picture(out, size=(11, 4.5), columns=2) as (figure, [fill, balance]):
        _draw_fill(fill, plan)
        _draw_balance(balance, ranks)
        figure.suptitle(
            f"{name}: {plan.sequences:,} sequences in {len(plan):,} batches of up to {plan.max_tokens:,} tokens"
        )


def _draw_fill(axes: Any, plan: Plan) -> None:
    """How many batches are how full. Most are full, so that the others show on a logarithmic axis only."""
    axes.hist(100 * plan.tokens / plan.max_tokens, bins=50, range=(0, 100), log=len(plan) > 0, color="#33658a")
    used = f"{100 * plan.efficiency:.2f} %"
    axes.set(
        xlim=(0, 101),
        ylim=(0.5 if len(plan) else 0, None),
        xlabel="tokens in a batch, in % of the budget",
        ylabel="batches (logarithmic)",
        title=f"{used} of the room is used" if plan.layout == "packed" else f"{used} is tokens, the rest padding",
    )
    axes.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")


def _draw_balance(axes: Any, ranks: list[dict[str, Any]]) -> None:
    """The tokens of each rank, with how far they are from the mean written on the bars."""
    tokens = [rank["tokens"] for rank in ranks]
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if max(tokens) >= scale), ("tokens", 1))
    mean = sum(tokens) / len(tokens) / scale
    bars = axes.bar([rank["rank"] for rank in ranks], [count / scale for count in tokens], color="#33658a")
    axes.axhline(mean, color="#f26419", linestyle="--")
    if len(ranks) <= _LABELLED:
        small = {"fontsize": 8, "rotation": 90 if len(ranks) > _LABELLED // 2 else 0}
        axes.bar_label(bars, [f"{100 * rank['deviation']:+.3f} %" for rank in ranks], padding=3, **small)
        axes.set_xticks(range(len(ranks)))
    worst = max(abs(rank["deviation"]) for rank in ranks)
    top = max(*(count / scale for count in tokens), mean, 1 / scale)
    title = f"ranks are within {100 * worst:.3f} % of the mean (dashed)"
    axes.set(ylim=(0, 1.25 * top), xlabel="rank", ylabel=unit, title=title)


_UNITS = (("thousand million tokens", 10**9), ("million tokens", 10**6), ("thousand tokens", 10**3))
