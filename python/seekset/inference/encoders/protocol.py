"""What an encoder is: a call from a batch to vectors, and facts about the batches it wants."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from seekset.errors import MismatchError
from seekset.limits import limit
from seekset.tokens import TokenTable, as_table

__all__ = ["Encoder", "EncoderFacts", "UnknownModelError", "describe"]


class UnknownModelError(MismatchError):
    """There is no model of this name, or none that can be had from here."""


class Encoder(Protocol):
    """Whatever is called with a batch and gives an array or tensor with a row for each of its sequences.

    Per token, it has a row for each residue, sequence by sequence, specials left out. Batches are dicts as those of
    :class:`seekset.datasets.PackedDataset`; what they hold is up to these attributes, of which none is needed:

    - ``tokens``: the token table of ``input_ids``, or its name (``"esm"``). ``None``: letters are wanted, as text in
      ``batch["sequences"]``, and no ids.
    - ``layout``: ``"packed"`` (one sequence after another, ``cu_seqlens``) or ``"padded"`` (a row for each and
      ``attention_mask``).
    - ``arrays``: ``"torch"`` or ``"numpy"``. With numpy, the worker never imports torch.
    - ``max_length``: the most residues of a sequence (1022), ``None`` for any number.
    - ``specials``: whether the table's prefix and suffix are put around each sequence (``True``).
    - ``dim``: how many numbers a vector has, if that is known beforehand.
    - ``fingerprint``: a text that tells versions of this encoder apart, such as a digest of its weights.

    A function is an encoder, too: its attributes are set like those of any object.
    """

    def __call__(self, batch: dict[str, Any], /) -> Any:
        """Vectors of the batch's sequences."""


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """What an encoder says of itself, looked at once: which batches it wants, and what it is.

    >>> facts = EncoderFacts()
    >>> facts.tokens, facts.layout, facts.max_length, facts.around
    (TokenTable("esm"), 'packed', 1022, (1, 1))
    """

    tokens: TokenTable | None = field(default_factory=partial(TokenTable.named, "esm"))
    layout: Literal["packed", "padded"] = "packed"
    arrays: Literal["torch", "numpy"] = "torch"
    max_length: int | None = 1022
    specials: bool = True
    dim: int | None = None
    fingerprint: str = ""

    @property
    def around(self) -> tuple[int, int]:
        """How many special tokens stand before and after the residues of a sequence."""
        if self.tokens is None or not self.specials:
            return 0, 0
        return len(self.tokens.prefix), len(self.tokens.suffix)

    @property
    def identity(self) -> dict[str, str | int | bool | None]:
        """The same as plain values, for a manifest: vectors of two encoders that differ in it are not to be mixed.

        >>> EncoderFacts(tokens=None).identity["tokens"] is None
        True
        """
        return {
            "tokens": None if self.tokens is None else f"{self.tokens.name} {_digest(self.tokens)}",
            "layout": self.layout,
            "max_length": self.max_length,
            "specials": self.specials,
            "dim": self.dim,
            "fingerprint": self.fingerprint,
        }


def describe(encoder: Any) -> EncoderFacts:
    """The facts of an encoder, with the defaults for what it does not say.

    >>> class Lengths:
    ...     tokens, layout = "dna", "padded"
    ...     def __call__(self, batch):
    ...         return batch["attention_mask"].sum(1, keepdims=True)
    >>> describe(Lengths()).tokens, describe(Lengths()).max_length
    (TokenTable("dna"), 1022)
    """
    said = {name: getattr(encoder, name) for name in EncoderFacts.__dataclass_fields__ if hasattr(encoder, name)}
    try:
        if "tokens" in said:
            said["tokens"] = as_table(said["tokens"])
        for name in said.keys() & {"max_length", "dim"}:
            said[name] = limit(said[name], name)
    except (TypeError, ValueError) as error:
        raise MismatchError(f"{_name(encoder)} asks for what there is not: {error}") from None
    for name, kind in {"layout": ("packed", "padded"), "arrays": ("torch", "numpy"), "specials": (True, False)}.items():
        if said.get(name, kind[0]) not in kind:
            raise MismatchError(
                f"{_name(encoder)} asks for what there is not: {name} must be {kind[0]!r} or {kind[1]!r}, "
                f"but is {said[name]!r}"
            )
    # As a manifest has them: what is equal but of another type could not be read from it again.
    plain = {"specials": bool(said.get("specials", True)), "fingerprint": str(said.get("fingerprint", ""))}
    facts = EncoderFacts(**{**said, **plain})
    if facts.layout == "padded" and facts.tokens is not None and facts.tokens.pad is None:
        raise MismatchError(f"{_name(encoder)} asks for padded batches, but {facts.tokens!r} has no pad id")
    return facts


def _name(encoder: Any) -> str:
    return f"the encoder {getattr(encoder, '__name__', type(encoder).__name__)}"


def _digest(table: TokenTable) -> str:
    """What tells tables of one name apart: the id of every letter, and what is put around them."""
    ids = [_id_of(table, chr(code)) for code in range(128)]
    content = repr((ids, table.prefix, table.suffix, table.pad))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _id_of(table: TokenTable, letter: str) -> int | None:
    try:
        return table[letter]
    except KeyError:
        return None
