# ruff: noqa: INP001 (a file that mkdocs reads, and no part of a package)
"""The results of the benchmarks as a page of the site: they lie outside of this folder, and so do their links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_RESULTS = Path(__file__).parents[1] / "benches" / "results.md"
# What stands for the results in a page, and leads to them where pages are read without mkdocs.
_PLACE = "[The results](../benches/results.md)"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the results, without their title, where a page asks for them."""
    if _PLACE not in markdown:
        return markdown
    _, text = _RESULTS.read_text(encoding="utf-8").split("\n", 1)
    text = text.replace("[README.md](README.md)", "`benches/README.md`").replace("](../docs/", "](")
    return markdown.replace(_PLACE, text)
