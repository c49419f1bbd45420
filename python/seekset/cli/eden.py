"""``seekset eden``: the databases of BioNeMo's Sharded Eden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seekset.cli.files import reworded
from seekset.cli.options import PATH, common_options, debug_option, drawing, plot_option
from seekset.cli.terminal import say, show_faults, show_json, show_line, show_table
from seekset.limits import MOST_LETTERS
from seekset.progress import progress_bar

if TYPE_CHECKING:
    from seekset.eden_build import SampleReport
    from seekset.eden_log import Coverage, LogFile

_LETTERS = click.IntRange(1, MOST_LETTERS)

# What functions advise where an index can't be written.
_WRITABLE = "give index= a place that can be written"

# Places along a database that a picture shows.
_PLACES = 400


@click.group(name="eden")
@debug_option
def command() -> None:
    """Make and check the databases of Sharded Eden.

    They are BioNeMo's: contigs and windows in SQLite.
    """


class _Shares(click.ParamType):  # type: ignore[type-arg] # older versions of click have none
    """Shares of splits, parted by commas."""

    name = "share,share[,share]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        from seekset.eden_build import SPLITS

        try:
            shares = [float(share) for share in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list of shares, such as .9,.05,.05", param, ctx)
        if not 1 <= len(shares) <= len(SPLITS):
            self.fail(f"there are the splits {', '.join(SPLITS)}, but {len(shares)} shares were given", param, ctx)
        if not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
            self.fail(f"{value!r}: shares are from 0 to 1, and at most 1 in all", param, ctx)
        return shares


@command.command(name="build")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The folder that gets the databases.")
@click.option("--sample", help="One sample for all records, or 'file' for one for each file. Without it, ids name it.")
@click.option("--parquet", type=PATH, help="Write the table of contigs (contig_id, length) that windows are made from.")
@click.option("--splits", type=_Shares(), help="Shares of train, val and test: a table for each, beside --parquet.")
@click.option("--replace", is_flag=True, help="Replace databases and tables that are there already.")
@common_options()
def build(
    files: tuple[str, ...],
    output: str,
    sample: str | None,
    parquet: str | None,
    splits: list[float] | None,
    replace: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make sample databases of FASTA FILES (plain or bgzip).

    FILES may be globs, folders and indexes. A record goes to the sample that its id names, as in
    BCR__ECT-SAMPLE__CONTIG. With --sample NAME all go into one database, whatever their ids; with --sample file, each
    file becomes a sample of its own, and its records get ids that name that sample.

    Whether a contig is in train, val or test follows from its id alone; where shares add up to less than 1, the rest
    is in none.
    """
    from seekset.eden_build import build_sample_databases, find_tables, write_contigs
    from seekset.files import find_fastas

    if splits is not None and parquet is None:
        raise click.UsageError("--splits needs --parquet, beside which the tables of splits are written")
    if parquet is not None:
        find_tables(parquet, splits, replace=replace)
    found = find_fastas(files)
    # Which index a file has can't be said here.
    elsewhere = "give a copy of the file in a folder that can be written"
    with reworded(_WRITABLE, elsewhere), progress_bar("building", quiet=quiet or as_json) as tell:
        reports = list(build_sample_databases(found, output, sample=sample, replace=replace, progress=tell))
    tables = [] if parquet is None else write_contigs(reports, parquet, splits, replace=replace)
    facts = [_facts(report) for report in reports]
    if as_json:
        show_json({"samples": facts, "tables": [str(path) for path in tables]})
    elif not quiet:
        show_table(list(facts[0]) if facts else ["sample"], [list(fact.values()) for fact in facts])
        for path in tables:
            say(f"table: {path}")


def _facts(report: SampleReport) -> dict[str, Any]:
    return {
        "sample": report.sample,
        "contigs": len(report.ids),
        "letters": sum(report.lengths),
        "database": str(report.path),
    }


