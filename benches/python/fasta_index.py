"""Contestants that read a whole FASTA file, and write its index if they keep one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from contest import Answers, Task, digest


def seekset_fai(path: Path, threads: int | None = None) -> Task:
    """``seekset.faidx``."""
    import seekset

    if threads is not None:
        seekset.set_threads(threads)
    own, fai = _own_path(path, f"seekset-{threads}", ".fai")
    faidx = seekset.faidx
    return Task(lambda: faidx(own), lambda _: _fai_answers(fai), _removed(fai))


def seekset_sidx(path: Path) -> Task:
    """Open a file that has no index yet: it is scanned and the index is written."""
    import seekset

    own, sidx = _own_path(path, "seekset-sidx", ".sidx")
    opened = seekset.Fasta

    def answers(fasta: seekset.Fasta) -> Answers:
        return _record_answers(fasta, fasta.lengths)

    return Task(lambda: opened(own), answers, _removed(sidx))


def pysam_fai(path: Path) -> Task:
    """``samtools faidx``, which pysam holds."""
    import pysam

    own, fai = _own_path(path, "pysam", ".fai")
    return Task(lambda: pysam.faidx(str(own)), lambda _: _fai_answers(fai), _removed(fai))


def pyfaidx_fai(path: Path) -> Task:
    """pyfaidx's index. Its constructor would also read it back, which is not timed here."""
    import pyfaidx

    own, fai = _own_path(path, "pyfaidx", ".fai")
    fasta = pyfaidx.Faidx(str(own))
    return Task(fasta.build_index, lambda _: _fai_answers(fai), _removed(fai))


def pyfastx_fxi(path: Path) -> Task:
    """pyfastx's index, a SQLite database."""
    import pyfastx

    own, fxi = _own_path(path, "pyfastx", ".fxi")

    def answers(_: pyfastx.Fasta) -> Answers:
        with sqlite3.connect(fxi) as database:
            names, lengths = zip(*database.execute("SELECT chrom, slen FROM seq ORDER BY ID"), strict=True)
        return _record_answers(names, lengths)

    return Task(lambda: pyfastx.Fasta(str(own)), answers, _removed(fxi))


def needletail_parse(path: Path) -> Task:
    """needletail keeps no index: this is what it takes to see every record."""
    import needletail

    def run() -> None:
        for _ in needletail.parse_fastx_file(str(path)):
            pass

    def answers(_: None) -> Answers:
        found = [(record.name, len(record.seq)) for record in needletail.parse_fastx_file(str(path))]
        return _record_answers(*zip(*found, strict=True))

    return Task(run, answers)


def _own_path(path: Path, contestant: str, suffix: str) -> tuple[Path, Path]:
    """The file under a name of the contestant's own, so that nobody finds another's index, and where its index goes."""
    own = path.parent / "indexing" / contestant / path.name
    own.parent.mkdir(parents=True, exist_ok=True)
    if not own.is_symlink():
        own.symlink_to(Path("..", "..", path.name))
    return own, own.with_name(own.name + suffix)


def _removed(index: Path) -> Callable[[], None]:
    return partial(index.unlink, missing_ok=True)


def _fai_answers(fai: Path) -> Answers:
    content = fai.read_bytes()
    fields = [line.split("\t", 2) for line in content.decode().splitlines()]
    records = _record_answers((name for name, _, _ in fields), [int(length) for _, length, _ in fields])
    return {".fai, byte for byte": digest(content), **records}


def _record_answers(names: Iterable[str], lengths: Iterable[int]) -> Answers:
    return {"names and lengths": digest("\n".join(names).encode(), np.asarray(lengths, dtype=np.int64).tobytes())}
