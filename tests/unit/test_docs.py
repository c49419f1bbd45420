"""The API reference has every public name once, and what the documentation shows as Python is run."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES, DOCS = ROOT / "python", ROOT / "docs"
PUBLIC = (
    *("seekset", "seekset.augment", "seekset.dali", "seekset.datasets", "seekset.errors", "seekset.inference"),
    *("seekset.loading", "seekset.quality", "seekset.report", "seekset.shards", "seekset.world"),
)
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@cache
def parsed(module):
    path = SOURCES.joinpath(*module.split("."))
    found = [one for one in (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi")) if one.exists()]
    return ast.parse(found[0].read_text(encoding="utf-8"))


def exported(module):
    """A module's `__all__`."""
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{module} has no __all__")


@cache
def home(path):
    """Where a name is defined that may have been imported from elsewhere."""
    module, _, name = path.rpartition(".")
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return home(f"{node.module}.{name}")
    return path


def documented():
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
    return re.findall(r"^::: (\S+)$", text, re.MULTILINE)


def test_names_are_found_where_they_are_defined():
    assert home("seekset.Fasta") == "seekset.fasta.Fasta"
    assert home("seekset.TokenTable") == "seekset._core.TokenTable"


def test_every_public_name_is_in_the_api_reference_once():
    public = {home(f"{module}.{name}") for module in PUBLIC for name in exported(module)}
    found = Counter(map(home, documented()))
    assert sorted(public - set(found)) == [], "not documented"
    assert sorted(set(found) - public) == [], "documented, but not public"
    assert [name for name, count in found.items() if count > 1] == []


def test_names_are_documented_under_the_module_they_are_imported_from():
    assert [path for path in documented() if path.rpartition(".")[0] not in PUBLIC] == []


def test_code_that_is_shown_is_code_that_is_run():
    """The root's conftest.py runs what is marked as Python, unless it is skipped; so nothing may be."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        languages = re.findall(r"^ *```+(\S+)$", text, re.MULTILINE)
        assert set(languages) <= {"python", "sh", "text"}, page
        assert "<!-- skip" not in text, page
        # Blocks without a language are commands and layouts.
        unmarked = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        assert re.findall(r"^    (?:from \S+ )?import ", unmarked, re.MULTILINE) == [], page


def test_the_search_of_the_site_needs_nothing_from_elsewhere():
    """The plugin would fetch its own script for pages from file://, unless one of that name is given."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (scripts,) = re.findall(r"^  polyfills: \[(.*)\]$", config, re.MULTILINE)
    assert "\n  - offline\n" in config
    assert "iframe-worker" in scripts
    assert (DOCS / scripts).exists()
