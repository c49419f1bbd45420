"""Ranges of shards: which of a directory's sorted shards are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekset.files import AnyPath, as_path
from seekset.shards.readers import find_shards, readers_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from seekset.shards.readers import Readers

__all__ = ["chosen_shards", "parse_ranges"]


def parse_ranges(text: str, count: int) -> list[int]:
    """The positions that ranges such as ``"0-206,208-498"`` mean, from 0 and with both ends; ``"all"``, ``"none"``.

    >>> parse_ranges("0-2,5", 8), parse_ranges("all", 3), parse_ranges("none", 3)
    ([0, 1, 2, 5], [0, 1, 2], [])
    >>> parse_ranges("2-9", 8)
    Traceback (most recent call last):
    ValueError: range '2-9' is outside of the shards: there are 8, 0 to 7
    """
    word = text.strip().lower()
    if word in ("all", "none"):
        return list(range(count)) if word == "all" else []
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f'range {text!r}: expected "all", "none" or positions such as "0-206,208", found {part!r}')
        start, end = int(first), int(last) if dash else int(first)
        if start > end or end >= count:
            there = f"there are {count}, 0 to {count - 1}" if count else "there are none"
            raise ValueError(f"range {part.strip()!r} is outside of the shards: {there}")
        found.update(dict.fromkeys(range(start, end + 1)))
    return list(found)


def chosen_shards(
    data_dirs: Sequence[AnyPath], shard_ranges: Sequence[str] | None, reader: Readers = None
) -> dict[str, list[Path]]:
    """The shards of each directory that its ranges mean."""
    if isinstance(data_dirs, (str, bytes)) or isinstance(shard_ranges, str):
        raise TypeError("data_dirs and shard_ranges are lists, with one entry for each directory")
    ranges = ["all"] * len(data_dirs) if shard_ranges is None else list(shard_ranges)
    if len(ranges) != len(data_dirs):
        raise ValueError(f"there are {len(ranges)} shard ranges for {len(data_dirs)} directories: give one for each")
    readers = readers_by_name(reader, (str(as_path(directory)) for directory in data_dirs))
    found: dict[str, list[Path]] = {}
    for directory, text in zip(map(as_path, data_dirs), ranges, strict=True):
        if directory.exists() and not directory.is_dir():
            raise NotADirectoryError(f"{directory}: expected a directory of shards, found a file")
        if not directory.is_dir():
            raise FileNotFoundError(f"{directory}: there is no such directory")
        if str(directory) in found:
            raise ValueError(f'{directory} is given twice: put its ranges into one, such as "0-9,20-29"')
        if text.strip().lower() == "none":
            found[str(directory)] = []
            continue
        try:
            shards = find_shards(directory, readers[str(directory)])
        except FileNotFoundError:
            raise FileNotFoundError(
                f'{directory}: there is no shard in it; give the range "none" if none is meant'
            ) from None
        try:
            found[str(directory)] = [shards[place] for place in parse_ranges(text, len(shards))]
        except ValueError as error:
            raise ValueError(f"{directory}: {error}") from None
    return found
