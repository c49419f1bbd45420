"""SequenceIndex: many FASTA files as one list, the longest first, in Arrow and in JSON."""

import contextlib
import itertools
import json
import logging
import os
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import seekset
from seekset import SequenceIndex, create_sequence_index, get_worker_indices, load_sequence_index

A = b">a1 one\nMKV\nLA\n>a2\nMK\n>a3\n\n"
B = b">b1\nMKVLAAG\n>\nMK\n>a2\nACDEF\n"

# Id, letters, file and offset of all records of A and B, by length, then file, then row.
EXPECTED = [
    ("b1", "MKVLAAG", "b.fa", 0),
    ("a1", "MKVLA", "a.fa", 0),
    ("a2", "ACDEF", "b.fa", 17),
    ("a2", "MK", "a.fa", 15),
    ("12", "MK", "b.fa", 12),
    ("a3", "", "a.fa", 22),
]


@pytest.fixture
def files(write):
    return [write(A, "a.fa"), write(B, "b.fa")]


@pytest.fixture(params=["both.sidx", "both.json"])
def path(request, tmp_path):
    """The path of an index, in one form and the other."""
    return tmp_path / request.param


@pytest.fixture
def index(files, path):
    create_sequence_index(files, path)
    return SequenceIndex.load(path)


def records(index):
    letters = index.fetch_many(range(len(index)))
    entries = [index.entry(row) for row in range(len(index))]
    return [
        (entry.id, text, os.path.basename(entry.file_path), entry.byte_offset)  # noqa: PTH119 (a str, as documented)
        for entry, text in zip(entries, letters, strict=True)
    ]


def edited(path, change):
    """Rewrite a JSON index as a person would, who has never heard of the Arrow file beside it."""
    data = json.loads(path.read_text())
    changed = change(data)
    path.write_text(json.dumps(data if changed is None else changed))
    return path


# --- order and columns ----------------------------------------------------------------------------------------------


def test_the_longest_comes_first_and_ties_keep_the_order_of_files_and_rows(index):
    assert records(index) == EXPECTED
    assert index.lengths.tolist() == [7, 5, 5, 2, 2, 0]
    assert index.total_tokens == 21
    assert len(index) == 6


def test_ids_that_repeat_across_files_are_kept_apart_by_row(index):
    assert index.ids([2, 3]) == ["a2", "a2"]
    assert index.fetch_many([2, 3]) == ["ACDEF", "MK"]


def test_columns_are_read_only_views(index):
    for column in (index.lengths, index.rows, index.file_numbers, index.byte_offsets):
        assert not column.flags.writeable
        assert not column.flags.owndata
    assert index.file_numbers.tolist() == [1, 0, 1, 0, 1, 0]
    assert index.byte_offsets.tolist() == [offset for *_, offset in EXPECTED]
    assert index.rows.tolist() == [0, 0, 2, 1, 1, 2]


def test_an_entry_is_asked_for_as_python_counts(index, files):
    entry = index.entry(-1)
    assert (entry.sequence_id, entry.id, entry.length) == ("a3", "a3", 0)
    assert entry.file_path == str(files[0])
    assert entry == index.entry(np.int64(5))
    for row in (6, -7):
        with pytest.raises(IndexError, match=f"row {row} is out of range: there are 6 rows, 0 to 5"):
            index.entry(row)
    with pytest.raises(TypeError):
        index.entry(1.5)
    with pytest.raises(AttributeError):
        entry.length = 5


@pytest.mark.parametrize("use", ["ids", "fetch_many"])
def test_rows_out_of_range_are_index_errors(index, use):
    for rows in ([6], [-7], [0, 2**40]):
        with pytest.raises(IndexError, match="out of range"):
            getattr(index, use)(rows)
    assert getattr(index, use)([]) == []


def test_shards_are_strides(index):
    assert index.shard(1, 4).tolist() == [1, 5]
    assert sorted(row for rank in range(9) for row in index.shard(rank, 9)) == list(range(6))
    for rank, size in ((-1, 4), (4, 4), (0, 0), (0, -1)):
        with pytest.raises(ValueError, match="must be"):
            index.shard(rank, size)


def test_the_fingerprint_is_that_of_the_content(files, tmp_path):
    arrow, text = (SequenceIndex.create(files, tmp_path / name) for name in ("1.sidx", "2.json"))
    assert arrow.fingerprint == text.fingerprint == SequenceIndex.create(files).fingerprint
    assert SequenceIndex.create(files[::-1]).fingerprint != arrow.fingerprint
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = [elsewhere / file.name for file in files]
    for old, new in zip(files, moved, strict=True):
        new.write_bytes(old.read_bytes())
    assert SequenceIndex.create(moved).fingerprint == arrow.fingerprint
    moved[0].write_bytes(A.replace(b"a1", b"x1"))
    assert SequenceIndex.create(moved).fingerprint != arrow.fingerprint


# --- letters --------------------------------------------------------------------------------------------------------


def test_letters_come_in_the_order_asked(index):
    assert index.fetch_many([5, 0, -3, 0], max_length=3) == ["", "MKV", "MK", "MKV"]


