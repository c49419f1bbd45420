"""``seekset pool``: mixed pools of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from seekset.cli.options import PATH
from seekset.cli.terminal import say, show_table
from seekset.errors import MismatchError, SeeksetError

if TYPE_CHECKING:
    from seekset.mixing import MixPlan
    from seekset.quality import MixingQuality
    from seekset.sources import Source

# Options that take all words up to the next option.
_SEVERAL = ("--ranges", "--weights")
# What a line of a picture has room for.
_LETTERS = 100


class _Inspect(click.Command):
    """A command some of whose options take as many words as follow; click's own take a fixed number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, each_with_its_option(args))


def each_with_its_option(words: list[str]) -> list[str]:
    """The words of a command line, with an option that takes several put before each of them.

    >>> each_with_its_option(["a", "b", "--ranges", "all", "0-3", "--json"])
    ['a', 'b', '--ranges', 'all', '--ranges', '0-3', '--json']
    """
    found: list[str] = []
    option, first = None, False
    for place, word in enumerate(words):
        if word == "--":
            return found + words[place:]
        if word.startswith("-"):
            option, first = (word, True) if word in _SEVERAL else (None, False)
        elif option is not None:
            found += [] if first else [option]
            first = False
        found.append(word)
    return found


class _Bytes(click.ParamType):  # type: ignore[type-arg] # older versions of click have none
    """A number of bytes, with or without a unit, or "none"."""

    name = "bytes|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        from seekset.limits import byte_count

        if value is None or value == "none":
            return None
        try:
            return byte_count(value, "it")
        except ValueError as error:
            self.fail(str(error).replace("None", '"none"'), param, ctx)


@click.group(name="pool")
def command() -> None:
    """Look at mixed pools of shards before training on them."""


