"""Token ids of Sharded Eden's items: what stands around a window's letters, and what becomes of the letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seekset._core import TokenTable
from seekset.errors import MismatchError
from seekset.tokens import as_table

__all__ = ["EdenTokens", "control_tag"]


def control_tag(sequence_id: str) -> str:
    """The control tag of a contig: of the part before the first ``__``, or of its whole id.

    >>> control_tag("BCR__ECT-A-B-C__CT1-1"), control_tag("chrX")
    ('<ctrl_bcr>', '<ctrl_chrx>')
    """
    return f"<ctrl_{sequence_id.split('__', maxsplit=1)[0].lower()}>"


class EdenTokens:
    """Header, footer and special ids, from a token table or from a tokenizer object.

    Args:
        tokenizer: A token table or its name, or an object with ``bos_id``, ``eos_id``, ``pad_id`` and ``text_to_ids``
            or ``tokenize``; headers with a separator need ``sep_id`` or ``_sep_id``, too.
        include_bos: Whether items begin with ``bos``.
        include_eos: Whether letters are followed by ``eos``.
        separated: Whether headers end in ``sep``.

    >>> tokens = EdenTokens("dna", separated=True)
    >>> tokens.header([]), tokens.footer, sorted(tokens.special)
    ([2, 3], [0], [0, 1, 2, 3])
    """

    def __init__(
        self, tokenizer: Any, *, include_bos: bool = True, include_eos: bool = True, separated: bool = False
    ) -> None:
        is_table = isinstance(tokenizer, (str, TokenTable))
        self.tokenizer: TokenTable | Any | None = as_table(tokenizer) if is_table else tokenizer
        self.table: TokenTable | None = self.tokenizer if is_table else None
        if self.table is None:
            self._encode = _encoder(tokenizer)
        self.pad: int = self._special("pad")
        self._bos = [self._special("bos")] if include_bos else []
        self._sep = [self._special("sep")] if separated else []
        self.footer: list[int] = [self._special("eos")] if include_eos else []
        known = (self._found(name) for name in ("bos", "eos", "sep", "pad"))
        self.special: set[int] = {id_ for id_ in known if id_ is not None}

    def _found(self, name: str) -> int | None:
        if self.table is not None:
            return self.table.specials.get(name)
        for spelled in (f"{name}_id", f"_{name}_id"):
            found = getattr(self.tokenizer, spelled, None)
            if found is not None:
                return int(found)
        return None

    def _special(self, name: str) -> int:
        found = self._found(name)
        if found is None:
            what = repr(self.table) if self.table is not None else type(self.tokenizer).__name__
            raise MismatchError(f"tokenizer mismatch: {what} has no {name} id, which these items need")
        return found

    def header(self, control: Sequence[int]) -> list[int]:
        """What stands before letters."""
        return [*self._bos, *control, *self._sep]

    def control(self, tag: str) -> list[int]:
        """The ids of a control tag, which the tokenizer must know."""
        if self.table is not None:
            found = self.table.specials.get(tag)
            ids = [] if found is None else [found]
        else:
            ids = self.encode(tag)
        if not ids or self._found("unk") in ids:
            raise MismatchError(
                f"control tag mismatch: the tokenizer does not know {tag!r}; a token table has it as "
                f"specials={{{tag!r}: id}}"
            )
        return ids

    def encode(self, text: str) -> list[int]:
        """The ids of letters, by the tokenizer object."""
        ids = self._encode(text)
        if len(ids) and isinstance(ids[0], str):
            raise MismatchError(
                f"tokenizer mismatch: {type(self.tokenizer).__name__} gives {ids[0]!r} where an id was expected; it "
                "needs text_to_ids, or a tokenize that gives ids"
            )
        return [int(id_) for id_ in ids]


def _encoder(tokenizer: Any) -> Any:
    for name in ("text_to_ids", "tokenize"):
        if callable(found := getattr(tokenizer, name, None)):
            return found
    raise MismatchError(
        f"tokenizer mismatch: expected a token table or an object with text_to_ids or tokenize, found "
        f"{type(tokenizer).__name__}"
    )
