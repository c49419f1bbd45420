"""Sources of different formats in one pool: a reader for each, and rows that are made alike."""

import json
import os
import pickle
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import seekset
from conformance import StreamConformance
from hex_shards import hex_examples, write_hex
from mixed_shards import ApartLines, Lines, mixed, number, write_sources, write_text
from seekset.datasets import StreamingMixedShardDataset, check_disjoint, create_datasets
from seekset.errors import MismatchError, StaleIndexError
from seekset.shards import Field, NpzShards, TFRecordShards, find_shards, pack_shard, take_census
from seekset.shards.fit import FittedShards, flag_of
from seekset.sources import Source

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


# --- rows that are made alike -----------------------------------------------------------------------------------------


@pytest.fixture
def games(tmp_path):
    """Directories of pickled games: of three rows, one without a policy; of two rows without any."""
    write_hex(made_folder(tmp_path / "some") / "0.pkl.gz", hex_examples(3, without_policy=[1]))
    write_hex(made_folder(tmp_path / "none") / "0.pkl", hex_examples(2, without_policy=[0, 1], seed=1))
    return {name: tmp_path / name for name in ("some", "none")}


def made_folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def policies(items):
    """Whether each item has a policy, and whether that is anything but zeros; of all, sorted."""
    return sorted((bool(item["has_policy"]), bool(item["policy"].any())) for item in items)


@pytest.mark.parametrize("first", ["some", "none"])
def test_a_shard_without_any_policy_has_that_of_the_others_as_zeros(games, first):
    sources = {name: games[name] for name in (first, *(games.keys() - {first}))}
    made = partial(mixed, sources, pool_rows=2)
    items = list(made())
    assert {(item["policy"].shape, item["policy"].dtype) for item in items} == {((169,), torch.float32)}
    assert policies(items) == [(False, False)] * 3 + [(True, True)] * 2
    batch = next(iter(made(batch_size=5)))
    assert list(batch) == ["board", "policy", "value", "player_to_move", "has_policy"]
    assert policies(dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)) == policies(items)
    assert policies(made(decoders=2, max_bytes=None)) == policies(items)
    StreamConformance(made, key=lambda item: item["board"].flatten().tolist()).streams_resume_at_every_item()


def test_shards_of_which_none_has_a_policy_have_no_such_field(games):
    [item] = {tuple(item) for item in mixed([games["none"]])}
    assert item == ("board", "value", "player_to_move")


def test_no_more_bytes_are_used_than_allowed_where_fields_are_filled_in(games):
    size = mixed(games, max_bytes=None, pool_rows=5).plan().peak_bytes
    data = mixed(games, max_bytes=size, pool_rows=5)
    assert (data.plan().pool_rows, data.plan().peak_bytes) == (5, size)
    list(data)
    assert data.report()["peak_bytes"] <= size
    for source, shard in data.mix.shards:
        packed = pack_shard(source.reader_of(shard), shard.path)
        assert len(packed.content) == shard.census.packed_bytes
        assert max(np.diff(packed.ends, prepend=0)) == shard.census.row_bytes


def test_a_field_that_another_shard_lacks_is_not_made_up(games, tmp_path):
    examples = [{name: value for name, value in one.items() if name != "policy"} for one in hex_examples(2)]
    write_hex(tmp_path / "none" / "0.pkl", examples)
    with pytest.raises(
        MismatchError, match=r"none/0\.pkl \(source 'none'\): its rows have board f4\[3, 13, 13\], value"
    ):
        mixed(games)


def test_flags_that_a_shard_needs_not_are_set_and_fields_may_come_in_any_order(tmp_path):
    table = pa.table({"y": pa.array([1.0, None], pa.float32()), "x": [0, 1]})
    pq.write_table(table, made_folder(tmp_path / "nulls") / "0.parquet")
    np.savez(made_folder(tmp_path / "whole") / "0.npz", x=[2, 3], y=np.ones(2, "f4"))
    for rules in ({}, {"pool_rows": 1}):
        data = mixed([tmp_path / "nulls", tmp_path / "whole"], **rules)
        rows = {number(item): (item["y"].item(), bool(item["has_y"])) for item in data}
        assert rows == {0: (1, True), 1: (0, False), 2: (1, True), 3: (1, True)}
        assert {tuple(item) for item in data} == {("y", "x", "has_y")}


def test_a_flag_is_a_column_of_truths_beside_its_field(tmp_path):
    np.savez(made_folder(tmp_path / "a") / "0.npz", x=[2, 3])
    for columns in ({"x": [1], "has_x": [7]}, {"x": [1], "has_y": [True]}):
        np.savez(made_folder(tmp_path / "b") / "0.npz", **columns)
        with pytest.raises(MismatchError, match=r"b/0\.npz .*its rows have x i8\[\], has_.*a/0\.npz have x i8\[\];"):
            mixed([tmp_path / "a", tmp_path / "b"])


