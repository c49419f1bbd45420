"""Token tables: what each letter becomes."""

import pickle

import pytest

import reference
from seekset import MismatchError, TokenTable
from seekset.tokens import as_table

PRINTABLE = [chr(code) for code in range(33, 127)]


def test_esm_is_the_vocabulary_of_esm_2():
    esm = TokenTable.named("esm")
    vocabulary = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
    letters = {token: k for k, token in enumerate(vocabulary) if len(token) == 1}
    assert len(vocabulary) == 33
    assert {letter: esm[letter] for letter in letters} == letters
    assert esm.specials == {token[1:-1]: k for k, token in enumerate(vocabulary) if len(token) > 1}
    assert (esm.prefix, esm.suffix, esm.pad, esm.unk, esm.largest) == ([0], [2], 1, 3, 32)


def test_esm_knows_upper_case_alone():
    esm = TokenTable.named("esm")
    assert [esm[letter] for letter in PRINTABLE] == [reference.ESM.get(letter, 3) for letter in PRINTABLE]


def test_dna_is_the_ascii_codes_with_five_specials():
    dna = TokenTable.named("dna")
    assert dna.specials == {"eos": 0, "pad": 1, "bos": 2, "sep": 3, "unk": 4}
    assert [dna[letter] for letter in "ACGTN"] == [65, 67, 71, 84, 78]
    assert (dna.prefix, dna.suffix, dna.pad, dna.unk) == ([], [], 1, 4)


def test_dna_takes_lower_case_as_upper_case_and_the_rest_as_unknown():
    dna = TokenTable.named("dna")
    assert [dna[letter] for letter in PRINTABLE] == [reference.DNA.get(letter, 4) for letter in PRINTABLE]


def test_nucleotide_counts_acgtn_and_takes_the_rest_as_n():
    table = TokenTable.named("nucleotide")
    assert [table[letter] for letter in PRINTABLE] == [reference.NUCLEOTIDE.get(letter, 4) for letter in PRINTABLE]
    assert [table[letter] for letter in "ACGTNacgtnUuRX"] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 3, 3, 4, 4]
    assert (table.pad, table.unk, table.largest) == (4, 4, 4)


def test_bytes_is_every_byte_itself():
    table = TokenTable.named("bytes")
    assert [table[letter] for letter in PRINTABLE] == [ord(letter) for letter in PRINTABLE]
    assert (table.pad, table.unk, table.prefix, table.suffix, table.largest) == (0, None, [], [], 255)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(MismatchError, match=r"'rna'.*bytes, dna, esm, nucleotide"):
        TokenTable.named("rna")


def test_a_custom_table_has_what_it_was_given():
    table = TokenTable({"A": 7, "B": 300}, specials={"pad": 9, "unk": 4}, prefix=[1, 2], suffix=[3], name="mine")
    assert (table["A"], table["B"], table["a"], table["?"]) == (7, 300, 4, 4)
    assert (table.name, table.specials, table.pad, table.unk) == ("mine", {"pad": 9, "unk": 4}, 9, 4)
    assert (table.prefix, table.suffix, table.largest) == ([1, 2], [3], 300)
    assert repr(table) == 'TokenTable("mine")'


def test_without_an_id_for_unknown_letters_they_are_key_errors():
    table = TokenTable({"A": 7})
    assert table.unk is None
    assert table.pad is None
    with pytest.raises(KeyError, match="B"):
        table["B"]


def test_fold_case_gives_lower_case_the_ids_of_upper_case_unless_it_has_its_own():
    table = TokenTable({"A": 1, "B": 2, "b": 5}, fold_case=True)
    assert (table["A"], table["a"], table["B"], table["b"]) == (1, 1, 2, 5)


def test_encode_gives_ids_without_prefix_and_suffix():
    assert TokenTable.named("esm").encode("MKL?") == [20, 15, 4, 3]
    assert TokenTable.named("esm").encode("") == []
    with pytest.raises(ValueError, match="position 2: 'C'"):
        TokenTable({"A": 1}).encode("AAC")


@pytest.mark.parametrize("letters", [{"AB": 1}, {"": 1}, {" ": 1}, {"é": 1}, {"\n": 1}, {"A": -1}])
def test_letters_are_one_printable_character_with_an_id_that_is_not_negative(letters):
    with pytest.raises(ValueError, match=r"letter|negative"):
        TokenTable(letters)


@pytest.mark.parametrize("wrong", [{"specials": {"pad": -1}}, {"prefix": [-1]}, {"suffix": [0, -3]}])
def test_special_ids_are_not_negative(wrong):
    with pytest.raises(ValueError, match="negative"):
        TokenTable({"A": 1}, **wrong)


def test_only_one_letter_can_be_looked_up():
    with pytest.raises(TypeError):
        TokenTable.named("esm")["AB"]


def test_tables_are_equal_by_what_they_hold():
    assert TokenTable({"A": 1}, specials={"pad": 0}) == TokenTable({"A": 1}, specials={"pad": 0})
    assert TokenTable({"A": 1}) != TokenTable({"A": 2})
    assert TokenTable({"A": 1}) != TokenTable({"A": 1}, specials={"pad": 0})
    assert TokenTable.named("esm") == TokenTable.named("esm")
    assert TokenTable.named("esm") != TokenTable.named("dna")


@pytest.mark.parametrize(
    "table",
    [
        *map(TokenTable.named, ["esm", "dna", "nucleotide", "bytes"]),
        TokenTable({"A": 1, "c": 300}, specials={"pad": 0, "unk": 2}, prefix=[5], suffix=[6, 7], name="mine"),
        TokenTable({"A": 1}, fold_case=True),
        TokenTable({"A": 9}, name="esm"),
        TokenTable({}, specials={"unk": 1}),
    ],
)
def test_tables_survive_pickling(table):
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert (again.name, again.specials, again.prefix, again.suffix) == (
        table.name,
        table.specials,
        table.prefix,
        table.suffix,
    )


def test_a_name_or_a_table_stands_for_a_table():
    mine = TokenTable({"A": 1})
    assert as_table(mine) is mine
    assert as_table("esm") == TokenTable.named("esm")
    assert as_table(None) is None
    with pytest.raises(TypeError, match="int"):
        as_table(5)