def test_packed_sequences_equal_those_of_each_file(index, files):
    rows = [3, 0, 5, 2, 0]
    batch = index.packed(rows, "esm", max_length=5)
    one_by_one = []
    for row in rows:
        file, at = index.files[index.file_numbers[row]], index.rows[row]
        at = at if at >= 0 else index.byte_offsets.tolist().index(index.byte_offsets[row])
        one_by_one.append(seekset.Fasta(file, duplicates="first").gather([at], tokens="esm", max_length=5).values)
    assert batch.input_ids.dtype == np.int64
    assert batch.input_ids.tolist() == np.concatenate(one_by_one).tolist()
    assert batch.cu_seqlens.dtype == np.int32
    assert batch.cu_seqlens.tolist() == [0, 4, 11, 13, 20, 27]
    assert batch.max_seqlen == 7
    assert batch.sequence_ids == ["a2", "b1", "a3", "a2", "b1"]
    assert batch.position_ids.tolist() == [*range(4), *range(7), *range(2), *range(7), *range(7)]


def test_windows_are_packed_from_their_starts(index):
    batch = index.packed([0, 0, 1], "bytes", starts=[0, 3, 4], lengths=[3, 100, 100], specials=False, dtype="uint8")
    assert batch.input_ids.tobytes() == b"MKVLAAGA"
    assert batch.cu_seqlens.tolist() == [0, 3, 7, 8]
    with pytest.raises(seekset.MismatchError, match="starts at letter 8 of row 0, which has 7 letters"):
        index.packed([0], "esm", starts=8)


def test_a_batch_of_nothing_is_empty(index):
    batch = index.packed([], "esm")
    assert (batch.input_ids.tolist(), batch.cu_seqlens.tolist(), batch.max_seqlen) == ([], [0], 0)
    padded = index.padded([], "esm")
    assert padded.input_ids.shape == padded.attention_mask.shape == (0, 0)


def test_padded_sequences_have_a_mask(index):
    batch = index.padded([4, 5], "esm")
    assert batch.input_ids.tolist() == [[0, 20, 15, 2], [0, 2, 1, 1]]
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch.sequence_ids == ["12", "a3"]
    assert index.padded([4], "esm", columns=6).input_ids.tolist() == [[0, 20, 15, 2, 1, 1]]
    with pytest.raises(seekset.MismatchError, match="needs 4 columns"):
        index.padded([4], "esm", columns=3)


def test_a_table_without_padding_is_refused(index):
    with pytest.raises(seekset.MismatchError, match=r'no pad id, .* make it with specials=\{"pad": id\}'):
        index.padded([0], seekset.TokenTable({"M": 1}))


def test_a_letter_that_a_table_does_not_know_is_named_with_file_id_and_row(index):
    table = seekset.TokenTable(dict.fromkeys("MKVLAG", 1))
    message = r"b\.fa: record 'a2' \(row 2\), position 1: the letter 'C'"
    with pytest.raises(seekset.MismatchError, match=message):
        index.packed([0, 3, 2], table)


@pytest.mark.parametrize("wrong", [{"max_length": -1}, {"starts": [-1]}, {"lengths": [-1]}, {"starts": [0, 0]}])
def test_what_no_window_can_be_is_refused(index, wrong):
    with pytest.raises(ValueError, match=r"negative|2 values for 1 rows"):
        index.packed([0], "esm", **wrong)


# --- creating -------------------------------------------------------------------------------------------------------


def test_each_file_has_its_own_index_which_is_used_again(files, tmp_path):
    create_sequence_index(files, tmp_path / "1.sidx")
    made = [file.with_name(file.name + ".sidx").stat().st_mtime_ns for file in files]
    create_sequence_index(files, tmp_path / "2.sidx")
    assert [file.with_name(file.name + ".sidx").stat().st_mtime_ns for file in files] == made


def test_an_index_that_fits_is_taken_as_it_is(files, path, caplog):
    create_sequence_index(files, path)
    before = path.stat()
    with caplog.at_level(logging.INFO, "seekset"):
        assert create_sequence_index(files, path) == path
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert caplog.text == ""
    create_sequence_index(files, path, force=True)
    assert path.stat().st_ino != before.st_ino


def swap(file, data):
    """Put other bytes into a file and keep its times."""
    seen = file.stat()
    file.write_bytes(data)
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))


CHANGES = {
    "newer": (lambda files: os.utime(files[0], ns=(0, files[0].stat().st_mtime_ns + 1_000_000)), "modification time"),
    "older": (lambda files: os.utime(files[0], ns=(0, files[0].stat().st_mtime_ns - 1_000_000)), "modification time"),
    "longer": (lambda files: files[1].write_bytes(B + b">new\nM\n"), "size was"),
    "swapped": (lambda files: swap(files[1], B.replace(b"ACDEF", b"FEDCA")), "contents differ"),
    "added": (lambda files: files.append(files[0].with_name("c.fa")) or files[2].write_bytes(b">c\nM\n"), "not about"),
    "removed": (lambda files: files.pop(), "which was not given"),
    "another order": (lambda files: files.reverse(), "another order"),
}


