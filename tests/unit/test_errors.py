"""Every kind of error, as Python sees it: one case for each row of rust/py/src/errors.rs, and for seekset.errors."""

import errno
import os
import pickle

import pytest

import seekset
from seekset import errors
from seekset.shards import PickleShards

GOOD = b">seq_1\nMKV\n>seq_2\nMK\n>other\nM\n"


# --- the operating system's -----------------------------------------------------------------------------------------


def test_a_missing_file_is_a_real_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        seekset.Fasta(tmp_path / "missing.fa")
    assert error.value.errno == errno.ENOENT
    assert os.fspath(error.value.filename) == str(tmp_path / "missing.fa")
    assert error.value.strerror == os.strerror(errno.ENOENT)


def test_the_message_of_a_missing_file_is_that_of_open(tmp_path):
    path = str(tmp_path / "missing.fa")
    with pytest.raises(FileNotFoundError) as expected:
        open(path)  # noqa: PTH123, SIM115
    with pytest.raises(FileNotFoundError) as error:
        seekset.Fasta(path)
    assert str(error.value) == str(expected.value)


def test_a_missing_file_behind_an_index_is_a_file_not_found_error_with_the_index(write, tmp_path):
    index = seekset.SequenceIndex.create([write(GOOD)], tmp_path / "all.sidx")
    (tmp_path / "x.fa").unlink()
    with pytest.raises(FileNotFoundError) as error:
        index.check_files()
    assert error.value.errno == errno.ENOENT
    assert os.fspath(error.value.filename) == str(tmp_path / "x.fa")
    assert error.value.strerror == f"No such file or directory; the index {tmp_path / 'all.sidx'} is about it"


def test_a_folder_is_a_real_is_a_directory_error(tmp_path):
    for io in ("mmap", "pread"):
        with pytest.raises(IsADirectoryError) as error:
            seekset.Fasta(tmp_path, io=io)
        assert error.value.errno == errno.EISDIR
        assert os.fspath(error.value.filename) == str(tmp_path)


def test_a_path_below_a_file_is_a_real_not_a_directory_error(write):
    with pytest.raises(NotADirectoryError):
        seekset.Fasta(write(GOOD) / "x.fa")


def test_a_path_with_a_nul_is_refused(tmp_path):
    with pytest.raises((OSError, ValueError), match=r"(?i)nul"):
        seekset.Fasta(f"{tmp_path}/a\0b")


def test_a_file_that_may_not_be_read_is_a_real_permission_error(write, run, tmp_path):
    tmp_path.chmod(0o755)
    write(GOOD).chmod(0)
    printed = run("""
        import os, seekset
        seekset.Fasta
        if os.geteuid() == 0:  # root may read everything, so be nobody
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        for work in (seekset.Fasta, seekset.faidx, seekset.read_fai):
            try:
                work("x.fa")
            except PermissionError as error:
                print(error.errno, error.filename)
    """)
    assert printed == f"{errno.EACCES} x.fa\n" * 3


# --- seekset's own --------------------------------------------------------------------------------------------------


def test_bytes_that_are_no_fasta_are_a_format_error(write):
    with pytest.raises(seekset.FormatError, match=r"x\.fa: line 1, byte 0: expected '>'.*found 'A'"):
        seekset.Fasta(write(b"ACGT\n"))


def test_a_checksum_that_is_wrong_is_a_corrupt_record_error(write, bgzip):
    packed = bytearray(bgzip.bytes(GOOD))
    packed[-28 - 8] ^= 1  # the checksum stands before the size, and that before the end mark
    with pytest.raises(seekset.CorruptRecordError, match=r"x\.fa\.gz: .*byte 0: .*checksum"):
        seekset.Fasta(write(packed, "x.fa.gz"))


def test_an_index_that_does_not_fit_is_a_stale_index_error(write):
    with pytest.raises(seekset.StaleIndexError, match=r"x\.fa: its index .*x\.fa\.sidx can't be used: there is none"):
        seekset.Fasta(write(GOOD), rebuild=False)


def test_a_pickle_that_is_none_is_a_format_error(write):
    path = write(b"no pickle", "x.pkl")
    with pytest.raises(errors.FormatError, match=r"^.*x\.pkl: expected a pickle, but it can't be read: "):
        PickleShards().read(path)


def test_what_takes_more_memory_than_is_allowed_is_a_memory_limit_error(write):
    path = write(pickle.dumps([b"a" * 100]), "x.pkl")
    with pytest.raises(errors.MemoryLimitError, match=r"^.*x\.pkl: it has more than 99 bytes inflated"):
        PickleShards(max_bytes=99).read(path)


def test_an_id_of_two_records_is_a_duplicate_id_error(write):
    with pytest.raises(seekset.DuplicateIdError, match=r"x\.fa: id 'a' names two records"):
        seekset.Fasta(write(b">a\nA\n>a\nC\n"))


def test_an_id_of_two_records_of_two_files_is_a_duplicate_id_error(write):
    files = [write(b">a\nAC\n", "x.fa"), write(b">b\nA\n>a\nC\n", "y.fa")]
    message = (
        r"id 'a' names two records, one in .*x\.fa: record 0, byte 0, and one in .*y\.fa: record 1, byte 5; rename"
    )
    with pytest.raises(seekset.DuplicateIdError, match=message):
        seekset.SequenceIndex.create(files, duplicates="error")


