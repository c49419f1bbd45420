"""Fasta.gather_windows: many windows in one call, one per row of a two-dimensional array."""

import numpy as np
import pytest

import reference
import seekset
from seekset import TokenTable

SEQUENCES = ["ACGTNACGTNACGTN", "GATTACA", ""]
FILE = b"".join(b">r%d\n%b" % (k, reference.wrap(text, 4)) for k, text in enumerate(SEQUENCES))


@pytest.fixture
def fa(opened):
    return opened(FILE)


def rows_of(array):
    return [bytes(row).decode() for row in array]


def test_windows_are_rows_in_the_order_asked(fa):
    windows = fa.gather_windows([1, 0, 1, -3], [0, 3, 2, 10], [5, 5, 5, 5])
    assert windows.dtype == np.uint8
    assert rows_of(windows) == ["GATTA", "TNACG", "TTACA", "ACGTN"]


def test_ids_and_one_number_for_all_starts_or_lengths(fa):
    assert rows_of(fa.gather_windows(["r1", "r0"], 2, 4)) == ["TTAC", "GTNA"]
    assert rows_of(fa.gather_windows(["r1", "r0"], [0, 1], 4)) == ["GATT", "CGTN"]


def test_windows_that_are_shorter_than_the_longest_are_padded(fa):
    assert fa.gather_windows([1, 0], [0, 0], [3, 5], tokens="nucleotide").tolist() == [[2, 0, 3, 4, 4], [0, 1, 2, 3, 4]]
    assert fa.gather_windows([1, 0], [0, 0], [3, 5], tokens="dna").tolist() == [
        [71, 65, 84, 1, 1],
        [65, 67, 71, 84, 78],
    ]


def test_windows_over_the_end_are_padded(fa):
    assert rows_of(fa.gather_windows([1, 1, 1], [4, 6, 7], 5)) == ["ACA\0\0", "A\0\0\0\0", "\0\0\0\0\0"]
    assert fa.gather_windows([1], [5], [4], tokens="esm").tolist() == [[23, 5, 1, 1]]


def test_a_window_of_an_empty_record_is_padding(fa):
    assert fa.gather_windows([2], [0], [3], tokens="esm").tolist() == [[1, 1, 1]]


def test_pad_overrides_the_tables_own(fa):
    assert fa.gather_windows([1], [5], [4], tokens="dna", pad=9).tolist() == [[67, 65, 9, 9]]
    assert rows_of(fa.gather_windows([1], [5], [4], pad=ord("-"))) == ["CA--"]


def test_a_table_without_padding_needs_pad(fa):
    table = TokenTable({"A": 1, "C": 2, "G": 3, "T": 4})
    with pytest.raises(seekset.MismatchError, match="pad"):
        fa.gather_windows([1], [5], [4], tokens=table)
    assert fa.gather_windows([1], [5], [4], tokens=table, pad=0).tolist() == [[2, 1, 0, 0]]


def test_padding_that_does_not_fit_the_dtype_is_refused(fa):
    with pytest.raises(ValueError, match="uint8"):
        fa.gather_windows([1], [5], [4], pad=256)
    with pytest.raises(ValueError, match="uint8"):
        fa.gather_windows([1], [5], [4], tokens="esm", dtype="uint8", pad=256)


def test_windows_have_no_specials_unless_asked_for(fa):
    assert fa.gather_windows([1], [0], [3], tokens="esm").tolist() == [[6, 5, 11]]
    assert fa.gather_windows([1, 0], [0, 0], [3, 1], tokens="esm", specials=True).tolist() == [
        [0, 6, 5, 11, 2],
        [0, 5, 2, 1, 1],
    ]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("tokens", ["esm", "dna", "nucleotide", "bytes"])
def test_every_table_and_dtype(fa, tokens, dtype):
    windows = fa.gather_windows([0, 1], [2, 0], [9, 7], tokens=tokens, dtype=dtype)
    table = TokenTable.named(tokens)
    assert windows.dtype == dtype
    assert windows.tolist() == [table.encode("GTNACGTNA"), table.encode("GATTACA") + [table.pad] * 2]


def test_a_start_past_the_end_is_a_mismatch(fa):
    with pytest.raises(seekset.MismatchError, match="letter 8 of row 1, which has 7 letters"):
        fa.gather_windows([0, 1], [0, 8], [1, 1])


