"""Frequencies of k-mers, against a plain count."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seekset import _core
from seekset.errors import MismatchError
from seekset.inference.encoders import KmerEncoder, describe, load_encoder
from seekset.sequences import SequenceIndex

ALPHABETS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "dna": "ACGT"}


def packed(encoder, sequences):
    ends = np.cumsum([0, *map(len, sequences)]).astype(np.int32)
    return {"input_ids": np.array(encoder.tokens.encode("".join(sequences)), dtype=np.int64), "cu_seqlens": ends}


def counted(sequence, k, alphabet):
    letters = sequence.upper().replace("U", "T") if alphabet == "dna" else sequence.upper()
    found = [letters[i : i + k] for i in range(len(letters) - k + 1)]
    known = Counter(word for word in found if set(word) <= set(ALPHABETS[alphabet]))
    words = map("".join, itertools.product(ALPHABETS[alphabet], repeat=k))
    return np.array([known[word] / max(known.total(), 1) for word in words], dtype=np.float32)


@given(
    st.lists(st.text("ACGTUNacgtuMKVmkvX*-", max_size=40), max_size=6),
    st.sampled_from(sorted(ALPHABETS)),
    st.integers(1, 3),
)
def test_vectors_are_shares_of_words_as_a_plain_count_has_them(sequences, alphabet, k):
    encoder = KmerEncoder(k=k, alphabet=alphabet)
    found = encoder(packed(encoder, sequences))
    assert found.dtype == np.float32
    assert found.shape == (len(sequences), len(ALPHABETS[alphabet]) ** k) == (len(sequences), encoder.dim)
    for vector, sequence in zip(found, sequences, strict=True):
        assert np.array_equal(vector, counted(sequence, k, alphabet))


def test_words_name_the_numbers_of_a_vector():
    encoder = KmerEncoder(k=2)
    (vector,) = encoder(packed(encoder, ["MKMK"]))
    shares = dict(zip(encoder.words(), vector.tolist(), strict=True))
    assert {word: share for word, share in shares.items() if share} == pytest.approx({"MK": 2 / 3, "KM": 1 / 3})


def test_a_vector_is_the_same_bit_for_bit_in_any_batch_and_with_any_number_of_threads(in_threads):
    rng = np.random.default_rng(1)
    encoder = KmerEncoder(k=3)
    sequences = ["".join(rng.choice([*"ACDEFGHIKLMNPQRSTVWYX"], n)) for n in (5000, 400, 2, 0, 777)]
    once, *others = in_threads(lambda: encoder(packed(encoder, sequences)))
    assert all(np.array_equal(once, other) for other in others)
    for vector, sequence in zip(once, sequences, strict=True):
        assert np.array_equal(vector, encoder(packed(encoder, [sequence]))[0])


def test_batches_of_an_index_are_what_it_wants(write):
    index = SequenceIndex.create([write(b">a\nACGTAC\n>b\nggu\n>c\nNNN\n")])
    encoder = load_encoder("kmer", arguments={"k": "1", "alphabet": "dna"})
    facts = describe(encoder)
    assert (facts.arrays, facts.layout, facts.specials, facts.max_length) == ("numpy", "packed", False, None)
    ids, ends, *_ = index.packed([0, 1, 2], facts.tokens, specials=facts.specials)
    found = encoder({"input_ids": ids, "cu_seqlens": ends})
    sixth, third = 1 / 6, 1 / 3
    expected = [[2 * sixth, 2 * sixth, sixth, sixth], [0, 0, 2 * third, third], [0, 0, 0, 0]]
    assert found == pytest.approx(np.array(expected))


def test_encoders_that_count_otherwise_have_other_fingerprints():
    encoders = [KmerEncoder(), KmerEncoder(k=3), KmerEncoder(alphabet="dna")]
    assert len({describe(encoder).fingerprint for encoder in encoders}) == 3


@pytest.mark.parametrize(
    "options, message",
    [
        ({"arguments": {"k": "5"}}, "there are 20^5 words of 5 letters over an alphabet of 20, and at most 1048576"),
        ({"arguments": {"k": "0"}}, "k must be a whole number from 1 on, but is 0"),
        ({"arguments": {"k": "2.5"}}, "k must be a whole number from 1 on, but is 2.5"),
        ({"arguments": {"alphabet": "rna"}}, "the alphabet of k-mers must be protein or dna, but is 'rna'"),
        ({"arguments": {"size": "3"}}, "kmer has no option 'size'; it has k, alphabet, per_token"),
        ({"per_token": True}, "k-mers are counted in whole sequences: there are no vectors per token"),
        ({"layer": 3}, "kmer has no option 'layer'"),
    ],
)
def test_what_can_not_be_counted_is_told(options, message):
    with pytest.raises(MismatchError) as caught:
        load_encoder("kmer", device="cpu", **options)
    assert message in str(caught.value)


def test_ends_that_are_not_those_of_the_ids_are_an_error():
    for ends in ([0, 4], [1, 3], [0, 2, 1, 3], [0, -1, 3], []):
        with pytest.raises(MismatchError, match="ends must rise from 0 to the number of ids, which is 3"):
            _core.kmer_frequencies(np.array([0, 1, 0]), np.array(ends, dtype=np.int32), 2, 1)


def test_more_vectors_than_there_is_memory_for_are_an_error():
    ends = np.zeros(1 << 26, dtype=np.int32)
    with pytest.raises(MemoryError):
        _core.kmer_frequencies(np.empty(0, dtype=np.int64), ends, 4, 10)
