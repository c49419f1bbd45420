"""The contests on windows of genomes: from FASTA and from Sharded Eden's SQLite files to what a training loop takes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import data
from contest import Answers, Contest, Contestant, Row, Task, cold, digest, hold

_SEED = 11
_WINDOW, _STRIDE = 8_192, 7_992
_BATCH = 16
_OF_LONG = 160
_BASES = np.frombuffer(b"ACGT", dtype=np.uint8)


class Genomes(NamedTuple):
    """Contigs as FASTA files and as Sharded Eden's databases, with the windows of the latter."""

    fastas: list[Path]
    databases: Path
    windows: Path
    count: int


def contests(size: data.Size) -> dict[str, Callable[[], list[Row]]]:
    """All of them by name, to be held when they are called."""
    held: dict[str, Callable[[], list[Row]]] = {}
    for workers in (0, 2):
        held[f"windows-{workers}"] = partial(_hold_windows, size, workers)
    held["windows-0-cold"] = partial(_hold_cold, size)
    for megabases in (1, 10, 100):
        held[f"windows-of-{megabases}-mb"] = partial(_hold_long, size, megabases)
    return held


def _hold_windows(size: data.Size, workers: int) -> list[Row]:
    genomes = _genomes(size)
    where = "2 workers" if workers else "in one process"
    title = f"{size.windows // 10} shuffled windows of 8 192, int64 with labels and mask, {where}"
    fasta = Contestant("seekset, FASTA", partial(_native, genomes, size, workers))
    eden = Contestant("SQLite SUBSTR and a Python tokenizer", partial(_plain, genomes, size, workers))
    rows = hold(
        Contest(
            f"{title}, from FASTA",
            [
                fasta,
                eden._replace(goal=None if workers else 60),
                Contestant("pysam and numpy", partial(_pysam, genomes, size, workers)),
            ],
        )
    )
    stored = Contestant("seekset, SQLite", partial(_stored, genomes, size, workers, "dna"))
    rows += hold(
        Contest(
            f"{title}, from SQLite",
            [
                stored,
                eden._replace(goal=None if workers else 20),
                Contestant("seekset, a Python tokenizer", partial(_stored, genomes, size, workers, None)),
            ],
        )
    )
    return rows


