"""Fasta.gather: many records in one call, as one ragged array."""

import numpy as np
import pytest

import reference
import seekset
from seekset import TokenTable

SEQUENCES = ["MKVLAAGIV", "ACGTNacgtnRX", "", "G", "LAGVSERTIDPKQNFYMHWCXBUZO.-*j" * 5]
FILE = b"".join(b">r%d\n%b" % (k, reference.wrap(text, 7)) for k, text in enumerate(SEQUENCES))
ORDER = [3, 0, 4, 1, 2, 0, -1]


@pytest.fixture
def fa(opened):
    return opened(FILE)


def pieces(batch):
    """The batch as a list of lists."""
    return [batch.values[a:b].tolist() for a, b in zip(batch.offsets, batch.offsets[1:], strict=False)]


def wanted(rows):
    return [SEQUENCES[row] for row in rows]


def ids(text, table, unk):
    return [table.get(letter, unk) for letter in text]


# --- letters --------------------------------------------------------------------------------------------------------


def test_letters_come_as_they_are_in_the_order_asked(fa):
    batch = fa.gather(ORDER)
    assert isinstance(batch, seekset.Batch)
    assert batch.values.dtype == np.uint8
    assert batch.offsets.dtype == np.int64
    assert [bytes(piece).decode() for piece in pieces(batch)] == wanted(ORDER)


def test_ids_ask_for_the_same_as_rows(fa):
    assert pieces(fa.gather(["r3", "r0", "r3"])) == pieces(fa.gather([3, 0, 3]))
    assert pieces(fa.gather(np.array([3, 0], dtype=np.uint8))) == pieces(fa.gather((3, 0)))
    assert pieces(fa.gather(range(5))) == pieces(fa.gather([-5, -4, -3, -2, -1]))


def test_asking_for_nothing_gives_nothing(fa):
    for rows in ([], np.array([], dtype=np.int64), np.array([])):
        batch = fa.gather(rows, tokens="esm")
        assert batch.values.tolist() == []
        assert batch.offsets.tolist() == [0]


def test_a_row_out_of_range_is_an_index_error(fa):
    for rows in ([5], [0, -6], [2**62], np.array([2**63], dtype=np.uint64)):
        with pytest.raises(IndexError):
            fa.gather(rows)


def test_an_unknown_id_is_a_key_error(fa):
    with pytest.raises(KeyError, match="r9"):
        fa.gather(["r1", "r9"])


def test_one_row_is_no_list_of_rows(fa):
    with pytest.raises(TypeError, match="give a list of rows or ids, not int"):
        fa.gather(3)


def test_threads_are_not_negative():
    with pytest.raises(ValueError, match="must not be negative, but are -1"):
        seekset.set_threads(-1)


def test_many_rows_keep_their_order(opened, threads):
    # More rows than are resolved on one thread, and more letters than are copied on one.
    texts = [f"{k:07d}".translate(str.maketrans("0123456789", "ACDEFGHIKL")) * (k % 5) for k in range(5000)]
    fa = opened("".join(f">{k}\n{text}\n" for k, text in enumerate(texts)).encode())
    rows = np.random.default_rng(1).integers(0, 5000, 20_000)
    batch = fa.gather(rows)
    expected = [texts[row] for row in rows]
    assert bytes(batch.values).decode() == "".join(expected)
    assert np.diff(batch.offsets).tolist() == list(map(len, expected))


# --- token ids ------------------------------------------------------------------------------------------------------

CUSTOM = TokenTable({"A": 1000, "G": 70_000}, specials={"unk": 3}, prefix=[1, 2], suffix=[2])
TABLES = {
    "esm": ("esm", reference.ESM, 3, [0], [2]),
    "dna": ("dna", reference.DNA, 4, [], []),
    "nucleotide": ("nucleotide", reference.NUCLEOTIDE, 4, [], []),
    "bytes": ("bytes", {chr(code): code for code in range(128)}, None, [], []),
    "custom": (CUSTOM, {"A": 1000, "G": 70_000}, 3, [1, 2], [2]),
}


@pytest.fixture(params=TABLES)
def table(request):
    return TABLES[request.param]