def test_a_contig_that_is_there_twice_is_a_duplicate_id_error(tmp_path):
    with pytest.raises(seekset.DuplicateIdError, match="contig 'a' is there twice, in rows 0 and 1"):
        seekset.create_sample_database("s", [("a", "AC"), ("a", "GT")], tmp_path)


def test_a_feature_that_is_not_what_was_asked_for_is_a_mismatch_error():
    payload = seekset.encode_example({"x": 1})
    with pytest.raises(seekset.MismatchError, match=r"^<bytes>: record 0: feature 'x': expected float values"):
        seekset.decode_examples([payload], {"x": "float32"})


def test_options_that_do_not_fit_the_data_are_a_mismatch_error(opened):
    with pytest.raises(seekset.MismatchError, match="letter 9 of row 0, which has 3 letters"):
        opened(GOOD).gather_windows([0], [9], [1])


def test_a_letter_that_a_table_does_not_know_is_a_mismatch_error(opened):
    with pytest.raises(seekset.MismatchError, match=r"record 'seq_2' \(row 1\), position 1: the letter 'K'"):
        opened(GOOD).gather([1], tokens=seekset.TokenTable({"M": 1}))


def test_a_row_out_of_range_is_an_index_error(opened):
    with pytest.raises(IndexError, match="row 3 is out of range: there are 3 rows, 0 to 2"):
        opened(GOOD)[3]
    with pytest.raises(IndexError, match="row 1 is out of range: there is one row, row 0"):
        opened(b">a\nMK\n")[1]
    with pytest.raises(IndexError, match="row 0 is out of range: there are no rows"):
        opened(b"")[0]


def test_an_interrupt_is_a_keyboard_interrupt(write):
    def progress(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seekset.Fasta(write(GOOD), progress=progress)


# --- unknown ids ----------------------------------------------------------------------------------------------------


def test_an_unknown_id_is_a_key_error_with_the_nearest_ids(opened, tmp_path):
    with pytest.raises(KeyError) as error:
        opened(GOOD)["seq_7"]
    assert isinstance(error.value, seekset.UnknownIdError)
    assert str(error.value) == (
        f"{tmp_path / 'x.fa'}: there is no record with the id 'seq_7'; the nearest are 'seq_1', 'seq_2'"
    )
    assert error.value.unknown == "seq_7"


@pytest.mark.parametrize("ask", ["fetch", "row", "__getitem__"])
def test_every_way_to_ask_names_the_nearest_ids(opened, ask):
    with pytest.raises(KeyError, match="'seq_1', 'seq_2'"):
        getattr(opened(GOOD), ask)("seq_1x")


@pytest.mark.parametrize("ask", ["fetch_many", "gather", "rows"])
def test_every_way_to_ask_for_many_names_the_nearest_ids(opened, ask):
    with pytest.raises(KeyError, match="'seq_1', 'seq_2'"):
        getattr(opened(GOOD), ask)(["seq_2", "seq_1x"])


def test_at_most_three_nearest_ids_are_named_and_the_nearest_first(opened):
    fa = opened(b"".join(b">chromosome_%d\nA\n" % k for k in range(7)) + b">chromosome_x7\nA\n")
    with pytest.raises(KeyError) as error:
        fa["chromosome_x9"]
    assert str(error.value).count("chromosome_") == 4
    assert "nearest are 'chromosome_x7'," in str(error.value)


def test_nothing_is_named_where_nothing_is_near(opened):
    for data in (GOOD, b""):
        with pytest.raises(KeyError) as error:
            opened(data)["Drosophila"]
        assert str(error.value).endswith("there is no record with the id 'Drosophila'")


def test_an_unknown_id_error_keeps_its_message_when_pickled(opened):
    fa = opened(GOOD)
    with pytest.raises(KeyError) as error:
        fa["seq_7"]
    again = pickle.loads(pickle.dumps(error.value))
    fa.close()
    fa.path.unlink()
    assert type(again) is seekset.UnknownIdError
    assert str(again).endswith("the nearest are 'seq_1', 'seq_2'")
    assert (again.unknown, again.where) == ("seq_7", str(fa.path))


# --- the classes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, parents",
    [
        (errors.FormatError, [errors.SeeksetError, ValueError]),
        (errors.CorruptRecordError, [errors.FormatError]),
        (errors.StaleIndexError, [errors.SeeksetError]),
        (errors.DuplicateIdError, [errors.SeeksetError, ValueError]),
        (errors.MismatchError, [errors.SeeksetError, ValueError]),
        (errors.MemoryLimitError, [errors.SeeksetError]),
        (errors.UnknownIdError, [errors.SeeksetError, KeyError]),
        (errors.SeeksetWarning, [UserWarning]),
    ],
)
def test_errors_are_what_their_name_says_and_what_python_would_raise(error, parents):
    assert all(issubclass(error, parent) for parent in parents)
    assert getattr(seekset, error.__name__) is error


def test_all_error_classes_are_public():
    assert set(errors.__all__) <= set(seekset.__all__)


def test_errors_survive_pickling(write):
    with pytest.raises(seekset.FormatError) as error:
        seekset.Fasta(write(b"ACGT\n"))
    again = pickle.loads(pickle.dumps(error.value))
    assert type(again) is seekset.FormatError
    assert str(again) == str(error.value)
