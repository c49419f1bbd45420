"""Pickled shards: what examples become, which rows are bad, what is told of damaged files."""

import gzip
import pickle
import re
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seekset
from hex_shards import hex_examples, write_hex
from seekset.shards import Field, PickleShards

READER = PickleShards()


@pytest.fixture
def read(tmp_path):
    """`read(content)` is what the reader makes of a pickle of this."""

    def read(content, protocol=4, **options):
        path = tmp_path / "a.pkl"
        path.write_bytes(pickle.dumps(content, protocol=protocol))
        return PickleShards(**options).read(path)

    return read


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", ["a.pkl", "a.pkl.gz"])
def test_columns_equal_what_pickle_itself_loads(tmp_path, protocol, name):
    examples = hex_examples(20, without_policy={0, 7})
    rows = READER.read(write_hex(tmp_path / name, examples, protocol=protocol))
    assert rows.bad == {}
    assert rows.fields == (
        Field("board", "<f4", (3, 13, 13)),
        Field("policy", "<f4", (169,)),
        Field("value", "<f4", ()),
        Field("player_to_move", "<i8", ()),
        Field("has_policy", "|b1", ()),
    )
    for row, example in enumerate(examples):
        found = {name: column[row] for name, column in rows.columns.items()}
        assert np.array_equal(found["board"], example["board"])
        assert np.array_equal(found["policy"], np.zeros(169) if example["policy"] is None else example["policy"])
        assert (found["value"], found["player_to_move"]) == (example["value"], example["player_to_move"])
        assert found["has_policy"] == (example["policy"] is not None)


def test_the_names_that_numpy_had_before_its_second_version_are_read(tmp_path):
    content = pickle.dumps([{"x": np.arange(3), "y": np.float32(2)}], protocol=2)
    old = content.replace(b"numpy._core.", b"numpy.core.")
    assert old != content
    (tmp_path / "a.pkl").write_bytes(old)
    rows = READER.read(tmp_path / "a.pkl")
    assert (rows.columns["x"].tolist(), rows.columns["y"].tolist()) == ([[0, 1, 2]], [2.0])


@pytest.mark.parametrize(
    "value, field",
    [
        (1.5, Field("x", "<f4", ())),
        (7, Field("x", "<i8", ())),
        (True, Field("x", "|b1", ())),
        (np.float64(1.5), Field("x", "<f8", ())),
        (np.int16(-3), Field("x", "<i2", ())),
        (np.bool_(True), Field("x", "|b1", ())),
        (np.array(3, dtype=np.uint8), Field("x", "|u1", ())),
        (np.arange(6, dtype=np.int32).reshape(2, 3), Field("x", "<i4", (2, 3))),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), Field("x", "<f8", (2, 3))),
        (np.arange(3, dtype=">u4"), Field("x", "<u4", (3,))),
        (np.arange(6, dtype=np.int16)[::2], Field("x", "<i2", (3,))),
        (np.zeros((0, 4), dtype=np.float16), Field("x", "<f2", (0, 4))),
        (np.array([True, False]), Field("x", "|b1", (2,))),
        (np.array([1 + 2j], dtype=np.complex64), Field("x", "<c8", (1,))),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_numbers_become_columns(read, value, field, protocol):
    rows = read([{"x": value}, {"x": value}, {"x": value}], protocol)
    assert rows.fields == (field,)
    assert np.array_equal(rows.columns["x"], np.stack([np.asarray(value)] * 3))
    assert rows.columns["x"].flags.c_contiguous


def test_bytes_of_a_bool_are_zeros_and_ones_whatever_the_file_has(tmp_path):
    content = pickle.dumps([{"x": np.array([True, False, True])}], protocol=4).replace(b"\1\0\1", b"\2\0\xff")
    (tmp_path / "a.pkl").write_bytes(content)
    column = READER.read(tmp_path / "a.pkl").columns["x"]
    assert (column.dtype, column.view(np.uint8).tolist()) == (np.bool_, [[1, 0, 1]])


