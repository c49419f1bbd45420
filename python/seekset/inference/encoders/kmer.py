"""Frequencies of k-mers: an encoder without weights, for any machine."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from seekset import _core
from seekset.errors import MismatchError
from seekset.tokens import TokenTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KmerEncoder"]

_ALPHABETS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "dna": "ACGT"}


class KmerEncoder:
    """The share of each word of ``k`` letters among the words of a sequence; zeros if it has none.

    Words that have another letter than the alphabet's are left out. Letters of either case are the same, and so are U
    and T in ``"dna"``. A sequence's vector depends on its letters alone, to the last bit.

    Args:
        device: Any: counting is done by the processor.
        k: How many letters a word has.
        alphabet: ``"protein"`` (20 letters) or ``"dna"`` (A, C, G, T).
        per_token: Refused, because words are counted in whole sequences.

    >>> encoder = KmerEncoder(k=1, alphabet="dna")
    >>> encoder.dim, encoder.words()
    (4, ['A', 'C', 'G', 'T'])
    >>> ids = np.array(encoder.tokens.encode("ACGTTTNaU"))
    >>> encoder({"input_ids": ids, "cu_seqlens": np.array([0, 4, 9], dtype=np.int32)})
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.  , 0.  , 0.75]], dtype=float32)
    """

    layout: Literal["packed", "padded"] = "packed"
    arrays: Literal["torch", "numpy"] = "numpy"
    specials: bool = False
    max_length: int | None = None

    def __init__(self, device: str = "cpu", k: int = 2, alphabet: str = "protein", *, per_token: bool = False) -> None:
        if per_token:
            message = "k-mers are counted in whole sequences: there are no vectors per token"
            raise MismatchError(f"{message}; take another encoder, or leave --per-token out")
        if alphabet not in _ALPHABETS:
            raise MismatchError(f"the alphabet of k-mers must be {' or '.join(_ALPHABETS)}, but is {alphabet!r}")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k < 2**32:
            raise MismatchError(f"k must be a whole number from 1 on, but is {k!r}")
        self.device: str = device
        self.k: int = k
        self.alphabet: str = alphabet
        letters = _ALPHABETS[alphabet]
        self._letters = len(letters)
        self.dim: int = _core.kmer_count(self._letters, k)
        ids = {letter: number for number, letter in enumerate(letters)}
        if alphabet == "dna":
            ids["U"] = ids["T"]
        other = {"unk": self._letters, "pad": self._letters}
        self.tokens: TokenTable = TokenTable(ids, specials=other, fold_case=True, name=f"kmer-{alphabet}")
        self.fingerprint: str = f"k-mers, k={k}, {alphabet}"

    def words(self) -> list[str]:
        """The words, in the order of a vector's numbers."""
        return ["".join(word) for word in itertools.product(_ALPHABETS[self.alphabet], repeat=self.k)]

    def __call__(self, batch: dict[str, Any]) -> NDArray[np.float32]:
        """The frequencies of the batch's sequences."""
        return _core.kmer_frequencies(batch["input_ids"], batch["cu_seqlens"], self._letters, self.k)
