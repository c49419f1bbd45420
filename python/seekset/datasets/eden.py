"""Sharded Eden's windows from its SQLite files: the same files, the same tensors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import Dataset

from seekset import _core
from seekset._core import flip_coins, loss_mask
from seekset.datasets.causal import CausalBatch, CausalItems
from seekset.datasets.eden_tokens import EdenTokens, control_tag
from seekset.datasets.order import Order
from seekset.datasets.ordered import Ordered
from seekset.datasets.window_log import WindowLog
from seekset.eden import extract_sample_id, find_sample_databases
from seekset.errors import FormatError, MismatchError, StaleIndexError
from seekset.files import content_samples, fingerprint
from seekset.limits import whole_number
from seekset.rows import row_number, row_numbers
from seekset.workers import refuse_cuda_in_worker
from seekset.world import detect

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from numpy.typing import NDArray

    from seekset.files import AnyPath

__all__ = ["ShardedEdenDataset"]

_LARGEST = 2**63 - 1


class ShardedEdenDataset(Ordered, Dataset[dict[str, "torch.Tensor"]]):
    """The windows of a window database, from the sample databases of a folder. Map style.

    Items are those of BioNeMo's dataset: ``tokens``, ``labels``, ``loss_mask`` and ``position_ids`` of ``seq_length``
    values, and ``attention_mask`` if asked for. Tokens and labels are views of the same memory: clone what you change.
    Databases are opened when they are first read, in every process anew.

    Args:
        tokenizer: A token table or its name (``"dna"``), which is much the fastest, or an object with ``bos_id``,
            ``eos_id``, ``pad_id`` and ``text_to_ids`` or ``tokenize``.
        sequence_db_dir: The folder of sample databases, ``<sample>/glm_dataset_<sample>.sqlite``. Where there is only
            one, sample ids are not looked for in the ids of contigs.
        window_db_path: The window database of a split.
        seq_length: Tokens of an item; must be the window size of the database.
        stride: Letters between windows, 7992 for ``None``; must be that of the database.
        rc_aug: Whether half of the windows are given as their reverse complement, drawn from seed, epoch and window.
        use_control_tags: Whether headers have the control tag of the contig, ``<ctrl_PREFIX>``, and a separator.
        create_attention_mask: Whether items have a causal mask, True where a token must not be looked at.
        window_min_length_threshold: The threshold that the database was made with, if there was one.
        log_windows: Whether reads are logged to ``window_access_{split}_rank{rank}_{uuid}.csv`` files.
        log_dir: Where those are; the working folder unless given.
        split: What stands in their names.
        include_bos: Whether items begin with ``bos``.
        include_eos: Whether letters are followed by ``eos``.
        legacy_header: Whether headers have a separator without control tags, too.
        shuffle: Whether places are shuffled; if not, place and window are the same number.
        seed: What shuffle and reverse complement are drawn from, with the epoch.

    >>> from seekset import create_sample_database, precompute_window_database
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> _ = create_sample_database("S1", [("BCR__E-S1__c1", "ACGTACGTAC")], "dbs")
    >>> pq.write_table(pa.table({"contig_id": ["BCR__E-S1__c1"], "length": [10]}), "contigs.parquet")
    >>> _ = precompute_window_database("contigs.parquet", "train.sqlite", window_size=8, stride=2)
    >>> ds = ShardedEdenDataset("dna", "dbs", "train.sqlite", seq_length=8, stride=2)
    >>> len(ds), ds[1]["tokens"]
    (2, tensor([ 2, 71, 84, 65, 67, 71, 84,  0]))
    """

    def __init__(
        self,
        tokenizer: Any,
        sequence_db_dir: AnyPath,
        window_db_path: AnyPath,
        seq_length: int = 8192,
        stride: int | None = 7992,
        rc_aug: bool = False,
        use_control_tags: bool = False,
        create_attention_mask: bool = False,
        window_min_length_threshold: int | None = None,
        log_windows: bool = False,
        log_dir: AnyPath | None = None,
        split: str = "train",
        include_bos: bool = True,
        include_eos: bool = True,
        legacy_header: bool = False,
        *,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        self.seq_length: int = whole_number(seq_length, "seq_length")
        self.stride: int = 7992 if stride is None else whole_number(stride, "stride")
        self.rc_aug: bool = rc_aug
        self.use_control_tags: bool = use_control_tags
        self.split: str = split
        self.create_attention_mask = create_attention_mask
        ends: dict[str, Any] = {"include_bos": include_bos, "include_eos": include_eos}
        self._tokens = EdenTokens(tokenizer, **ends, separated=use_control_tags or legacy_header)
        self._folder, self._path = Path(os.fsdecode(sequence_db_dir)), Path(os.fsdecode(window_db_path)).absolute()
        databases = find_sample_databases(self._folder)
        self._numbers = {sample: number for number, sample in enumerate(databases)}
        self._paths = [path.absolute() for path in databases.values()]
        self._open()
        self._check_metadata(int(window_min_length_threshold or 0))
        # Ids are looked at only where something follows from them.
        needed = use_control_tags or len(self._numbers) > 1
        self._length, first = len(self._windows), self._windows.first_of_each_sample() if needed else []
        self._check_samples(first)
        self._prepare_headers(first)
        self._marks = self._marked()
        sizes, samples = [size for size, _ in self._marks], content_samples([self._path, *self._paths])
        metadata = sorted(self._windows.metadata.items())
        facts = [self._path.name, self._length, metadata, list(self._numbers), sizes, samples]
        self._fingerprint = fingerprint([facts])
        folder = None if log_dir is None else os.fsdecode(log_dir)
        # The rank is known here, but not in a worker that was spawned.
        self._log = WindowLog(folder, split, detect().rank) if log_windows else None
        self._order = Order(len(self), shuffle=shuffle, seed=seed)

    def _open(self) -> None:
        """Handles of this process; files are opened when they are read."""
        self._windows = _core.EdenWindows(self._path)
        self._sequences = _core.EdenSequences(list(self._numbers), self._paths)

    def _marked(self) -> list[tuple[int, int]]:
        """Size and time of all databases."""
        return [(found.st_size, found.st_mtime_ns) for found in map(os.stat, [self._path, *self._paths])]

    def _check_metadata(self, threshold: int) -> None:
        """Refuse a database that was made for other windows than those asked for."""
        found = self._windows.metadata
        for key, asked, option in (("window_size", self.seq_length, "seq_length"), ("stride", self.stride, "stride")):
            if key not in found:
                raise MismatchError(f"{self._path}: its metadata have no {key}; make the window database anew")
            if found[key] != asked:
                raise MismatchError(
                    f"{self._path}: metadata mismatch: it was made with {key} {found[key]}, but {option} is {asked}; "
                    f"give {option}={found[key]}, or make the window database anew"
                )
        pruned = found.get("window_min_length_threshold", 0)
        if pruned != threshold:
            raise MismatchError(
                f"{self._path}: metadata mismatch: it was made with window_min_length_threshold {pruned}, but "
                f"{threshold or 'none'} was given; give window_min_length_threshold={pruned}, or make it anew"
            )

    def _check_samples(self, first: list[str]) -> None:
        """Every sample that windows need has its database. They are matched with the folder's listing, not opened."""
        if len(self._numbers) > 1:
            for contig in first:
                self._number(contig)

    def _number(self, contig: str) -> int:
        """The database of a contig."""
        if len(self._numbers) == 1:
            return 0
        sample = extract_sample_id(contig)
        if sample not in self._numbers:
            wanted = self._folder / sample / f"glm_dataset_{sample}.sqlite"
            message = f"{os.strerror(errno.ENOENT)}; contig {contig!r} of {self._path} is in sample {sample!r}"
            raise FileNotFoundError(errno.ENOENT, message, str(wanted))
        return self._numbers[sample]

    def _prepare_headers(self, first: list[str]) -> None:
        """All headers that windows have: one, or one for each control tag."""
        tags = list(dict.fromkeys(map(control_tag, first))) if self.use_control_tags else []
        controls = [self._tokens.control(tag) for tag in tags] or [[]]
        self._headers = [self._tokens.header(control) for control in controls]
        self._header_of = {tag: number for number, tag in enumerate(tags)}
        self._uncounted = sorted({*self._tokens.special, *(id_ for control in controls for id_ in control)})
        # By the number of a header: how many letters a window has.
        taken = np.array([len(header) + len(self._tokens.footer) for header in self._headers], dtype=np.int64)
        self._contents = self.seq_length - taken
        if (self._contents < 1).any():
            raise MismatchError(
                f"seq_length mismatch: {self.seq_length} tokens have no room for letters beside {taken.max()} special"
            )

    def __len__(self) -> int:
        return self._length

    @property
    def fingerprint(self) -> str:
        """What tells these windows from others: the database's name, stride and samples; all sizes, sampled content."""
        return self._fingerprint

    @property
    def _rules(self) -> dict[str, Any]:
        return {**super()._rules, "rc_aug": self.rc_aug}

    @property
    def _content(self) -> dict[str, Any]:
        return {"windows": len(self), "files": self.fingerprint}

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return self._items([row_number(place, len(self))])[0]

    def __getitems__(self, places: Sequence[int]) -> CausalItems:
        """The items at many places, in that order, with one call."""
        return self._items(places)

    def rows_at(self, places: Sequence[int], epoch: int | None = None) -> CausalItems:
        """The items at many places of an epoch."""
        return self._items(places, epoch)

    def _items(self, places: Sequence[int], epoch: int | None = None) -> CausalItems:
        refuse_cuda_in_worker()
        epoch = self.epoch if epoch is None else epoch
        windows = self._order.rows(row_numbers(places, len(self)), epoch)
        contigs, numbers = self._windows.lookup(windows)
        rows = self._rows(windows, contigs, numbers, epoch)
        if self._log is not None:
            samples = (self._sample(contig) for contig in contigs)
            self._log.write(zip(windows.tolist(), contigs, samples, numbers.tolist(), strict=True))
        mask = loss_mask(rows, self._uncounted)
        return CausalItems(CausalBatch.of(rows, mask, with_attention=self.create_attention_mask))

    def _sample(self, contig: str) -> str:
        if len(self._numbers) == 1:
            return next(iter(self._numbers))
        return extract_sample_id(contig)

    def _rows(
        self, windows: NDArray[np.int64], contigs: list[str], numbers: NDArray[np.int64], epoch: int
    ) -> NDArray[np.int64]:
        """Tokens of windows, with one column of padding more."""
        headers = self._headers_of(contigs)
        databases = np.array([self._number(contig) for contig in contigs], dtype=np.int64)
        reverse = flip_coins(self._order.seed, epoch, windows) if self.rc_aug else None
        wrong = (numbers < 0) | (numbers > _LARGEST // self.stride)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise FormatError(f"{self._path}: window {windows[at]}: there is no window {numbers[at]} of a contig")
        place: Any = (databases, contigs, numbers * self.stride, self._contents[headers])
        if self._tokens.table is None:
            texts = self._sequences.fetch(*place, windows=windows, reverse=reverse)
            return self._encoded(texts, headers)
        return self._sequences.gather(
            *place,
            windows=windows,
            reverse=reverse,
            table=self._tokens.table,
            columns=self.seq_length + 1,
            pad=self._tokens.pad,
            prefixes=self._headers,
            prefix_of=headers,
            suffix=self._tokens.footer,
        )

    def _headers_of(self, contigs: list[str]) -> NDArray[np.int64]:
        if not self.use_control_tags:
            return np.zeros(len(contigs), dtype=np.int64)
        return np.array([self._header_of[control_tag(contig)] for contig in contigs], dtype=np.int64)

    def _encoded(self, texts: list[str], headers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same by a tokenizer object, which may give more or fewer ids than letters."""
        rows = np.full((len(texts), self.seq_length + 1), self._tokens.pad, dtype=np.int64)
        for row, text, header in zip(rows, texts, headers.tolist(), strict=True):
            ids = [*self._headers[header], *self._tokens.encode(text), *self._tokens.footer][: self.seq_length]
            row[: len(ids)] = ids
        return rows

    def close(self) -> None:
        """Let go of all files of this process. Reading opens them again."""
        self._windows.close()
        self._sequences.close()
        if self._log is not None:
            self._log.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_windows", "_sequences")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for path, then, now in zip([self._path, *self._paths], self._marks, self._marked(), strict=True):
            if then != now:
                raise StaleIndexError(f"{path}: it has changed since the dataset was made: make the dataset anew")
        self._open()

    def __repr__(self) -> str:
        return f"<ShardedEdenDataset of {len(self)} windows of {self.seq_length} tokens, {len(self._numbers)} samples>"