def test_a_field_that_is_none_somewhere_has_a_flag(read):
    rows = read([{"x": None, "y": 1.0}, {"x": np.ones(2), "y": None}, {"x": np.ones(2), "y": 3.0}])
    assert {name: column.tolist() for name, column in rows.columns.items()} == {
        "x": [[0, 0], [1, 1], [1, 1]],
        "y": [1, 0, 3],
        "has_x": [False, True, True],
        "has_y": [True, False, True],
    }


def test_a_policy_has_a_flag_always(read):
    rows = read([{"policy": np.ones(2)}])
    assert rows.columns["has_policy"].tolist() == [True]


def test_a_flag_must_not_have_the_name_of_a_field(read):
    with pytest.raises(seekset.FormatError, match=r"field 'policy' may be None, and 'has_policy' would say where"):
        read([{"policy": np.ones(2), "has_policy": True}])


def test_what_is_no_number_is_dropped_and_listed(tmp_path):
    example = {"x": 1, "text": "a", "words": ["a"], "made": np.array(["a"]), "never": None, "more": {"a": 1}}
    path = write_hex(tmp_path / "a.pkl", [example, {**example, "late": 2.5}])
    census = READER.count(path)
    assert census.fields == (Field("x", "<i8", ()),)
    assert census.dropped == ("text", "words", "made", "more", "late")
    assert census.absent == ("never",)
    write_hex(path, [example, "no dict", example])
    assert READER.count(path).absent == ("never",)
    write_hex(path, [example, {name: value for name, value in example.items() if name != "never"}])
    assert READER.count(path).absent == ()


@pytest.mark.parametrize(
    "odd, what",
    [
        ({"x": np.zeros((3, 2))}, "field 'x': expected float64 of shape (2, 3), found float64 of shape (3, 2)"),
        (
            {"x": np.zeros((2, 3), np.float32)},
            "field 'x': expected float64 of shape (2, 3), found float32 of shape (2, 3)",
        ),
        ({"x": 1.5}, "field 'x': expected float64 of shape (2, 3), found float32 of shape ()"),
        ({"x": "text"}, "field 'x': expected float64 of shape (2, 3), found str"),
        ({"x": np.array(["a"])}, "field 'x': expected float64 of shape (2, 3), found <U1 of shape (1,)"),
        ({"y": 3}, "field 'y': expected float32 of shape (), found int64 of shape ()"),
        ({"y": 1e300}, "field 'y': expected float32 of shape (), found 1e+300"),
        ({"n": 2**70}, "field 'n': expected int64 of shape (), found an integer of 71 bits"),
        ({"n": True}, "field 'n': expected int64 of shape (), found bool of shape ()"),
    ],
)
def test_a_row_of_another_kind_is_bad_and_zeros(read, odd, what):
    good = {"x": np.ones((2, 3)), "y": 0.5, "n": 7, "policy": np.ones(2)}
    rows = read([good, {**good, **odd}, good])
    assert rows.bad == {1: what}
    assert all(np.array_equal(column[1], np.zeros_like(column[0])) for column in rows.columns.values())
    assert all(np.array_equal(column[0], column[2]) and column[0].all() for column in rows.columns.values())


def test_numbers_of_one_kind_may_come_in_different_types(read):
    rows = read([{"x": 1.5, "n": np.int64(1)}, {"x": np.float32(2.5), "n": 2}, {"x": 3.5, "n": np.array(3)}])
    assert (rows.bad, rows.columns["x"].tolist(), rows.columns["n"].tolist()) == ({}, [1.5, 2.5, 3.5], [1, 2, 3])


def test_a_row_without_a_field_or_that_is_no_example_is_bad(read):
    rows = read([{"x": 1.0, "y": 2}, {"y": 2}, "none", {"x": 1.0, "y": 2}])
    assert rows.bad == {
        1: "field 'x': expected float32 of shape (), found nothing",
        2: "expected an example that is a dict, found str",
    }
    assert rows.columns["y"].tolist() == [2, 0, 0, 2]


