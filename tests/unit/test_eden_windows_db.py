"""Window databases: what is written equals the rule spelled out, what is read equals what SQLite says."""

import random
import sqlite3

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seekset
from eden_stores import read_windows, write_sample, write_windows
from seekset import _core, errors
from seekset.eden import WindowReport


@pytest.fixture
def contigs(tmp_path):
    """`contigs({"id": 100})` is a Parquet file with these lengths."""

    def contigs(lengths, name="contigs.parquet"):
        path = tmp_path / name
        pl.DataFrame({"contig_id": list(lengths), "length": list(lengths.values())}).write_parquet(path)
        return path

    return contigs


def spelled_out(lengths, size, stride, threshold):
    """All windows by the rule, in the order of ids."""
    rows = []
    for contig, length in sorted(lengths.items(), key=lambda item: item[0].encode()):
        count = 1 if length < size else 1 + (length - size) // stride
        rows += [(contig, k) for k in range(count) if min(size, length - k * stride) >= threshold]
    return [(number, *row) for number, row in enumerate(rows)]


# --- ids and counts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "contig, sample",
    [("BCR__ECT-A-B-C__CT1-1", "A.B.C"), ("BCR__EXT-SAMPLE1__CT1-1", "SAMPLE1"), ("a__b-ü", "ü"), ("__-x", "x")],
)
def test_ids_tell_their_sample(contig, sample):
    assert seekset.extract_sample_id(contig) == sample
    assert ".".join(contig.split("__")[1].split("-")[1:]) == sample


@pytest.mark.parametrize("contig", ["", "chr1", "a-b", "a__b", "a__b__c-d", "a__b-__c"])
def test_ids_of_another_form_are_named(contig):
    with pytest.raises(ValueError, match="names no sample: expected the form") as error:
        seekset.extract_sample_id(contig)
    assert repr(contig) in str(error.value)


@given(st.text("a_-.", max_size=20))
def test_samples_are_those_of_the_formula(contig):
    parts = contig.split("__")
    expected = ".".join(parts[1].split("-")[1:]) if len(parts) > 1 else ""
    assert (_core.sample_of(contig) or "") == expected


def test_windows_are_counted_by_the_rule():
    lengths = [0, 1, 8191, 8192, 16183, 16184, 24175, 24176]
    assert [seekset.compute_num_windows(length) for length in lengths] == [1, 1, 1, 1, 1, 2, 2, 3]
    assert seekset.compute_num_windows(100, window_size=10, stride=1) == 91


@pytest.mark.parametrize("arguments", [(-1,), (10, 0), (10, 5, 0), (10, -5)])
def test_counts_that_can_not_be_meant_are_refused(arguments):
    with pytest.raises(ValueError, match="must be at least"):
        seekset.compute_num_windows(*arguments)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_window_database_has_the_schema_keys_and_order_of_eden(contigs, tmp_path):
    lengths = {"b": 0, "a__x-S__10": 16_184, "a__x-S__9": 16_183, "B": 8192, "ü": 8191, "a": 1}
    report = seekset.precompute_window_database(contigs(lengths), tmp_path / "train.sqlite")
    assert report == WindowReport(tmp_path / "train.sqlite", windows=7, sequences=6, left_out=0)
    rows, metadata = read_windows(tmp_path / "train.sqlite")
    assert rows == [
        (0, "B", 0),
        (1, "a", 0),
        (2, "a__x-S__10", 0),
        (3, "a__x-S__10", 1),
        (4, "a__x-S__9", 0),
        (5, "b", 0),
        (6, "ü", 0),
    ]
    assert metadata == {
        "window_size": 8192,
        "stride": 7992,
        "window_min_length_threshold": 0,
        "total_windows": 7,
        "distinct_sequences": 6,
    }
    connection = sqlite3.connect(tmp_path / "train.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL").fetchall() == [
        ("idx_sequence_id",)
    ]
    columns = "SELECT name, type, \"notnull\", pk FROM pragma_table_info('{}')"
    assert connection.execute(columns.format("window_mappings")).fetchall() == [
        ("window_idx", "INTEGER", 0, 1),
        ("sequence_id", "TEXT", 1, 0),
        ("window_in_seq_idx", "INTEGER", 1, 0),
    ]
    assert connection.execute(columns.format("metadata")).fetchall() == [
        ("key", "TEXT", 0, 1),
        ("value", "INTEGER", 1, 0),
    ]
    connection.close()


