"""tf.train.Example into columns: what may be asked of features, what comes out, what is refused."""

import re

import numpy as np
import pytest

import seekset
from seekset import Batch, Feature, NestedBatch

FIRST = seekset.encode_example({"x": [0.5, 1.5], "n": 7, "name": "one", "tags": [b"a", b"b\0"], "w": np.arange(6)})
SECOND = seekset.encode_example({"name": "two", "w": np.arange(4), "n": -1, "x": [2.5, 3.5], "tags": [b""]})
BOTH = [FIRST, SECOND]
NO_EXAMPLE = (
    r"^{where}: this is no tf\.train\.Example, or a damaged one: byte \d+ of its payload: expected .* with tf\[row\]$"
)


def test_features_are_asked_for_in_short():
    columns = seekset.decode_examples(BOTH, {"x": ("float32", (2,)), "n": "int64", "name": "bytes"})
    assert list(columns) == ["x", "n", "name"]
    assert columns["x"].dtype == np.float32
    assert columns["x"].tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert columns["n"].dtype == np.int64
    assert columns["n"].tolist() == [7, -1]
    assert columns["name"] == [b"one", b"two"]


@pytest.mark.parametrize(
    "asked, expected",
    [
        ("int64", np.array([7, -1])),
        ("int32", np.array([7, -1], dtype=np.int32)),
        (np.int64, np.array([7, -1])),
        (np.dtype("int32"), np.array([7, -1], dtype=np.int32)),
        (("int64", ()), np.array([7, -1])),
        (("int64", (1,)), np.array([[7], [-1]])),
        (("int64", 1), np.array([[7], [-1]])),
        (("int64", [1, 1]), np.array([[[7]], [[-1]]])),
        (Feature("int64"), np.array([7, -1])),
        (Feature("int32", (1,)), np.array([[7], [-1]], dtype=np.int32)),
    ],
)
def test_the_ways_to_ask_for_one_value(asked, expected):
    column = seekset.decode_examples(BOTH, {"n": asked})["n"]
    assert (column.dtype, column.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(column, expected)


@pytest.mark.parametrize(
    "shape, values, offsets",
    [
        (None, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3], [0, 6, 10]),
        ((None,), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3], [0, 6, 10]),
        ((None, 2), [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]], [0, 3, 5]),
        ((None, 2, 1), [[[0], [1]], [[2], [3]], [[4], [5]], [[0], [1]], [[2], [3]]], [0, 3, 5]),
    ],
)
def test_any_number_of_values_is_ragged(shape, values, offsets):
    column = seekset.decode_examples(BOTH, {"w": ("int64", shape)})["w"]
    assert isinstance(column, Batch)
    assert column.values.tolist() == values
    assert column.offsets.dtype == np.int64
    assert column.offsets.tolist() == offsets


def test_byte_strings_keep_their_shape_and_their_zero_bytes():
    ragged = seekset.decode_examples(BOTH, {"tags": ("bytes", None)})["tags"]
    assert (ragged.values.tolist(), ragged.offsets.tolist()) == ([b"a", b"b\0", b""], [0, 2, 3])
    stacked = seekset.decode_examples([FIRST, FIRST], {"tags": ("bytes", (2, 1))})["tags"]
    assert stacked.dtype == object
    assert stacked.tolist() == [[[b"a"], [b"b\0"]]] * 2


def test_a_missing_feature_takes_its_default():
    payloads = [seekset.encode_example({}), FIRST]
    columns = seekset.decode_examples(
        payloads,
        {
            "n": Feature("int64", default=5),
            "x": Feature("float32", (2,), default=0.25),
            "w": Feature("int32", None, default=[]),
            "tags": Feature("bytes", None, default=["ä", b"c"]),
            "name": Feature("bytes", default="none"),
            "u": Feature("int64", (2, 2), default=[[1, 2], [3, 4]]),
        },
    )
    assert columns["n"].tolist() == [5, 7]
    assert columns["x"].tolist() == [[0.25, 0.25], [0.5, 1.5]]
    assert columns["w"].values.tolist() == [0, 1, 2, 3, 4, 5]
    assert columns["w"].offsets.tolist() == [0, 0, 6]
    assert columns["tags"].values.tolist() == ["ä".encode(), b"c", b"a", b"b\0"]
    assert columns["name"] == [b"none", b"one"]
    assert columns["u"].tolist() == [[[1, 2], [3, 4]]] * 2


