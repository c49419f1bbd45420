"""seekset.Fasta as a mapping, its records, and single reads."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import seekset

FILE = b">seq_1 first one\nMKVLA\nAGI\n>seq_2\nACGTN\n>seq_3 an empty one\n"


@pytest.fixture
def fa(opened):
    return opened(FILE)


# --- a mapping of ids in file order ---------------------------------------------------------------------------------


def test_a_fasta_is_a_mapping_of_ids_in_file_order(fa):
    assert isinstance(fa, Mapping)
    assert len(fa) == 3
    assert list(fa) == list(fa.keys()) == ["seq_1", "seq_2", "seq_3"]
    assert [record.id for record in fa.values()] == ["seq_1", "seq_2", "seq_3"]
    assert [(name, record.sequence) for name, record in fa.items()] == [
        ("seq_1", "MKVLAAGI"),
        ("seq_2", "ACGTN"),
        ("seq_3", ""),
    ]


def test_ids_stay_in_file_order_when_there_are_many(opened):
    ids = [f"r{(k * 7919) % 10_000}" for k in range(10_000)]
    fa = opened("".join(f">{name}\nAC\n" for name in ids).encode())
    assert list(fa) == ids
    assert all(fa.row(name) == row for row, name in enumerate(ids))


def test_membership_is_by_id_alone(fa):
    assert "seq_2" in fa
    assert "seq_9" not in fa
    assert "seq_1 first one" not in fa
    assert 1 not in fa
    assert None not in fa


def test_text_that_no_file_can_hold_is_an_unknown_id(fa):
    assert "\ud800" not in fa
    with pytest.raises(KeyError):
        fa["\ud800"]
    with pytest.raises(KeyError):
        fa.fetch("\ud800")


def test_get_gives_the_default_for_an_unknown_id(fa):
    assert fa.get("seq_2").sequence == "ACGTN"
    assert fa.get("seq_9") is None
    assert fa.get("seq_9", 7) == 7


def test_two_handles_are_two_handles(write):
    path = write(FILE)
    one, two = seekset.Fasta(path), seekset.Fasta(path)
    assert one == one  # noqa: PLR0124
    assert one != two
    assert len({one, two}) == 2


def test_records_are_found_by_row_as_in_a_list(fa):
    assert [fa[row].id for row in (0, 2, -1, -3)] == ["seq_1", "seq_3", "seq_3", "seq_1"]
    assert fa[np.int64(1)].id == "seq_2"


@pytest.mark.parametrize("row", [3, -4, 10**18, 2**63, -(2**63) - 1, 2**70])
def test_a_row_out_of_range_is_an_index_error(fa, row):
    with pytest.raises(IndexError):
        fa[row]


def test_the_message_of_a_row_out_of_range_says_how_many_there_are(fa):
    with pytest.raises(IndexError, match=r"row -4 is out of range: there are 3 rows"):
        fa[-4]


@pytest.mark.parametrize("key", [1.0, None, True, b"seq_1", slice(0, 1)])
def test_other_keys_are_type_errors(fa, key):
    with pytest.raises(TypeError):
        fa[key]


def test_rows_of_ids_and_of_row_numbers(fa):
    assert (fa.row("seq_2"), fa.row(-1)) == (1, 2)
    assert fa.rows(["seq_3", "seq_1"]).tolist() == [2, 0]
    assert fa.rows(["seq_3", 0]).tolist() == [2, 0]
    assert fa.rows(np.array(["seq_3", "seq_1"])).tolist() == [2, 0]
    assert fa.rows(("seq_3",)).dtype == np.int64
    assert [fa[row].id for row in fa.rows([0, -1])] == ["seq_1", "seq_3"]


@pytest.mark.parametrize("rows", ["seq_1", [0.0], [True], np.array([1.5])])
def test_rows_that_are_neither_ids_nor_integers_are_type_errors(fa, rows):
    with pytest.raises(TypeError):
        fa.rows(rows)


def test_rows_in_two_dimensions_are_refused(fa):
    with pytest.raises(ValueError, match="one dimension"):
        fa.rows([[0, 1], [1, 0]])


def test_lengths_are_a_view_of_the_index(fa):
    lengths = fa.lengths
    assert lengths.tolist() == [8, 5, 0]
    assert (lengths.dtype.kind in "iu", lengths.itemsize) == (True, 8)
    with pytest.raises(ValueError, match="read-only"):
        lengths[0] = 1


def test_path_and_index_path(opened, tmp_path):
    fa = opened(FILE)
    assert fa.path == tmp_path / "x.fa"
    assert fa.index_path == tmp_path / "x.fa.sidx"


def test_a_path_may_be_text(write):
    assert seekset.Fasta(str(write(FILE))).fetch("seq_2") == "ACGTN"


def test_repr_names_the_file_and_the_record(fa):
    assert repr(fa) == f"<Fasta {str(fa.path)!r}, 3 records>"
    assert repr(fa[0]) == "<FastaRecord 'seq_1', 8 letters>"


# --- records --------------------------------------------------------------------------------------------------------


def test_a_record_knows_its_id_description_length_and_letters(fa):
    record = fa["seq_1"]
    assert (record.id, record.description, len(record), record.sequence) == ("seq_1", "seq_1 first one", 8, "MKVLAAGI")
    assert str(record) == "MKVLAAGI"
    assert list(record) == list("MKVLAAGI")
    assert record.row == 0


def test_positions_of_a_record_are_those_of_a_str(fa):
    assert [fa["seq_1"][at] for at in (0, 4, 5, 7, -1, -8)] == ["M", "A", "A", "I", "I", "M"]
    assert fa["seq_1"][np.int32(1)] == "K"


@pytest.mark.parametrize("at", [8, -9, 2**70])
def test_a_position_out_of_range_is_an_index_error(fa, at):
    with pytest.raises(IndexError):
        fa["seq_1"][at]


@pytest.mark.parametrize(
    "cut",
    [
        slice(None),
        slice(2, 6),
        slice(4, 6),
        slice(-3, None),
        slice(6, 2),
        slice(3, 3),
        slice(5, 1000),
        slice(100, 200),
        slice(-100, 3),
        slice(None, None, -1),
        slice(None, None, 3),
        slice(6, 1, -2),
        slice(1, 6, -2),
        slice(2**70, None, -(2**70)),
        slice(-(2**70), 2**70),
    ],
)
def test_slices_of_a_record_are_those_of_a_str(fa, cut):
    assert fa["seq_1"][cut] == "MKVLAAGI"[cut]
    assert fa["seq_3"][cut] == ""


def test_a_step_of_zero_is_refused_as_by_a_str(fa):
    with pytest.raises(ValueError, match="zero"):
        fa["seq_1"][::0]


def test_an_empty_record_is_a_record(fa):
    record = fa["seq_3"]
    assert (len(record), record.sequence, list(record), record.reverse_complement()) == (0, "", [], "")
    with pytest.raises(IndexError):
        record[0]


def test_reverse_complement_has_all_iupac_codes_in_both_cases(opened):
    record = opened(b">a\nACGTUNRY\nSWKMBDHV\nacgtunry\nswkmbdhv\n*-.X\n")["a"]
    assert record.reverse_complement() == "X.-*bdhvkmwsrynaacgtBDHVKMWSRYNAACGT"


def test_reverse_complement_of_a_part(fa):
    record = fa["seq_2"]
    assert record.reverse_complement() == "NACGT"
    assert record.reverse_complement(1, 3) == "CG"
    assert record.reverse_complement(1) == "NACG"
    assert record.reverse_complement(-2) == "NA"
    assert record.reverse_complement(0, 100) == "NACGT"
    assert record.reverse_complement(3, 1) == ""


def test_the_function_reverse_complement_is_that_of_the_records():
    assert seekset.reverse_complement("ACGTURYSWKMBDHVN acgt-*") == "*-acgt NBDHVKMWSRYAACGT"
    assert seekset.reverse_complement("") == ""
    with pytest.raises(TypeError, match="ASCII"):
        seekset.reverse_complement("é")


# --- fetch ----------------------------------------------------------------------------------------------------------


def test_fetch_is_0_based_and_half_open(fa):
    assert fa.fetch("seq_1", 4, 6) == "AA"
    assert fa.fetch("seq_1", 0, 1) == "M"
    assert fa.fetch("seq_1") == "MKVLAAGI"
    assert fa.fetch("seq_1", 5) == "AGI"
    assert fa.fetch(1, 1, 3) == "CG"
    assert fa.fetch(-2, 1, 3) == "CG"


@pytest.mark.parametrize("end", [8, 9, 2**63, 2**64, 2**70])
def test_fetch_is_cut_where_the_record_ends(fa, end):
    assert fa.fetch("seq_1", 5, end) == "AGI"


@pytest.mark.parametrize("start, end", [(8, 9), (8, None), (100, 200), (2**63, None), (2**70, 2**71), (5, 5), (6, 2)])
def test_fetch_of_nothing_is_empty(fa, start, end):
    assert fa.fetch("seq_1", start, end) == ""


@pytest.mark.parametrize("start, end", [(-1, None), (0, -1), (-3, -1)])
def test_fetch_does_not_count_from_the_end(fa, start, end):
    with pytest.raises(ValueError, match="not negative"):
        fa.fetch("seq_1", start, end)


def test_fetch_many_gives_the_order_asked(fa):
    assert fa.fetch_many(["seq_2", "seq_1", "seq_2"]) == ["ACGTN", "MKVLAAGI", "ACGTN"]
    assert fa.fetch_many([2, 1, -3]) == ["", "ACGTN", "MKVLAAGI"]
    assert fa.fetch_many(np.array([1, 1], dtype=np.uint16)) == ["ACGTN", "ACGTN"]
    assert fa.fetch_many([]) == []


def test_fetch_many_refuses_what_is_not_there(fa):
    with pytest.raises(KeyError):
        fa.fetch_many(["seq_1", "seq_9"])
    with pytest.raises(IndexError):
        fa.fetch_many([0, 3])


def asked(fa, keys):
    try:
        return fa.fetch_many(keys)
    except TypeError:
        return "refused"


def test_an_iterator_of_keys_is_read_or_refused_but_never_taken_for_nothing(fa):
    assert asked(fa, (name for name in ["seq_2", "seq_1"])) in (["ACGTN", "MKVLAAGI"], "refused")
    assert asked(fa, (row for row in [1, 0])) in (["ACGTN", "MKVLAAGI"], "refused")


def test_fetch_many_takes_a_list_and_not_one_id(fa):
    with pytest.raises(TypeError, match="list"):
        fa.fetch_many("seq_1")


# --- duplicates -----------------------------------------------------------------------------------------------------

TWINS = b">a 1\nAC\n>b\nGG\n>a 2\nTT\n"


def test_duplicate_ids_are_refused_with_both_places(write):
    with pytest.raises(seekset.DuplicateIdError) as error:
        seekset.Fasta(write(TWINS))
    message = str(error.value)
    assert "x.fa" in message
    assert "id 'a'" in message
    assert "record 0, line 1, byte 0" in message
    assert "record 2, line 5, byte 14" in message


def test_the_earliest_duplicate_is_named(write):
    with pytest.raises(seekset.DuplicateIdError, match=r"'b'.*line 3.*line 5"):
        seekset.Fasta(write(b">a\nA\n>b\nA\n>b\nA\n>a\nA\n"))


def test_duplicates_are_refused_again_when_the_index_is_there(write):
    path = write(TWINS)
    assert len(seekset.Fasta(path, duplicates="first")) == 3
    with pytest.raises(seekset.DuplicateIdError):
        seekset.Fasta(path, rebuild=False)


def test_duplicates_first_means_the_first_and_rows_reach_the_others(opened):
    fa = opened(TWINS, duplicates="first")
    assert list(fa) == ["a", "b", "a"]
    assert fa["a"].sequence == "AC"
    assert fa.row("a") == 0
    assert fa[2].description == "a 2"
    assert fa.fetch_many([2, 0]) == ["TT", "AC"]


def test_many_duplicates_mean_the_first(opened):
    fa = opened(b">x\nA\n" + b">same\nC\n" * 500 + b">same 2\nG\n", duplicates="first")
    assert fa.row("same") == 1
    assert len(fa) == 502


# --- arguments ------------------------------------------------------------------------------------------------------


def test_options_that_do_not_exist_are_refused(write):
    path = write(FILE)
    with pytest.raises(ValueError, match="duplicates"):
        seekset.Fasta(path, duplicates="last")
    with pytest.raises(ValueError, match="io"):
        seekset.Fasta(path, io="magic")


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_both_ways_to_read_give_the_same(opened, io):
    fa = opened(FILE, io=io)
    assert [(r.description, r.sequence) for r in fa.values()] == [
        ("seq_1 first one", "MKVLAAGI"),
        ("seq_2", "ACGTN"),
        ("seq_3 an empty one", ""),
    ]
    assert bytes(fa.gather([1, 0]).values) == b"ACGTNMKVLAAGI"


def test_the_package_lists_what_it_offers():
    assert seekset.__all__ == sorted(seekset.__all__)
    assert {name for name in seekset.__all__ if getattr(seekset, name, None) is None} == set()
    assert set(seekset.__all__) <= set(dir(seekset))
    assert seekset.__version__
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = seekset.nothing_of_the_kind


def test_a_path_need_not_be_utf_8(write):
    path = write(FILE, "\udcff.fa")
    assert seekset.Fasta(path).fetch("seq_2") == "ACGTN"
    assert path.with_name("\udcff.fa.sidx").exists()


def test_a_relative_path_works(write, monkeypatch):
    monkeypatch.chdir(write(FILE).parent)
    fa = seekset.Fasta("x.fa")
    assert fa.fetch("seq_2") == "ACGTN"
    assert fa.index_path == Path("x.fa.sidx")


def test_letters_are_in_a_record_as_in_a_str(opened):
    record = opened(b">a\nMKV\nLA\n>b\n")["a"]
    for letters in ("", "M", "VL", "MKVLA", "LM", "mk", "MKVLAM", "\n", "é"):
        assert (letters in record) == (letters in "MKVLA")
    for wrong in (b"M", 1, None, ["M"]):
        with pytest.raises(TypeError, match=f"look for a str in it, not for {type(wrong).__name__}"):
            wrong in record  # noqa: B015 (it raises)


@pytest.mark.parametrize("wrong", ["a", 1.5, None, (0, 1)])
def test_a_position_that_is_no_integer_is_a_type_error(opened, wrong):
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        opened(b">a\nMKV\n")["a"][wrong]


def test_a_record_is_equal_to_itself_and_so_among_the_values_and_items(opened, write):
    fa = opened(b">a\nMKV\n>b\nMKV\n")
    assert fa["a"] == fa[0]
    assert fa["a"] != fa["b"]
    assert fa["a"] != "MKV"
    assert fa["a"] in fa.values()
    assert ("b", fa["b"]) in fa.items()
    assert ("b", fa["a"]) not in fa.items()
    assert {fa["a"], fa[0], fa["b"]} == {fa["b"], fa["a"]}
    assert seekset.Fasta(write(b">a\nMKV\n", "y.fa"))["a"] not in fa.values()
