"""The page of a report: one HTML document that needs nothing but itself, and in which all data is escaped.

Pieces of a page are :class:`Markup`; any other text that is put into one is data, and is escaped. So what an id or a
path holds can't become part of the page, whoever draws it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from seekset.visible import visible

__all__ = ["Cell", "Content", "Markup", "document", "figure", "gallery", "note", "section", "table", "tag", "tiles"]


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = Markup | str | int | float | None
Cell: TypeAlias = Content

_VOID = frozenset({"meta"})
_WRITTEN = re.compile(r"[-+]?[0-9][0-9,.]*( %|x)?", re.ASCII)


def tag(element: str, /, *children: Content, **attributes: Content) -> Markup:
    """An element. Attributes that are ``None`` are left out; ``class_`` is ``class``, ``x_y`` is ``x-y``.

    >>> tag("b", "<i>", tag("u", "&"), class_='"')
    '<b class="&quot;">&lt;i&gt;<u>&amp;</u></b>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    opening = "".join(f' {key}="{_escaped(value)}"' for key, value in given.items())
    if element in _VOID:
        return Markup(f"<{element}{opening}>")
    return Markup(f"<{element}{opening}>{''.join(map(_inside, children))}</{element}>")


def _inside(child: Content) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else _escaped(child)


def _escaped(value: Content) -> str:
    r"""Data as text of a page; what could not be seen is spelled out.

    >>> print(_escaped("a<\x1b\udcff>"))
    a&lt;\x1b\udcff&gt;
    """
    return html.escape(visible(str(value), keep="\t\n"), quote=True)


# --- what pages are made of -------------------------------------------------------------------------------------------


def section(title: str, *children: Markup) -> Markup:
    """A part of a page under a heading."""
    return tag("section", tag("h2", title), *children)


def note(text: str) -> Markup:
    """A sentence."""
    return tag("p", text, class_="note")


def tiles(facts: Iterable[tuple[str, Cell]]) -> Markup:
    """Facts side by side, each with its name; those that are ``None`` are left out."""
    shown = [
        tag("div", tag("dt", name), tag("dd", _cell(value)), class_="tile")
        for name, value in facts
        if value is not None
    ]
    return tag("dl", *shown, class_="tiles")


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, left_out: int = 0) -> Markup:
    """A table, with a line that says how many more rows there would be. Numbers stand to the right."""
    numeric = [all(_is_number(row[column]) for row in rows) for column in range(len(heads))]
    kinds = ["n" if is_numeric else None for is_numeric in numeric]
    head = tag("tr", *(tag("th", name, scope="col", class_=kind) for name, kind in zip(heads, kinds, strict=True)))
    body = [
        tag("tr", *(tag("td", _cell(cell), class_=kind) for cell, kind in zip(row, kinds, strict=True))) for row in rows
    ]
    whole = tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="wide")
    return Markup(whole + note(f"and {left_out:,} more")) if left_out else whole


def _is_number(cell: Cell) -> bool:
    """Whether a cell is a number, or one that is written out, such as a percentage."""
    return isinstance(cell, (int, float)) or (isinstance(cell, str) and _WRITTEN.fullmatch(cell) is not None)


def _cell(cell: Cell) -> Markup:
    """A cell; data is kept apart from the direction in which the text around it runs."""
    if isinstance(cell, Markup):
        return cell
    if isinstance(cell, int) and not isinstance(cell, bool):
        return Markup(f"{cell:,}")
    if isinstance(cell, float):
        return Markup(f"{cell:,.6g}" if abs(cell) < 1e6 else f"{cell:,.0f}")  # noqa: PLR2004 (no exponents)
    return tag("bdi", "" if cell is None else cell)


def figure(
    chart: Markup, caption: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, is_open: bool = False
) -> Markup:
    """A chart with a sentence about it, and its numbers as a table that opens, or is open."""
    numbers = tag("details", tag("summary", "numbers"), table(heads, rows), open="" if is_open else None)
    return tag("figure", chart, tag("figcaption", caption), numbers)


def gallery(*figures: Markup) -> Markup:
    """Figures side by side where there is room."""
    return tag("div", *figures, class_="gallery")


