"""``seekset report``."""

from __future__ import annotations

import warnings
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seekset.cli.files import open_sequences
from seekset.cli.options import PATH, common_options
from seekset.cli.pool import SeveralWords, inspected, pool_options
from seekset.cli.terminal import show_json, show_line
from seekset.errors import MismatchError, SeeksetWarning

if TYPE_CHECKING:
    from seekset.report import Figures, IndexFigures
    from seekset.report.kinds import Kind


@click.command(name="report", cls=SeveralWords)
@click.argument("what", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, help="Write the page to this file.")
@click.option(
    "--kind", type=click.Choice(["index", "plan", "pool", "run"]), help="The kind of WHAT; found out unless given."
)
@pool_options
@common_options(json="one JSON object with all figures")
def command(
    what: tuple[str, ...], output: str | None, kind: Kind | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Write one HTML page about WHAT.

    The page needs neither a network nor other files. WHAT is a FASTA file or its .sidx, a sequence index (Arrow or
    JSON), a plan, or the folder of a run of `seekset embed`, under way or not. It may also be several FASTA files, or
    folders of shards, which make one mixed pool. All options from --ranges on are those of `seekset pool inspect`, and
    only for pools.
    """
    from seekset import report

    if output is None and not as_json:
        raise click.UsageError("say where the page is to go with -o, or ask for --json")
    if output is not None:
        report.check_page(output)
    figures = _figures(what, kind, options, quiet=quiet or as_json)
    if output is not None:
        report.write_page(report.page_of(figures), output)
        if not (quiet or as_json):
            show_line(f"report: {output}")
    if as_json:
        show_json(report.as_json(figures))


def _figures(what: tuple[str, ...], kind: Kind | None, options: dict[str, Any], *, quiet: bool) -> Figures:
    from seekset import report
    from seekset.report.kinds import kind_of

    path = Path(what[0])
    if kind is None:
        several = len(what) > 1 and any(Path(one).is_dir() for one in what)
        # Of what is given by a glob, only FASTA files are taken.
        by_glob = has_magic(what[0]) and not path.exists()
        kind = "pool" if several else "index" if by_glob else kind_of(path)
    if kind == "pool":
        plan, found = inspected(what, options, quiet=quiet)
        return report.pool_figures(plan, found, ", ".join(what), seed=options["seed"])
    if len(what) > 1 and kind != "index":
        raise click.UsageError(f"a report is of one {kind}, but {len(what)} paths were given")
    _refuse_pool_options(kind)
    if kind == "index":
        return _index_figures(what)
    if kind == "plan":
        from seekset.plan import Plan

        return report.plan_figures(Plan.load(path), str(path))
    if not path.is_dir():
        raise MismatchError(f"{path}: expected the folder of a run, found no folder")
    return report.run_figures(path, str(path))


def _refuse_pool_options(kind: Kind) -> None:
    from click.core import ParameterSource

    context = click.get_current_context()
    own = {"what", "output", "kind", "as_json", "quiet"}
    for name in context.params:
        if name not in own and context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is for pools, and this is a report of the kind {kind}")


def _index_figures(what: tuple[str, ...]) -> IndexFigures:
    """The figures of an index, with what is said when it is opened: it is on the page, and told here as well."""
    from seekset.report import index_figures

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", SeeksetWarning)
        with open_sequences(what) as index:
            figures = index_figures(index, ", ".join(what), [str(one.message) for one in told])
    for warning in told:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return figures