@pytest.mark.parametrize("starts, lengths, name", [([0, -1], [1, 1], "starts"), ([0, 0], [1, -1], "lengths")])
def test_negative_starts_and_lengths_are_refused(fa, starts, lengths, name):
    with pytest.raises(ValueError, match=name):
        fa.gather_windows([0, 1], starts, lengths)


@pytest.mark.parametrize("starts, lengths", [([0.5], [1]), ([0], [1.0]), (["0"], [1])])
def test_starts_and_lengths_are_integers(fa, starts, lengths):
    with pytest.raises(TypeError, match="integers"):
        fa.gather_windows([0], starts, lengths)


@pytest.mark.parametrize("starts, lengths", [([0, 0, 0], [1, 1]), ([0, 0], [1, 1, 1]), ([[0], [0]], [1, 1])])
def test_starts_and_lengths_are_as_many_as_the_rows(fa, starts, lengths):
    with pytest.raises(ValueError, match=r"shape|length|dimension|rows"):
        fa.gather_windows([0, 1], starts, lengths)


def test_asking_for_nothing_gives_nothing(fa):
    assert fa.gather_windows([], [], []).shape == (0, 0)
    assert fa.gather_windows([0, 1], [0, 0], [0, 0]).shape == (2, 0)
    assert fa.gather_windows([], [], [], one_hot="ACGT").shape == (0, 0, 4)


def test_windows_can_be_reversed_one_by_one(fa):
    windows = fa.gather_windows([0, 0, 1], [1, 1, 4], 5, reverse_complement=[True, False, True])
    assert rows_of(windows) == ["TNACG", "CGTNA", "TGT\0\0"]


def test_the_unknown_letter_of_a_window_is_placed_in_its_record(fa):
    strict = TokenTable({"A": 0, "C": 1, "G": 2, "T": 3}, specials={"pad": 0})
    with pytest.raises(seekset.MismatchError, match=r"record 'r0'.*position 9: the letter 'N'"):
        fa.gather_windows([1, 0], [0, 6], [3, 5], tokens=strict)


# --- one-hot --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_one_hot_windows_have_three_dimensions_and_pad_with_zeros(fa, dtype):
    windows = fa.gather_windows([1], [5], [3], one_hot="ACGT", dtype=dtype)
    assert windows.dtype == dtype
    assert windows.tolist() == [[[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]]


def test_one_hot_padding_is_zeros_where_unknown_letters_are_quarters(fa):
    windows = fa.gather_windows([0], [13], [3], one_hot="ACGT", unknown="quarter")
    assert windows.tolist() == [[[0, 0, 0, 1], [0.25, 0.25, 0.25, 0.25], [0, 0, 0, 0]]]


def test_one_hot_of_an_alphabet_of_one_letter_has_three_dimensions_too(fa):
    out = np.zeros((1, 3, 1), np.uint8)
    assert fa.gather_windows([1], [0], [3], one_hot="A").shape == (1, 3, 1)
    assert fa.gather_windows([1], [0], [3], one_hot="A", out=out).tolist() == [[[0], [1], [0]]]


def test_one_hot_windows_into_an_array_of_the_caller(fa):
    out = np.full((2, 4, 4), 9, np.float32)
    assert fa.gather_windows([1, 0], [0, 0], [1, 2], one_hot="ACGT", out=out) is out
    assert out[0].argmax(axis=1).tolist() == [2, 0, 0, 0]
    assert out.sum(axis=2).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0]]


# --- out ------------------------------------------------------------------------------------------------------------


def test_out_is_filled_and_returned(fa):
    out = np.full((2, 8), 99, dtype=np.int64)
    assert fa.gather_windows([1, 0], [0, 0], [7, 2], tokens="dna", out=out) is out
    assert out.tolist() == [[71, 65, 84, 84, 65, 67, 65, 1], [65, 67, 1, 1, 1, 1, 1, 1]]


def test_out_may_be_used_again(fa):
    out = np.empty((1, 3), dtype=np.uint8)
    assert [rows_of(fa.gather_windows([0], [at], [3], out=out))[0] for at in (0, 4, 14)] == ["ACG", "NAC", "N\0\0"]