@given(
    lengths=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6), st.integers(0, 60)
    ),
    size=st.integers(1, 20),
    stride=st.integers(1, 25),
    threshold=st.integers(0, 22),
)
def test_windows_are_those_of_the_rule_in_the_order_of_ids(tmp_path_factory, lengths, size, stride, threshold):
    path = tmp_path_factory.mktemp("rule") / "w.sqlite"
    writer = _core.EdenWindowsWriter(path, window_size=size, stride=stride, shortest=threshold)
    writer.add(list(lengths), np.array(list(lengths.values()), dtype=np.int64))
    expected = spelled_out(lengths, size, stride, threshold)
    kept = {contig for _, contig, _ in expected}
    assert writer.finish() == (len(expected), len(kept), len(lengths) - len(kept))
    rows, metadata = read_windows(path)
    assert rows == expected
    assert (metadata["total_windows"], metadata["distinct_sequences"]) == (len(expected), len(kept))
    windows = _core.EdenWindows(path)
    order = np.array(random.Random(0).sample(range(len(expected)), len(expected)), dtype=np.int64)
    ids, places = windows.lookup(order)
    assert list(zip(order.tolist(), ids, places.tolist(), strict=True)) == [expected[at] for at in order]


def test_other_columns_may_be_named(tmp_path):
    pq.write_table(pa.table({"x": [1.5], "name": ["a"], "bases": pa.array([20], pa.uint16())}), tmp_path / "t.parquet")
    report = seekset.precompute_window_database(
        tmp_path / "t.parquet", tmp_path / "w.sqlite", 8, 4, id_column="name", length_column="bases"
    )
    assert report.windows == 4