def _genomes(size: data.Size) -> Genomes:
    """20 samples, 4 000 contigs, 270 Mb; a twentieth of that for a quick run."""
    return _made(size.folder / "windows", samples=20, contigs=200, mean=67_500 * size.windows // 20_000)


def _hold_cold(size: data.Size) -> list[Row]:
    """As in one process, with files and databases on the disk only."""
    genomes = _genomes(size)
    contest = Contest(
        f"{size.windows // 10} shuffled windows of 8 192, int64 with labels and mask, in one process",
        [
            Contestant("seekset, FASTA", partial(_native, genomes, size, 0)),
            Contestant("SQLite SUBSTR and a Python tokenizer", partial(_plain, genomes, size, 0)),
            Contestant("pysam and numpy", partial(_pysam, genomes, size, 0)),
            Contestant("seekset, SQLite", partial(_stored, genomes, size, 0, "dna")),
        ],
    )
    return hold(cold(contest, [genomes.windows.parent]))


def _hold_long(size: data.Size, megabases: int) -> list[Row]:
    """Windows of one contig: what each costs must not grow with it."""
    genomes = _made(size.folder / f"windows-{megabases}", samples=1, contigs=1, mean=megabases * 1_000_000)
    # SUBSTR takes a tenth of a second for each of a long contig.
    size = replace(size, windows=10 * _OF_LONG)
    return hold(
        Contest(
            f"Random windows of a contig of {megabases} Mb",
            [
                Contestant("seekset, SQLite", partial(_stored, genomes, size, 0, "dna")),
                Contestant("SQLite SUBSTR and a Python tokenizer", partial(_plain, genomes, size, 0)),
                Contestant("seekset, FASTA", partial(_native, genomes, size, 0)),
            ],
        )
    )


# --- the files --------------------------------------------------------------------------------------------------------


def _made(folder: Path, samples: int, contigs: int, mean: int) -> Genomes:
    """Contigs sorted by id, so that windows have the same numbers in files and databases."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import seekset

    databases, windows = folder / "dbs", folder / "windows.sqlite"
    fastas = [folder / f"S{sample:02}.fa" for sample in range(samples)]
    if not windows.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(_SEED)
        ids, lengths = [], []
        for sample, path in enumerate(fastas):
            sizes = rng.integers(mean // 4, 2 * mean - mean // 4, contigs) if contigs > 1 else np.array([mean])
            names = [f"BCR__EXT-S{sample:02}__CT1-{number:05}" for number in range(contigs)]
            letters = [_BASES[rng.integers(0, 4, length)].tobytes().decode() for length in sizes.tolist()]
            data.write(path, (_record(name, text) for name, text in zip(names, letters, strict=True)))
            seekset.create_sample_database(f"S{sample:02}", zip(names, letters, strict=True), databases)
            ids += names
            lengths += sizes.tolist()
        pq.write_table(pa.table({"contig_id": ids, "length": lengths}), folder / "contigs.parquet")
        seekset.precompute_window_database(folder / "contigs.parquet", windows, _WINDOW, _STRIDE)
    with sqlite3.connect(windows) as connection:
        (count,) = connection.execute("SELECT value FROM metadata WHERE key = 'total_windows'").fetchone()
    return Genomes(fastas, databases, windows, count)


def _record(name: str, letters: str) -> bytes:
    lines = "\n".join(letters[at : at + 60] for at in range(0, len(letters), 60))
    return f">{name}\n{lines}\n".encode()


# --- the contestants --------------------------------------------------------------------------------------------------


def _task(dataset: Any, genomes: Genomes, size: data.Size, workers: int, collate: Any = None) -> Task:
    """A loop over a loader; all contestants are asked for the same windows in the same order."""
    from torch.utils.data import DataLoader

    chosen = np.random.default_rng(_SEED).permutation(genomes.count)[: size.windows // 10].tolist()
    batches = [chosen[at : at + _BATCH] for at in range(0, len(chosen), _BATCH)]
    options = {"multiprocessing_context": "fork", "persistent_workers": True} if workers else {}
    loader = DataLoader(dataset, batch_sampler=batches, num_workers=workers, collate_fn=collate, **options)

    def run() -> int:
        return sum(int(batch["tokens"][0, 1]) for batch in loader)

    def answers(_: int) -> Answers:
        found: dict[str, list[bytes]] = {"tokens": [], "labels": [], "loss_mask": []}
        for batch in loader:
            for name, parts in found.items():
                parts.append(np.ascontiguousarray(batch[name].numpy()).tobytes())
        return {name: digest(*parts) for name, parts in found.items()}

    return Task(run, answers, calls=len(chosen))


def _native(genomes: Genomes, size: data.Size, workers: int) -> Task:
    from seekset.datasets import WindowDataset
    from seekset.loading import collate

    rules = {"window": _WINDOW, "stride": _STRIDE, "tail": "drop", "shuffle": False}
    return _task(WindowDataset(genomes.fastas, **rules), genomes, size, workers, collate)


def _stored(genomes: Genomes, size: data.Size, workers: int, tokens: str | None) -> Task:
    from seekset.datasets import ShardedEdenDataset
    from seekset.loading import collate

    dataset = ShardedEdenDataset(tokens or _Tokenizer(), genomes.databases, genomes.windows)
    return _task(dataset, genomes, size, workers, collate)


class _Tokenizer:
    """Letters as their codes, in Python."""

    bos_id, eos_id, pad_id, _sep_id = 2, 0, 1, 3

    def text_to_ids(self, text: str) -> list[int]:
        return list(text.encode())


def _plain(genomes: Genomes, size: data.Size, workers: int) -> Task:
    """As BioNeMo's dataset does it: a look-up, a SUBSTR and a list of ids for each window."""
    import torch
    from torch.utils.data import Dataset

    tokenizer = _Tokenizer()
    special = torch.tensor([tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer._sep_id])
    positions = torch.arange(_WINDOW)
    paths = {path.parent.name: path for path in genomes.databases.glob("*/*.sqlite")}

    class Windows(Dataset):
        def __init__(self) -> None:
            self.connections: dict[str, sqlite3.Connection] = {}

        def connection(self, name: str, path: Path) -> sqlite3.Connection:
            if name not in self.connections:
                self.connections[name] = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            return self.connections[name]

        def __len__(self) -> int:
            return genomes.count

        def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
            query = "SELECT sequence_id, window_in_seq_idx FROM window_mappings WHERE window_idx = ?"
            contig, number = self.connection("", genomes.windows).execute(query, (place,)).fetchone()
            sample = ".".join(contig.split("__")[1].split("-")[1:])
            query = "SELECT substr(nt_sequence, ?, ?) FROM sequences WHERE contig_id = ?"
            asked = (number * _STRIDE + 1, _WINDOW - 2, contig)
            letters = self.connection(sample, paths[sample]).execute(query, asked).fetchone()[0].upper()
            ids = [tokenizer.bos_id, *tokenizer.text_to_ids(letters), tokenizer.eos_id]
            ids += [tokenizer.pad_id] * (_WINDOW - len(ids))
            return _item(torch.tensor(ids, dtype=torch.int64), special, positions)

    return _task(Windows(), genomes, size, workers)


def _pysam(genomes: Genomes, size: data.Size, workers: int) -> Task:
    """What people write on FASTA: one fetch and one numpy look-up for each window."""
    import pysam
    import torch
    from torch.utils.data import Dataset

    import seekset

    special, positions = torch.tensor([2, 0, 1, 3]), torch.arange(_WINDOW)
    table = np.arange(256, dtype=np.int64)
    names, starts = [], []
    for number, path in enumerate(genomes.fastas):
        with pysam.FastaFile(str(path)) as fasta:
            for name, length in zip(fasta.references, fasta.lengths, strict=True):
                windows = seekset.compute_num_windows(length, _WINDOW, _STRIDE)
                names += [(number, name)] * windows
                starts += [k * _STRIDE for k in range(windows)]

    class Windows(Dataset):
        def __init__(self) -> None:
            self.files: dict[int, Any] = {}

        def __len__(self) -> int:
            return genomes.count

        def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
            number, name = names[place]
            if number not in self.files:
                self.files[number] = pysam.FastaFile(str(genomes.fastas[number]))
            letters = self.files[number].fetch(name, starts[place], starts[place] + _WINDOW - 2).upper().encode()
            tokens = np.ones(_WINDOW, dtype=np.int64)
            tokens[0], tokens[len(letters) + 1] = 2, 0
            tokens[1 : len(letters) + 1] = table[np.frombuffer(letters, dtype=np.uint8)]
            return _item(torch.from_numpy(tokens), special, positions)

    return _task(Windows(), genomes, size, workers)


def _item(tokens: Any, special: Any, positions: Any) -> dict[str, Any]:
    import torch

    labels = tokens.clone()
    labels[:-1] = tokens[1:]
    labels[-1] = 1
    mask = torch.ones(_WINDOW, dtype=torch.float32)
    mask[torch.isin(labels, special)] = 0
    return {"tokens": tokens, "labels": labels, "loss_mask": mask, "position_ids": positions}