@pytest.mark.parametrize("dtype", ["int32", "int64", np.int32, np.dtype("int64")])
def test_token_ids_of_every_table(fa, table, dtype):
    tokens, letters, unk, prefix, suffix = table
    batch = fa.gather(ORDER, tokens=tokens, dtype=dtype)
    assert batch.values.dtype == np.dtype(dtype)
    assert pieces(batch) == [prefix + ids(text, letters, unk) + suffix for text in wanted(ORDER)]


@pytest.mark.parametrize("name", ["esm", "dna", "nucleotide", "bytes"])
def test_token_ids_as_uint8_are_the_same(fa, name):
    batch = fa.gather(ORDER, tokens=name, dtype="uint8")
    assert batch.values.dtype == np.uint8
    assert pieces(batch) == pieces(fa.gather(ORDER, tokens=name, dtype="int64"))


def test_the_smallest_dtype_that_holds_the_table_is_the_default(fa):
    assert fa.gather([0], tokens="esm").values.dtype == np.uint8
    assert fa.gather([0], tokens=TokenTable({"M": 255}, specials={"unk": 0})).values.dtype == np.uint8
    assert fa.gather([0], tokens=TokenTable({"M": 256}, specials={"unk": 0})).values.dtype == np.int32
    assert fa.gather([0], tokens=TokenTable({}, specials={"unk": 0, "mask": 256})).values.dtype == np.int32


def test_specials_can_be_left_out(fa, table):
    tokens, letters, unk, _, _ = table
    batch = fa.gather(ORDER, tokens=tokens, dtype="int64", specials=False)
    assert pieces(batch) == [ids(text, letters, unk) for text in wanted(ORDER)]


@pytest.mark.parametrize("most", [0, 1, 4, 9, 1000, 2**62])
def test_max_length_counts_letters_and_not_specials(fa, most):
    batch = fa.gather(ORDER, tokens="esm", max_length=most)
    assert pieces(batch) == [[0, *ids(text[:most], reference.ESM, 3), 2] for text in wanted(ORDER)]


def test_max_length_is_not_negative(fa):
    with pytest.raises(ValueError, match="max_length"):
        fa.gather([0], max_length=-1)


def test_unknown_letters_get_the_tables_id_for_them(opened):
    fa = opened(b">a\nMJK\n")
    assert fa.gather([0], tokens="esm").values.tolist() == [0, 20, 3, 15, 2]


STRICT = TokenTable({"A": 0, "C": 1, "G": 2, "T": 3}, name="strict")


@pytest.mark.parametrize("reverse", [False, True])
def test_without_such_an_id_the_record_and_the_position_are_named(opened, reverse):
    fa = opened(b">a\nACGT\n>b\nACG\nTNA\n")
    with pytest.raises(seekset.MismatchError, match=r"record 'b' \(row 1\), position 4: the letter 'N'.*'strict'"):
        fa.gather([0, 1, 0], tokens=STRICT, reverse_complement=reverse)


def test_positions_in_long_records_are_counted_over_lines_and_pieces(opened):
    at = 3_000_017
    letters = "ACGT" * 1_000_000
    fa = opened(b">a\n" + reference.wrap(letters[:at] + "x" + letters[at + 1 :], 70))
    with pytest.raises(seekset.MismatchError, match=f"'a'.*position {at}: the letter 'x'"):
        fa.gather([0], tokens=STRICT)


def test_a_strict_table_takes_what_it_knows(opened):
    assert opened(b">a\nAC\nGT\n").gather([0], tokens=STRICT).values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "tokens",
    [
        TokenTable({"A": 256}, specials={"unk": 0}),
        TokenTable({}, specials={"unk": 256}),
        TokenTable({}, specials={"unk": 0}, prefix=[256]),
        TokenTable({}, specials={"unk": 0}, suffix=[256]),
    ],
)
def test_ids_that_do_not_fit_the_dtype_are_refused(fa, tokens):
    with pytest.raises(seekset.MismatchError, match=r"256.*uint8.*wider dtype"):
        fa.gather([0], tokens=tokens, dtype="uint8")


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "uint32", "uint64", "float32", "float64", "bool"])
def test_other_dtypes_are_refused(fa, dtype):
    with pytest.raises(ValueError, match=f"not {dtype}"):
        fa.gather([0], tokens="esm", dtype=dtype)


def test_letters_without_a_table_are_uint8(fa):
    assert fa.gather([0], dtype="uint8").values.dtype == np.uint8
    with pytest.raises(ValueError, match="int64; give tokens"):
        fa.gather([0], dtype="int64")