def document(title: str, kind: str, made: str, *parts: Markup) -> Markup:
    """A whole page.

    Args:
        title: What the page is about: a path, mostly.
        kind: What that is.
        made: By what the page was made, and when.
        parts: What is on it.
    """
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{kind}: {title}"),
        tag("style", Markup(_STYLE)),
    )
    top = tag("header", tag("p", kind, class_="kind"), tag("h1", tag("bdi", title)))
    body = tag("body", tag("main", top, *parts, tag("footer", made)))
    return Markup(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n")


# Colours are named once for light and once for dark; charts name them by classes. Nothing is loaded: fonts are the
# system's. The policy above allows this text, by its digest, and no other style or script.
_STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #1d2529; --dim: #5a666d; --line: #d9dee1;
  --grid: #e8ebed; --c0: #2f6690; --c1: #d1495b; --c2: #3a8f5c; --c3: #b7791f; --c4: #7b5ea7; --c5: #1b998b;
  --c6: #a34e8e; --c7: #6b7f0e; --ideal: #c2410c; --bad: #b3261e; --good: #2e7d4f; }
@media (prefers-color-scheme: dark) { :root { --page: #14181b; --card: #1c2226; --ink: #e6eaec; --dim: #9aa7ae;
  --line: #343d43; --grid: #2a3237; --c0: #6fb1e0; --c1: #f08a97; --c2: #7ccf9b; --c3: #e3b565; --c4: #b9a0e3;
  --c5: #63d4c6; --c6: #dd92c9; --c7: #bccf5c; --ideal: #fb923c; --bad: #ff8a80; --good: #7ccf9b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { margin: 0 0 1.25rem; font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 0 0 .75rem; font-size: 1.05rem; }
.kind { margin: 0; color: var(--dim); }
section { margin: 1rem 0; padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .75rem 1.25rem; margin: 0; }
.tile { min-width: 0; }
dt { color: var(--dim); font-size: .8rem; }
dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.note { margin: .5rem 0; color: var(--dim); }
.warning { margin: .5rem 0; padding: .4rem .75rem; border-left: 3px solid var(--ideal); overflow-wrap: anywhere; }
figure { margin: 0 0 .75rem; min-width: 0; }
figcaption { color: var(--dim); font-size: .85rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem 1.5rem; }
details { margin-top: .35rem; font-size: .85rem; }
summary { color: var(--dim); cursor: pointer; width: fit-content; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: .4rem 0; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid);
  overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 500; overflow-wrap: normal; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
footer { margin-top: 1.5rem; color: var(--dim); font-size: .8rem; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: var(--dim); }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--line); } svg .bar { fill: var(--c0); }
svg .bar:hover { opacity: .75; } svg .value { fill: var(--ink); font-size: 11px; stroke: var(--card);
  stroke-width: 3px; paint-order: stroke; }
svg .line { fill: none; stroke-width: 1.75; stroke-linejoin: round; } svg .thin { stroke-width: 1; opacity: .55; }
svg .ideal { stroke: var(--ideal); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg .s0 { stroke: var(--c0); } svg .s1 { stroke: var(--c1); } svg .s2 { stroke: var(--c2); }
svg .s3 { stroke: var(--c3); } svg .s4 { stroke: var(--c4); } svg .s5 { stroke: var(--c5); }
svg .s6 { stroke: var(--c6); } svg .s7 { stroke: var(--c7); } svg .all { stroke: var(--ink); }
svg .behind { stroke: var(--card); stroke-width: 3; opacity: .7; }
svg .mark { stroke-width: 1.5; stroke-dasharray: 3 3; } svg .bad { stroke: var(--bad); }
svg .good { stroke: var(--good); } svg .plain { stroke: var(--dim); }
@media print { :root { --page: #fff; --card: #fff; --ink: #000; --dim: #444; --line: #bbb; --grid: #ddd;
  --c0: #2f6690; --c1: #d1495b; --c2: #3a8f5c; --c3: #b7791f; --c4: #7b5ea7; --c5: #1b998b; --c6: #a34e8e;
  --c7: #6b7f0e; --ideal: #c2410c; --bad: #b3261e; --good: #2e7d4f; color-scheme: light; }
  main { max-width: none; padding: 0; } section, figure, tr { break-inside: avoid; } section { border-color: #ccc; }
  details:not([open]) { display: none; } .wide { overflow: visible; } }
"""
