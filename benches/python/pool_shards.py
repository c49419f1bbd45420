"""Positions of Hex in shards of two sources, as pickles and as what the peers read, made once by a fixed seed."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import data

SIDE = 13
CELLS = SIDE * SIDE
FIELDS = ("board", "policy", "value", "player_to_move", "has_policy")

# Shards of the two sources: four fifths and one fifth of the rows.
_SHARDS = {"a": 40, "b": 10}
_SEED = 13

Columns = dict[str, np.ndarray]


class Shards(NamedTuple):
    """The same rows in every form."""

    folder: Path
    rows: int

    def paths(self, kind: str) -> list[Path]:
        """All shards of a kind, ``"pkl.gz"``, ``"npz"`` or ``"tar"``, one source after the other."""
        return [path for source in _SHARDS for path in sorted((self.folder / source).glob(f"*.{kind}"))]

    def patterns(self, kind: str) -> dict[str, str]:
        """The shards of each source, as seekset is told of them."""
        return {source: str(self.folder / source / f"*.{kind}") for source in _SHARDS}

    @property
    def mds(self) -> Path:
        """Where mosaicml's own shards are."""
        return self.folder / "mds"

    @property
    def arrow(self) -> Path:
        """Where Hugging Face's data set is."""
        return self.folder / "arrow"


def made(size: data.Size) -> Shards:
    """The shards of a size, written if they are not there yet."""
    shards = Shards(size.folder / "pool", 2 * size.batch)
    if not shards.folder.exists():
        unfinished = shards._replace(folder=shards.folder.with_suffix(".unfinished"))
        shutil.rmtree(unfinished.folder, ignore_errors=True)
        _write_shards(unfinished)
        _write_mds(unfinished)
        _write_arrow(unfinished)
        unfinished.folder.rename(shards.folder)
    return shards


def _write_shards(shards: Shards) -> None:
    rng = np.random.default_rng(_SEED)
    of_shard = shards.rows // sum(_SHARDS.values())
    for source, count in _SHARDS.items():
        (shards.folder / source).mkdir(parents=True)
        for number in range(count):
            columns = _positions(rng, of_shard)
            path = shards.folder / source / f"shuffled_{number:04}"
            _write_pickle(Path(f"{path}.pkl.gz"), columns)
            np.savez(f"{path}.npz", **columns)
            _write_tar(Path(f"{path}.tar"), columns)


def write_pickles(folder: Path, of_shard: int) -> dict[str, list[Path]]:
    """Shards of so many rows, as pickles only; their paths by source, which are in their order."""
    rng = np.random.default_rng(_SEED)
    written: dict[str, list[Path]] = {source: [] for source in _SHARDS}
    for source, count in _SHARDS.items():
        (folder / source).mkdir()
        for number in range(count):
            written[source].append(folder / source / f"shuffled_{number:04}.pkl.gz")
            _write_pickle(written[source][-1], _positions(rng, of_shard))
    return written


def _write_pickle(path: Path, columns: Columns) -> None:
    with gzip.open(path, "wb", compresslevel=6) as file:
        pickle.dump({"examples": list(examples(columns)), "source": path.parent.name}, file)


def _positions(rng: np.random.Generator, count: int) -> Columns:
    """Stones of some random moves, a policy over some of the empty cells (one in ten has none), and who won."""
    moves = rng.integers(0, 121, count)
    turns = rng.random((count, CELLS)).argsort(axis=1).argsort(axis=1)
    stones = turns < moves[:, None]
    board = np.stack([stones & (turns % 2 == 0), stones & (turns % 2 == 1)], axis=1)
    candidates = (turns >= moves[:, None]) & (turns < moves[:, None] + 25)
    visits = rng.integers(1, 800, (count, CELLS)) * candidates
    has_policy = rng.random(count) < 0.9
    policy = visits / visits.sum(axis=1, keepdims=True) * has_policy[:, None]
    return {
        "board": board.reshape(count, 2, SIDE, SIDE).astype(np.float32),
        "policy": policy.astype(np.float32),
        "value": rng.integers(0, 2, count).astype(np.float32),
        "player_to_move": moves % 2,
        "has_policy": has_policy,
    }


def examples(columns: Columns) -> Iterator[dict[str, Any]]:
    """Rows as self-play writes them: numbers of Python's, no policy where there is none, and some metadata."""
    for row, (board, policy, value, player, has_policy) in enumerate(zip(*columns.values(), strict=True)):
        yield {
            "board": board.copy(),
            "policy": policy.copy() if has_policy else None,
            "value": float(value),
            "player_to_move": int(player),
            "metadata": {"game_id": (row // 60, row), "position_in_game": row % 60, "winner": "RED"},
        }


# --- webdataset, mosaicml, Hugging Face -------------------------------------------------------------------------------


def _write_tar(path: Path, columns: Columns) -> None:
    """A pickle for each row: webdataset reads that six times quicker than an .npy for each of its fields."""
    with tarfile.open(path, "w") as tar:
        for row in range(len(columns["value"])):
            fields = {name: column[row] for name, column in columns.items()}
            plain = {name: fields[name].item() for name in ("value", "player_to_move", "has_policy")}
            content = pickle.dumps({**fields, **plain}, protocol=5)
            member = tarfile.TarInfo(f"{row:06}.pyd")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _stored(shards: Shards) -> Iterator[Columns]:
    for path in shards.paths("npz"):
        with np.load(path) as columns:
            yield dict(columns)


def _write_mds(shards: Shards) -> None:
    from streaming import MDSWriter

    kinds = {
        "board": f"ndarray:float32:2,{SIDE},{SIDE}",
        "policy": f"ndarray:float32:{CELLS}",
        "value": "float32",
        "player_to_move": "int64",
        "has_policy": "uint8",
    }
    of_shard = shards.rows // sum(_SHARDS.values()) * 2_100
    with MDSWriter(out=str(shards.mds), columns=kinds, size_limit=of_shard) as out:
        for columns in _stored(shards):
            columns["has_policy"] = columns["has_policy"].astype(np.uint8)
            for row in range(len(columns["value"])):
                out.write({name: columns[name][row] for name in kinds})


def _write_arrow(shards: Shards) -> None:
    """Boards as flat lists: Hugging Face reads arrays of several dimensions 1.5 to 5 times slower."""
    from datasets import Dataset as Table
    from datasets import Features, Value, concatenate_datasets, disable_progress_bars
    from datasets import List as Many

    disable_progress_bars()
    features = Features(
        {
            "board": Many(Value("float32"), length=2 * CELLS),
            "policy": Many(Value("float32"), length=CELLS),
            "value": Value("float32"),
            "player_to_move": Value("int64"),
            "has_policy": Value("bool"),
        }
    )
    tables = []
    for columns in _stored(shards):
        flat = {**columns, "board": columns["board"].reshape(-1, 2 * CELLS)}
        tables.append(Table.from_dict(flat, features=features))
    concatenate_datasets(tables).save_to_disk(str(shards.arrow), num_shards=len(tables))