@pytest.mark.parametrize("change, why", CHANGES.values(), ids=CHANGES)
def test_an_index_that_does_not_fit_is_made_anew_and_says_why(files, path, caplog, change, why):
    create_sequence_index(files, path)
    change(files)
    with caplog.at_level(logging.WARNING, "seekset"):
        create_sequence_index(files, path)
    assert "made anew" in caplog.text
    assert why in caplog.text
    index = SequenceIndex.load(path)
    assert index.files == files
    index.check_files()


def test_the_log_tells_what_was_made(files, path, caplog):
    with caplog.at_level(logging.INFO, "seekset"):
        create_sequence_index(files, path)
    assert "2 files, 6 sequences, 21 tokens; lengths 0 to 7, median 3.5" in caplog.text
    assert "rank 0: 2 sequences, 9 tokens (42.86%)" in caplog.text
    assert "rank 3: 1 sequences, 2 tokens" in caplog.text


def test_no_files_are_refused(tmp_path):
    with pytest.raises(seekset.MismatchError, match="at least one file"):
        create_sequence_index([], tmp_path / "x.sidx")


def test_one_file_given_twice_is_refused(files, tmp_path):
    link = tmp_path / "link.fa"
    link.symlink_to(files[0])
    for again in (files[0], link):
        with pytest.raises(seekset.MismatchError, match=r"the same file was given before, as .*a\.fa"):
            SequenceIndex.create([*files, again])