def test_shapes_without_values_and_batches_without_records():
    empty = seekset.encode_example({"x": []}, kinds={"x": "float32"})
    assert seekset.decode_examples([empty] * 3, {"x": ("float32", (0,))})["x"].shape == (3, 0)
    none = seekset.decode_examples([], {"x": ("float32", (4,)), "y": ("int64", None), "z": "bytes"})
    assert (none["x"].shape, none["y"].offsets.tolist(), none["z"]) == ((0, 4), [0], [])
    assert seekset.decode_examples([], {}) == seekset.decode_examples(BOTH, {}) == {}


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"y": "int64"}, "record 0: feature 'y': expected it, or a default to take instead; found neither"),
        ({"x": ("int64", (2,))}, "record 0: feature 'x': expected int64 values, found float values"),
        ({"n": "bytes"}, "record 0: feature 'n': expected bytes values, found int64 values"),
        ({"x": "float32"}, "record 0: feature 'x': expected 1 values, found 2"),
        ({"w": ("int64", (6,))}, "record 1: feature 'w': expected 6 values, found 4"),
        ({"w": ("int64", (None, 3))}, "record 1: feature 'w': expected a multiple of 3 values, found 4"),
        ({"tags": ("bytes", (2,))}, "record 1: feature 'tags': expected 2 values, found 1"),
    ],
)
def test_what_does_not_fit_names_record_and_feature(asked, message):
    with pytest.raises(seekset.MismatchError) as error:
        seekset.decode_examples(BOTH, asked)
    assert str(error.value) == f"<bytes>: {message}"


def test_an_integer_that_does_not_fit_is_refused():
    payload = seekset.encode_example({"n": 2**31})
    with pytest.raises(
        seekset.MismatchError, match=r"feature 'n': expected values that fit into int32, found 2147483648"
    ):
        seekset.decode_examples([payload], {"n": "int32"})


@pytest.mark.parametrize("cut", range(1, len(FIRST)))
def test_a_cut_payload_is_corrupt(cut):
    with pytest.raises(seekset.CorruptRecordError, match=NO_EXAMPLE.format(where="<bytes>: record 1")):
        seekset.decode_examples([FIRST, FIRST[:cut]], {"n": "int64"})
    with pytest.raises(seekset.CorruptRecordError, match=NO_EXAMPLE.format(where="<bytes>: record 0")):
        seekset.decode_example(FIRST[:cut])


@pytest.mark.parametrize(
    "asked, error, message",
    [
        ({"x": "float64"}, ValueError, "dtype must be one of float32, int64, int32, bytes, not float64"),
        ({"x": ("float32", (-1,))}, ValueError, r"the first may be None; not \(-1,\)"),
        ({"x": ("float32", (2, None))}, ValueError, r"the first may be None; not \(2, None\)"),
        ({"x": ("float32", (None, 0))}, seekset.MismatchError, "feature 'x': rows of no values"),
        ({"x": ("float32", (2**40, 2**40))}, ValueError, "feature 'x': its shape has more values than memory"),
        ({"x": ("float32",)}, ValueError, "give a dtype"),
        ({"x": Feature("float32", (3,), default=[1, 2])}, seekset.MismatchError, "must have 3 values, not 2"),
        ({"x": Feature("int64", default=0.5)}, TypeError, "feature 'x': expected integers, found float64"),
        (
            {"x": Feature("int32", default=2**40)},
            seekset.MismatchError,
            "default holds 1099511627776, which does not fit",
        ),
        ({"x": Feature("bytes", default=[5])}, TypeError, "feature 'x': expected text or bytes, found int"),
        (["x"], TypeError, "features must map names to what they are, not be list"),
    ],
)
def test_what_can_not_be_asked_for_is_refused(asked, error, message):
    with pytest.raises(error, match=message):
        seekset.decode_examples(BOTH, asked)


def test_payloads_may_be_any_bytes():
    features = {"n": "int64"}
    given = [FIRST, bytearray(SECOND), memoryview(FIRST), np.frombuffer(SECOND, dtype=np.uint8)]
    assert seekset.decode_examples(given, features)["n"].tolist() == [7, -1, 7, -1]
    assert seekset.decode_examples(iter(BOTH), features)["n"].tolist() == [7, -1]
    with pytest.raises(TypeError, match="a payload is bytes, not str"):
        seekset.decode_examples(["text"], features)


