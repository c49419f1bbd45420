"""The tokenizers of ESM-2, of Hugging Face and of the original code, give what our table gives."""

import esm
import pytest
from transformers import EsmTokenizer

from seekset.loading import VarlenCollator
from seekset.tokens import TokenTable

# The vocabulary of ESM-2 as it is published, one token per line.
VOCABULARY = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
RESIDUES = "LAGVSERTIDPKQNFYMHWCXBUZO"
SEQUENCES = ["", "M", "MKTAYIAKQR", RESIDUES, "MK.TA-YO", "MXXB", RESIDUES * 3]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("esm") / "vocab.txt"
    path.write_text("\n".join(VOCABULARY))
    return EsmTokenizer(str(path))


@pytest.fixture(scope="module")
def converter():
    return esm.Alphabet.from_architecture("ESM-1b").get_batch_converter()


def batch(convert, sequences, **options):
    collate = VarlenCollator(convert, **options)
    found = collate([{"id": str(k), "sequence": sequence} for k, sequence in enumerate(sequences)])
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()}


def test_all_letters_have_the_same_ids(tokenizer, converter):
    table = TokenTable.named("esm")
    assert len(RESIDUES) == 25
    for letter in RESIDUES + ".-":
        expected = [0, table[letter], 2]
        assert tokenizer(letter)["input_ids"] == expected
        assert converter([("a", letter)])[2].tolist() == [expected]


def test_single_unknown_characters_are_one_unknown_token(tokenizer):
    """Runs of them are one token for Hugging Face, too, but one each for us: so that positions stay."""
    table = TokenTable.named("esm")
    for unknown in "J*jl1@?":
        expected = table.prefix + table.encode(f"M{unknown}K") + table.suffix
        assert tokenizer(f"M{unknown}K")["input_ids"] == expected == [0, 20, 3, 15, 2], unknown
    assert tokenizer("MJJJK")["input_ids"] == [0, 20, 3, 15, 2]
    assert table.encode("MJJJK") == [20, 3, 3, 3, 15]


def test_batches_of_both_tokenizers_are_those_of_the_table(tokenizer, converter):
    expected = batch("esm", SEQUENCES)
    assert batch(tokenizer, SEQUENCES) == expected
    assert batch(converter, SEQUENCES) == expected
    assert expected["max_seqlen"] == 77


def test_specials_are_counted_in_costs(tokenizer, converter):
    for convert in (tokenizer, converter, "esm"):
        assert VarlenCollator(convert).cost({"id": "a", "sequence": "MKV"}) == 5


def test_a_converter_without_ends_gives_residues_alone():
    alphabet = esm.Alphabet.from_architecture("ESM-1b")
    alphabet.prepend_bos = alphabet.append_eos = False
    convert = alphabet.get_batch_converter()
    assert batch(convert, ["MK", "", "V"])["cu_seqlens"] == [0, 2, 2, 3]
    assert VarlenCollator(convert).cost({"id": "a", "sequence": "MKV"}) == 3