def test_rows_that_are_filled_in_must_be_those_that_were_counted(tmp_path):
    reader = FittedShards(NpzShards(), (Field("x", "<i8", ()),), (Field("x", "<i8", ()), flag_of("x")))
    np.savez(tmp_path / "0.npz", y=[1])
    with pytest.raises(StaleIndexError, match=r"0\.npz: its fields were .*'x'.* were read"):
        reader.read(tmp_path / "0.npz")


def test_pickles_examples_and_arrays_are_one_stream(games, tmp_path):
    """The three formats of one kind of game: only pickles know that a policy may be None."""
    board, policy = np.ones((2, 3, 13, 13), "f4"), np.full((2, 169), 1 / 169, "f4")
    arrays = {"player_to_move": np.arange(2), "value": np.ones(2, "f4"), "policy": policy, "board": board}
    np.savez(made_folder(tmp_path / "arrays") / "0.npz", **arrays)
    with seekset.TFRecordWriter(made_folder(tmp_path / "examples") / "0.tfrecord", index=False) as file:
        row = {"board": board[0].flatten(), "policy": policy[0], "value": 0.5, "player_to_move": 1}
        file.write(seekset.encode_example(row))
    features = {"value": "float32", "board": ("float32", (3, 13, 13)), "policy": ("float32", (169,))}
    reader = TFRecordShards({**features, "player_to_move": "int64"})
    sources = {**games, "arrays": tmp_path / "arrays", "examples": tmp_path / "examples"}
    data = mixed(sources, reader={"examples": reader}, pool_rows=3, return_provenance=True)
    found = [(data.provenance(item)[0].source, bool(item["has_policy"]), item["value"].item()) for item in data]
    assert [one for one in sorted(found) if one[0] in ("arrays", "examples")] == [
        ("arrays", True, 1),
        ("arrays", True, 1),
        ("examples", True, 0.5),
    ]
    assert len(found) == 8
    data.ledger.check()


# --- readers that hold the GIL ----------------------------------------------------------------------------------------


def test_objects_are_read_in_processes_of_their_own_as_columns_are(tmp_path):
    sources = write_text(tmp_path, {"texts": [5, 4]})
    (tmp_path / "texts" / "00.txt").write_text("0 1 none 3 4")
    for rules in ({}, {"pool_rows": 2}, {"pool_rows": 2, "decoders": 1}):
        data = mixed(sources, reader=ApartLines(), on_error="skip", **rules)
        found = list(data)
        assert sorted(row for row, _ in found) == [0, 1, 3, 4, 5, 6, 7, 8]
        assert os.getpid() not in {process for _, process in found}
    with pytest.raises(seekset.FormatError, match=r"00\.txt: row 2 of source 'texts' .*: 'none' is no number"):
        list(mixed(sources, reader=ApartLines()))


# --- readers by the names of shards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [{"mixing": "global"}, {"pool_rows": 2, "open_shards": 1}])
def test_a_shard_is_opened_once_for_all_that_is_read_of_it(two_formats, monkeypatch, rules):
    opened = []

    class Noted(seekset.TFRecordFile):
        def __init__(self, path, **options):
            opened.append(path.name)
            super().__init__(path, **options)

    data = mixed([two_formats["examples"]], decoders=1, **rules)
    monkeypatch.setattr(seekset.shards.tfrecord, "TFRecordFile", Noted)
    assert len(list(data)) == len(list(data)) == 5
    assert len(opened) <= 2  # none, if it still is from counting


def test_sources_share_a_reader_of_a_kind_and_pickle_none(two_formats):
    sources = [
        Source(name, tuple(take_census(find_shards(two_formats[folder]))[0]))
        for name, folder in (("a", "examples"), ("b", "examples"), ("c", "arrays"))
    ]
    readers = {id(one.reader_of(shard)): one.reader_of(shard) for one in sources for shard in one.shards}
    assert sorted(type(reader).__name__ for reader in readers.values()) == ["NpzShards", "TFRecordShards"]
    copies = pickle.loads(pickle.dumps(sources))
    assert copies == sources
    assert "Shards" not in str(copies[0].__dict__)


def test_open_files_go_with_the_last_source_that_needs_them(two_formats, run):
    printed = run(
        """
        import os, sys
        from seekset.shards import find_shards, take_census
        from seekset.sources import Source

        def held():
            return sum(".tfrecord" in line for line in open("/proc/self/maps"))

        sources = [Source(name, tuple(take_census(find_shards(sys.argv[1]))[0])) for name in "ab"]
        counts = [held()]
        for source in sources:
            for shard in source.shards:
                source.reader_of(shard).read(shard.path)
            counts.append(held())
        while sources:
            del sources[0], source
            counts.append(held())
            source = None
        print(counts)
        """,
        two_formats["examples"],
    )
    assert printed == "[0, 2, 2, 2, 0]\n"