def test_one_example_comes_as_it_is():
    found = seekset.decode_example(FIRST)
    assert list(found) == ["x", "n", "name", "tags", "w"]
    assert (found["x"].dtype, found["x"].tolist()) == (np.float32, [0.5, 1.5])
    assert (found["n"].dtype, found["n"].tolist()) == (np.int64, [7])
    assert (found["name"], found["tags"]) == ([b"one"], [b"a", b"b\0"])
    assert seekset.decode_example(b"") == {}


def test_shapes_are_inferred_from_the_first_records():
    seldom = seekset.encode_example({"n": 1, "seldom": 2.0})
    found = seekset.infer_features([FIRST, SECOND])
    assert found == {
        "n": Feature("int64"),
        "name": Feature("bytes"),
        "tags": Feature("bytes", None),
        "w": Feature("int64", None),
        "x": Feature("float32", (2,)),
    }
    assert seekset.infer_features([seldom, seekset.encode_example({"n": 1})]) == {
        "n": Feature("int64"),
        "seldom": Feature("float32", None, default=[]),
    }
    assert seekset.infer_features([]) == {}
    columns = seekset.decode_examples(BOTH)
    assert columns["x"].shape == (2, 2)
    assert columns["w"].offsets.tolist() == [0, 6, 10]
    assert seekset.infer_features(iter([FIRST] * 100 + [b"not read any more"]))["n"] == Feature("int64")


def test_a_feature_of_two_kinds_can_not_be_inferred():
    with pytest.raises(seekset.MismatchError, match="record 1: feature 'n': expected int64 values as in record 0"):
        seekset.infer_features([FIRST, seekset.encode_example({"n": 0.5})])


def test_many_records_give_the_same_in_any_number_of_threads(in_threads):
    payloads = [
        seekset.encode_example({"x": np.full(64, k), "r": np.arange(k % 5), "s": [str(k)]}) for k in range(3000)
    ]
    features = {"x": ("int64", (64,)), "r": ("int64", None), "s": "bytes"}
    for columns in in_threads(lambda: seekset.decode_examples(payloads, features)):
        assert np.array_equal(columns["x"], np.repeat(np.arange(3000), 64).reshape(3000, 64))
        assert np.array_equal(columns["r"].values, np.concatenate([np.arange(k % 5) for k in range(3000)]))
        assert np.array_equal(np.diff(columns["r"].offsets), np.arange(3000) % 5)
        assert columns["s"] == [str(k).encode() for k in range(3000)]
    payloads[2500] = payloads[700] = b"\x0a\x05"
    for message in in_threads(lambda: message_of(payloads, features)):
        assert re.match(NO_EXAMPLE.format(where="<bytes>: record 700"), message)


def message_of(payloads, features):
    with pytest.raises(seekset.CorruptRecordError) as error:
        seekset.decode_examples(payloads, features)
    return str(error.value)


# --- SequenceExample ------------------------------------------------------------------------------------------------

STEPS = seekset.encode_sequence_example(
    {"id": 7}, {"x": [[0.5, 1.5], [2.5, 3.5]], "words": [["a"], [], ["b", "c"]], "n": [1, 2]}
)
NO_STEPS = seekset.encode_sequence_example({"id": 8}, {"x": [], "words": [], "n": []})


def test_feature_lists_come_with_where_their_steps_start():
    context, lists = seekset.decode_sequence_examples(
        [STEPS, NO_STEPS, STEPS], {"id": "int64"}, {"x": ("float32", (2,)), "n": "int32", "words": ("bytes", None)}
    )
    assert context["id"].tolist() == [7, 8, 7]
    assert isinstance(lists["x"], Batch)
    assert lists["x"].values.tolist() == [[0.5, 1.5], [2.5, 3.5]] * 2
    assert lists["x"].offsets.tolist() == [0, 2, 2, 4]
    assert (lists["n"].values.tolist(), lists["n"].values.dtype) == ([1, 2, 1, 2], np.int32)
    words = lists["words"]
    assert isinstance(words, NestedBatch)
    assert words.values.tolist() == [b"a", b"b", b"c"] * 2
    assert words.steps.tolist() == [0, 1, 1, 3, 4, 4, 6]
    assert words.offsets.tolist() == [0, 3, 3, 6]