def test_a_missing_file_is_named(files, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        SequenceIndex.create([*files, tmp_path / "missing.fa"], tmp_path / "x.sidx")
    assert os.fspath(error.value.filename) == str(tmp_path / "missing.fa")
    assert not (tmp_path / "x.sidx").exists()


def test_ids_of_two_sequences_are_refused_with_both_places_if_asked(files, path):
    message = r"id 'a2' names two records, one in .*a\.fa: .*byte 15, and one in .*b\.fa: .*byte 17"
    with pytest.raises(seekset.DuplicateIdError, match=message):
        create_sequence_index(files, path, duplicates="error")
    create_sequence_index(files[:1], path, duplicates="error")
    with pytest.raises(ValueError, match="duplicates must be"):
        create_sequence_index(files, path, duplicates="first")


def test_the_repeat_that_is_named_is_the_earliest_in_the_files(write, path):
    early = write(b">x\nM\n>long\nMKVLA\n>x\nMK\n", "early.fa")
    late = write(b">long\nMKVLAAG\n>x\nMKVLAAGG\n", "late.fa")
    message = r"id 'x' names two records, one in .*early\.fa: .*byte 0, and one in .*early\.fa: .*byte 17"
    with pytest.raises(seekset.DuplicateIdError, match=message):
        create_sequence_index([early, late], path, duplicates="error")


@pytest.mark.parametrize("there", [True, False])
def test_an_index_that_is_refused_leaves_what_was_there(files, path, there):
    if there:
        create_sequence_index(files[:1], path)
    before = {file.name: file.read_bytes() for file in path.parent.glob("both*")}
    with pytest.raises(seekset.DuplicateIdError):
        create_sequence_index(files, path, duplicates="error")
    assert {file.name: file.read_bytes() for file in path.parent.glob("both*")} == before
    assert bool(before) == there


@pytest.mark.parametrize("text", ['{"lr": 1e-4}', '{"sequences": "a.fa"}', " {}", "[]", '["fasta_mtimes"]'])
def test_json_of_another_kind_is_not_replaced(files, tmp_path, text):
    path = tmp_path / "cfg.json"
    path.write_text(text)
    message = r"cfg\.json: there is a file already, and it is no sequence index; delete it or give another path"
    for write in (
        lambda: create_sequence_index(files, path),
        lambda: create_sequence_index(files, path, force=True),
        lambda: SequenceIndex.create(files).save(path),
    ):
        with pytest.raises(seekset.MismatchError, match=message):
            write()
    assert path.read_text() == text
    path.write_text("")
    SequenceIndex.create(files).save(path)
    assert records(SequenceIndex.load(path)) == EXPECTED


def test_files_without_sequences_make_an_index_without_sequences(write, path):
    create_sequence_index([write(b"", "empty.fa")], path)
    index = SequenceIndex.load(path)
    assert (len(index), index.total_tokens, index.lengths.size) == (0, 0, 0)
    assert load_sequence_index(path)["sequences"] == []
    assert get_worker_indices(path, 0, 4) == []


def test_compressed_files_are_read_too(files, bgzip, path):
    create_sequence_index([bgzip(file) for file in files], path)
    assert [record[:2] for record in records(SequenceIndex.load(path))] == [record[:2] for record in EXPECTED]


def test_progress_reaches_the_end(files, path):
    told = []
    create_sequence_index(files, path, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(A) + len(B), len(A) + len(B))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_exception_in_any_call_of_progress_comes_out_and_leaves_no_index(files, path):
    for last in itertools.count():
        calls = []

        def progress(done, total, calls=calls, last=last):
            calls.append(done)
            if len(calls) > last:
                raise RuntimeError("enough")

        if path.exists():
            path.unlink()
        with contextlib.suppress(RuntimeError):
            create_sequence_index(files, path, force=True, progress=progress)
            break
        assert not path.exists()
    assert last >= len(calls) > 0  # it went on to the end only where nothing was raised


def test_an_index_takes_no_place_of_a_fasta_file_or_its_index(files, tmp_path):
    for place in ("a.fa", "a.fa.sidx"):
        with pytest.raises(seekset.MismatchError, match="give another path"):
            SequenceIndex.create(files, tmp_path / place)
    (tmp_path / "folder.json").mkdir()
    plan = seekset.Plan.create(SequenceIndex.create(files), max_tokens=40)
    for place in (tmp_path, tmp_path / "folder.json", "."):
        for write in (lambda p: SequenceIndex.create(files, p), SequenceIndex.create(files).save, plan.save):
            with pytest.raises(IsADirectoryError):
                write(place)
    (tmp_path / "notes").write_text("dear diary")
    with pytest.raises(seekset.MismatchError, match="no sequence index"):
        SequenceIndex.create(files, tmp_path / "notes")
    assert files[0].read_bytes() == A


# --- forms ----------------------------------------------------------------------------------------------------------


def test_json_has_the_documented_fields(files, tmp_path):
    create_sequence_index(files, tmp_path / "x.json")
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["version"] == "1.0"
    assert data["fasta_mtimes"] == {str(file): pytest.approx(file.stat().st_mtime) for file in files}
    assert (data["total_sequences"], data["total_tokens"]) == (6, 21)
    assert data["sequences"][2] == {
        "sequence_id": "a2",
        "length": 5,
        "file_path": str(files[1]),
        "byte_offset": 17,
    }
    assert data["files"][0]["size"] == len(A)
    assert data["files"][0]["mtime_ns"] == files[0].stat().st_mtime_ns


def test_the_dict_is_the_same_for_both_forms(files, tmp_path):
    index = SequenceIndex.create(files, tmp_path / "1.sidx")
    index.save(tmp_path / "2.json")
    SequenceIndex.load(tmp_path / "2.json").save(tmp_path / "3.sidx")
    SequenceIndex.load(tmp_path / "3.sidx").save(tmp_path / "4.json")
    loaded = [load_sequence_index(tmp_path / name) for name in ("1.sidx", "2.json", "3.sidx", "4.json")]
    written = json.loads((tmp_path / "2.json").read_text())
    written.pop("files")
    assert all(one == written for one in loaded)
    assert (tmp_path / "2.json").read_bytes() == (tmp_path / "4.json").read_bytes()
    assert index.fingerprint == SequenceIndex.load(tmp_path / "4.json").fingerprint
    create_sequence_index(files, tmp_path / "4.json")  # fits: nothing was lost on the way
    assert (tmp_path / "2.json").read_bytes() == (tmp_path / "4.json").read_bytes()


def test_json_with_only_the_documented_keys_opens(files, tmp_path):
    create_sequence_index(files, tmp_path / "x.json")
    edited(tmp_path / "x.json", lambda data: data.pop("files") and None)
    index = SequenceIndex.load(tmp_path / "x.json")
    assert records(index) == EXPECTED
    index.check_files()
    os.utime(files[0], ns=(0, files[0].stat().st_mtime_ns - 5_000))
    with pytest.raises(seekset.StaleIndexError, match=r"a\.fa: .*modification time was .* s and is .* s now.*x\.json"):
        index.check_files()


def test_json_is_read_once(files, tmp_path):
    create_sequence_index(files, tmp_path / "x.json")
    twin = tmp_path / "x.json.sidx"
    made = twin.stat().st_ino
    assert SequenceIndex.load(tmp_path / "x.json").ids([0]) == ["b1"]
    assert twin.stat().st_ino == made
    edited(tmp_path / "x.json", lambda data: data["sequences"][0].update(sequence_id="other"))
    assert SequenceIndex.load(tmp_path / "x.json").ids([0]) == ["other"]
    assert twin.stat().st_ino != made


def test_hand_edited_json_stays_valid(files, tmp_path):
    create_sequence_index(files, tmp_path / "x.json")

    def change(data):
        data["note"] = {"by": ["hand", None, 1.5]}
        del data["sequences"][1:3]
        data["sequences"].reverse()
        return dict(reversed(data.items()))

    edited(tmp_path / "x.json", change)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        index = SequenceIndex.load(tmp_path / "x.json")
    messages = " ".join(str(warning.message) for warning in told)
    assert "not in the order of their lengths" in messages
    assert "6 and 21, but its entries add up to 4 and 11" in messages
    # Entries of one length keep the order that they have in the file.
    assert records(index) == [EXPECTED[0], EXPECTED[4], EXPECTED[3], EXPECTED[5]]
    assert index.total_tokens == 11


def test_relative_paths_are_tried_beside_the_index_and_then_as_they_are(files, tmp_path, monkeypatch):
    create_sequence_index(files, tmp_path / "x.json")

    def change(data):
        for entry in data["sequences"]:
            entry["file_path"] = os.path.basename(entry["file_path"])  # noqa: PTH119
        data["fasta_mtimes"] = {os.path.basename(file): time for file, time in data["fasta_mtimes"].items()}  # noqa: PTH119

    edited(tmp_path / "x.json", change)
    assert records(SequenceIndex.load(tmp_path / "x.json")) == EXPECTED
    monkeypatch.chdir(tmp_path)
    assert records(SequenceIndex.load("x.json")) == EXPECTED
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.fa").write_bytes(b">other\nM\n")
    monkeypatch.chdir(elsewhere)
    assert [file.resolve() for file in SequenceIndex.load("../x.json").files] == files
    (elsewhere / "y.json").write_text((tmp_path / "x.json").read_text())
    monkeypatch.chdir(tmp_path)
    assert SequenceIndex.load("elsewhere/y.json").files == [elsewhere / "a.fa", files[1]]


BAD_JSON = {
    "version": (lambda text: text.replace('"1.0"', '"2.0"'), 'expected version "1.0", found "2.0"'),
    "version's type": (lambda text: text.replace('"1.0"', "1.0"), "invalid type: floating point"),
    "missing key": (lambda text: text.replace('"total_tokens"', '"tokens"'), "missing field `total_tokens`"),
    "missing in entry": (lambda text: text.replace('"byte_offset": 17', '"x": 1'), "missing field `byte_offset`"),
    "text for number": (lambda text: text.replace('"length": 7', '"length": "7"'), "invalid type: string"),
    "negative": (lambda text: text.replace('"length": 7', '"length": -7'), "invalid value: integer `-7`"),
    "huge": (lambda text: text.replace('"length": 7', '"length": 1' + "0" * 30), "invalid type: floating point"),
    "too large": (lambda text: text.replace('"length": 7', f'"length": {2**63}'), "below 2^63"),
    "not finite": (lambda text: text.replace('"length": 7', '"length": 1e999'), "out of range"),
    "key twice": (lambda text: text.replace('"created"', '"version"'), "duplicate field `version`"),
    "key of entry twice": (lambda text: text.replace('"length": 7', '"length": 7, "length": 7'), "duplicate field"),
    "truncated": (lambda text: text[:-20], "EOF while parsing"),
    "more after it": (lambda text: text + "{}", "trailing characters"),
    "no list": (lambda text: text[: text.index('"sequences": [')] + '"sequences": 5}', "expected a list of sequences"),
    "unknown file": (lambda text: text.replace("b.fa", "c.fa", 1), "in fasta_mtimes, too"),
}


@pytest.mark.parametrize("change, why", BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json_is_a_format_error_with_file_and_place(files, tmp_path, change, why):
    path = tmp_path / "x.json"
    create_sequence_index(files, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(seekset.FormatError) as error:
        SequenceIndex.load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert why in str(error.value)
    if why != "in fasta_mtimes, too":
        assert "line " in str(error.value)
        assert ", byte " in str(error.value)


def test_the_place_in_bad_json_is_where_it_is_bad(files, tmp_path):
    path = tmp_path / "x.json"
    create_sequence_index(files, path)
    text = path.read_text().replace('"byte_offset": 17}', '"byte_offset": 17.5}')
    path.write_text(text)
    with pytest.raises(seekset.FormatError) as error:
        SequenceIndex.load(path)
    at = text.index("17.5}")  # times have no brace after them
    assert f"line {text[:at].count(chr(10)) + 1}, byte {at + 3}:" in str(error.value)


@pytest.mark.parametrize("data", [b"", b"  ", b"[]", b"hello", b">a\nM\n", b"ARROW1"])
def test_what_is_no_index_is_a_format_error(write, data):
    with pytest.raises(seekset.FormatError, match=r"x: .*"):
        SequenceIndex.load(write(data, "x"))


def test_json_about_no_files_is_a_format_error(tmp_path, files):
    create_sequence_index(files, tmp_path / "x.json")
    edited(tmp_path / "x.json", lambda data: data.update(fasta_mtimes={}, sequences=[]))
    with pytest.raises(seekset.FormatError, match="at least one file"):
        SequenceIndex.load(tmp_path / "x.json")


def test_the_wrong_kind_of_index_says_which_it_is(files, tmp_path):
    create_sequence_index(files, tmp_path / "both.sidx")
    seekset.Plan.create(SequenceIndex.load(tmp_path / "both.sidx"), max_tokens=40).save(tmp_path / "a.plan")
    create_sequence_index(files, tmp_path / "both.json")
    for name, data in (("empty", b""), ("blank", b" \n"), ("gz", b"\x1f\x8b\x08\x00")):
        (tmp_path / name).write_bytes(data)
    fasta, index, plan = "index of one FASTA file, which Fasta reads", "SequenceIndex.load reads", "Plan.load reads"
    both = {"a.fa.sidx": fasta, "a.fa": "this is a FASTA file, which Fasta reads", "gz": "this is a compressed file"}
    both |= {"empty": "this is an empty file", "blank": "this is an empty file"}
    for load, kinds, make in (
        (SequenceIndex.load, both | {"a.plan": plan}, "; `seekset index FILES -o INDEX` makes a sequence index"),
        (seekset.Plan.load, both | {"both.sidx": index, "both.json": index}, "; `seekset plan INDEX -o PLAN` makes"),
    ):
        for name, what in kinds.items():
            with pytest.raises(seekset.FormatError) as error:
                load(tmp_path / name)
            assert str(error.value).startswith(f"{tmp_path / name}: whole file: this is ")
            assert what + make in str(error.value) or name == "gz"
    before = (tmp_path / "both.sidx").read_bytes()
    for rebuild in (True, False):
        with pytest.raises((seekset.FormatError, seekset.StaleIndexError), match=r"which SequenceIndex\.load reads"):
            seekset.Fasta(files[0], index=tmp_path / "both.sidx", rebuild=rebuild)
    assert (tmp_path / "both.sidx").read_bytes() == before
    with pytest.raises(seekset.FormatError, match="which Fasta reads"):
        SequenceIndex.create(files[:1], tmp_path / "b.fa.sidx")


# --- changed, missing, damaged --------------------------------------------------------------------------------------


def uses(index):
    return [lambda: index.fetch_many([0]), lambda: index.packed([0], "esm"), index.check_files]


def test_a_changed_file_is_a_stale_index_error_with_file_and_index(files, path):
    create_sequence_index(files, path)
    files[1].write_bytes(B.replace(b"MKVLAAG", b"MKVLAAGG"))
    for use in uses(SequenceIndex.load(path)):
        with pytest.raises(seekset.StaleIndexError, match=rf"b\.fa: .*changed.*{path.name}"):
            use()


def test_a_file_that_changes_while_it_is_open_is_a_stale_index_error(index, files, path):
    assert index.fetch_many([0]) == ["MKVLAAG"]
    files[1].write_bytes(B.replace(b"MKVLAAG", b"MKVLAAGG"))
    for use in uses(index):
        with pytest.raises(seekset.StaleIndexError, match=rf"b\.fa: .*{path.name}"):
            use()


def test_a_file_of_the_same_size_and_time_but_other_records_is_not_read(files, path):
    create_sequence_index(files, path)
    swap(files[1], b">b1\nMKVLAA\n>\nMKG\n>a2\nACDEF\n")
    with pytest.raises(seekset.StaleIndexError, match=r"b\.fa: "):
        SequenceIndex.load(path).fetch_many([0])


def test_a_missing_file_behind_an_index_is_named_with_the_index(index, files, path):
    files[1].unlink()
    for use in uses(SequenceIndex.load(path)):
        with pytest.raises(FileNotFoundError) as error:
            use()
        assert os.fspath(error.value.filename) == str(files[1])
        assert str(path) in str(error.value)


def test_json_that_points_elsewhere_is_a_stale_index_error(files, tmp_path):
    create_sequence_index(files, tmp_path / "x.json")
    edited(tmp_path / "x.json", lambda data: data["sequences"][0].update(byte_offset=5))
    message = (
        r"b\.fa: row 0 of the index is a record of 7 letters at byte 5, but there is none; .*x\.json again with force"
    )
    with pytest.raises(seekset.StaleIndexError, match=message):
        SequenceIndex.load(tmp_path / "x.json").fetch_many([0])
    with SequenceIndex.create(files, tmp_path / "x.json", force=True) as index:
        assert records(index) == EXPECTED


COLUMNS = {
    "lengths": lambda path: SequenceIndex.load(path).lengths,
    "rows": lambda path: SequenceIndex.load(path).rows,
    "file_numbers": lambda path: SequenceIndex.load(path).file_numbers,
    "byte_offsets": lambda path: SequenceIndex.load(path).byte_offsets,
    "dict": load_sequence_index,
}


@pytest.mark.parametrize("read", COLUMNS.values(), ids=COLUMNS)
def test_damaged_columns_are_not_handed_out(files, tmp_path, read):
    path = tmp_path / "x.sidx"
    create_sequence_index(files, path)
    good, right = path.read_bytes(), read(path)
    refused = 0
    for at in range(len(good)):
        path.unlink()
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :])
        try:
            found = read(path)
        except seekset.FormatError:
            refused += 1
            continue
        assert np.array_equal(found, right)
    assert refused > 100


def test_a_damaged_index_gives_an_error_or_the_right_answer(files, tmp_path):
    path = tmp_path / "x.sidx"
    create_sequence_index(files, path)
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.unlink()
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :])
        try:
            index = SequenceIndex.load(path)
            found = [(index.entry(row).id, index.entry(row).length, index.entry(row).byte_offset) for row in range(6)]
        except (seekset.FormatError, IndexError):
            continue
        assert found == [(name, len(letters), offset) for name, letters, _, offset in EXPECTED]


