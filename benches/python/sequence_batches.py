"""The contests on packed batches: from FASTA to what a training loop takes, and the index and plan behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import data
from contest import Answers, Contest, Contestant, Row, Task, Times, apart, digest, hold

_SEED = 5
_MAX_TOKENS = 16_384
_MAX_LENGTH = 1_022
_BUFFER = 1_000
_FILES = 500

Sequence = tuple[str, np.ndarray]


def contests(size: data.Size) -> dict[str, Callable[[], list[Row]]]:
    """All of them by name, to be held when they are called."""
    path, many = apart(_made, size), apart(_made_many, size)
    count = f"{data.spaced(size.batch)} proteins"
    held = {f"batches-{workers}": _batches(path, count, workers) for workers in (0, 1, 2)}
    held["batches-files"] = _batches_of_files(many, count)
    held |= {"sequence-index": _index_built(size), "sequence-index-open": _index_opened(size)}
    return {**{name: partial(hold, contest) for name, contest in held.items()}, "plan": partial(_planned, size)}


def _made(size: data.Size) -> Path:
    """A file of some of the proteins, and what the peers need to read it."""
    import seekset

    path = size.folder / "batches.fa"
    if not path.exists():
        data.write(path, [data.proteins(np.random.default_rng(_SEED), np.arange(size.batch))])
    seekset.create_sequence_index([path], path.with_suffix(".sidx"))
    seekset.create_sequence_index([path], path.with_suffix(".json"))
    return path


def _made_many(size: data.Size) -> Path:
    """The index of as many proteins in many files, and what pysam needs to read them."""
    import pysam

    import seekset

    folder = size.folder / "many"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(_SEED)
    paths = []
    for number, of_file in enumerate(np.array_split(np.arange(size.batch), _FILES)):
        paths.append(folder / f"part-{number:03}.fa")
        content = data.proteins(rng, of_file)
        if not paths[-1].exists():
            data.write(paths[-1], [content])
            pysam.faidx(str(paths[-1]))
    return seekset.create_sequence_index(paths, folder / "all.sidx")


def _batches_of_files(index: Path, count: str) -> Contest:
    return Contest(
        f"{count} of {_FILES} files to packed batches of {data.spaced(_MAX_TOKENS)} tokens (int64), in one process",
        [
            Contestant("seekset", partial(_seekset, index, 0)),
            Contestant("pysam and numpy, the same plan, all files open", partial(_pysam, index, 0)),
        ],
    )


def _batches(path: Path, count: str, workers: int) -> Contest:
    where = ("in one process", "1 worker", "2 workers")[workers]
    return Contest(
        f"{count} to packed batches of {data.spaced(_MAX_TOKENS)} tokens (int64), {where}",
        [
            Contestant("seekset", partial(_seekset, path.with_suffix(".sidx"), workers)),
            Contestant(
                "Python, seek and readline, buffering collator",
                partial(_plain, path, workers),
                20 if not workers else None,
            ),
            Contestant("pysam and numpy, the same plan", partial(_pysam, path.with_suffix(".sidx"), workers)),
            Contestant("Biopython, padded", partial(_biopython, path, workers)),
        ],
    )


# --- from a file to batches -------------------------------------------------------------------------------------------


def _task(make: Callable[[], Any], workers: int, unpack: Callable[[Any], Iterable[Sequence]]) -> Task:
    """A loop over a loader that looks at each batch; what the batches hold is compared sequence by sequence."""
    from torch.utils.data import DataLoader

    # Workers stay, as in training: what it takes to start them is no part of it.
    options = {"multiprocessing_context": "fork", "persistent_workers": True} if workers else {}
    # Batches are tensors already: torch's own conversion would look into every list of ids.
    loader = DataLoader(make(), batch_size=None, num_workers=workers, collate_fn=_as_is, **options)

    def run() -> int:
        return sum(batch["input_ids"].numel() for batch in loader)

    def answers(_: int) -> Answers:
        found = sorted((name, digest(ids.astype(np.int64))) for batch in loader for name, ids in unpack(batch))
        return {"sequences": digest(*(f"{name} {ids}".encode() for name, ids in found))}

    return Task(run, answers)


def _as_is(batch: Any) -> Any:
    return batch


def _packed(batch: dict[str, Any]) -> Iterator[Sequence]:
    ends = batch["cu_seqlens"].tolist()
    ids = batch["input_ids"].numpy()
    return ((name, ids[ends[k] : ends[k + 1]]) for k, name in enumerate(batch["sequence_ids"]))


def _padded(batch: dict[str, Any]) -> Iterator[Sequence]:
    ids, mask = batch["input_ids"].numpy(), batch["attention_mask"].numpy().astype(bool)
    return ((name, ids[k][mask[k]]) for k, name in enumerate(batch["sequence_ids"]))


def _seekset(index: Path, workers: int) -> Task:
    from seekset.datasets import PackedDataset

    options = {"max_tokens": _MAX_TOKENS, "max_length": _MAX_LENGTH, "seed": 0}
    return _task(lambda: PackedDataset(index, **options), workers, _packed)


def _esm() -> dict[str, int]:
    import seekset

    table = seekset.TokenTable.named("esm")
    return {chr(code): table[chr(code)] for code in range(ord("A"), ord("Z") + 1)}


def _plain(path: Path, workers: int) -> Task:
    """What people write: entries of a JSON index, one seek each, lines joined, and a collator that fills batches."""
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    entries = json.loads(path.with_suffix(".json").read_text())["sequences"]
    ids_of = _esm()

    class Batches(IterableDataset):
        def __iter__(self):
            worker = get_worker_info()
            mine = entries if worker is None else entries[worker.id :: worker.num_workers]
            buffer = []
            with path.open() as file:
                for entry in mine:
                    file.seek(entry["byte_offset"])
                    file.readline()
                    lines = []
                    while (line := file.readline()) and not line.startswith(">"):
                        lines.append(line.strip())
                    buffer.append((entry["sequence_id"], "".join(lines)[:_MAX_LENGTH]))
                    if len(buffer) == _BUFFER:
                        yield from _filled(buffer)
                        buffer = []
            yield from _filled(buffer)

    def _filled(buffer):
        names, ids, ends = [], [], [0]
        for name, letters in sorted(buffer, key=lambda item: -len(item[1])):
            if ids and len(ids) + len(letters) + 2 > _MAX_TOKENS:
                yield _as_batch(names, ids, ends)
                names, ids, ends = [], [], [0]
            names.append(name)
            ids += [0, *[ids_of[letter] for letter in letters], 2]
            ends.append(len(ids))
        if names:
            yield _as_batch(names, ids, ends)

    def _as_batch(names, ids, ends):
        cu_seqlens = torch.tensor(ends, dtype=torch.int32)
        return {"input_ids": torch.tensor(ids), "cu_seqlens": cu_seqlens, "sequence_ids": names}

    return _task(Batches, workers, _packed)


def _token_table() -> np.ndarray:
    table = np.zeros(256, dtype=np.int64)
    for letter, number in _esm().items():
        table[ord(letter)] = number
    return table


def _pysam(path: Path, workers: int) -> Task:
    """pysam for the letters, numpy for the tokens, and seekset's own index and plan for what goes together."""
    import pysam
    import torch
    from torch.utils.data import Dataset

    import seekset
    from seekset.plan import Plan

    index = seekset.SequenceIndex.load(path)
    plan = Plan.create(index, tokens="esm", max_tokens=_MAX_TOKENS, max_length=_MAX_LENGTH)
    named = [index.ids(batch.rows) for batch in plan]
    in_files = [index.file_numbers[batch.rows].tolist() for batch in plan]
    files = [str(file) for file in index.files]
    table = _token_table()
    for file in files:
        if not Path(f"{file}.fai").exists():
            pysam.faidx(file)

    class Batches(Dataset):
        handles: Any = None

        def __len__(self):
            return len(named)

        def __getitem__(self, place):
            if self.handles is None:
                self.handles = [pysam.FastaFile(file) for file in files]
            wanted = zip(in_files[place], named[place], strict=True)
            letters = [self.handles[file].fetch(name)[:_MAX_LENGTH].encode() for file, name in wanted]
            ends = np.cumsum([0, *(len(some) + 2 for some in letters)], dtype=np.int32)
            ids = np.full(ends[-1], 2, dtype=np.int64)
            for start, some in zip(ends.tolist(), letters, strict=False):
                ids[start] = 0
                ids[start + 1 : start + 1 + len(some)] = table[np.frombuffer(some, dtype=np.uint8)]
            return {
                "input_ids": torch.from_numpy(ids),
                "cu_seqlens": torch.from_numpy(ends),
                "sequence_ids": named[place],
            }

    return _task(Batches, workers, _packed)


