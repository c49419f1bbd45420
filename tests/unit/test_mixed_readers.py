"""Sources of different formats in one pool: a reader for each, and rows that are made alike."""

import json
from functools import partial

import pytest

import seekset
from conformance import StreamConformance
from mixed_shards import Lines, mixed, number, write_sources
from seekset.datasets import StreamingMixedShardDataset, check_disjoint, create_datasets
from seekset.errors import MismatchError
from seekset.shards import NpzShards, TFRecordShards

FEATURES = {"x": "int64", "y": ("float32", (2,))}


def write_records(path, numbers):
    """The rows of `write_sources` as Examples, in a file whose name does not tell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with seekset.TFRecordWriter(path, index=False) as file:
        for x in numbers:
            file.write(seekset.encode_example({"x": x, "y": [x / 4, x / 4]}))


@pytest.fixture
def two_formats(tmp_path):
    """Rows 0 to 6 in `.npz` shards, 7 to 11 in Examples."""
    sources = write_sources(tmp_path, {"arrays": [4, 3]})
    for shard, numbers in enumerate((range(7, 10), range(10, 12))):
        write_records(tmp_path / "examples" / f"{shard}.tfrecord", numbers)
    return {**sources, "examples": tmp_path / "examples"}


def test_readers_are_given_by_the_names_of_sources(two_formats):
    made = partial(mixed, two_formats, reader={"examples": TFRecordShards(FEATURES)}, pool_rows=3)
    assert sorted(map(number, made())) == list(range(12))
    assert all(item["y"].tolist() == [number(item) / 4] * 2 for item in made())
    for rules in ({}, {"mixing": "global"}):
        conformance = StreamConformance(partial(made, **rules), key=number)
        conformance.streams_resume_at_every_item()
        conformance.every_item_comes_once()
    conformance.loaders_deliver_every_item_once()


def test_a_reader_says_which_files_of_its_own_source_are_shards(two_formats, tmp_path):
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "a.txt").write_text("one two")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.txt").write_text("three")
    words = {"words": tmp_path / "words", "more": tmp_path / "more"}
    assert sorted(mixed(words, reader={"words": Lines(), "more": Lines()})) == ["one", "three", "two"]
    with pytest.raises(MismatchError, match=r"b\.txt: no reader knows|more'.*no reader"):
        mixed({**words, "more": tmp_path / "more" / "b.txt"}, reader={"words": Lines()})


@pytest.mark.parametrize("sources", [{"arrays": "arrays", "examples": "examples"}, ["arrays", "examples"]])
def test_a_reader_of_no_source_is_refused(two_formats, sources):
    message = "reader mismatch: there is a reader for 'exampels', but the sources are 'arrays', 'examples'"
    with pytest.raises(MismatchError, match=message):
        mixed(sources, reader={"exampels": TFRecordShards(FEATURES)})


def test_readers_of_directories_go_by_the_names_of_these(two_formats):
    folders = [str(folder) for folder in two_formats.values()]
    given = {"reader": {folders[1]: TFRecordShards(FEATURES)}, "enable_augmentation": False, "random_seed": 1}
    data = StreamingMixedShardDataset(folders, ["0", "all"], **given)
    assert sorted(map(number, data)) == [0, 1, 2, 3, *range(7, 12)]
    train, held_out = create_datasets(folders, validation=0.5, **given)
    assert sorted(map(number, train)) == [0, 1, 2, 3, 7, 8, 9]
    assert sorted(map(number, held_out)) == [4, 5, 6, 10, 11]
    with pytest.raises(MismatchError, match="reader mismatch: there is a reader for 'elsewhere'"):
        StreamingMixedShardDataset(folders, reader={"elsewhere": Lines()})


def test_states_know_what_read_the_shards(two_formats):
    only = {"examples": two_formats["examples"]}
    data = mixed(only, reader={"examples": TFRecordShards(FEATURES)})
    rows = list(map(number, data))
    next(iter(data))
    state = json.loads(json.dumps(data.state_dict()))
    for other in ({"x": "int64"}, None):
        with pytest.raises(MismatchError, match="state mismatch: readers was"):
            mixed(only, reader={"examples": TFRecordShards(other)}).load_state_dict(state)
    same = mixed(only, reader=TFRecordShards(FEATURES))
    same.load_state_dict(state)
    assert list(map(number, same)) == rows[1:]


def test_a_reader_that_would_be_taken_by_suffix_may_be_named(two_formats):
    arrays = {"arrays": two_formats["arrays"]}
    state = mixed(arrays).state_dict()
    mixed(arrays, reader={"arrays": NpzShards()}).load_state_dict(state)


def test_a_shard_is_in_both_datasets_whatever_reads_it(two_formats):
    with_columns = mixed({"a": two_formats["examples"]}, reader={"a": TFRecordShards(FEATURES)})
    with_payloads = mixed({"b": two_formats["examples"]})
    with pytest.raises(MismatchError, match=r"0\.tfrecord \(source 'b'\) is in both datasets"):
        check_disjoint(with_columns, with_payloads)
    check_disjoint(with_columns, mixed({"arrays": two_formats["arrays"]}))