def test_tokens_that_are_no_table_are_refused(fa):
    with pytest.raises(TypeError, match="TokenTable"):
        fa.gather([0], tokens=5)
    with pytest.raises(ValueError, match="'rna'"):
        fa.gather([0], tokens="rna")


# --- one-hot --------------------------------------------------------------------------------------------------------


def one_hot(text, alphabet, unknown=0.0):
    """One row per letter, case aside; rows of `unknown` for the letters that are not in the alphabet."""
    rows = np.array([[letter.upper() == column for column in alphabet] for letter in text], dtype=float)
    rows = rows.reshape(len(text), len(alphabet))
    rows[rows.sum(axis=1) == 0] = unknown
    return rows


@pytest.mark.parametrize("alphabet", ["ACGT", "ACGTN", "TGCA", "AC", "A"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_one_hot_has_one_column_per_letter_of_the_alphabet(fa, alphabet, dtype):
    batch = fa.gather([1, 2, 3], one_hot=alphabet, dtype=dtype)
    assert batch.values.dtype == dtype
    np.testing.assert_array_equal(batch.values, one_hot("ACGTNacgtnRX" + "G", alphabet))
    assert batch.offsets.tolist() == [0, 12, 12, 13]


def test_one_hot_is_uint8_unless_unknown_letters_share(fa):
    assert fa.gather([1], one_hot="ACGT").values.dtype == np.uint8
    assert fa.gather([1], one_hot="ACGT", unknown="quarter").values.dtype == np.float32


def test_unknown_letters_are_zeros_or_quarters(opened):
    fa = opened(b">a\nANR\n")
    zeros = [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    quarters = [[1, 0, 0, 0], [0.25] * 4, [0.25] * 4]
    assert fa.gather([0], one_hot="ACGT", dtype="float32").values.tolist() == zeros
    assert fa.gather([0], one_hot="ACGT", unknown="quarter").values.tolist() == quarters
    assert fa.gather([0], one_hot="AC", unknown="quarter").values.tolist() == [[1, 0], [0.5, 0.5], [0.5, 0.5]]


def test_one_hot_reverse_complement_and_max_length(fa):
    batch = fa.gather([1, 0], one_hot="ACGT", reverse_complement=[True, False], max_length=6)
    expected = reference.reverse_complement("ACGTNa") + "MKVLAA"
    np.testing.assert_array_equal(batch.values, one_hot(expected, "ACGT"))


@pytest.mark.parametrize("alphabet", ["", "AA", "Aa", "A C", "é"])
def test_an_alphabet_is_different_letters(fa, alphabet):
    with pytest.raises(ValueError, match="one_hot"):
        fa.gather([0], one_hot=alphabet)


def test_one_hot_options_that_contradict_each_other_are_refused(fa):
    with pytest.raises(ValueError, match="not both"):
        fa.gather([0], one_hot="ACGT", tokens="esm")
    with pytest.raises(ValueError, match="float32"):
        fa.gather([0], one_hot="ACGT", unknown="quarter", dtype="uint8")
    with pytest.raises(ValueError, match="int64"):
        fa.gather([0], one_hot="ACGT", dtype="int64")
    with pytest.raises(ValueError, match="unknown must be"):
        fa.gather([0], one_hot="ACGT", unknown="half")


# --- reverse complement ---------------------------------------------------------------------------------------------


def test_reverse_complement_of_all_records(fa):
    batch = fa.gather(ORDER, reverse_complement=True)
    assert [bytes(piece).decode() for piece in pieces(batch)] == [
        reference.reverse_complement(text) for text in wanted(ORDER)
    ]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_reverse_complement_of_some_records(fa, kind):
    flags = [True, False, True, True, False, False, True]
    batch = fa.gather(ORDER, tokens="nucleotide", reverse_complement=kind(flags))
    assert pieces(batch) == [
        ids(reference.reverse_complement(text) if flag else text, reference.NUCLEOTIDE, 4)
        for text, flag in zip(wanted(ORDER), flags, strict=True)
    ]


def test_specials_stay_where_they_are_when_a_record_is_reversed(opened):
    fa = opened(b">a\nAAG\n")
    table = TokenTable({"A": 1, "C": 2, "G": 3, "T": 4}, prefix=[8], suffix=[9])
    assert fa.gather([0], tokens=table, reverse_complement=True).values.tolist() == [8, 2, 4, 4, 9]


def test_the_flags_are_as_many_as_the_rows(fa):
    with pytest.raises(ValueError, match=r"shape|length|rows"):
        fa.gather([0, 1], reverse_complement=[True, False, True])


def test_long_records_are_reversed_across_pieces(opened, threads):
    letters = "ACGTTGCANR" * 250_000
    fa = opened(b">a\n" + reference.wrap(letters, 77) + b">b\nAC\n")
    batch = fa.gather([1, 0, 1], reverse_complement=True)
    assert bytes(batch.values).decode() == "GT" + reference.reverse_complement(letters) + "GT"


# --- out ------------------------------------------------------------------------------------------------------------


def test_out_is_written_to_and_the_values_are_a_view_of_it(fa):
    out = np.full(20, 255, dtype=np.uint8)
    batch = fa.gather([3, 0], out=out)
    assert bytes(batch.values) == b"GMKVLAAGIV"
    assert np.shares_memory(batch.values, out)
    assert bytes(out[:10]) == b"GMKVLAAGIV"
    assert out[10:].tolist() == [255] * 10


def test_out_says_the_dtype(fa):
    out = np.zeros(50, dtype=np.int64)
    assert fa.gather([0], tokens="esm", out=out).values.dtype == np.int64
    assert out[:11].tolist() == [0, *ids("MKVLAAGIV", reference.ESM, 3), 2]


def test_out_may_be_used_again_and_again(fa):
    out = np.zeros(30, dtype=np.int32)
    for row, text in enumerate(SEQUENCES[:4]):
        assert fa.gather([row], tokens="dna", out=out).values.tolist() == ids(text, reference.DNA, 4)


def test_out_may_be_a_part_of_a_larger_array(fa):
    whole = np.zeros((3, 9), dtype=np.uint8)
    fa.gather([0], out=whole[1])
    assert [bytes(row) for row in whole] == [bytes(9), b"MKVLAAGIV", bytes(9)]


def test_out_for_one_hot_has_two_dimensions(fa):
    out = np.zeros((10, 4), dtype=np.float32)
    batch = fa.gather([3], one_hot="ACGT", out=out)
    assert batch.values.tolist() == [[0, 0, 1, 0]]
    assert out[0].tolist() == [0, 0, 1, 0]


def test_out_that_is_too_small_is_refused(fa):
    out = np.full(8, 7, dtype=np.uint8)
    with pytest.raises(ValueError, match=r"out has shape \[8\], but \[9\]"):
        fa.gather([0], out=out)
    assert out.tolist() == [7] * 8


@pytest.mark.parametrize(
    "out",
    [np.zeros(100, np.int32), np.zeros(100, ">i8"), np.zeros(100, np.uint8)],
    ids=["another width", "another byte order", "another kind"],
)
def test_out_of_another_dtype_is_refused(fa, out):
    with pytest.raises(TypeError, match="int64"):
        fa.gather([0], tokens="esm", dtype="int64", out=out)


def test_out_with_gaps_is_refused(fa):
    with pytest.raises(ValueError, match="contiguous"):
        fa.gather([0], out=np.zeros(100, np.uint8)[::2])
    with pytest.raises(ValueError, match="contiguous"):
        fa.gather([3], one_hot="ACGT", out=np.zeros((4, 10), np.uint8).T)


def test_out_that_is_read_only_is_refused(fa):
    out = np.zeros(100, np.uint8)
    out.flags.writeable = False
    with pytest.raises((TypeError, ValueError), match="writable"):
        fa.gather([0], out=out)
    assert not out.any()


@pytest.mark.parametrize("out", [np.zeros((10, 10), np.uint8), np.zeros((), np.uint8)])
def test_out_of_other_dimensions_is_refused(fa, out):
    with pytest.raises(ValueError, match="shape"):
        fa.gather([0], out=out)


@pytest.mark.parametrize("out", [[0] * 100, bytearray(100)])
def test_out_that_is_no_array_is_a_type_error(fa, out):
    with pytest.raises(TypeError):
        fa.gather([0], out=out)


def test_gathered_arrays_outlive_the_handle(opened):
    fa = opened(FILE)
    batch = fa.gather([0])
    fa.close()
    assert bytes(batch.values) == b"MKVLAAGIV"