def _biopython(path: Path, workers: int) -> Task:
    """Records as they come, as many as fit when they are padded to the longest."""
    import torch
    from Bio import SeqIO
    from torch.utils.data import IterableDataset, get_worker_info

    table = _token_table()

    class Batches(IterableDataset):
        def __iter__(self):
            worker = get_worker_info()
            first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
            batch, longest = [], 0
            for number, record in enumerate(SeqIO.parse(path, "fasta")):
                if number % step != first:
                    continue
                letters = bytes(record.seq)[:_MAX_LENGTH]
                width = max(longest, len(letters) + 2)
                if batch and width * (len(batch) + 1) > _MAX_TOKENS:
                    yield self.padded(batch, longest)
                    batch, width = [], len(letters) + 2
                batch.append((record.id, letters))
                longest = width
            if batch:
                yield self.padded(batch, longest)

        def padded(self, batch, longest):
            ids = np.full((len(batch), longest), 1, dtype=np.int64)
            for row, (_, letters) in zip(ids, batch, strict=True):
                row[0] = 0
                row[1 : len(letters) + 1] = table[np.frombuffer(letters, dtype=np.uint8)]
                row[len(letters) + 1] = 2
            ids = torch.from_numpy(ids)
            return {"input_ids": ids, "attention_mask": ids != 1, "sequence_ids": [name for name, _ in batch]}

    return _task(Batches, workers, _padded)


# --- the index --------------------------------------------------------------------------------------------------------