def test_damage_in_a_files_own_index_gives_no_index_or_the_right_one(files, tmp_path):
    path = tmp_path / "x.sidx"
    create_sequence_index(files, path)
    own = Path(f"{files[0]}.sidx")
    good = own.read_bytes()
    refused = []
    for at in range(0, len(good), 7):
        own.unlink(missing_ok=True)
        own.write_bytes(good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :])
        path.unlink(missing_ok=True)
        try:
            create_sequence_index(files, path)
        except seekset.FormatError as error:
            refused.append((str(error), sorted(tmp_path.glob("*x.sidx*"))))
            continue
        index = SequenceIndex.load(path)
        found = [(entry.id, entry.length, entry.byte_offset) for entry in map(index.entry, range(len(index)))]
        assert found == [(name, len(letters), offset) for name, letters, _, offset in EXPECTED]
    assert len(refused) > 20
    assert all(message.startswith(f"{own}: ") and left == [] for message, left in refused)


def test_a_truncated_index_is_a_format_error(files, tmp_path):
    path = tmp_path / "x.sidx"
    create_sequence_index(files, path)
    good = path.read_bytes()
    for length in (*range(0, len(good), 97), len(good) - 1):
        path.unlink()
        path.write_bytes(good[:length])
        with pytest.raises(seekset.FormatError, match=r"x\.sidx: "):
            SequenceIndex.load(path)


