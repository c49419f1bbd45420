"""Tables as a terminal has room for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from seekset.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

__all__ = ["DrawnTable"]

# Between these a cell may be parted: words, and the folders of a path.
_PIECES = re.compile(r"[^\s/]*/+|[^\s/]+|\s+")
_WORDS = re.compile(r"\S+|\s+")
# A number and its unit stay together.
_AMOUNT = re.compile(r"[-+]?\d[\d.,]*(\s\S+)?")


class DrawnTable:
    """A table that is drawn as wide as its terminal: numbers are whole, text is folded between words.

    Where there is no room for that, each row is a list of its cells.

    Args:
        heads: What stands above columns.
        rows: Their cells: numbers, or what is text.
        names: The columns whose numbers are no amounts: ids of processes have no thousands.

    >>> from rich.console import Console
    >>> table = DrawnTable(("file", "pid", "letters"), [("data/long/p.fa", 4711, 1234567)], names=["pid"])
    >>> Console(width=30).print(table)
    <BLANKLINE>
      file     pid     letters
     ──────────────────────────
      data/   4711   1,234,567
      long/
      p.fa
    <BLANKLINE>
    >>> Console(width=25).print(table)
    file: data/long/p.fa
    pid: 4711
    letters: 1,234,567
    """

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[object]], *, names: Collection[str] = ()) -> None:
        self._heads = [visible(head) for head in heads]
        plain = [head in names for head in heads]
        self._rows = [[_shown(cell, plain=is_plain) for cell, is_plain in zip(row, plain, strict=True)] for row in rows]
        columns = zip(*rows, strict=True) if rows else ([] for _ in heads)
        self._numeric = [_is_numeric(column) for column in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """What is drawn in the room that there is."""
        widths = self._widths(options.max_width)
        yield from self._listed(options.max_width) if widths is None else [self._drawn(widths)]

    def _widths(self, room: int) -> list[int] | None:
        """The width of each column; nothing if some would be too narrow for a number or a word."""
        least, most = [], []
        for number, head in enumerate(self._heads):
            cells = [row[number] for row in self._rows]
            least.append(max(map(cell_len, chain(_WORDS.findall(head), *map(_pieces, cells))), default=0))
            most.append(max(map(cell_len, [head, *cells])))
        # Each column has a space at both sides, and between two, as at the edges, is one more.
        room -= 3 * len(self._heads) + 1
        if sum(least) > room:
            return None
        # The widest give way first.
        for width in range(max(most), -1, -1):
            widths = [max(a, min(b, width)) for a, b in zip(least, most, strict=True)]
            if sum(widths) <= room:
                break
        return widths

    def _drawn(self, widths: list[int]) -> Table:
        table = Table(box=box.SIMPLE)
        for head, width, numeric in zip(self._heads, widths, self._numeric, strict=True):
            lines = _folded(_WORDS.findall(head), width)
            table.add_column(Text("\n".join(lines)), justify="right" if numeric else "left", no_wrap=True)
        for row in self._rows:
            table.add_row(*(Text("\n".join(_folded(_pieces(c), width))) for c, width in zip(row, widths, strict=True)))
        return table

    def _listed(self, room: int) -> Iterator[Text]:
        """Rows as lists: a line for each cell, or for each row if that is a name and what it stands for."""
        pairs = self._heads[1:] == [""]
        if pairs:
            yield Text(self._heads[0], style="bold")
        for number, row in enumerate(self._rows):
            if number and not pairs:
                yield Text("")
            cells = [row] if pairs else zip(self._heads, row, strict=True)
            for head, cell in cells:
                name = [f"{head}:", " "] if head else []
                # Lines that go on with a cell are set in, so that each name is seen.
                if name or cell:
                    yield Text("\n  ".join(_folded([*name, *_pieces(cell)], room - 2)), overflow="fold")


def _shown(cell: object, *, plain: bool) -> str:
    is_amount = isinstance(cell, (int, float)) and not isinstance(cell, bool) and not plain
    return f"{cell:,}" if is_amount else visible(str(cell))


def _is_numeric(cells: Sequence[object]) -> bool:
    """Whether a column is of numbers, of which some may not be known."""
    known = [cell for cell in cells if cell != ""]
    return bool(known) and all(isinstance(cell, (int, float)) for cell in known)


def _pieces(cell: str) -> list[str]:
    return [cell] if _AMOUNT.fullmatch(cell) else _PIECES.findall(cell)


def _folded(pieces: Sequence[str], width: int) -> list[str]:
    """Pieces in lines of a width at the most, but for those that are wider by themselves; spaces end with their line.

    >>> _folded(["a/", "long/", "path", " ", "of", " ", "x"], 7)
    ['a/long/', 'path of', 'x']
    """
    lines = [""]
    for piece in pieces:
        if lines[-1] and not piece.isspace() and cell_len(lines[-1] + piece) > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        if lines[-1] or not piece.isspace():
            lines[-1] += piece
    return [*lines[:-1], lines[-1].rstrip()]
