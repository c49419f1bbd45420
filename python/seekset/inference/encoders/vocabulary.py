"""The token table that a tokenizer of Hugging Face amounts to, if it gives one token for each letter."""

from __future__ import annotations

import itertools
from typing import Any

from seekset.tokens import TokenTable

__all__ = ["table_of"]

# What a sequence may be written in: printable characters of ASCII.
_CHARACTERS = [chr(code) for code in range(0x21, 0x7F)]

# Words that are longer are one unknown token to some tokenizers.
_WORD = 64


def table_of(tokenizer: Any, *, pad: int) -> TokenTable | None:
    """The table that gives the same ids as a tokenizer, or ``None`` for one that makes tokens of several letters.

    A run of unknown letters is one token to some tokenizers; in a table, each has its own, so that places are kept.
    Some want blanks between letters, which make no difference to a table.
    """
    alone = {letter: ids[0] for letter in _CHARACTERS if len(ids := _ids(tokenizer, letter, bare=True)) == 1}
    unknown = tokenizer.unk_token_id
    known = {letter: token for letter, token in alone.items() if token != unknown}
    ends = {_ends(tokenizer, letter, token) for letter, token in known.items()}
    if len(ends) != 1 or None in ends or not _is_by_letter(tokenizer, known):
        return None
    prefix, suffix = next(found for found in ends if found is not None)
    specials = {"pad": pad} | ({} if unknown is None else {"unk": unknown})
    table = TokenTable(known, specials=specials, prefix=list(prefix), suffix=list(suffix), name="tokenizer")
    esm = TokenTable.named("esm")
    return esm if _alike(table, esm) else table


def _ids(tokenizer: Any, text: str, *, bare: bool) -> list[int]:
    found = tokenizer(text, add_special_tokens=not bare, return_attention_mask=False, verbose=False)
    return list(found["input_ids"])


def _ends(tokenizer: Any, letter: str, token: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """What is put before and after a letter."""
    ids = _ids(tokenizer, letter, bare=False)
    if ids.count(token) != 1:
        return None
    at = ids.index(token)
    return tuple(ids[:at]), tuple(ids[at + 1 :])


def _is_by_letter(tokenizer: Any, known: dict[str, int]) -> bool:
    """Whether every pair of letters stays two tokens: what merges letters begins with pairs."""
    letters = [letter for letter in known if "A" <= letter <= "Z"]
    text = "".join(itertools.chain.from_iterable(itertools.product(letters, repeat=2)))
    words = [text[start : start + _WORD] for start in range(0, len(text), _WORD)]
    return bool(words) and all(_is_word_by_letter(tokenizer, word, known) for word in words)


def _is_word_by_letter(tokenizer: Any, word: str, known: dict[str, int]) -> bool:
    expected = [known[letter] for letter in word]
    together = _ids(tokenizer, word, bare=True)
    if together == expected:
        return True
    # One that wants blanks between letters does not know a word without them.
    return tokenizer.unk_token_id in together and _ids(tokenizer, " ".join(word), bare=True) == expected


def _alike(table: TokenTable, other: TokenTable) -> bool:
    around = (table.prefix, table.suffix, table.pad, table.unk)
    if around != (other.prefix, other.suffix, other.pad, other.unk) or table.unk is None:
        return False
    return all(table[letter] == other[letter] for letter in _CHARACTERS)