def _index_built(size: data.Size) -> Contest:
    return Contest(
        f"Build a length-sorted index of {data.spaced(size.proteins)} proteins",
        [
            Contestant("seekset", partial(_build, size.proteins_path, ".arrow")),
            Contestant("Python, lines and json.dump", partial(_build_plainly, size.proteins_path)),
            Contestant("seekset, as JSON", partial(_build, size.proteins_path, ".json")),
        ],
    )


def _index_opened(size: data.Size) -> Contest:
    path = size.proteins_path
    return Contest(
        f"Open a length-sorted index of {data.spaced(size.proteins)} proteins and look at an entry",
        [
            Contestant("seekset", partial(_open, path)),
            Contestant("Python, json.load", partial(_open_plainly, path)),
        ],
        fresh=True,
    )


def _index_path(path: Path, who: str, suffix: str) -> Path:
    folder = path.parent / "indexing" / who
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"sequences{suffix}"


def _build(path: Path, suffix: str) -> Task:
    import seekset

    out = _index_path(path, "seekset-sequences", suffix)
    own = path.with_name(path.name + ".sidx")

    def before() -> None:
        for made in (out, own):
            made.unlink(missing_ok=True)

    def answers(_: Any) -> Answers:
        index = seekset.SequenceIndex.load(out)
        return _entries_digest((index.entry(row) for row in range(0, len(index), 997)), index.total_tokens)

    return Task(lambda: seekset.create_sequence_index([path], out), answers, before)


def _entries_digest(entries: Iterable[Any], total: int) -> Answers:
    facts = [(entry.sequence_id, entry.length, entry.byte_offset) for entry in entries]
    return {"entries": digest(json.dumps([facts, total]).encode())}


def _build_plainly(path: Path) -> Task:
    from types import SimpleNamespace

    out = _index_path(path, "python", ".json")

    def run() -> None:
        sequences, at = [], 0
        with path.open("rb") as file:
            for line in file:
                if line.startswith(b">"):
                    name = line[1:].split(None, 1)[0].decode()
                    entry = {"sequence_id": name, "length": 0, "file_path": str(path), "byte_offset": at}
                    sequences.append(entry)
                else:
                    entry["length"] += len(line.strip())
                at += len(line)
        sequences.sort(key=lambda entry: -entry["length"])
        total = sum(entry["length"] for entry in sequences)
        facts = {"version": "1.0", "created": "", "fasta_mtimes": {str(path): path.stat().st_mtime}}
        facts |= {"total_sequences": len(sequences), "total_tokens": total, "sequences": sequences}
        with out.open("w") as file:
            json.dump(facts, file)

    def answers(_: None) -> Answers:
        found = json.loads(out.read_text())
        return _entries_digest((SimpleNamespace(**e) for e in found["sequences"][::997]), found["total_tokens"])

    return Task(run, answers, partial(out.unlink, missing_ok=True))


def _open(path: Path) -> Task:
    import seekset

    out = _index_path(path, "seekset-sequences", ".arrow")
    seekset.create_sequence_index([path], out)
    loaded = seekset.SequenceIndex.load

    def run() -> tuple:
        entry = loaded(out).entry(12_345)
        return entry.sequence_id, entry.length, entry.byte_offset

    return Task(run, lambda found: {"entry": str(found)})


def _open_plainly(path: Path) -> Task:
    out = _index_path(path, "python", ".json")
    if not out.exists():
        _build_plainly(path).run()

    def run() -> tuple:
        with out.open() as file:
            entry = json.load(file)["sequences"][12_345]
        return entry["sequence_id"], entry["length"], entry["byte_offset"]

    return Task(run, lambda found: {"entry": str(found)})


# --- the plan ---------------------------------------------------------------------------------------------------------

_GOAL_SECONDS = 2.0


def _planned(size: data.Size) -> list[Row]:
    """No peer packs all sequences at once: beside it stands the goal."""
    count = 3 * size.proteins
    rows = []
    for budget in (4_096, _MAX_TOKENS):
        efficiency, seconds = _plan_times(count, budget)
        sizes = f"{data.spaced(count)} sequences, {data.spaced(budget)} tokens a batch"
        title = f"Plan {sizes}: {efficiency:.2%} full"
        rows.append(Row(title, f"{_GOAL_SECONDS:.0f} s, the goal", Times([_GOAL_SECONDS]), Times(seconds), 1))
        if efficiency < 0.99:
            raise RuntimeError(f"{title}: 99 % is the goal")
    return rows


def _plan_times(count: int, budget: int) -> tuple[float, list[float]]:
    import time
    import warnings
    from types import SimpleNamespace

    from seekset.plan import Plan

    rng = np.random.default_rng(_SEED)
    lengths = np.clip(rng.lognormal(np.log(350), 0.6, count), 20, 35_000).astype(np.int64)
    index = SimpleNamespace(lengths=-np.sort(-lengths))
    warnings.simplefilter("ignore")
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        plan = Plan.create(index, tokens="esm", max_tokens=budget, max_length=_MAX_LENGTH)
        seconds.append(time.perf_counter() - start)
    return plan.efficiency, seconds[1:]