def test_floats_that_float32_rounds_are_good(read):
    largest = float(np.finfo(np.float32).max)
    rows = read([{"x": 0.1}, {"x": float("nan")}, {"x": float("-inf")}, {"x": largest}, {"x": 5e-324}])
    assert rows.bad == {}
    assert np.array_equal(rows.columns["x"], np.array([0.1, np.nan, -np.inf, largest, 0], np.float32), equal_nan=True)


def test_all_else_is_objects_with_real_arrays(read):
    shared = np.arange(3)
    itself = [1]
    itself.append(itself)
    examples = [("a", shared, {"deep": [shared]}), itself, {1, 2}, frozenset({"b"}), b"", bytearray(b"c"), 1j, None]
    for protocol in range(6):
        found = read(examples, protocol).objects
        assert type(found[0][1]) is np.ndarray
        assert found[0][1].tolist() == [0, 1, 2]
        assert found[0][2]["deep"][0] is found[0][1]
        assert found[0][1].flags.writeable
        assert found[1][1] is found[1]
        assert found[2:] == examples[2:]


@pytest.mark.parametrize("examples", [[], [{}], [{"text": "a"}], [{1: 2.0}], [{"x": None}]])
def test_examples_without_a_number_are_objects(read, examples):
    rows = read({"examples": examples})
    assert (rows.columns, rows.objects, len(rows)) == (None, examples, len(examples))


@pytest.mark.parametrize(
    "content, found",
    [
        ({"games": []}, "a dict without 'examples'"),
        ({"examples": 3}, "a dict with int in it"),
        (3, "int"),
        ("ab", "str"),
    ],
)
def test_what_is_no_list_of_examples_is_told(tmp_path, content, found):
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(content))
    message = f"{path}: expected a list of examples, or a dict that has one in 'examples', found {found}"
    with pytest.raises(seekset.FormatError, match=f"^{re.escape(message)}$"):
        READER.read(path)


def test_a_count_measures_what_rows_take_packed(tmp_path):
    path = write_hex(tmp_path / "a.pkl.gz", hex_examples(50, without_policy={3}))
    census, rows = READER.count(path), READER.read(path)
    assert (census.rows, census.fields, census.dropped) == (50, rows.fields, ("metadata",))
    packed = seekset._core.pack_rows(list(rows.columns.values()), 50)
    assert census.packed_bytes == len(packed[0])
    assert census.row_bytes == np.diff(packed[1], prepend=np.uint64(0)).max()
    assert 0 < census.row_bytes < 400 < 2028 + 676
    assert census.decoded_bytes > rows.nbytes


def test_a_count_of_objects_estimates(tmp_path):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(["a", "b" * 1000]))
    census = READER.count(tmp_path / "a.pkl")
    assert (census.rows, census.fields) == (2, None)
    assert 1000 < census.row_bytes < census.packed_bytes < 1100


def test_the_gil_is_released_while_a_pickle_is_read(tmp_path):
    path = write_hex(tmp_path / "a.pkl.gz", hex_examples(2000))
    steps, done = 0, threading.Event()

    def count():
        nonlocal steps
        while not done.is_set():
            steps += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = steps
    while steps - before < 100:
        READER.read(path)
    done.set()
    counter.join()


# --- gzip -----------------------------------------------------------------------------------------------------------


