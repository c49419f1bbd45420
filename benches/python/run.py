"""Measure seekset beside its peers: ``make bench`` or ``make bench-quick``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import click

import data
import peers
import picture
import report
import results
import suites
from contest import DisagreementError, NotColdError, Row, Table, apart

Held = list[Row | Table]


@click.command()
@click.option("--quick", is_flag=True, help="Use a twentieth of the data, and write no results.")
@click.option("--only", metavar="NAME", multiple=True, help="Hold this contest only; may be given again.")
@click.option("--remark", metavar="TEXT", help="What is to be known about this run, such as other work on the machine.")
@click.option("--list", "listed", is_flag=True, help="Show the names of all contests.")
def main(quick: bool, only: tuple[str, ...], remark: str | None, listed: bool) -> None:
    """Hold contests and print their results. On full data, they replace those of the same contests in results.json."""
    if listed:
        click.echo("\n".join(suites.names()))
        return
    if wrong := suites.unknown(only):
        raise click.UsageError(wrong)
    size = data.QUICK if quick else data.FULL
    run = None if quick else results.described(remark)
    found: Held = []
    for name, hold in wanted(size, only):
        held = timed(name, hold)
        if run is not None:
            _record(run, name, held)
        found += [] if isinstance(held, NotColdError) else held
    report.show(found)
    if quick:
        click.echo("The goals are for the full data; a twentieth says little about them.")
    else:
        recorded = results.load()
        for path in (results.RESULTS, report.write(recorded), picture.write(recorded)):
            click.echo(f"Written: {path.relative_to(data.BENCHES.parent)}")


def wanted(size: data.Size, only: tuple[str, ...]) -> Iterator[tuple[str, Callable[[], Held]]]:
    """Contests by name, those of the suites that are needed, with their files made."""
    start = time.perf_counter()
    data.make(size)
    apart(peers.make_indexes, size)
    click.echo(f"data and the peers' indexes: {time.perf_counter() - start:.0f} s", err=True)
    for suite in suites.SUITES:
        if not only or set(only) & set(suite.names):
            held = suite.contests(size)
            yield from ((name, hold) for name, hold in held.items() if not only or name in only)


def timed(name: str, hold: Callable[[], Held]) -> Held | NotColdError:
    """Hold a contest, and say how long that took."""
    start = time.perf_counter()
    try:
        held = hold()
    except DisagreementError as error:
        raise click.ClickException(str(error)) from None
    except NotColdError as error:
        click.echo(f"{name}: not measured: {error}", err=True)
        return error
    click.echo(f"{name}: {time.perf_counter() - start:.0f} s", err=True)
    return held


def _record(run: results.Data, name: str, held: Held | NotColdError) -> None:
    """At once: a run of an hour that fails near its end has not been for nothing."""
    recorded = results.load()
    if isinstance(held, NotColdError):
        results.save(results.without_figures(recorded, run, name, str(held)))
    else:
        results.save(results.with_contests(recorded, run, {name: held}))


if __name__ == "__main__":
    main()
