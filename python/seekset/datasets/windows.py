"""Windows of genomes as items of causal language models, straight from FASTA."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from seekset._core import TokenTable, flip_coins, letters_mask, loss_mask
from seekset.datasets.causal import CausalBatch, CausalItems
from seekset.datasets.order import Order
from seekset.datasets.ordered import Ordered
from seekset.datasets.shared import SharedNumbers
from seekset.errors import MismatchError
from seekset.rows import row_number, row_numbers
from seekset.tokens import needed_table
from seekset.windows import Window, WindowPlan
from seekset.workers import refuse_cuda_in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from seekset.contigs import Splits
    from seekset.datasets.packed_windows import PackedWindows
    from seekset.files import AnyPath
    from seekset.windows import Tail, WindowSpans
    from seekset.world import Even, World

__all__ = ["WindowDataset"]

_LETTERS = "".join(chr(code) for code in range(ord("!"), ord("~") + 1))
_DTYPES = {torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8"}


class WindowDataset(Ordered, Dataset[dict[str, torch.Tensor]]):
    """Overlapping windows over genomes, in a global order of their own for every epoch. Map style.

    Items are dicts: ``tokens``, ``labels`` (the tokens one place on; the last is padding), ``loss_mask`` (float32: 0
    where a label is special or padding) and ``position_ids``, all of ``window`` values. A batch is gathered in one call
    from all files. Tokens and labels are views of the same memory, and positions are shared: clone what you change.

    Which places a rank gets, and how far it has come, is the business of the sampler:
    :class:`seekset.loading.ResumableBatchSampler`. With ``collate_fn=seekset.loading.collate``, batches are handed
    on as they were gathered.

    Args:
        paths: FASTA files, folders or globs; plain or compressed with bgzip.
        window: Tokens of an item, special ones too.
        stride: Letters from the start of a window to that of the next; the letters of a window unless given (with
            ``ends="contig"``, those that a contig's first and last windows have room for).
        tail: What becomes of the letters after the last full window: see :class:`seekset.WindowPlan`, as for
            ``min_length``, ``include``, ``exclude``, ``splits``, ``split``, ``regions`` and ``region_width``.
        tokens: A token table or its name. Letters are upper-cased unless the table tells cases apart.
        rc_aug: Whether half of the windows are given as their reverse complement, drawn from seed, epoch and window, so
            that every process draws the same.
        shuffle: Whether places are shuffled; if not, they are windows in the order of files.
        seed: What shuffle and reverse complement are drawn from, with the epoch.
        include_bos: Whether items begin with the table's ``bos`` (or ``cls``); if the table has one, unless given.
        include_eos: Whether a window's letters are followed by the table's ``eos``; if the table has one, unless given.
        ends: Whether these stand around every ``"window"``, or only where the ``"contig"`` itself begins and ends.
        mask_n: Whether the labels of letters other than A, C, G, T and U don't count.
        mask_lowercase: Whether the labels of lower-case letters, which mark repeats, don't count.
        dtype: ``torch.int64``, ``torch.int32`` or ``torch.uint8``.
        transform: Called with each item; what it returns takes the item's place.

    >>> ds = WindowDataset("genome.fa", window=8, stride=6, shuffle=False)
    >>> len(ds), ds.place(0)[1:4]
    (7, ('chr1', 0, 6))
    >>> ds[0]["tokens"]
    tensor([ 2, 65, 67, 71, 84, 65, 84,  0])
    >>> ds[0]["labels"], ds[0]["loss_mask"]
    (tensor([65, 67, 71, 84, 65, 84,  0,  1]), tensor([1., 1., 1., 1., 1., 1., 0., 0.]))
    """

    def __init__(
        self,
        paths: AnyPath | Iterable[AnyPath],
        *,
        window: int = 8192,
        stride: int | None = None,
        tail: Tail = "anchor",
        tokens: str | TokenTable = "dna",
        rc_aug: bool = False,
        shuffle: bool = True,
        seed: int = 0,
        min_length: int = 1,
        include: Iterable[str] | str | None = None,
        exclude: Iterable[str] | str | None = None,
        splits: Splits | None = None,
        split: str | None = None,
        regions: AnyPath | None = None,
        region_width: int | None = None,
        include_bos: bool | None = None,
        include_eos: bool | None = None,
        ends: Literal["window", "contig"] = "window",
        mask_n: bool = False,
        mask_lowercase: bool = False,
        dtype: torch.dtype = torch.int64,
        transform: Callable[[dict[str, torch.Tensor]], Any] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        if ends not in ("window", "contig"):
            raise ValueError(f'ends must be "window" or "contig", not {ends!r}')
        if ends == "contig" and regions is not None:
            raise ValueError('regions have no ends of contigs: ends="contig" can\'t go with them')
        if dtype not in _DTYPES:
            raise ValueError(f"dtype must be torch.int64, torch.int32 or torch.uint8, not {dtype}")
        self.tokens: TokenTable = _table(tokens)
        self._around = _ends(self.tokens, include_bos=include_bos, include_eos=include_eos)
        rules: dict[str, Any] = {"window": window, "stride": stride, "tail": tail, "min_length": min_length}
        rules |= {"include": include, "exclude": exclude, "splits": splits, "split": split}
        rules |= {"regions": regions, "region_width": region_width, "progress": progress}
        edges = _edges(*map(len, self._around), rc_aug=rc_aug) if ends == "contig" else None
        self.plan: WindowPlan = WindowPlan(paths, specials=sum(edges or map(len, self._around)), edges=edges, **rules)
        self._share_plan()
        self.rc_aug: bool = rc_aug
        self.ends = ends
        self.transform: Callable[[dict[str, Any]], Any] | None = transform
        self._dtype = _DTYPES[dtype]
        self._flags = _flag_table(mask_n=mask_n, mask_lowercase=mask_lowercase)
        self._order = Order(len(self.plan), shuffle=shuffle, seed=seed)
        self.uncounted: list[int] = self._not_counted()
        self._all_letters_count = not _ids_of_letters(self.tokens) & set(self.uncounted)

    def _share_plan(self) -> None:
        """Put what grows with the contigs where all processes of a loader see it, however they are started."""
        self._ends_of_contigs = SharedNumbers(self.plan.ends)
        self.plan.ends = self._ends_of_contigs.values

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def fingerprint(self) -> str:
        """What tells these windows from others: the files, and the rules by which they are cut."""
        return self.plan.fingerprint

    @property
    def _rules(self) -> dict[str, Any]:
        return {**super()._rules, "rc_aug": self.rc_aug}

    @property
    def _content(self) -> dict[str, Any]:
        return {"windows": len(self), "files": self.fingerprint}

    def __getitem__(self, place: int) -> Any:
        item = self._items([row_number(place, len(self))])[0]
        return item if self.transform is None else self.transform(item)

    def __getitems__(self, places: Sequence[int]) -> Sequence[Any]:
        """The items at many places, in that order, with one call."""
        return self.rows_at(places)

    def rows_at(self, places: Sequence[int], epoch: int | None = None) -> Sequence[Any]:
        """The items at many places of an epoch."""
        items = self._items(places, epoch)
        return items if self.transform is None else [self.transform(item) for item in items]

    def place(self, place: int, epoch: int | None = None) -> Window:
        """Where the item at a place lies: file, contig, start, end, and whether it is the reverse complement."""
        spans, _ = self._edged(self._spans([row_number(place, len(self))], epoch))
        return self.plan.places(spans)[0]

    def _spans(self, places: Sequence[int], epoch: int | None) -> WindowSpans:
        epoch = self.epoch if epoch is None else epoch
        return self.spans_of(self._order.rows(row_numbers(places, len(self)), epoch), epoch)

    def spans_of(self, numbers: NDArray[np.int64], epoch: int) -> WindowSpans:
        """Where windows lie, by their numbers, and on which strand they are read in an epoch."""
        spans = self.plan.spans_of(numbers)
        if not self.rc_aug:
            return spans
        return spans._replace(reverse=spans.reverse ^ flip_coins(self._order.seed, epoch, numbers))

    def _items(self, places: Sequence[int], epoch: int | None = None) -> CausalItems:
        refuse_cuda_in_worker()
        spans, edges = self._edged(self._spans(places, epoch))
        # One column more, which is padding: labels are one place on.
        rows, flags = self._gathered(spans, edges, self.plan.window + 1)
        if self._all_letters_count:
            mask = letters_mask(edges[0] * len(self._around[0]), spans.letters, self.plan.window)
        else:
            mask = loss_mask(rows, self.uncounted)
        return CausalItems(CausalBatch.of(rows, mask, None if flags is None else flags[:, 1:]))

    def packed(
        self, max_tokens: int | None = None, *, even: Even = "none", world: World | None = None
    ) -> PackedWindows:
        """The same windows as a stream of packed batches, without padding: see :class:`PackedWindows`."""
        from seekset.datasets.packed_windows import PackedWindows

        return PackedWindows(self, max_tokens, even=even, world=world)

    def gather(self, spans: WindowSpans, columns: int | None) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Token ids of windows, in rows of so many columns or one after another; and which labels don't count."""
        return self._gathered(*self._edged(spans), columns)

    def _gathered(
        self, spans: WindowSpans, edges: tuple[NDArray[np.int64], NDArray[np.int64]], columns: int | None
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        header, footer = self._around
        ends = _row_ends(edges, header, footer)
        rows = self._gather(spans, columns, self.tokens, self._dtype, self.tokens.pad or 0, ends)
        if self._flags is None:
            return rows, None
        plain = _row_ends(edges, [0] * len(header), [0] * len(footer))
        return rows, self._gather(spans, columns, self._flags, "uint8", 0, plain) == 1

    def _gather(
        self, spans: WindowSpans, columns: int | None, table: TokenTable, dtype: str, pad: int, ends: dict[str, Any]
    ) -> NDArray[Any]:
        return self.plan.contigs.core.gather(
            spans.contigs,
            spans.starts,
            spans.letters,
            reverse=spans.reverse,
            table=table,
            dtype=dtype,
            columns=columns,
            pad=pad,
            ends=ends,
        )

    def _not_counted(self) -> list[int]:
        """Ids whose labels don't count: what stands around letters, and padding."""
        known = self.tokens.specials
        named = [known[name] for name in ("bos", "cls", "eos", "sep", "pad") if name in known]
        return sorted({*named, *self._around[0], *self._around[1]})

    def _edged(self, spans: WindowSpans) -> tuple[WindowSpans, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Which windows have what stands before letters and after them; what has less has more letters."""
        if self.ends == "window":
            always = np.ones(len(spans.starts), dtype=np.int64)
            return spans, (always, always)
        return at_contig_ends(spans, self.plan.window, *map(len, self._around))

    def __getstate__(self) -> dict[str, Any]:
        # What is shared goes as a handle of shared memory and not as a copy.
        plan = self.plan.__class__.__new__(self.plan.__class__)
        plan.__dict__.update({**self.plan.__dict__, "ends": None})
        return {**self.__dict__, "plan": plan}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.plan.ends = self._ends_of_contigs.values

    def __repr__(self) -> str:
        order = f"seed {self._order.seed}, epoch {self.epoch}" if self._order.shuffle else "in file order"
        return f"<WindowDataset of {len(self)} windows of {self.plan.window} tokens, {order}>"


def _edges(header: int, footer: int, *, rc_aug: bool) -> tuple[int, int]:
    """How many tokens stand where contigs begin and end, at most: what is reversed begins where the contig ends."""
    most = max(header, footer)
    return (most, most) if rc_aug else (header, footer)


def at_contig_ends(
    spans: WindowSpans, window: int, header: int, footer: int
) -> tuple[WindowSpans, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Which windows begin and end with their contig, and the letters that fit where one doesn't.

    What is reversed begins where the contig ends.
    """
    first, last = np.where(spans.reverse, footer, header), np.where(spans.reverse, header, footer)
    begins = spans.starts == 0
    room, left = window - np.where(begins, first, 0), spans.lengths - spans.starts
    finishes = left + last <= room
    # One that has no room for what ends a contig does not reach its end, which the next window does.
    letters = np.where(finishes, left, np.minimum(room, left - 1))
    before, after = np.where(spans.reverse, finishes, begins), np.where(spans.reverse, begins, finishes)
    return spans._replace(letters=letters), (before.astype(np.int64), after.astype(np.int64))


def _row_ends(
    edges: tuple[NDArray[np.int64], NDArray[np.int64]], header: list[int], footer: list[int]
) -> dict[str, Any]:
    before, after = edges
    return {"prefixes": [[], header], "prefix_of": before, "suffixes": [[], footer], "suffix_of": after}


def _table(tokens: str | TokenTable) -> TokenTable:
    table = needed_table(tokens)
    if table.pad is None:
        raise MismatchError(f"{table!r} has no pad id, which windows need: labels end in it")
    return table


def _ids_of_letters(table: TokenTable) -> set[int]:
    """The ids that letters may have; those without one are refused when they are read."""
    ids = {table.unk} if table.unk is not None else set()
    for letter in _LETTERS:
        with suppress(KeyError):
            ids.add(table[letter])
    return ids


def _ends(table: TokenTable, *, include_bos: bool | None, include_eos: bool | None) -> tuple[list[int], list[int]]:
    """What stands before and after letters."""
    known = table.specials
    begin = known.get("bos", known.get("cls"))
    return _end(table, "bos", begin, include_bos), _end(table, "eos", known.get("eos"), include_eos)


def _end(table: TokenTable, name: str, known: int | None, wanted: bool | None) -> list[int]:
    if wanted and known is None:
        raise MismatchError(f"{table!r} has no {name} id: give include_{name}=False, or a table that has one")
    return [] if known is None or wanted is False else [known]


def _flag_table(*, mask_n: bool, mask_lowercase: bool) -> TokenTable | None:
    """A table that flags letters whose labels don't count."""
    if not (mask_n or mask_lowercase):
        return None
    flagged = {
        letter: int((mask_n and letter.upper() not in "ACGTU") or (mask_lowercase and letter.islower()))
        for letter in _LETTERS
    }
    return TokenTable(flagged, specials={"pad": 0, "unk": 0}, name="flags")
