"""Measure seekset beside its peers: ``make bench`` or ``make bench-quick``."""

from __future__ import annotations

import time

import click

import data
import fasta
import inference
import peers
import pool
import report
import sequence_batches
import tfrecord_examples
import tfrecord_index
import windows
from contest import DisagreementError, NotColdError, Row, apart


@click.command()
@click.option("--quick", is_flag=True, help="Use a twentieth of the data, and write no results.")
@click.option("--only", metavar="NAME", multiple=True, help="Hold this contest only; may be given again.")
def main(quick: bool, only: tuple[str, ...]) -> None:
    """Hold the contests and print their results; after a full run of all, write benches/results.md."""
    size = data.QUICK if quick else data.FULL
    _prepare(size)
    suites = (fasta, sequence_batches, windows, tfrecord_index, tfrecord_examples, pool, inference)
    contests = {name: held for suite in suites for name, held in suite.contests(size).items()}
    if unknown := set(only) - set(contests):
        raise click.UsageError(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(contests)}")
    rows: list[Row] = []
    for name, held in contests.items():
        if not only or name in only:
            rows += _timed(name, held)
    report.show(rows)
    if quick:
        click.echo("The goals are for the full data; a twentieth says little about them.")
    elif not only:
        click.echo(f"Written: {report.write(rows).relative_to(data.BENCHES.parent)}")


def _prepare(size: data.Size) -> None:
    start = time.perf_counter()
    data.make(size)
    apart(peers.make_indexes, size)
    click.echo(f"data and the peers' indexes: {time.perf_counter() - start:.0f} s", err=True)


def _timed(name: str, held) -> list[Row]:
    """Hold a contest, and say how long that took."""
    start = time.perf_counter()
    try:
        rows = held()
    except DisagreementError as error:
        raise click.ClickException(str(error)) from None
    except NotColdError as error:
        click.echo(f"{name}: not measured: {error}", err=True)
        return []
    click.echo(f"{name}: {time.perf_counter() - start:.0f} s", err=True)
    return rows


if __name__ == "__main__":
    main()