def test_gzip_in_several_members_and_with_zeros_after_it_is_one_file(tmp_path):
    content = pickle.dumps([{"x": 1.0}])
    path = tmp_path / "a.pkl.gz"
    path.write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]) + bytes(512))
    assert READER.read(path).columns["x"].tolist() == [1.0]


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda content: content[:-9], "gzip member 0 ends early: "),
        (lambda content: content[:15], "gzip member 0 ends early: "),
        (lambda content: content[:2], "gzip member 0 ends early: 2 bytes give 0, and more was to come"),
        (lambda content: content[:-8] + bytes(8), "gzip member 0: expected deflated bytes, found others"),
        (
            lambda content: content + b"garbage",
            "expected the end or another gzip member after member 0, found b'garbage'",
        ),
        (lambda content: content + content, "expected a pickle and nothing after it, but found more bytes"),
        (
            lambda content: gzip.decompress(content) + b".",
            "expected a pickle and nothing after it, but found more bytes",
        ),
        (lambda content: gzip.decompress(content)[:-1], "expected a pickle, but it can't be read: "),
        (lambda _: b"", "expected a pickle, but it can't be read: EOFError: Ran out of input"),
        (lambda _: b"no pickle at all", "expected a pickle, but it can't be read: "),
    ],
)
def test_what_is_damaged_is_told_with_the_file(tmp_path, damage, message):
    path = tmp_path / "a.pkl.gz"
    path.write_bytes(damage(gzip.compress(pickle.dumps([{"x": 1.0}] * 100))))
    with pytest.raises(seekset.FormatError, match=f"^{re.escape(f'{path}: {message}')}"):
        READER.read(path)


@pytest.mark.parametrize("packed", [True, False])
def test_more_than_may_be_inflated_is_refused_before_it_is_there(tmp_path, packed):
    content = pickle.dumps([bytes(10_000_000)])
    path = tmp_path / "a.pkl"
    path.write_bytes(gzip.compress(content) if packed else content)
    message = f"{path}: it has more than 1000000 bytes inflated"
    with pytest.raises(seekset.MemoryLimitError, match=f"^{re.escape(message)}"):
        PickleShards(max_bytes=1_000_000).read(path)
    assert len(PickleShards(max_bytes=len(content)).read(path)) == 1


def test_members_count_together(tmp_path):
    path = tmp_path / "a.pkl.gz"
    path.write_bytes(gzip.compress(pickle.dumps([b"a" * 600])) + gzip.compress(b"b" * 600))
    with pytest.raises(seekset.MemoryLimitError):
        PickleShards(max_bytes=1000).read(path)


def test_a_missing_file_is_a_real_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        READER.read(tmp_path / "missing.pkl")


# --- whatever people pickle -----------------------------------------------------------------------------------------

numbers = st.one_of(st.floats(width=32), st.integers(-(2**63), 2**63 - 1), st.booleans())
plain = st.recursive(
    st.one_of(st.none(), numbers, st.text(max_size=5), st.binary(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3), st.tuples(inner)
    ),
    max_leaves=10,
)


@given(st.lists(plain, max_size=5), st.integers(0, 5))
def test_plain_values_come_back_or_become_columns(scratch, examples, protocol):
    rows = READER.read(scratch(pickle.dumps(examples, protocol)))
    assert len(rows) == len(examples)
    if rows.columns is None:
        assert pickle.dumps(rows.objects) == pickle.dumps(pickle.loads(pickle.dumps(examples, protocol)))


@given(
    st.lists(
        st.fixed_dictionaries({"x": st.floats(width=32), "n": st.integers(-5, 5) | st.none()}), min_size=1, max_size=9
    ),
    st.integers(0, 5),
)
def test_columns_of_any_examples_equal_their_values(scratch, examples, protocol):
    rows = READER.read(scratch(pickle.dumps(examples, protocol)))
    assert rows.bad == {}
    assert np.array_equal(rows.columns["x"], np.array([one["x"] for one in examples], np.float32), equal_nan=True)
    if "n" in rows.columns:
        assert rows.columns["n"].tolist() == [one["n"] or 0 for one in examples]
    assert ("has_n" in rows.columns) == (len({one["n"] is None for one in examples}) == 2)


def test_readers_pickle_with_their_options():
    assert repr(pickle.loads(pickle.dumps(PickleShards(max_bytes=7)))) == "PickleShards(max_bytes=7)"
    with pytest.raises(ValueError, match="max_bytes must be at least 1"):
        PickleShards(max_bytes=0)