def test_out_that_is_too_narrow_is_a_mismatch(fa):
    with pytest.raises(seekset.MismatchError, match="window 1 needs 5 columns, but the output has 4"):
        fa.gather_windows([1, 0], [0, 0], [4, 5], out=np.zeros((2, 4), np.uint8))
    with pytest.raises(seekset.MismatchError, match="needs 6 columns"):
        fa.gather_windows([0], [0], [4], tokens="esm", specials=True, out=np.zeros((1, 5), np.uint8))


@pytest.mark.parametrize("shape", [(1, 5), (3, 5), (10,), (2, 5, 1)])
def test_out_of_another_shape_is_refused(fa, shape):
    with pytest.raises(ValueError, match=r"shape|dimensions"):
        fa.gather_windows([0, 1], [0, 0], [5, 5], out=np.zeros(shape, np.uint8))


def test_out_of_another_dtype_order_or_protection_is_refused(fa):
    locked = np.zeros((1, 5), np.uint8)
    locked.flags.writeable = False
    with pytest.raises((TypeError, ValueError), match="writable"):
        fa.gather_windows([0], [0], [5], out=locked)
    with pytest.raises(ValueError, match="contiguous"):
        fa.gather_windows([0, 1], [0, 0], [5, 5], out=np.zeros((5, 2), np.uint8).T)
    with pytest.raises(TypeError, match="int64"):
        fa.gather_windows([0], [0], [5], tokens="dna", dtype="int64", out=np.zeros((1, 5), np.int32))


# --- records whose lines are uneven ---------------------------------------------------------------------------------


def uneven(size, seed):
    """Letters, and a record of them with lines of any length, blanks among them."""
    rng = np.random.default_rng(seed)
    letters = rng.choice(np.frombuffer(b"ACGT", np.uint8), size).tobytes().decode()
    cuts = np.sort(rng.choice(size, size // 40, replace=False)).tolist()
    ends = rng.choice(["\n", "\r\n", "\n\n", " ", "\t\n"], len(cuts) + 1).tolist()
    lines = [letters[a:b] + end for a, b, end in zip([0, *cuts], [*cuts, size], ends, strict=True)]
    return letters, "".join(lines).encode()


@pytest.mark.parametrize("name", ["x.fa", "x.fa.gz"])
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_windows_of_long_uneven_records_are_right_at_every_place(write, bgzip, name, io):
    # Longer than the 64 KiB between the index's marks; a record before and behind, so that offsets count.
    letters, lines = uneven(400_000, seed=3)
    data = b">before\nAC\nACGT\n>long\n" + lines + b"\n>behind\nA\nCC\n"
    fa = seekset.Fasta(write(bgzip.bytes(data) if name.endswith(".gz") else data, name), io=io)
    marks = [65_536 * k for k in range(1, 6)]
    starts = sorted({*range(0, 400_000, 1009), *(m + d for m in marks for d in range(-900, 900, 97)), 399_999, 400_000})
    windows = fa.gather_windows(["long"] * len(starts), starts, 50, pad=ord("-"))
    assert rows_of(windows) == [letters[at : at + 50].ljust(50, "-") for at in starts]
    assert [fa.fetch("long", at, at + 50) for at in starts] == [letters[at : at + 50] for at in starts]
    assert fa["long"].sequence == letters


def test_a_long_uneven_record_is_gathered_whole_in_both_directions(opened, in_threads):
    letters, lines = uneven(2_300_000, seed=4)
    fa = opened(b">long\n" + lines)
    whole = in_threads(lambda: bytes(fa.gather([0]).values).decode())
    backwards = in_threads(lambda: bytes(fa.gather([0], reverse_complement=True).values).decode())
    assert whole == [letters] * 3
    assert backwards == [reference.reverse_complement(letters)] * 3


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_windows_of_even_records_are_right_around_every_line_end(opened, end):
    letters = "ACGTNRYKMS" * 10
    fa = opened(b">a" + end + reference.wrap(letters, 7, end))
    starts, lengths = np.meshgrid(range(101), range(23))
    windows = fa.gather_windows([0] * starts.size, starts.ravel(), lengths.ravel(), pad=0)
    expected = [letters[a : a + n].ljust(22, "\0") for a, n in zip(starts.ravel(), lengths.ravel(), strict=True)]
    assert rows_of(windows) == expected
