"""``seekset pool``: mixed pools of shards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from seekset.cli.options import PATH, common_options, debug_option, drawing, plot_option
from seekset.cli.terminal import say, show_json, show_table
from seekset.errors import MismatchError, SeeksetError

if TYPE_CHECKING:
    from seekset.inspection import Inspection
    from seekset.mixing import MixPlan
    from seekset.quality import MixingQuality
    from seekset.shards.readers import ShardReader
    from seekset.sources import Source

_F = TypeVar("_F", bound=Callable[..., Any])

# Options that take all words up to the next option.
_SEVERAL = ("--ranges", "--readers", "--weights")
# What people call the readers that come with the package.
_READERS = {
    "pickle": "PickleShards",
    "npz": "NpzShards",
    "tfrecord": "TFRecordShards",
    "fasta": "FastaShards",
    "parquet": "ParquetShards",
}
# What a line of a picture has room for.
_LETTERS = 100


class SeveralWords(click.Command):
    """A command some of whose options take as many words as follow; click's own take a fixed number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command line."""
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


class _Reader(click.ParamType):  # type: ignore[type-arg] # older versions of click have none
    """A reader of shards by name, or ``module:name`` of a class, or of one that was made."""

    name = "reader"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ShardReader | None:
        from seekset import shards

        if value == "auto":
            return None
        if value in _READERS:
            return getattr(shards, _READERS[value])()  # type: ignore[no-any-return]
        module, colon, name = value.partition(":")
        if not (module and colon and name):
            self.fail(f"{value!r} is none of auto, {', '.join(_READERS)}, and no MODULE:NAME", param, ctx)
        return self._own(module, name, param, ctx)

    def _own(
        self, module: str, name: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> ShardReader | None:
        """A user's reader; modules of the current folder are found, too."""
        here = str(Path.cwd())
        if here not in sys.path and "" not in sys.path:
            sys.path.insert(0, here)
        try:
            found: Any = getattr(import_module(module), name)
            reader = found() if isinstance(found, type) else found
        except Exception as error:  # noqa: BLE001 (it is the user's code)
            self.fail(f"{module}:{name} can't be had: {type(error).__name__}: {error}", param, ctx)
        if not all(callable(getattr(reader, method, None)) for method in ("count", "read")):
            self.fail(f"{module}:{name} is no reader, which has the methods count and read", param, ctx)
        return reader  # type: ignore[no-any-return]


_OPTIONS = (
    click.option(
        "--ranges",
        multiple=True,
        metavar="RANGE...",
        help='For each directory, positions of its sorted shards from 0: "all", "none", "0-206,208". All unless given.',
    ),
    click.option(
        "--weights",
        multiple=True,
        type=float,
        metavar="NUMBER...",
        help="How often each directory comes. In proportion to rows unless given.",
    ),
    click.option(
        "--readers",
        multiple=True,
        type=_Reader(),
        help="What reads the shards of each directory: auto (names tell), pickle, npz, tfrecord, fasta, parquet, or "
        "MODULE:NAME of a reader of your own. One word is for all. All auto unless given.",
        metavar="READER...",
    ),
    click.option(
        "--pool-rows", type=click.IntRange(min=1), default=2_000_000, show_default=True, help="Most rows of the pool."
    ),
    click.option(
        "--threshold",
        type=click.IntRange(min=0),
        help="Refill the pool when fewer rows than this are left (three quarters of --pool-rows unless given).",
    ),
    click.option(
        "--open-shards", type=click.IntRange(min=1), default=1, show_default=True, help="Shards of each read by turns."
    ),
    click.option(
        "--mixing",
        type=click.Choice(["pool", "global"]),
        default="pool",
        show_default=True,
        help="Draw from a pool, or from all rows at once.",
    ),
    click.option(
        "--max-bytes", type=_Bytes(), default="3GB", show_default=True, help='Budget, such as 512MiB, or "none".'
    ),
    click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of the order."),
    click.option("--batch", type=click.IntRange(min=1), default=100, show_default=True, help="Rows of a batch."),
)


def pool_options(function: _F) -> _F:
    """Give a command the options that say what a pool is to be, in the order in which they stand here."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.group(name="pool")
@debug_option
def command() -> None:
    """Look at mixed pools of shards before training on them."""


@command.command(name="inspect", cls=SeveralWords)
@click.argument("directories", nargs=-1, required=True, type=PATH)
@pool_options
@plot_option(draws="the quality of mixing")
@common_options()
def inspect(directories: tuple[str, ...], plot: str | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Show the first epoch that a mixed pool makes of shards in DIRECTORIES: rows, memory, and how well it mixes.

    --ranges, --weights and --readers: these options take one word for each directory, so give the directories first.
    Shards are counted, but no row is delivered; what was counted is kept beside the shards. Figures are those of one
    process.
    """
    plan, found = inspected(directories, options, quiet=quiet or as_json)
    quality = found.quality
    if plot is not None:
        _draw(quality, plan, plot)
    facts = {name: getattr(found, name) for name in ("rows", "pool_rows", "peak_bytes", "order_digest")}
    if as_json:
        sources = [one._asdict() for one in found.sources]
        show_json({**facts, "sources": sources, "quality": None if quality is None else quality.facts()})
    elif not quiet:
        _show(found, facts)
        if plot is not None:
            say(f"picture: {plot}")


def _show(found: Inspection, facts: dict[str, Any]) -> None:
    show_table(list(found.sources[0]._fields), [[*one[:-1], f"{100 * one.weight:.3f} %"] for one in found.sources])
    click.echo()
    show_table([name.replace("_", " ") for name in facts], [list(facts.values())])
    if found.quality is not None:
        click.echo()
        show_table(*found.quality.table())
        if found.quality.remark is not None:
            say(found.quality.remark)


def inspected(directories: tuple[str, ...], options: dict[str, Any], *, quiet: bool) -> tuple[MixPlan, Inspection]:
    """The plan of a pool by the options of a command, and what it comes to; errors are in the words of its options."""
    from seekset.inspection import inspect
    from seekset.mixing import MixPlan, whole_weights
    from seekset.sources import alike

    rules = dict(options)
    ranges, readers, weights = (rules.pop(name) for name in ("ranges", "readers", "weights"))
    seed, batch = rules.pop("seed"), rules.pop("batch")
    if weights and len(weights) != len(directories):
        raise click.UsageError(
            f"there are {len(weights)} weights for {len(directories)} directories: give one for each"
        )
    if rules["threshold"] is None:
        rules["threshold"] = rules["pool_rows"] * 3 // 4
    try:
        plan = MixPlan(
            sources=alike(_sources(directories, ranges, readers, quiet=quiet)),
            weights=tuple(whole_weights(weights)) if weights else None,
            **rules,
        )
        return plan, inspect(plan, seed=seed, batch=batch)
    except MismatchError as error:
        raise MismatchError(in_options(str(error))) from error
    except SeeksetError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _sources(
    directories: tuple[str, ...], ranges: tuple[str, ...], readers: tuple[ShardReader | None, ...], *, quiet: bool
) -> tuple[Source, ...]:
    from seekset.shards.census import take_census
    from seekset.shards.ranges import chosen_shards
    from seekset.sources import Source

    if len(readers) not in (0, 1, len(directories)):
        raise click.UsageError(
            f"there are {len(readers)} readers for {len(directories)} directories: give one for each, or one for all"
        )
    each = readers if len(readers) == len(directories) else (readers or (None,)) * len(directories)
    by_name = {str(Path(name)): reader for name, reader in zip(directories, each, strict=True)}
    progress: Literal[False] | None = False if quiet else None
    return tuple(
        Source(name, tuple(take_census(paths, by_name[name], progress=progress)[0]), by_name[name])
        for name, paths in chosen_shards(directories, ranges or None, by_name).items()
    )


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
    some = "" if quality.remark is None else f" (a sample of {quality.of_rows:,})"
    rows = f"{quality.rows:,} rows{some} of {len(plan.shards):,} shards in batches of {quality.batch:,}"
    how = "drawn from all rows" if plan.mixing == "global" else f"{plan.open_shards} of each source open"
    names = ", ".join(source.name for source in plan.sources)
    names = names if len(names) <= _LETTERS else f"{names[:_LETTERS]}…"
    with drawing(out):
        plot(quality, out, title=f"{names}\n{rows}, {how}")
