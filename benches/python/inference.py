"""The contests on runs of an encoder: what workers bring, what supervising them costs, and what results cost."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import data
from contest import REPEATS, Answers, Contest, Contestant, Row, Task, Times, apart, digest, hold

# An encoder of 1 round hashes about a million residues a second. What workers bring shows in runs of a minute and more:
# a run's check, start and aggregation take about a second, whatever there is to be computed.
_ROUNDS = 240
_WIDTH = 320
_OF_A_FILE = 2_000


def contests(size: data.Size) -> dict[str, Callable[[], list[Row]]]:
    """All of them by name, to be held when they are called."""
    return {
        "embed": partial(_hold_embed, size),
        "embed-cost": partial(_hold_cost, size),
        "aggregate": partial(_hold_aggregate, size),
    }


# --- runs -------------------------------------------------------------------------------------------------------------


def _hold_embed(size: data.Size) -> list[Row]:
    sample = apart(_sample, size)
    title = _title(size)
    run = partial(_enter_run, size.folder, sample)
    return hold(
        Contest(
            title,
            [
                Contestant("seekset, 2 workers", partial(run, "cpu,cpu")),
                Contestant("seekset, 1 worker", partial(run, "cpu"), goal=1.85),
            ],
        )
    ) + hold(
        Contest(
            f"{title}, 1 worker",
            [
                Contestant("seekset, 1 worker", partial(run, "cpu")),
                Contestant("a bare loop over the same batches", partial(_enter_loop, sample), goal=0.98),
            ],
        )
    )


def _hold_cost(size: data.Size) -> list[Row]:
    """What a run takes beside the encoder: both are timed in one run, so that neither has the better minute."""
    title = f"{_title(size)}, 1 worker: all of the run"
    measured = apart(_timed_runs, size.folder, apart(_sample, size))
    own, encoder = (Times(list(seconds)) for seconds in zip(*measured, strict=True))
    return [Row(title, "the calls of the encoder in it", encoder, own, goal=0.98)]


def _timed_runs(folder: Path, sample: Path) -> list[tuple[float, float]]:
    """Seconds of runs, the first of which warms up and is left out, and those that their encoders took."""
    from seekset.inference import run_multi_gpu_inference

    out, clock = folder / f"embed-{os.getpid()}", folder / f"clock-{os.getpid()}"
    config = {"model": "busy_encoder:Timed", "model_args": {"rounds": _ROUNDS, "clock": str(clock)}, "devices": "cpu"}
    found = []
    for _ in range(1 + REPEATS):
        clock.unlink(missing_ok=True)
        start = time.perf_counter()
        run_multi_gpu_inference(sample, out, config)
        # The check of the encoder, which comes first, has called it, too: that is a part of what a run costs.
        found.append((time.perf_counter() - start, float(clock.read_text())))
        _clean(out)
    clock.unlink()
    return found[1:]


def _title(size: data.Size) -> str:
    return f"Embed {data.spaced(_count(size))} proteins with an encoder that keeps one core busy"


def _count(size: data.Size) -> int:
    return size.batch // 50


def _sample(size: data.Size) -> Path:
    """The first proteins, in a file of their own."""
    import seekset

    path = size.folder / "embedded.fa"
    if not path.exists():
        with seekset.Fasta(size.proteins_path) as proteins, path.open("w") as out:
            for row in range(_count(size)):
                record = proteins[row]
                out.write(f">{record.id}\n{record.sequence}\n")
    return path


def _enter_run(folder: Path, sample: Path, devices: str) -> Task:
    from seekset.inference import run_multi_gpu_inference

    out = folder / f"embed-{os.getpid()}"
    config = {"model": "busy_encoder:Busy", "model_args": {"rounds": _ROUNDS}, "devices": devices}

    def run() -> Path:
        return run_multi_gpu_inference(sample, out, {**config, "restart": out.exists()})[0]

    return Task(run, _answers_of_file, before=partial(_clean, out))


def _clean(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _answers_of_file(path: Path) -> Answers:
    import h5py

    with h5py.File(path) as file:
        answers = {"vectors": digest(file["embeddings"][:].tobytes())}
    _clean(path.parent)
    return answers


def _enter_loop(sample: Path) -> Task:
    """What a run computes, in this process, with nothing saved."""
    from busy_encoder import Busy
    from seekset import Plan, SequenceIndex, TokenTable
    from seekset.gathering import gather_batch

    table = TokenTable.named("esm")

    def run() -> np.ndarray:
        # As a run does it: the encoder is made, files are opened, and batches are planned.
        encoder = Busy("cpu", _ROUNDS)
        index = SequenceIndex.create([sample])
        longest = int(index.lengths[0]) + 2
        plan = Plan.create(index, tokens="esm", max_tokens=max(16384, longest), max_length=None)
        found = np.empty((len(index), 32), dtype=np.float32)
        for batch in plan:
            found[batch.rows] = encoder(gather_batch(index, batch, table, layout="packed"))
        return found[np.argsort(index.rows)]

    return Task(run, lambda found: {"vectors": digest(found.tobytes())})


# --- results ----------------------------------------------------------------------------------------------------------


def _hold_aggregate(size: data.Size) -> list[Row]:
    made = apart(_made_results, size)
    return hold(
        Contest(
            f"Aggregate {data.spaced(size.proteins // 2)} vectors of {_WIDTH} numbers, in the order of the files",
            [
                Contestant("seekset", partial(_enter_aggregate, made)),
                Contestant("numpy and h5py, all in memory", partial(_enter_in_memory, made)),
                Contestant("seekset, looking at results before a resume", partial(_enter_survey, made)),
            ],
        )
    )


def _made_results(size: data.Size) -> Path:
    """An index and chunk files, as a run leaves them."""
    from seekset import SequenceIndex
    from seekset.inference.checkpoint import ChunkStore
    from seekset.inference.results import Result, Span

    folder = size.folder / "results"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        _clean(unfinished)
        unfinished.mkdir()
        half = unfinished / "half.fa"
        with half.open("wb") as out:
            out.writelines(b">seq_%d\n%s\n" % (k, b"MKVLA" * (1 + k % 97)) for k in range(size.proteins // 2))
        index = SequenceIndex.create([half], unfinished / "index.sidx")
        store, rng = ChunkStore(unfinished / "chunks", run="bench"), np.random.default_rng(3)
        for start in range(0, len(index), _OF_A_FILE):
            span = Span(start, min(start + _OF_A_FILE, len(index)))
            vectors = rng.random((span.size, _WIDTH), dtype=np.float32)
            store.write(Result(span, np.arange(*span), vectors))
        unfinished.rename(folder)
        # The index knows its file by its path.
        SequenceIndex.create([folder / "half.fa"], folder / "index.sidx").close()
    return folder


def _opened(folder: Path) -> tuple[Any, Any]:
    from seekset import SequenceIndex
    from seekset.inference.checkpoint import ChunkStore

    return ChunkStore(folder / "chunks", run="bench"), SequenceIndex.load(folder / "index.sidx")


def _enter_aggregate(folder: Path) -> Task:
    from seekset.inference.aggregate import write_embeddings

    store, index = _opened(folder)
    out = folder / f"seekset-{os.getpid()}.h5"
    return Task(
        lambda: write_embeddings(store, index, out), _answers_and_remove, before=lambda: out.unlink(missing_ok=True)
    )


def _answers_and_remove(path: Path) -> Answers:
    import h5py

    with h5py.File(path) as file:
        return {"vectors": digest(file["embeddings"][:].tobytes()), "ids": digest(b"\n".join(file["sequence_ids"][:]))}


def _enter_in_memory(folder: Path) -> Task:
    """What a script does: everything is loaded, put in order and written at once."""
    import h5py
    from safetensors.numpy import load_file

    _, index = _opened(folder)
    out = folder / f"numpy-{os.getpid()}.h5"

    def run() -> Path:
        parts = [load_file(path) for path in sorted((folder / "chunks").iterdir())]
        rows = np.concatenate([part["rows"] for part in parts])
        places = index.rows[rows]
        found = np.empty((len(rows), _WIDTH), dtype=np.float32)
        found[places] = np.concatenate([part["vectors"] for part in parts])
        order = np.argsort(index.rows)
        with h5py.File(out, "w") as file:
            file.create_dataset("embeddings", data=found, chunks=(1024, _WIDTH))
            file.create_dataset("sequence_ids", data=index.ids(order), dtype=h5py.string_dtype())
            file.create_dataset("lengths", data=index.lengths[order])
            file.flush()
        with out.open("rb") as file:
            os.fsync(file.fileno())
        return out

    return Task(run, _answers_and_remove, before=lambda: out.unlink(missing_ok=True))


def _enter_survey(folder: Path) -> Task:
    store, _ = _opened(folder)
    return Task(lambda: store.survey(tidy=False), lambda _: {})
