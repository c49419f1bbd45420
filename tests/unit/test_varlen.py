"""Packed batches of lists of sequences."""

import pickle
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import seekset
from reference import ESM, ESM_CLS, ESM_EOS, ESM_UNK
from seekset import packing
from seekset.errors import MismatchError, SeeksetWarning
from seekset.loading import VarlenCollator

LETTERS = "".join(ESM)


def item(name, sequence):
    return {"id": name, "sequence": sequence, "file": "x.fa"}


def tokens(sequence):
    return [ESM_CLS, *(ESM.get(letter, ESM_UNK) for letter in sequence), ESM_EOS]


@pytest.fixture
def fresh(monkeypatch):
    """A process that was not told of cuts yet."""
    monkeypatch.setattr(packing, "_told_of_cuts", threading.Event())


def test_a_batch_has_what_attention_of_variable_length_takes():
    batch = VarlenCollator("esm")([item("a", "LAG"), item("b", ""), item("c", "M")])
    assert list(batch) == [
        "input_ids",
        "cu_seqlens",
        "max_seqlen",
        "position_ids",
        "sequence_ids",
        "num_sequences",
    ]
    assert batch["input_ids"].tolist() == [0, 4, 5, 6, 2, 0, 2, 0, 20, 2]
    assert batch["cu_seqlens"].tolist() == [0, 5, 7, 10]
    assert batch["position_ids"].tolist() == [0, 1, 2, 3, 4, 0, 1, 0, 1, 2]
    assert [batch[name].dtype for name in ("input_ids", "cu_seqlens", "position_ids")] == [
        torch.int64,
        torch.int32,
        torch.int64,
    ]
    assert (batch["max_seqlen"], type(batch["max_seqlen"])) == (5, int)
    assert (batch["sequence_ids"], batch["num_sequences"]) == (["a", "b", "c"], 3)


@given(st.lists(st.text(LETTERS + "Jx*", max_size=30), min_size=1, max_size=8))
def test_any_sequences_are_found_again_in_their_batch(sequences):
    batch = VarlenCollator("esm")([item(str(k), sequence) for k, sequence in enumerate(sequences)])
    starts = batch["cu_seqlens"].tolist()
    for k, sequence in enumerate(sequences):
        row = slice(starts[k], starts[k + 1])
        assert batch["input_ids"][row].tolist() == tokens(sequence)
        assert batch["position_ids"][row].tolist() == list(range(len(sequence) + 2))
    assert starts[-1] == len(batch["input_ids"])
    assert batch["max_seqlen"] == max(map(len, sequences)) + 2


def test_it_keeps_nothing_from_call_to_call():
    collate = VarlenCollator("esm", max_tokens_per_batch=8)
    before = pickle.dumps(collate)
    first, again = (collate([item("a", "LAG")]) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in ("input_ids", "cu_seqlens", "position_ids"))
    with pytest.raises(MismatchError):
        collate([item("a", "LAGLAGLAG")])
    assert pickle.dumps(collate) == before
    assert pickle.loads(before)([item("a", "LAG")])["input_ids"].tolist() == first["input_ids"].tolist()


def test_a_list_in_a_list_is_that_list():
    collate, items = VarlenCollator("esm"), [item("a", "LAG"), item("b", "M")]
    assert collate([items])["input_ids"].tolist() == collate(items)["input_ids"].tolist()


def test_what_is_over_budget_is_refused_with_cost_and_budget():
    collate = VarlenCollator("esm", max_tokens_per_batch=10)
    assert len(collate([item("a", "LAG"), item("b", "LAG")])["input_ids"]) == 10
    message = "a batch of 2 sequences costs 11 tokens, but max_tokens_per_batch is 10"
    with pytest.raises(MismatchError, match=message):
        collate([item("a", "LAG"), item("b", "LAGV")])


def test_empty_lists_are_refused():
    for empty in ([], [[]]):
        with pytest.raises(ValueError, match="a batch needs at least one sequence"):
            VarlenCollator("esm")(empty)


def test_long_sequences_are_cut_and_that_is_told_once(fresh, recwarn):
    collate = VarlenCollator("esm", max_sequence_length=3)
    with pytest.warns(SeeksetWarning, match="2 of the 3 sequences .* 3 residues, .*: the first is 'b' with 4"):
        batch = collate([item("a", "LAG"), item("b", "LAGV"), item("c", "MMMMM")])
    assert batch["input_ids"].tolist() == tokens("LAG") * 2 + tokens("MMM")
    assert collate([item("d", "LAGVS")])["input_ids"].tolist() == tokens("LAG")
    assert not recwarn.list
    whole = VarlenCollator("esm", max_sequence_length=None)([item("a", "L" * 2000)])
    assert len(whole["input_ids"]) == 2002


def test_costs_are_what_sequences_take():
    collate = VarlenCollator("esm", max_sequence_length=5)
    assert [collate.cost(item("a", "L" * length)) for length in (0, 1, 5, 6)] == [2, 3, 7, 7]
    assert VarlenCollator("dna").cost(item("a", "ACGT")) == 4


def test_tables_of_ones_own_and_without_specials_will_do():
    table = seekset.TokenTable({"A": 7, "C": 300}, prefix=[1], fold_case=True)
    assert VarlenCollator(table)([item("a", "AcC")])["input_ids"].tolist() == [1, 7, 300, 300]
    empty = VarlenCollator("dna")([item("a", ""), item("b", "AC"), item("c", "")])
    assert (empty["input_ids"].tolist(), empty["cu_seqlens"].tolist()) == ([65, 67], [0, 0, 2, 2])
    nothing = VarlenCollator("dna")([item("a", "")])
    assert (nothing["input_ids"].tolist(), nothing["max_seqlen"], nothing["input_ids"].dtype) == ([], 0, torch.int64)


def test_letters_that_a_table_has_not_are_refused_with_their_sequence():
    collate = VarlenCollator(seekset.TokenTable({"A": 1}))
    with pytest.raises(MismatchError, match="sequence 'b': position 1: 'C' is not in token table 'custom'"):
        collate([item("a", "A"), item("b", "AC")])
    with pytest.raises(MismatchError, match="sequence 'b'"):
        collate([item("b", "\u00e4")])


@pytest.mark.parametrize("wrong", ["LAG", ("a", "LAG"), {"id": "a"}, {"name": "a", "sequence": "LAG"}, 3])
def test_items_that_are_none_are_refused(wrong):
    with pytest.raises(TypeError, match="an item must be a dict with 'id' and 'sequence', not"):
        VarlenCollator("esm")([wrong])


def test_arguments_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"max_tokens_per_batch must be from 1 to 2\*\*31 - 1, but is 0"):
        VarlenCollator("esm", 0)
    with pytest.raises(ValueError, match=r"max_tokens_per_batch .* but is 2147483648"):
        VarlenCollator("esm", 2**31)
    with pytest.raises(MismatchError, match="there is no token table 'rna'"):
        VarlenCollator("rna")
    for wrong in (None, 3, len):
        with pytest.raises(TypeError, match=r"a batch converter is a token table .*, not"):
            VarlenCollator(wrong)


class Alphabet:
    padding_idx = 1


class Converter:
    """Looks like ESM's, but its alphabet says too little."""

    alphabet = Alphabet()

    def __call__(self, pairs):
        return pairs


def test_alphabets_that_say_too_little_are_refused():
    with pytest.raises(TypeError, match="must have prepend_bos, append_eos, as ESM's does"):
        VarlenCollator(Converter())