def test_a_damaged_index_is_made_anew_and_says_so(files, path, caplog):
    create_sequence_index(files, path)
    arrow = path if path.suffix == ".sidx" else path.with_name(path.name + ".sidx")
    good = bytearray(arrow.read_bytes())
    good[good.index(b"b1a1a2") + 2] ^= 1  # in the column of ids
    arrow.unlink()
    arrow.write_bytes(good)
    with caplog.at_level(logging.WARNING, "seekset"):
        create_sequence_index(files, path)
    assert "made anew" in caplog.text
    assert "fingerprint" in caplog.text or "damaged" in caplog.text
    assert records(SequenceIndex.load(path)) == EXPECTED


def test_verify_finds_damage_that_no_read_met(files, tmp_path):
    path = tmp_path / "x.sidx"
    create_sequence_index(files, path)
    SequenceIndex.load(path).verify()
    bad = bytearray(path.read_bytes())
    bad[bad.index(b"b1a1a2")] ^= 1
    path.unlink()
    path.write_bytes(bad)
    with pytest.raises(seekset.FormatError, match=r"x\.sidx: .*create it again"):
        SequenceIndex.load(path).verify()


# --- where things are written ---------------------------------------------------------------------------------------


NOBODY = """
    import os, sys, warnings
    from seekset import SequenceIndex
    SequenceIndex
    if os.geteuid() == 0:  # root may write everywhere, so be nobody
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
    os.chdir(sys.argv[1])
"""


