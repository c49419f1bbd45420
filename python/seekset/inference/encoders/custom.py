"""Encoders by name: a user's class, factory or function, ``module:name``, and how they are called."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seekset.errors import MismatchError, SeeksetError
from seekset.inference.encoders.protocol import UnknownModelError

__all__ = ["imported", "made", "parsed"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def imported(spec: str) -> Callable[..., Any]:
    """The class or function that ``module:name`` stands for; modules of the current folder are found, too.

    >>> imported("seekset.inference.encoders:KmerEncoder").__name__
    'KmerEncoder'
    """
    module_name, _, name = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        # What the module itself wants to import and is not there is another matter.
        absent = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        kind = UnknownModelError if absent else MismatchError
        raise kind(f"{spec}: {module_name!r} can't be imported: {_cause(error)}") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UnknownModelError(f"{spec}: {module_name!r} has no {name!r}") from None
    if not callable(found):
        raise MismatchError(f"{spec} is {type(found).__name__}, and no class or function")
    return found  # type: ignore[no-any-return]


def made(
    factory: Callable[..., Any],
    spec: str,
    *,
    device: str,
    options: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> Any:
    """The encoder that a factory makes, which is a class or whatever takes a ``device``; else what was given is one.

    ``options`` are the package's own, ``arguments`` the user's. Those that the factory does not take are errors.
    """
    given = dict(options or {})
    for name, text in (arguments or {}).items():
        if name in given or name == "device":
            raise MismatchError(f"{spec}: {name!r} is given by an option of its own, not by an argument")
        given[name] = parsed(text)
    takes, anything = _parameters(factory)
    plain = False
    if not anything and "device" not in takes:
        if isinstance(factory, type):
            raise MismatchError(f"{spec}: the class of an encoder must take a 'device', and this one does not")
        takes, factory, plain = [], _itself(factory), True
    if unknown := [] if anything else [name for name in given if name not in takes]:
        raise MismatchError(_unknown(spec, unknown, takes, plain=plain))
    try:
        encoder = factory(device=device, **given)
    except SeeksetError:
        raise
    except Exception as error:
        raise SeeksetError(f"{spec}: the encoder can't be made: {_cause(error)}") from error
    if not callable(encoder):
        raise MismatchError(f"{spec} gives {type(encoder).__name__}, which can't be called with a batch")
    return encoder


def _unknown(spec: str, unknown: list[str], takes: list[str], *, plain: bool) -> str:
    if "per_token" in unknown:
        found = "a function that is given batches alone" if plain else f"one that takes {', '.join(takes)}"
        return (
            f"{spec}: with --per-token, expected an encoder that takes per_token and gives a row for each residue, "
            f"found {found}; make it a class with __init__(self, device, per_token=False), or leave --per-token out"
        )
    known = ", ".join(name for name in takes if name != "device") or "none"
    return f"{spec} has no option {', '.join(map(repr, unknown))}; it has {known}"


def parsed(text: str) -> str | int | float | bool:
    """The value that an argument's text stands for: a number, true or false, else the text.

    >>> [parsed(text) for text in ("3", "0.5", "true", "False", "flash_attention_2")]
    [3, 0.5, True, False, 'flash_attention_2']
    """
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parameters(factory: Callable[..., Any]) -> tuple[list[str], bool]:
    """The names that a call takes, and whether it takes any other."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # what is written in C may not tell
        return [], False
    names = [parameter.name for parameter in parameters if parameter.kind in _NAMED]
    return names, any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _itself(encoder: Any) -> Callable[..., Any]:
    return lambda device: encoder  # noqa: ARG005 (named as factories name it)


def _cause(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
