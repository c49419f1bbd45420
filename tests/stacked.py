"""Examples into columns, value by value and in plain Python: what the extension's columns are compared with."""

import numpy as np

from seekset.errors import FormatError
from seekset.shards.rows import Rows, is_numeric

PLAIN = {float: "<f4", int: "<i8", bool: "|b1"}
MISSING = object()
LARGEST = float(np.finfo(np.float32).max) * (1 + 2**-25)


def stacked(examples):
    """Rows of examples, columns if they are dicts of numbers; fields that are no numbers, and those that are absent."""
    if not examples or type(examples[0]) is not dict or any(type(name) is not str for name in examples[0]):
        return Rows(objects=examples), (), ()
    bad = {
        row: f"expected an example that is a dict, found {described(example)}"
        for row, example in enumerate(examples)
        if type(example) is not dict
    }
    sound = [{} if row in bad else example for row, example in enumerate(examples)]
    values = {name: [example.get(name, MISSING) for example in sound] for name in sound[0]}
    kinds = {name: kind for name in values if (kind := kind_of(first_of(values[name]))) is not None}
    if not kinds:
        return Rows(objects=examples), (), ()
    for name, kind in kinds.items():
        for row, value in enumerate(values[name]):
            if (found := difference(value, kind)) is not None:
                bad.setdefault(row, f"field {name!r}: expected {told(kind)}, found {found}")
    columns = {name: column(values[name], kind, bad) for name, kind in kinds.items()}
    optional = [name for name in kinds if name == "policy" or any(value is None for value in values[name])]
    flags = {f"has_{name}": flag(values[name], bad) for name in optional}
    if clash := columns.keys() & flags.keys():
        raise FormatError(f"{clash} are fields and flags")
    return Rows(columns=columns | flags, bad=dict(sorted(bad.items()))), *others(sound, kinds, bad)


def first_of(values):
    """The first value that is there and not `None`."""
    return next((value for value in values if value is not None and value is not MISSING), None)


def column(values, kind, bad):
    """Values as one array, zeros where there is none."""
    made = np.zeros((len(values), *kind[1]), dtype=kind[0])
    for row, value in enumerate(values):
        if value is not None and row not in bad:
            made[row] = value
    return made


def flag(values, bad):
    """Where a field is not `None`."""
    return np.array([value is not None and row not in bad for row, value in enumerate(values)], dtype=bool)


def others(examples, kinds, bad):
    """Fields that are no numbers, of the first example and of others; and those that are `None` in all sound rows."""
    more = set()
    if len(set(map(len, examples))) > 1:
        more = {name for example in examples for name in example if type(name) is str} - set(examples[0])
    sound = [example for row, example in enumerate(examples) if row not in bad]
    words = [name for name in examples[0] if name not in kinds]
    absent = [name for name in words if sound and all(example.get(name, MISSING) is None for example in sound)]
    return (*(name for name in words if name not in absent), *sorted(more)), tuple(absent)


def kind_of(value):
    """The dtype and shape of a number or an array of numbers; nothing for all else."""
    if type(value) in PLAIN:
        return PLAIN[type(value)], ()
    if isinstance(value, (np.ndarray, np.generic)) and is_numeric(value.dtype):
        return value.dtype.newbyteorder("<").str, value.shape
    return None


def difference(value, kind):
    """What a value is, if it is neither `None` nor of a kind, or does not fit."""
    if value is None:
        return None
    if value is MISSING:
        return "nothing"
    if kind_of(value) != kind:
        return described(value)
    if type(value) is int and not -(2**63) <= value < 2**63:
        return f"an integer of {value.bit_length()} bits"
    if type(value) is float and LARGEST < abs(value) < float("inf"):
        return repr(value)
    return None


def described(value):
    """A value, in few words."""
    if isinstance(value, np.ndarray):
        return told((value.dtype.str, value.shape))
    kind = kind_of(value)
    return type(value).__name__ if kind is None else told(kind)


def told(kind):
    """A dtype and a shape, in words."""
    return f"{np.dtype(kind[0])} of shape {kind[1]}"
