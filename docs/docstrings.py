# ruff: noqa: INP001 (a file that mkdocs reads, and no part of a package)
"""What mkdocstrings makes of docstrings, and of the extension module's names.

It reads sources and stubs without importing them. Stubs have the signatures of the extension module and no words, so
those come from the extension itself, where Rust's doc comments are.
"""

from __future__ import annotations

import inspect
import re
from operator import attrgetter
from typing import Any

import griffe

_CORE = "seekset._core."
# Roles such as :class:`~seekset.Batch`, and examples: from a prompt to the next blank line.
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")
_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Docstrings as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take words about the extension from the extension; make Markdown of all."""
        if obj.path.startswith(_CORE) and "__new__" in obj.members:
            _make_init(obj)
        if obj.docstring is None and obj.path.startswith(_CORE):
            _describe(obj)
        if obj.docstring is not None:
            text = _EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(r"`\1`", text)


def _make_init(obj: griffe.Object) -> None:
    """Show how objects are made: stubs of extension classes have `__new__`, which is not looked for."""
    made = obj.members.pop("__new__")
    made.name, made.returns = "__init__", None
    next(iter(made.parameters)).name = "self"
    obj.members["__init__"] = made


def _describe(obj: griffe.Object) -> None:
    import seekset._core as core

    # What Python says of every __len__ tells nobody anything.
    if not obj.name.startswith("_"):
        words = inspect.getdoc(attrgetter(obj.path.removeprefix(_CORE))(core))
        obj.docstring = griffe.Docstring(words, parent=obj, parser="google") if words else None
