"""What the steps of the demo share: how they show what is done, how long it takes and where results lie."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import click

from seekset.errors import SeeksetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Sizes", "Tour", "program"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much data is made: about 200 MB."""

    proteins: int = 120_000
    contigs: int = 4
    contig_letters: int = 15_000_000
    records: int = 20_000
    shard_rows: int = 500
    embedded: int = 20_000


@dataclass(frozen=True)
class Tour:
    """A run of the demo: its folder, its sizes, and the results to be listed at the end, each with a word about it."""

    folder: Path
    sizes: Sizes
    results: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def proteins(self) -> Path:
        """The proteins, in one FASTA file."""
        return self.folder / "proteins.fa"

    @property
    def genome(self) -> Path:
        """The contigs of a genome."""
        return self.folder / "genome.fa"

    def title(self, text: str) -> None:
        """Begin a step."""
        click.secho(f"\n{text}", bold=True)

    def tell(self, text: str) -> None:
        """Show a line."""
        click.echo(f"   {text}")

    def code(self, *lines: str) -> None:
        """Show what people would write in Python; it is for the step to do the same."""
        for line in lines:
            self.tell(f">>> {line}")

    def timed(self, label: str, work: Callable[[], _T], path: Path | None = None) -> _T:
        """Do something and show how long it took; and how many bytes a second, where a file is gone through."""
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        speed = f"  {path.stat().st_size / seconds / 1e9:.2f} GB/s" if path is not None else ""
        self.tell(f"{label:<38}{seconds * 1e3:>10.1f} ms{speed}")
        return result

    @contextmanager
    def typed(self, words: list[str]) -> Iterator[None]:
        """Show a command of ``seekset``, and when it has run, how long it took."""
        click.echo(f"   $ seekset {shlex.join(words)}", nl=False)
        start = time.perf_counter()
        try:
            yield
        finally:
            click.secho(f"   # {time.perf_counter() - start:.1f} s", dim=True)

    def command(self, *words: object, lines: int = 0) -> None:
        """Run ``seekset`` as people would type it, and show the command, its time and the first lines it prints."""
        typed = [str(word) for word in words]
        with self.typed(typed):
            printed = program(["-m", "seekset", *typed])
        for line in printed.splitlines()[:lines]:
            self.tell(line.expandtabs(12))


def program(words: list[str]) -> str:
    """What a Python program prints, in a process of its own; one that fails is an error with its last words."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)  # noqa: S603 (our own)
    if done.returncode:
        raise SeeksetError(f"python {shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout
