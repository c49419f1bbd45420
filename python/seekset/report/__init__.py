"""Reports: one HTML page about an index, a plan, a pool or a run.

Figures are computed first, as plain dataclasses (``index_figures`` and so on); pages only draw them.
"""

from __future__ import annotations

import dataclasses
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from seekset.publishing import published, refuse_to_replace
from seekset.report.of_index import IndexFigures, draw_index, index_figures
from seekset.report.of_plan import PlanFigures, draw_plan, plan_figures
from seekset.report.of_pool import PoolFigures, draw_pool, pool_figures
from seekset.report.of_run import RunFigures, draw_run, run_figures
from seekset.report.page import document

if TYPE_CHECKING:
    from seekset.report.page import Markup

__all__ = [
    "Figures",
    "IndexFigures",
    "PlanFigures",
    "PoolFigures",
    "RunFigures",
    "as_json",
    "check_page",
    "index_figures",
    "page_of",
    "plan_figures",
    "pool_figures",
    "run_figures",
    "write_page",
]

Figures: TypeAlias = IndexFigures | PlanFigures | PoolFigures | RunFigures
"""Figures of any kind: what pages are made of."""

_START = b"<!doctype html>"


def page_of(figures: Figures) -> Markup:
    """The page that shows figures.

    >>> from seekset import Fasta
    >>> page = page_of(index_figures(Fasta("proteins.fa"), "proteins.fa"))
    >>> page[:15], "seq_1" in page, "<script" in page
    ('<!doctype html>', True, False)
    """
    match figures:
        case IndexFigures():
            kind, parts = "index", draw_index(figures)
        case PlanFigures():
            kind, parts = "plan", draw_plan(figures)
        case PoolFigures():
            kind, parts = "pool", draw_pool(figures)
        case RunFigures():
            kind, parts = "run", draw_run(figures)
    made = f"seekset {version('seekset')}, {time.strftime('%F %T %z')}"
    return document(figures.what, f"Report of {'an' if kind == 'index' else 'a'} {kind}", made, *parts)


def write_page(page: Markup, path: str | os.PathLike[str]) -> None:
    """Write a page, beside and renamed. What is there and no page is not replaced."""
    check_page(path)
    with published(Path(path)) as part:
        part.write_text(page, encoding="utf-8")


def check_page(path: str | os.PathLike[str]) -> None:
    """Refuse a path at which there is something else than a page: before all that a page is made of is computed."""
    refuse_to_replace(Path(path), "HTML page", lambda start: start.lower().startswith(_START))


def as_json(figures: Figures) -> dict[str, Any]:
    """The same figures for JSON, with the kind of report that they are."""
    kind = type(figures).__name__.removesuffix("Figures").lower()
    return {"kind": kind, **_plain(figures)}


def _plain(value: Any) -> Any:
    """Dataclasses and named tuples as dicts, all the way down."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