@pytest.fixture
def shared():
    """A folder that all may look into, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


def test_indexes_of_files_that_lie_in_a_read_only_folder_lie_beside_the_sequence_index(run, shared):
    data, out = shared / "data", shared / "out"
    data.mkdir()
    out.mkdir()
    (data / "a.fa").write_bytes(A)
    data.chmod(0o555)
    out.chmod(0o777)
    printed = run(
        NOBODY
        + """
    warnings.simplefilter("error")
    for index in SequenceIndex.create(["data/a.fa"], "out/x.sidx"), SequenceIndex.load("out/x.sidx"):
        print(index.fetch_many([0]))
    print(sorted(os.listdir("out")), [name[:5] for name in os.listdir("out/x.sidx.parts")], os.listdir("data"))
    """,
        shared,
    )
    data.chmod(0o755)
    assert printed == "['MKVLA']\n" * 2 + "['x.sidx', 'x.sidx.parts'] ['a.fa.'] ['a.fa']\n"


def test_where_nothing_can_be_written_indexes_are_kept_in_memory_with_a_warning(run, shared):
    (shared / "a.fa").write_bytes(A)
    create_sequence_index([shared / "a.fa"], shared / "x.json")
    for name in ("x.json.sidx", "a.fa.sidx"):
        (shared / name).unlink()
    shared.chmod(0o555)
    printed = run(
        NOBODY
        + """
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for index in SequenceIndex.load("x.json"), SequenceIndex.create(["a.fa"]):
            print(index.fetch_many([1]))
    for warning in told:
        print(str(warning.message).split(" (")[0])
    try:
        SequenceIndex.create(["a.fa"], "y.sidx")
    except PermissionError as error:
        print(error.filename)
    """,
        shared,
    )
    assert printed.splitlines() == [
        "['MK']",
        "['MK']",
        "x.json.sidx can't be written",
        f"<sequence index in memory>: {shared}/a.fa: its own index can't be written",
        "y.sidx",
    ]


# --- handles --------------------------------------------------------------------------------------------------------


def test_a_closed_index_says_so(index, path):
    with index:
        lengths = index.lengths
    for use in (lambda: len(index), lambda: index.lengths, lambda: index.entry(0), lambda: index.packed([0], "esm")):
        with pytest.raises(ValueError, match=f"{path.name} is closed"):
            use()
    assert lengths.tolist() == [7, 5, 5, 2, 2, 0]
    assert repr(index) == f"<SequenceIndex {str(path)!r}, closed>"


def test_an_index_pickles_by_its_path(index, path, monkeypatch, tmp_path):
    again = pickle.loads(pickle.dumps(index))
    assert repr(again) == f"<SequenceIndex {str(path)!r}, not open yet>"
    assert records(again) == EXPECTED
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(SequenceIndex.load(path.name))
    monkeypatch.chdir("/")
    assert records(pickle.loads(data)) == EXPECTED


def test_an_index_in_memory_does_not_pickle(files):
    index = SequenceIndex.create(files)
    assert index.path is None
    assert records(index) == EXPECTED
    with pytest.raises(TypeError, match="save it and load that"):
        pickle.dumps(index)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_an_index_is_read_in_other_processes(index, run, method):
    data = pickle.dumps(index).hex()
    printed = run(
        """
        import multiprocessing, pickle, sys

        def read(index):
            return index.fetch_many([0, 3], max_length=4), index.packed([1], "esm").input_ids.sum()

        if __name__ == "__main__":
            index = pickle.loads(bytes.fromhex(sys.argv[2]))
            here = read(index)
            with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
                print(all(there == here for there in pool.map(read, [index] * 4)))
        """,
        method,
        data,
    )
    assert printed == "True\n"


def test_many_more_files_than_may_be_open_are_read(run, tmp_path):
    for k in range(600):
        (tmp_path / f"{k}.fa").write_bytes(b">s%d\n%s\n" % (k, b"M" * (k % 50) + b"K"))
    printed = run(
        """
        import random, resource
        from seekset import SequenceIndex
        files = [f"{k}.fa" for k in range(600)]
        SequenceIndex, resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
        with SequenceIndex.create(files, "all.sidx") as index:
            assert len(index) == 600
        index = SequenceIndex.load("all.sidx")
        rows = list(range(600)) * 2
        random.Random(1).shuffle(rows)
        letters = index.fetch_many(rows)
        assert [len(text) for text in letters] == index.lengths[rows].tolist()
        for row in rows:
            assert index.ids([row]) == [f"s{index.entry(row).file_path.split('/')[-1][:-3]}"]
            assert index.fetch_many([row]) == ["M" * (index.lengths[row] - 1) + "K"]
        print("done")
        """
    )
    assert printed == "done\n"


def test_as_many_files_are_kept_open_as_the_process_has_descriptors_for(run, tmp_path):
    for k in range(300):
        (tmp_path / f"{k}.fa").write_bytes(b">s%d\nMK\n" % k)
    printed = run(
        """
        import os, resource
        from seekset import SequenceIndex
        SequenceIndex.create([f"{k}.fa" for k in range(300)], "all.sidx").close()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for soft in (256, 4096):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            with SequenceIndex.load("all.sidx") as index:
                assert index.fetch_many(range(300)) == ["MK"] * 300
                print(len(os.listdir("/dev/fd")) >= 600)
        """
    )
    assert printed == "False\nTrue\n"


# --- the functions that people bring along --------------------------------------------------------------------------


def test_worker_indices_are_a_list_of_every_nth_row(files, path, caplog):
    create_sequence_index(files, path)
    with caplog.at_level(logging.INFO, "seekset"):
        assert get_worker_indices(path, 1, 4) == [1, 5]
    assert "rank 1: 2 sequences, 5 tokens (23.81%)" in caplog.text
    assert [get_worker_indices(path, rank, 7) for rank in (5, 6)] == [[5], []]
    for rank, size in ((-1, 4), (4, 4), (0, 0)):
        with pytest.raises(ValueError, match="must be"):
            get_worker_indices(path, rank, size)


def test_worker_indices_take_no_look_at_lengths_if_nobody_listens(files, tmp_path, caplog):
    path = tmp_path / "x.sidx"
    create_sequence_index(files, path)
    lengths = np.array([7, 5, 5, 2, 2, 0]).astype("<u8").tobytes()
    bad = path.read_bytes().replace(lengths, bytes([8]) + lengths[1:])
    path.unlink()
    path.write_bytes(bad)
    with caplog.at_level(logging.WARNING, "seekset"):
        assert get_worker_indices(path, 1, 4) == [1, 5]
    with caplog.at_level(logging.INFO, "seekset"), pytest.raises(seekset.FormatError, match="lengths"):
        get_worker_indices(path, 1, 4)


def test_the_stride_gives_ranks_tokens_alike(tmp_path):
    lengths = np.random.default_rng(7).lognormal(5.5, 0.7, 2000).astype(int) + 1
    file = tmp_path / "x.fa"
    file.write_text("".join(f">s{k}\n{'M' * length}\n" for k, length in enumerate(lengths)))
    create_sequence_index([file], tmp_path / "x.sidx")
    index = SequenceIndex.load(tmp_path / "x.sidx")
    shares = [index.lengths[get_worker_indices(tmp_path / "x.sidx", rank, 4)].sum() for rank in range(4)]
    assert sum(shares) == lengths.sum()
    assert all(abs(share - lengths.sum() / 4) < 0.1 * lengths.sum() / 4 for share in shares)


def test_a_sequence_longer_than_memory_allows_is_a_memory_error(run):
    """And what fits is still read afterwards."""
    printed = run("""
        import resource
        import seekset

        with open("big.fa", "wb") as file:
            file.write(b">big\\n" + (b"A" * 999_999 + b"\\n") * 64)
        index = seekset.SequenceIndex.create(["big.fa"], "big.sidx")
        index.packed([0], "esm", max_length=10)
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (150 << 20), resource.RLIM_INFINITY))
        fasta = seekset.Fasta("big.fa")
        for read in (
            lambda: index.packed([0], "esm"),
            lambda: index.padded([0], "esm"),
            lambda: index.fetch_many([0] * 4),
            lambda: fasta.gather([0], tokens="esm", dtype="int64"),
            lambda: fasta.fetch_many([0] * 4),
        ):
            try:
                read()
            except MemoryError:
                print("too long")
        print(len(index.packed([0], "esm", max_length=1000).input_ids))
    """)
    assert printed.split("\n") == [*["too long"] * 5, "1002", ""]
