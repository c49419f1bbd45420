"""Indexes over many files say what plain Python makes of the same files, in both forms."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import seekset
import strategies
from seekset import SequenceIndex, load_sequence_index

many_files = st.lists(strategies.any_fasta(), min_size=1, max_size=4)


def parse(file):
    """The records of a file, with the place of each: where its line starts, if that starts with `>`."""
    data = file.read_bytes()
    starts = [at for at in range(len(data)) if data[at : at + 1] == b">" and data[max(at - 1, 0) : at] in (b"", b"\n")]
    return zip(reference.parse(data), starts, strict=True)


def expected(files):
    """All records (record, file, row, place) by length, the longest first, as Python's stable sort has them."""
    found = [(record, file, row, at) for file in files for row, (record, at) in enumerate(parse(file))]
    return sorted(found, key=lambda one: -len(one[0].sequence))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sequences")


@given(many_files, st.sampled_from(["x.sidx", "x.json"]), st.data())
def test_an_index_is_what_a_sort_of_all_records_is(scratch, folder, contents, name, data):
    files = [scratch(content) for content in contents]
    records = expected(files)
    index = SequenceIndex.create(files, folder / name)
    assert index.lengths.tolist() == [len(record.sequence) for record, *_ in records]
    assert index.rows.tolist() == [row for _, _, row, _ in records]
    entries = [index.entry(row) for row in range(len(index))]
    assert [(entry.id, entry.file_path, entry.byte_offset) for entry in entries] == [
        (record.id, str(file), at) for record, file, _, at in records
    ]
    rows = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=8)) if records else []
    most = data.draw(st.none() | st.integers(0, 20))
    texts = [records[row][0].sequence[:most] for row in rows]
    assert index.fetch_many(rows, max_length=most) == texts
    packed = index.packed(rows, "esm", max_length=most)
    tokens = [[0, *(reference.ESM.get(letter, 3) for letter in text), 2] for text in texts]
    assert packed.input_ids.tolist() == [token for one in tokens for token in one]
    assert packed.cu_seqlens.tolist() == np.cumsum([0, *map(len, tokens)]).tolist()
    assert packed.position_ids.tolist() == [place for one in tokens for place in range(len(one))]
    assert packed.sequence_ids == [records[row][0].id for row in rows]


@given(many_files)
def test_each_form_converts_to_the_other_without_loss(scratch, folder, contents):
    files = [scratch(content) for content in contents]
    index = SequenceIndex.create(files, folder / "1.sidx")
    index.save(folder / "2.json")
    again = SequenceIndex.load(folder / "2.json")
    again.save(folder / "3.sidx")
    loaded = [load_sequence_index(folder / name) for name in ("1.sidx", "2.json", "3.sidx")]
    written = json.loads((folder / "2.json").read_text())
    assert all(one == {key: written[key] for key in one} for one in loaded)
    assert index.fingerprint == again.fingerprint == SequenceIndex.load(folder / "3.sidx").fingerprint
    assert again.fetch_many(range(len(again))) == index.fetch_many(range(len(index)))


@given(many_files, st.randoms(use_true_random=False))
def test_json_in_any_order_is_sorted_stably(scratch, folder, contents, random):
    files = [scratch(content) for content in contents]
    seekset.create_sequence_index(files, folder / "x.json", force=True)
    data = json.loads((folder / "x.json").read_text())
    random.shuffle(data["sequences"])
    (folder / "y.json").write_text(json.dumps(data, indent=random.choice([None, 1])))
    wanted = sorted(data["sequences"], key=lambda entry: -entry["length"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", seekset.SeeksetWarning)
        assert load_sequence_index(folder / "y.json")["sequences"] == wanted
