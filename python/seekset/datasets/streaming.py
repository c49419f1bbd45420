"""Directories of training shards as they are: one mixed stream, and disjoint ones for training and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from seekset.augment import hex_symmetries
from seekset.datasets.mixed import MixedShardDataset
from seekset.errors import MismatchError
from seekset.files import AnyPath
from seekset.limits import limit, whole_number
from seekset.shards.ranges import chosen_shards

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from seekset.shards.readers import Readers

__all__ = [
    "Split",
    "StreamingMixedShardDataset",
    "check_disjoint",
    "create_datasets",
    "discover_and_split_multiple_data",
]

_GB = 10**9


class StreamingMixedShardDataset(MixedShardDataset):
    """Shards of several directories as one mixed stream of examples. Iterable.

    It is :class:`MixedShardDataset` with directories and ranges for sources, and for positions of the game of Hex
    unless ``enable_augmentation`` is off: one of the board's symmetries is then drawn for each row, in each epoch anew.

    Args:
        data_dirs: The directories.
        shard_ranges: For each, which of its sorted shards are meant: positions from 0 with both ends, such as
            ``"0-206,208-498"``, ``"all"`` or ``"none"``. All, if not given.
        pool_size: How many examples are pooled, at most.
        refill_threshold: Below how many the pool is filled again; 75 % of it, if not given.
        max_memory_gb: What a process may have in anonymous memory. The rank's pools have a fixed part of it, because a
            process needs memory for other things, too: two thirds of what is beyond half a gigabyte, a quarter at
            least. ``max_bytes`` among the options sets the pools' bytes by themselves.
        enable_augmentation: Whether symmetries of Hex boards are drawn; rows that are none then raise.
        max_examples_unaugmented: How many rows an epoch has at most.
        verbose: Whether to log what is read.
        random_seed: What rows are drawn by, with the epoch; if not given, a seed is drawn, and kept in states.
        options: What else :class:`MixedShardDataset` takes.

    >>> import numpy as np, pathlib
    >>> pathlib.Path("games").mkdir()
    >>> for k in range(3):
    ...     board = np.zeros((4, 2, 5, 5), dtype="f4")
    ...     policy = np.ones((4, 25), dtype="f4") / 25
    ...     np.savez(f"games/shuffled_{k:04}.npz", board=board, policy=policy, value=np.ones(4, "f4"))
    >>> ds = StreamingMixedShardDataset(["games"], ["0-1"], pool_size=5, random_seed=0)
    >>> len(ds), sorted(next(iter(ds)))
    (8, ['board', 'policy', 'value'])
    """

    def __init__(
        self,
        data_dirs: Sequence[AnyPath],
        shard_ranges: Sequence[str] | None = None,
        pool_size: int = 2_000_000,
        refill_threshold: int | None = None,
        max_memory_gb: float | None = 5.0,
        enable_augmentation: bool = True,
        max_examples_unaugmented: int | None = None,
        verbose: bool = False,
        random_seed: int | None = None,
        **options: Any,
    ) -> None:
        whole_number(pool_size, "pool_size")
        if refill_threshold is not None and refill_threshold > pool_size:
            raise ValueError(f"refill_threshold must be at most pool_size, {pool_size}, but is {refill_threshold}")
        if max_memory_gb is not None and max_memory_gb <= 0:
            raise ValueError(f"max_memory_gb must be above 0, or None for no limit, but is {max_memory_gb}")
        most = None if max_memory_gb is None else int(max_memory_gb * _GB)
        bounds = {"max_bytes": None if most is None else _of_pool(most), "max_process_bytes": most}
        sources = options.pop("sources", None) or chosen_shards(data_dirs, shard_ranges, options.get("reader"))
        if enable_augmentation:
            options.setdefault("augment", hex_symmetries)
        super().__init__(
            sources,
            pool_rows=pool_size,
            refill_threshold=refill_threshold,
            max_rows=limit(max_examples_unaugmented, "max_examples_unaugmented"),
            verbose=verbose,
            seed=random_seed,
            **{**bounds, **options},
        )


class Split(NamedTuple):
    """Shards of each directory for training and for validation, and each directory's share of all its shards."""

    train: dict[str, list[Path]]
    validation: dict[str, list[Path]]
    weights: dict[str, float]


def discover_and_split_multiple_data(
    data_dirs: Sequence[AnyPath],
    shard_ranges: Sequence[str] | None = None,
    *,
    validation: float = 0.2,
    reader: Readers = None,
) -> Split:
    """The shards of directories, parted into those for training and those for validation: none is both.

    Of each directory, the last shards are for validation: their share, rounded, but one at least where there are two.

    >>> import pathlib
    >>> pathlib.Path("many").mkdir()
    >>> for k in range(5):
    ...     _ = pathlib.Path(f"many/{k}.npz").write_bytes(b"")
    >>> split = discover_and_split_multiple_data(["many"], ["0-3"])
    >>> [path.name for path in split.train["many"]], [path.name for path in split.validation["many"]]
    (['0.npz', '1.npz', '2.npz'], ['3.npz'])
    """
    if not 0 <= validation < 1:
        raise ValueError(f"validation must be a share from 0 to below 1, but is {validation}")
    chosen = chosen_shards(data_dirs, shard_ranges, reader)
    train, held_out = {}, {}
    for name, paths in chosen.items():
        count = min(len(paths) - 1, max(1, round(len(paths) * validation))) if validation and len(paths) > 1 else 0
        train[name], held_out[name] = paths[: len(paths) - count], paths[len(paths) - count :]
    whole = sum(map(len, chosen.values())) or 1
    return Split(train, held_out, {name: len(paths) / whole for name, paths in chosen.items()})


def create_datasets(
    data_dirs: Sequence[AnyPath],
    shard_ranges: Sequence[str] | None = None,
    *,
    validation: float = 0.2,
    **options: Any,
) -> tuple[StreamingMixedShardDataset, StreamingMixedShardDataset]:
    """Datasets for training and validation that share no shard; the second is not augmented."""
    split = discover_and_split_multiple_data(
        data_dirs, shard_ranges, validation=validation, reader=options.get("reader")
    )
    train = StreamingMixedShardDataset(data_dirs, sources=split.train, **options)
    unaugmented = {**options, "enable_augmentation": False, "augment": None}
    held_out = StreamingMixedShardDataset(data_dirs, sources=split.validation, **unaugmented)
    check_disjoint(train, held_out)
    return train, held_out


def check_disjoint(a: MixedShardDataset, b: MixedShardDataset) -> None:
    """Raise a ``MismatchError`` if two datasets have a shard in common: the same file, or one of the same content."""
    files = {shard.path.resolve(): shard for _, shard in a.mix.shards}
    contents = {(shard.size, shard.digest): shard for _, shard in a.mix.shards if shard.census.rows}
    for source, shard in b.mix.shards:
        twin = files.get(shard.path.resolve()) or contents.get((shard.size, shard.digest))
        if twin is not None:
            raise MismatchError(
                f"{shard.path} (source {source.name!r}) is in both datasets: it is, or has the size and both ends of, "
                f"{twin.path}"
            )


def _of_pool(most: int) -> int:
    """What of a process' bytes its pool may have: two thirds of those beyond half a gigabyte, a quarter at least.

    Measured, a process with torch has 0.3 GB before it reads a row, and 0.1 GB and a third of the pool beside it. A
    fixed part, and not what is left at the moment: the order of rows follows from how many are pooled.

    >>> _of_pool(5 * _GB), _of_pool(_GB // 2)
    (3000000000, 125000000)
    """
    return max((most - _GB // 2) * 2 // 3, most // 4)