def test_feature_lists_are_inferred_and_may_be_missing():
    context, lists = seekset.decode_sequence_examples([STEPS, NO_STEPS])
    assert context["id"].tolist() == [7, 8]
    assert lists["x"].values.shape == (2, 2)
    bare = seekset.encode_sequence_example({}, {})
    _, lists = seekset.decode_sequence_examples([bare, STEPS], {}, {"n": Feature("int64", default=0)})
    assert (lists["n"].values.tolist(), lists["n"].offsets.tolist()) == ([1, 2], [0, 0, 2])
    with pytest.raises(seekset.MismatchError, match="record 1: feature 'n': expected it, or a default"):
        seekset.decode_sequence_examples([STEPS, bare], {}, {"n": "int64"})
    with pytest.raises(seekset.MismatchError, match="record 0: feature 'words': step 1: expected 1 values, found 0"):
        seekset.decode_sequence_examples([STEPS], {}, {"words": "bytes"})


def test_one_sequence_example_comes_step_by_step():
    context, lists = seekset.decode_sequence_example(STEPS)
    assert context["id"].tolist() == [7]
    assert [step.tolist() for step in lists["x"]] == [[0.5, 1.5], [2.5, 3.5]]
    assert lists["words"] == [[b"a"], [], [b"b", b"c"]]


# --- rows of a file -------------------------------------------------------------------------------------------------


@pytest.fixture(params=["mmap", "pread"])
def tf(request, tmp_path):
    path = tmp_path / "x.tfrecord"
    with seekset.TFRecordWriter(path) as out:
        for payload in (FIRST, SECOND, STEPS, b"\x0a\x05", FIRST):
            out.write(payload)
    return seekset.TFRecordFile(path, io=request.param)


def test_rows_of_a_file_are_decoded_in_the_order_asked(tf):
    columns = tf.examples([4, 1, -4, 0], features={"x": ("float32", (2,)), "name": "bytes", "w": ("int64", None)})
    assert columns["x"].tolist() == [[0.5, 1.5], [2.5, 3.5], [2.5, 3.5], [0.5, 1.5]]
    assert columns["name"] == [b"one", b"two", b"two", b"one"]
    assert columns["w"].offsets.tolist() == [0, 6, 10, 14, 20]
    assert tf.example(-1)["name"] == [b"one"]
    assert tf.example(1)["x"].tolist() == [2.5, 3.5]


def test_sequences_of_a_file(tf):
    context, lists = tf.sequence_examples([2, 2], {"id": "int64"}, {"n": "int64"})
    assert (context["id"].tolist(), lists["n"].values.tolist()) == ([7, 7], [1, 2, 1, 2])
    context, lists = tf.sequence_example(2)
    assert (context["id"].tolist(), lists["words"]) == ([7], [[b"a"], [], [b"b", b"c"]])


def test_errors_in_a_file_name_it_and_the_place_of_the_record(tf):
    offset = tf.entry(3)[0]
    place = NO_EXAMPLE.format(where=f"{tf.path}: record 3, byte {offset}")
    for read in (lambda: tf.examples([0, 3], {"n": "int64"}), lambda: tf.example(3), lambda: tf.sequence_example(3)):
        with pytest.raises(seekset.CorruptRecordError, match=place):
            read()
    offset = tf.entry(2)[0]
    with pytest.raises(seekset.MismatchError, match=f"^{tf.path}: record 2, byte {offset}: feature 'n': expected it"):
        tf.examples([0, 2], {"n": "int64"})
    with pytest.raises(IndexError, match="row 5 is out of range"):
        tf.examples([0, 5], {"n": "int64"})


def test_features_of_a_file_are_inferred_from_its_first_records(tmp_path):
    path = tmp_path / "x.tfrecord"
    with seekset.TFRecordWriter(path) as out:
        for k in range(120):
            out.write_example({"n": k, "r": list(range(k % 3 + 1))})
        out.write_example({"n": [1, 2], "r": [1]})
    tf = seekset.TFRecordFile(path)
    assert tf.infer_features() == {"n": Feature("int64"), "r": Feature("int64", None)}
    assert tf.examples([119, 3])["n"].tolist() == [119, 3]
    with pytest.raises(seekset.MismatchError, match=r"record 120, byte .*: feature 'n': expected 1 values, found 2"):
        tf.examples([120])