def test_ids_may_be_stored_as_a_dictionary_and_in_many_row_groups(tmp_path):
    ids = [f"c{k:05d}" for k in range(5000)]
    table = pa.table({"contig_id": pa.array(ids).dictionary_encode(), "length": range(5000)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    report = seekset.precompute_window_database(tmp_path / "t.parquet", tmp_path / "w.sqlite", 1000, 900)
    assert report.windows == len(spelled_out(dict(zip(ids, range(5000), strict=True)), 1000, 900, 0))


@pytest.mark.parametrize(
    "columns, error, match",
    [
        ({"id": ["a"], "length": [1]}, errors.MismatchError, "expected a column 'contig_id', found id, length"),
        ({"contig_id": ["a"], "len": [1]}, errors.MismatchError, "expected a column 'length', found contig_id, len"),
        ({"contig_id": ["a"], "length": [1.5]}, errors.MismatchError, "whole numbers in column 'length', found double"),
        ({"contig_id": ["a", "b"], "length": [1, None]}, errors.MismatchError, "row 1: column 'length' has no value"),
        ({"contig_id": ["a", None], "length": [1, 2]}, errors.MismatchError, "row 1: column 'contig_id' has no value"),
        ({"contig_id": ["a", "b"], "length": [1, -2]}, errors.MismatchError, "row 1: contig 'b' has the length -2"),
        (
            {"contig_id": ["b", "a", "b"], "length": [1, 2, 3]},
            errors.DuplicateIdError,
            "contig 'b' is .* in rows 0 and 2",
        ),
    ],
)
def test_tables_that_can_not_be_meant_are_refused_and_leave_what_was_there(tmp_path, columns, error, match):
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    old = write_windows(tmp_path / "w.sqlite", [("a", 0)])
    before = old.read_bytes()
    with pytest.raises(error, match=match) as raised:
        seekset.precompute_window_database(tmp_path / "t.parquet", old)
    assert str(tmp_path / "t.parquet") in str(raised.value)
    assert old.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet", "w.sqlite"]


def test_a_file_that_is_no_parquet_is_a_format_error(tmp_path, write):
    with pytest.raises(errors.FormatError, match="not a Parquet file"):
        seekset.precompute_window_database(write(b"contig_id,length\na,1\n"), tmp_path / "w.sqlite")
    with pytest.raises(FileNotFoundError):
        seekset.precompute_window_database(tmp_path / "missing.parquet", tmp_path / "w.sqlite")


def test_an_old_window_database_is_replaced_but_no_other_file(contigs, tmp_path):
    table = contigs({"new": 5})
    old = write_windows(tmp_path / "w.sqlite", [("old", 0)] * 5000)
    seekset.precompute_window_database(table, old)
    assert read_windows(old)[0] == [(0, "new", 0)]
    sample = write_sample(tmp_path / "s.sqlite", [("a", "ACGT")])
    for other in (table, sample):
        before = other.read_bytes()
        with pytest.raises(errors.MismatchError, match="there is a file already, and it is no window database"):
            seekset.precompute_window_database(table, other)
        assert other.read_bytes() == before
    with pytest.raises(IsADirectoryError):
        seekset.precompute_window_database(table, tmp_path)
    with pytest.raises(FileNotFoundError, match="make it first"):
        seekset.precompute_window_database(table, tmp_path / "no" / "w.sqlite")
    with pytest.raises(IsADirectoryError) as error:
        seekset.precompute_window_database(tmp_path, old)
    assert error.value.filename == str(tmp_path)


@pytest.mark.parametrize("size, stride, threshold", [(10, 9, 0), (10, 10, 5), (10, 25, 0), (8, 7, 8), (2, 3, 0)])
def test_a_stride_that_leaves_letters_out_is_warned_of(contigs, tmp_path, size, stride, threshold):
    lengths = {f"c{length:02d}": length for length in range(60)}
    content = size - 2 if size > 2 else size  # bos and eos take the place of two letters
    rows = spelled_out(lengths, size, stride, threshold)
    seen = {
        (contig, at) for _, contig, k in rows for at in range(k * stride, min(k * stride + content, lengths[contig]))
    }
    unseen = sum(lengths.values()) - len(seen)
    match = rf"^{unseen} of 1770 letters \(.* %\) are in no window: the stride of {stride} is larger than .* {content} "
    with pytest.warns(seekset.SeeksetWarning, match=match) as warned:
        seekset.precompute_window_database(contigs(lengths), tmp_path / "w.sqlite", size, stride, threshold)
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("size, stride, threshold", [(8192, 7992, 0), (8192, 8190, 0), (10, 8, 0), (10, 99, 11)])
def test_letters_that_only_the_ends_of_contigs_lose_are_not(contigs, tmp_path, size, stride, threshold):
    """A warning would be an error here."""
    table = contigs({"a": 8191, "b": 20_000, "c": 100_001})
    seekset.precompute_window_database(table, tmp_path / "w.sqlite", size, stride, threshold)


def test_windows_as_far_apart_as_their_content_leave_as_many_letters_out_as_the_dataset_reads(contigs, tmp_path):
    from seekset.datasets import ShardedEdenDataset

    letters = "".join(random.Random(3).choices("ACGT", k=53))
    seekset.create_sample_database("S", [("a", letters)], tmp_path / "dbs")
    with pytest.warns(seekset.SeeksetWarning, match=r"^13 of 53 letters"):
        seekset.precompute_window_database(contigs({"a": 53}), tmp_path / "w.sqlite", 10, 10)
    ds = ShardedEdenDataset("dna", tmp_path / "dbs", tmp_path / "w.sqlite", seq_length=10, stride=10)
    read = [bytes(ds[k]["tokens"][1:-1].tolist()).decode() for k in range(len(ds))]
    assert read == [letters[start : start + 8] for start in range(0, 50, 10)]
    assert sum(map(len, read)) == 53 - 13


def test_what_can_not_be_meant_is_refused(contigs, tmp_path):
    for options in ({"window_size": 0}, {"stride": 0}, {"window_min_length_threshold": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} must be at least"):
            seekset.precompute_window_database(contigs({"a": 1}), tmp_path / "w.sqlite", **options)
    writer = _core.EdenWindowsWriter(tmp_path / "w.sqlite", window_size=1, stride=1)
    with pytest.raises(ValueError, match="one length"):
        writer.add(["a"], np.zeros(2, np.int64))
    writer.finish()
    with pytest.raises(ValueError, match="has been finished"):
        writer.finish()


def test_progress_is_told_and_can_stop_the_work(contigs, tmp_path):
    table, told = contigs({"a": 3_000_000, "b": 5}), []
    report = seekset.precompute_window_database(
        table, tmp_path / "w.sqlite", 10, 4, progress=lambda done, total: told.append((done, total))
    )
    assert told
    assert {total for _, total in told} == {report.windows}
    before = (tmp_path / "w.sqlite").read_bytes()

    def stop(_done, _total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        seekset.precompute_window_database(table, tmp_path / "w.sqlite", 10, 3, progress=stop)
    assert (tmp_path / "w.sqlite").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contigs.parquet", "w.sqlite"]


# --- reading ----------------------------------------------------------------------------------------------------------


def test_windows_are_looked_up_in_the_order_asked(tmp_path, threads):
    rows = [(f"c{k // 7}", k % 7) for k in range(1000)]
    windows = _core.EdenWindows(write_windows(tmp_path / "w.sqlite", rows))
    assert len(windows) == 1000
    assert windows.distinct_sequences() == 143
    asked = np.random.default_rng(threads).integers(0, 1000, 500)
    ids, places = windows.lookup(asked)
    assert list(zip(ids, places.tolist(), strict=True)) == [rows[at] for at in asked]
    assert windows.lookup(np.zeros(0, np.int64))[0] == []


def test_counts_come_from_the_metadata(tmp_path):
    told = {"total_windows": 2, "distinct_sequences": 1, "window_size": 5, "stride": 3, "of someone else": -7}
    windows = _core.EdenWindows(write_windows(tmp_path / "w.sqlite", [("a", 0), ("a", 1)], told))
    assert windows.metadata == told
    assert (len(windows), windows.distinct_sequences()) == (2, 1)


def test_a_number_that_is_no_window_is_an_index_error(tmp_path):
    windows = _core.EdenWindows(write_windows(tmp_path / "w.sqlite", [("a", 0), ("a", 1)]))
    for number in (-1, 2, 1 << 40):
        with pytest.raises(IndexError, match=f"row {number} is out of range: there are 2 rows"):
            windows.lookup(np.array([0, number]))
    windows = _core.EdenWindows(write_windows(tmp_path / "v.sqlite", [("a", 0)], {"total_windows": 5}))
    with pytest.raises(errors.FormatError, match="expected the windows 0 to 4, as the metadata say, found no window 3"):
        windows.lookup(np.array([3]))


@pytest.mark.parametrize("index", [True, False])
def test_one_contig_of_each_sample_is_found_with_and_without_an_index(tmp_path, index):
    ids = [f"P__x-S{sample}__c{k}" for sample in range(20) for k in range(50)]
    ids += ["plain", "other", "", "P__y-S1__c1", "Q__x-S1__c1", "P__x-S1", "P__x-S1-more__c", "P__x-S1____c", "a__b"]
    random.Random(0).shuffle(ids)
    path = write_windows(tmp_path / "w.sqlite", [(contig, 0) for contig in ids for _ in range(2)], index=index)
    found = _core.EdenWindows(path).first_of_each_sample()
    pairs = [tuple(contig.split("__")[:2]) for contig in found]
    assert sorted(pairs) == sorted({tuple(contig.split("__")[:2]) for contig in ids})
    assert set(found) <= set(ids)
    assert found == sorted(found)


@given(st.lists(st.text("ab_-`^", max_size=9), max_size=25), st.booleans())
def test_the_first_of_each_sample_is_one_for_each_pair_of_parts(tmp_path_factory, ids, index):
    path = write_windows(tmp_path_factory.mktemp("firsts") / "w.sqlite", [(i, 0) for i in ids], index=index)
    pairs = [tuple(contig.split("__")[:2]) for contig in _core.EdenWindows(path).first_of_each_sample()]
    assert sorted(pairs) == sorted({tuple(contig.split("__")[:2]) for contig in ids})


def test_a_missing_window_database_is_a_real_file_not_found_error(tmp_path):
    windows = _core.EdenWindows(tmp_path / "missing.sqlite")
    for read in (lambda: len(windows), lambda: windows.metadata, lambda: windows.lookup(np.zeros(1, np.int64))):
        with pytest.raises(FileNotFoundError) as error:
            read()
        assert error.value.filename == str(tmp_path / "missing.sqlite")


@pytest.mark.parametrize(
    "script, match",
    [
        ("CREATE TABLE x (y)", r"expected a table metadata\(key, value\), found only x"),
        ("CREATE TABLE metadata (key, value)", r"expected a table window_mappings\(.*\), found only metadata"),
        (
            "CREATE TABLE metadata (key, value); CREATE TABLE window_mappings (window_idx)",
            r"found window_mappings\(window_idx\)",
        ),
    ],
)
def test_another_schema_is_a_format_error(tmp_path, script, match):
    connection = sqlite3.connect(tmp_path / "w.sqlite")
    connection.executescript(script)
    connection.close()
    with pytest.raises(errors.FormatError, match=match):
        len(_core.EdenWindows(tmp_path / "w.sqlite"))


def test_values_of_another_kind_are_format_errors(tmp_path):
    with pytest.raises(errors.FormatError, match="metadata 'stride': expected an integer, found text"):
        _ = _core.EdenWindows(write_windows(tmp_path / "a.sqlite", [], {"stride": "many"})).metadata
    with pytest.raises(errors.FormatError, match="'total_windows': expected no negative number, found -1"):
        len(_core.EdenWindows(write_windows(tmp_path / "b.sqlite", [], {"total_windows": -1})))
    for row in ((b"\xff", 0), ("a", "x"), ("a", -1)):
        windows = _core.EdenWindows(write_windows(tmp_path / f"{row!r}.sqlite", [row]))
        with pytest.raises(errors.FormatError):
            windows.lookup(np.array([0]))


def test_a_damaged_window_database_is_an_error_and_never_another_window(tmp_path):
    rows = [(f"c{k // 7:06d}", k % 7) for k in range(3000)]
    whole = write_windows(tmp_path / "w.sqlite", rows, {"total_windows": 3000}).read_bytes()
    path, asked = tmp_path / "cut.sqlite", np.arange(3000)
    for cut in [*range(0, 120, 7), *range(120, len(whole), len(whole) // 30), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(errors.FormatError):
            _core.EdenWindows(path).lookup(asked)
    for page in range(len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + b"\0" * 4096 + whole[(page + 1) * 4096 :])
        try:
            ids, places = _core.EdenWindows(path).lookup(asked)
        except errors.FormatError:
            continue
        assert list(zip(ids, places.tolist(), strict=True)) == rows


def test_forked_children_look_up_what_their_parent_has_open(run, tmp_path):
    write_windows(tmp_path / "w.sqlite", [(f"c{k}", k) for k in range(500)])
    output = run(
        """
        import multiprocessing
        import numpy as np
        from seekset import _core
        windows = _core.EdenWindows("w.sqlite")

        def look(seed):
            asked = np.random.default_rng(seed).integers(0, 500, 100)
            ids, places = windows.lookup(asked)
            return places.tolist() == asked.tolist() and ids == [f"c{k}" for k in asked]

        assert look(0)
        with multiprocessing.get_context("fork").Pool(3) as pool:
            print(all(pool.map(look, range(20))), look(1))
        """
    )
    assert output == "True True\n"
