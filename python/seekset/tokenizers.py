"""Tokenizers of any make behind one call: from labels and sequences to the token ids of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from seekset.errors import MismatchError
from seekset.tokens import TokenTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Labelled", "Tokenizer", "as_tokenizer"]

Labelled: TypeAlias = "tuple[str, str]"
"""A label and a sequence, as ESM's batch converters take them."""


class Tokenizer(Protocol):
    """What makes token ids of sequences."""

    @property
    def specials(self) -> int:
        """How many tokens come to those of a sequence's residues, of which each gives at most one."""

    def encode(self, pairs: Sequence[Labelled]) -> list[NDArray[np.int64]]:
        """The token ids of each sequence, its specials among them."""


def as_tokenizer(convert: Any) -> Tokenizer:
    """The tokenizer that a table, a table's name, a Hugging Face tokenizer or an ESM batch converter stands for.

    >>> as_tokenizer("esm").encode([("a", "LAG")])
    [array([0, 4, 5, 6, 2])]
    """
    if isinstance(convert, (str, TokenTable)):
        return _Table(convert)
    if hasattr(convert, "num_special_tokens_to_add"):
        return _HuggingFace(convert)
    if callable(convert) and hasattr(convert, "alphabet"):
        return _Converter(convert)
    raise TypeError(
        "a batch converter is a token table or the name of one, a tokenizer of Hugging Face, or a callable with an "
        f"alphabet as ESM's, not {type(convert).__name__}"
    )


class _Table:
    """A token table: prefix, an id for each letter, suffix."""

    def __init__(self, tokens: str | TokenTable) -> None:
        self._table = table = TokenTable.named(tokens) if isinstance(tokens, str) else tokens
        self._prefix, self._suffix = np.array(table.prefix, dtype=np.int64), np.array(table.suffix, dtype=np.int64)
        self._ids = np.array([_id_of(table, chr(code)) for code in range(128)], dtype=np.int64)

    @property
    def specials(self) -> int:
        return len(self._prefix) + len(self._suffix)

    def encode(self, pairs: Sequence[Labelled]) -> list[NDArray[np.int64]]:
        return [np.concatenate([self._prefix, self._letters(*pair), self._suffix]) for pair in pairs]

    def _letters(self, label: str, sequence: str) -> NDArray[np.int64]:
        if sequence.isascii():
            ids = self._ids[np.frombuffer(sequence.encode(), dtype=np.uint8)]
            if len(ids) == 0 or ids.min() >= 0:
                return ids
        try:
            return np.array(self._table.encode(sequence), dtype=np.int64)
        except ValueError as error:
            raise MismatchError(f"sequence {label!r}: {error}") from None


def _id_of(table: TokenTable, letter: str) -> int:
    try:
        return table[letter]
    except KeyError:
        return -1


class _HuggingFace:
    """A tokenizer of the transformers package, slow or fast."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def specials(self) -> int:
        return int(self._tokenizer.num_special_tokens_to_add())

    def encode(self, pairs: Sequence[Labelled]) -> list[NDArray[np.int64]]:
        # Not verbose: it is the collator that knows how long sequences may be.
        found = self._tokenizer(
            [sequence for _, sequence in pairs],
            add_special_tokens=True,
            padding=False,
            truncation=False,
            return_attention_mask=False,
            verbose=False,
        )
        return [np.array(ids, dtype=np.int64) for ids in found["input_ids"]]


class _Converter:
    """A batch converter of ESM: pairs to a tensor whose rows are padded."""

    def __init__(self, convert: Any) -> None:
        self._convert = convert
        alphabet = convert.alphabet
        missing = [name for name in ("padding_idx", "prepend_bos", "append_eos") if not hasattr(alphabet, name)]
        if missing:
            raise TypeError(f"the alphabet of a batch converter must have {', '.join(missing)}, as ESM's does")
        self._pad = int(alphabet.padding_idx)
        self._specials = int(alphabet.prepend_bos) + int(alphabet.append_eos)

    @property
    def specials(self) -> int:
        return self._specials

    def encode(self, pairs: Sequence[Labelled]) -> list[NDArray[np.int64]]:
        _, _, tokens = self._convert(list(pairs))
        return [self._unpadded(row) for row in np.asarray(tokens, dtype=np.int64)]

    def _unpadded(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        kept = np.flatnonzero(row != self._pad)
        return row[: kept[-1] + 1] if len(kept) else row[:0]