@command.command(name="inspect", cls=_Inspect)
@click.argument("directories", nargs=-1, required=True, type=PATH)
@click.option(
    "--ranges",
    multiple=True,
    metavar="RANGE...",
    help='For each directory, positions of its sorted shards, from 0: "all", "none", "0-206,208". All unless given.',
)
@click.option(
    "--weights",
    multiple=True,
    type=float,
    metavar="NUMBER...",
    help="How often each directory comes. In proportion to rows unless given.",
)
@click.option(
    "--pool-rows", type=click.IntRange(min=1), default=2_000_000, show_default=True, help="Most rows of the pool."
)
@click.option("--threshold", type=click.IntRange(min=0), help="Fill the pool below so many rows. 3/4 unless given.")
@click.option(
    "--open-shards", type=click.IntRange(min=1), default=1, show_default=True, help="Shards of each read by turns."
)
@click.option(
    "--mixing",
    type=click.Choice(["pool", "global"]),
    default="pool",
    show_default=True,
    help="Draw from a pool, or from all rows at once.",
)
@click.option("--max-bytes", type=_Bytes(), default="5GB", show_default=True, help='Budget, such as 512MiB, or "none".')
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="What rows are drawn by.")
@click.option("--batch", type=click.IntRange(min=1), default=100, show_default=True, help="Rows of a batch.")
@click.option("--plot", type=PATH, help="Draw the quality of mixing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def inspect(
    directories: tuple[str, ...],
    ranges: tuple[str, ...],
    weights: tuple[float, ...],
    pool_rows: int,
    threshold: int | None,
    open_shards: int,
    mixing: Literal["pool", "global"],
    max_bytes: int | None,
    seed: int,
    batch: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Show the first epoch that a mixed pool makes of shards in DIRECTORIES: rows, memory, and how well it mixes.

    --ranges and --weights take one word for each directory, up to the next option: so directories come first. Shards
    are counted, but no row is delivered; what was counted is kept beside the shards. Figures are those of one process.
    """
    from seekset.mixing import MixPlan, whole_weights
    from seekset.shards.ranges import chosen_shards
    from seekset.sources import alike

    if weights and len(weights) != len(directories):
        raise click.UsageError(
            f"there are {len(weights)} weights for {len(directories)} directories: give one for each"
        )
    try:
        plan = MixPlan(
            sources=alike(_sources(chosen_shards(directories, ranges or None), quiet=as_json)),
            weights=tuple(whole_weights(weights)) if weights else None,
            pool_rows=pool_rows,
            threshold=pool_rows * 3 // 4 if threshold is None else threshold,
            open_shards=open_shards,
            mixing=mixing,
            max_bytes=max_bytes,
        )
        facts = describe(plan, seed)
    except MismatchError as error:
        raise MismatchError(in_options(str(error))) from error
    except SeeksetError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    quality = mixing_quality(plan, seed, batch)
    if plot is not None:
        _draw(quality, plan, plot)
    sources = shares(plan)
    if as_json:
        import json

        found = {**facts, "sources": sources, "quality": None if quality is None else quality.facts()}
        click.echo(json.dumps(found))
        return
    show_table(list(sources[0]), [[*list(one.values())[:-1], f"{100 * one['weight']:.3f} %"] for one in sources])
    click.echo()
    show_table([name.replace("_", " ") for name in facts], [list(facts.values())])
    if quality is not None:
        click.echo()
        show_table(*quality.table())
    if plot is not None:
        say(f"picture: {plot}")


def _sources(chosen: dict[str, Any], *, quiet: bool) -> tuple[Source, ...]:
    from seekset.shards.census import take_census
    from seekset.sources import Source

    progress: Literal[False] | None = False if quiet else None
    return tuple(Source(name, tuple(take_census(paths, progress=progress)[0])) for name, paths in chosen.items())


def shares(plan: MixPlan) -> list[dict[str, Any]]:
    """Shards, rows and weight of each source; weights are parts of all turns while every source has rows."""
    weights = [weight if rows else 0 for weight, rows in zip(plan.weights or plan.rows, plan.rows, strict=True)]
    whole = sum(weights) or 1
    return [
        {"source": source.name, "shards": len(source.shards), "rows": rows, "weight": weight / whole}
        for source, rows, weight in zip(plan.sources, plan.rows, weights, strict=True)
    ]


def describe(plan: MixPlan, seed: int) -> dict[str, Any]:
    """What an epoch comes to."""
    from seekset.mixing import reader_key
    from seekset.world import World

    world = World()
    size = plan.sized(world)
    return {
        "rows": plan.length(world),
        "pool_rows": 0 if plan.mixing == "global" else size.pool_rows,
        "peak_bytes": size.peak,
        "order_digest": plan.order_digest(world, reader_key(seed, 0, world)),
    }


def mixing_quality(plan: MixPlan, seed: int, batch: int) -> MixingQuality | None:
    """How well the first epoch is mixed; nothing where it has no rows."""
    from seekset.world import World

    return plan.quality(World(), seed, 0, batch)


def in_options(message: str) -> str:
    """A message about a plan in the words of the command line.

    >>> in_options('mixing="global" needs it; use mixing="pool", or raise max_bytes')
    '--mixing global needs it; use --mixing pool, or raise --max-bytes'
    """
    for argument, option in (('mixing="global"', "--mixing global"), ('mixing="pool"', "--mixing pool")):
        message = message.replace(argument, option)
    return message.replace("max_bytes", "--max-bytes")


def _draw(quality: MixingQuality | None, plan: MixPlan, out: str) -> None:
    from seekset.quality import plot

    if quality is None:
        raise click.UsageError("--plot: there are no rows whose mixing could be drawn")
    rows = f"{quality.rows:,} rows of {len(plan.shards):,} shards in batches of {quality.batch:,}"
    how = "drawn from all rows" if plan.mixing == "global" else f"{plan.open_shards} of each source open"
    names = ", ".join(source.name for source in plan.sources)
    names = names if len(names) <= _LETTERS else f"{names[:_LETTERS]}…"
    try:
        plot(quality, out, title=f"{names}\n{rows}, {how}")
    except ImportError:
        raise click.UsageError("--plot needs matplotlib: pip install 'seekset[plot]'") from None
    except ValueError as error:
        raise click.UsageError(f"--plot {out}: {error}") from None