@command.command(name="precompute")
@click.argument("parquet", type=PATH)
@click.argument("database", type=PATH)
@click.option(
    "--window-size", type=_LETTERS, default=8192, show_default=True, help="Tokens of a window, bos and eos too."
)
@click.option("--stride", type=_LETTERS, default=7992, show_default=True, help="Letters from start to start.")
@click.option(
    "--window-min-length-threshold",
    type=click.IntRange(0, MOST_LETTERS),
    default=0,
    show_default=True,
    help="Leave out windows with fewer letters.",
)
@click.option("--id-column", default="contig_id", show_default=True, help="The column of contig ids.")
@click.option("--length-column", default="length", show_default=True, help="The column of their lengths.")
@common_options()
def precompute(
    parquet: str,
    database: str,
    window_size: int,
    stride: int,
    window_min_length_threshold: int,
    id_column: str,
    length_column: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the window DATABASE of a table of contigs.

    PARQUET lists them by id and length. A window database that is there already is replaced, any other file is not.

    Two tokens of each window are bos and eos. If the stride is larger than the window size less these two, some letters
    are in no window, and a warning says how many.
    """
    from seekset.eden import precompute_window_database

    with progress_bar("windows", quiet=quiet or as_json) as tell:
        report = precompute_window_database(
            parquet,
            database,
            window_size,
            stride,
            window_min_length_threshold,
            id_column=id_column,
            length_column=length_column,
            progress=tell,
        )
    facts = {
        "database": str(report.path),
        "windows": report.windows,
        "contigs": report.sequences,
        "too_short": report.left_out,
    }
    if as_json:
        show_json(facts)
    elif not quiet:
        show_table(_heads(facts), [list(facts.values())])


@command.command(name="validate")
@click.argument("folder", type=PATH)
@click.argument("database", type=PATH)
@common_options(but="faults")
def validate(folder: str, database: str, as_json: bool, quiet: bool) -> None:
    """Look whether every window of DATABASE can be read.

    Their letters are in the sample databases in FOLDER. For each kind of fault it shows the number and the first few;
    the exit code is 1 if there is one.
    """
    from seekset import _core
    from seekset.eden import find_sample_databases

    try:
        samples = find_sample_databases(folder)
    except ValueError as error:
        show_faults([error])
        return
    sequences = _core.EdenSequences(list(samples), list(samples.values()))
    with progress_bar("validating", quiet=quiet or as_json) as tell:
        windows, contigs, met, faults = _core.validate_windows(_core.EdenWindows(database), sequences, progress=tell)
    facts = {"database": database, "windows": windows, "contigs": contigs, "samples": met}
    if as_json:
        show_json(
            {**facts, "faults": [{"kind": kind, "count": count, "first": first} for kind, count, first in faults]}
        )
    else:
        for _, count, first in faults:
            for message in first:
                show_line(message)
            if count > len(first):
                click.echo(f"… and {count - len(first)} more like these")
        if not quiet:
            show_table([*facts, "faults"], [[*facts.values(), sum(count for _, count, _ in faults)]])
    if faults:
        click.get_current_context().exit(1)


@command.command(name="stats")
@click.argument("database", type=PATH)
@click.option("--log-dir", type=PATH, required=True, help="The folder of logs, window_access_SPLIT_rankN_ID.csv.")
@click.option("--split", help="Count the logs of this split; needed if there are logs of several.")
@plot_option(draws="how often windows were read, and where they lie")
@common_options()
def stats(database: str, log_dir: str, split: str | None, plot: str | None, as_json: bool, quiet: bool) -> None:
    """Show which windows of DATABASE a run has read.

    Reads are counted from the logs that the run's processes wrote.
    """
    from seekset import _core
    from seekset.eden_log import find_logs, read_coverage

    logs = _of_split(find_logs(log_dir), split, log_dir)
    coverage = read_coverage(logs, len(_core.EdenWindows(database)))
    for path in () if quiet else coverage.cut:
        say(f"{path}: the last line was cut and is not counted")
    facts = _covered(coverage)
    if plot is not None:
        with drawing(plot):
            draw(coverage, f"{database}, {logs[0].split}", plot)
    if as_json:
        ranks = [rank._asdict() for rank in coverage.ranks]
        show_json({"database": database, "split": logs[0].split, **facts, "times": coverage.times(), "ranks": ranks})
    elif not quiet:
        _show_coverage(coverage, facts)
        if plot is not None:
            say(f"picture: {plot}")


def _show_coverage(coverage: Coverage, facts: dict[str, Any]) -> None:
    shown = {**facts, "coverage": _percent(facts["coverage"])}
    show_table(_heads(shown), [list(shown.values())])
    click.echo()
    show_table(("times read", "windows"), list(coverage.times().items()))
    click.echo()
    show_table(("rank", "logs", "reads", "different windows"), coverage.ranks, names=("rank",))


def _of_split(logs: list[LogFile], split: str | None, folder: str) -> list[LogFile]:
    found = sorted({log.split for log in logs})
    if split is None and len(found) > 1:
        raise click.UsageError(f"there are logs of {', '.join(found)}: give --split")
    logs = [log for log in logs if split in {None, log.split}]
    if not logs:
        what = "window_access_*.csv" if split is None else f"window_access_{split}_*.csv"
        show_faults([FileNotFoundError(2, f"expected logs {what}, found none", folder)])
    return logs


def _covered(coverage: Coverage) -> dict[str, Any]:
    windows, seen = len(coverage.counts), coverage.seen
    return {
        "windows": windows,
        "read": seen,
        "never_read": windows - seen,
        "coverage": seen / windows if windows else None,
        "reads": coverage.reads,
        "repeats": coverage.reads - seen,
    }


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.2f} %"


def _heads(facts: dict[str, Any]) -> list[str]:
    """What people read above columns."""
    return [name.replace("_", " ") for name in facts]


def draw(coverage: Coverage, name: str, out: str) -> None:
    """Draw how many windows were read how often, and how often along the database."""
    import numpy as np

    from seekset.pictures import picture

    with picture(out, size=(11, 4.5), columns=2) as (figure, [often, along]):
        times = coverage.times()
        often.bar(list(times), list(times.values()), color="#33658a")
        read = _percent(_covered(coverage)["coverage"])
        often.set(xlabel="times read", ylabel="windows", title=f"{read} of windows were read")
        often.xaxis.get_major_locator().set_params(integer=True)
        edges = np.linspace(0, len(coverage.counts), min(_PLACES, len(coverage.counts)) + 1).astype(np.int64)
        if len(edges) > 1:
            means = np.add.reduceat(coverage.counts, edges[:-1], dtype=np.float64) / np.diff(edges)
            along.step(edges, np.append(means, means[-1]), where="post", color="#33658a")
        title = f"{coverage.reads:,} reads by {len(coverage.ranks)} ranks"
        along.set(xlabel="window", ylabel="times read, on average", ylim=(0, None), title=title)
        figure.suptitle(name)
