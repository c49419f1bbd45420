"""Values into features: which kind they become, and what is refused."""

import numpy as np
import pytest

import seekset


@pytest.mark.parametrize(
    "value, expected",
    [
        (7, np.array([7])),
        (True, np.array([1])),
        ([True, 2, -3], np.array([1, 2, -3])),
        (0.5, np.array([0.5], dtype=np.float32)),
        ([1, 0.5], np.array([1, 0.5], dtype=np.float32)),
        ((1, 2), np.array([1, 2])),
        ([[1, 2], [3, 4]], np.array([1, 2, 3, 4])),
        (np.uint8(5), np.array([5])),
        (np.arange(6, dtype=np.int16).reshape(2, 3).T, np.array([0, 3, 1, 4, 2, 5])),
        (np.array([1, 2], dtype=">u4"), np.array([1, 2])),
        (np.array([True, False]), np.array([1, 0])),
        (np.array([1.5, np.nan, np.inf]), np.array([1.5, np.nan, np.inf], dtype=np.float32)),
        (np.array([1.5], dtype=np.float16), np.array([1.5], dtype=np.float32)),
        (np.array(2.5), np.array([2.5], dtype=np.float32)),
        (np.empty(0, dtype=np.float64), np.empty(0, dtype=np.float32)),
        (np.empty((0, 3), dtype=np.int32), np.empty(0, dtype=np.int64)),
        ([-(2**63), 2**63 - 1], np.array([-(2**63), 2**63 - 1])),
        (range(3), np.array([0, 1, 2])),
    ],
)
def test_numbers(value, expected):
    found = seekset.decode_example(seekset.encode_example({"x": value}))["x"]
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=expected.dtype == np.float32)


@pytest.mark.parametrize(
    "value, expected",
    [
        (b"\0\xff", [b"\0\xff"]),
        ("ä", ["ä".encode()]),
        (bytearray(b"x"), [b"x"]),
        (memoryview(b"x"), [b"x"]),
        ([b"a\0", "b", bytearray(b"c")], [b"a\0", b"b", b"c"]),
        (np.array(["a", "bc"]), [b"a", b"bc"]),
        (np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (np.array([b"a\0", "b"], dtype=object), [b"a\0", b"b"]),
        ("", [b""]),
    ],
)
def test_text_and_bytes(value, expected):
    assert seekset.decode_example(seekset.encode_example({"x": value}))["x"] == expected


def test_kinds_may_be_given():
    kinds = {"f": "float32", "i": "int64", "b": "bytes"}
    found = seekset.decode_example(seekset.encode_example({"f": [], "i": [], "b": []}, kinds))
    assert (found["f"].dtype, found["i"].dtype, found["b"]) == (np.float32, np.int64, [])
    found = seekset.decode_example(seekset.encode_example({"f": 3, "i": True, "b": "x"}, kinds))
    assert (found["f"].tolist(), found["i"].tolist(), found["b"]) == ([3.0], [1], [b"x"])


@pytest.mark.parametrize(
    "value, kind, error, message",
    [
        ([], None, seekset.MismatchError, r"feature 'x' is an empty list.*kinds=\{'x': 'int64'\}"),
        (None, None, TypeError, "feature 'x': a value is numbers, text or bytes, not NoneType"),
        ({"a": 1}, None, TypeError, "feature 'x': a value is numbers, text or bytes, not dict"),
        ([None, object()], None, TypeError, "not a list of NoneType, object"),
        (["a", 1], None, TypeError, "feature 'x': expected text or bytes, found int"),
        ([[1], [2, 3]], None, TypeError, "feature 'x': .* in even rows"),
        (1j, None, TypeError, "not complex"),
        (2**63, None, seekset.MismatchError, "feature 'x' holds 9223372036854775808, which does not fit into int64"),
        (2**64, None, seekset.MismatchError, "feature 'x' holds 18446744073709551616, which does not fit into int64"),
        (1e39, None, seekset.MismatchError, "feature 'x' holds a number that does not fit into float32"),
        (0.5, "int64", TypeError, "feature 'x': expected integers, found float64"),
        ("a", "int64", TypeError, "feature 'x': expected integers, found"),
        (1, "bytes", TypeError, "feature 'x': expected text or bytes, found int"),
        (1, "int32", ValueError, "its kind must be one of float32, int64, bytes, not 'int32'"),
    ],
)
def test_what_is_no_value_is_refused(value, kind, error, message):
    with pytest.raises(error, match=message):
        seekset.encode_example({"x": value}, kinds={} if kind is None else {"x": kind})


def test_steps_are_of_one_kind():
    payload = seekset.encode_sequence_example({}, {"x": [[1], [], [0.5]], "e": []}, {"e": "bytes"})
    steps = seekset.decode_sequence_example(payload)[1]["x"]
    assert [(step.dtype, step.tolist()) for step in steps] == [(np.float32, [1]), (np.float32, []), (np.float32, [0.5])]
    with pytest.raises(TypeError, match="feature 'x': its steps are of several kinds: bytes, int64"):
        seekset.encode_sequence_example({}, {"x": [1, "a"]})
    with pytest.raises(seekset.MismatchError, match="feature 'x' is an empty list"):
        seekset.encode_sequence_example({}, {"x": [[]]})
    with pytest.raises(TypeError, match="feature 'x': give a list of steps, not str"):
        seekset.encode_sequence_example({}, {"x": "abc"})


@pytest.mark.parametrize(
    "value",
    [[2**24 + 1, 0.5], [2**53 + 1, 0.5], [-(2**24) - 1, 0.5], [[0.5, 2**31 - 1]]],
)
def test_integers_that_float32_would_round_are_refused(value):
    with pytest.raises(seekset.MismatchError, match=r"feature 'x' holds -?\d+, which float32 can't hold as it is"):
        seekset.encode_example({"x": value})


def test_integers_that_float32_would_round_are_refused_where_floats_are_asked_for():
    for value in (2**24 + 1, np.array([1, 2**24 + 1])):
        with pytest.raises(seekset.MismatchError, match="feature 'x' holds 16777217, which float32"):
            seekset.encode_example({"x": value}, kinds={"x": "float32"})
    with pytest.raises(seekset.MismatchError, match="feature 'x' holds 16777217, which float32"):
        seekset.encode_sequence_example({}, {"x": [[0.5], [2**24 + 1]]})


def test_floats_are_rounded_and_integers_that_float32_holds_are_kept():
    values = [2**24 + 1.0, 2**24 + 2, 2**60, 0.1, float("inf")]
    decoded = seekset.decode_example(seekset.encode_example({"x": values}))["x"].tolist()
    assert decoded == [2.0**24, 2.0**24 + 2, 2.0**60, float(np.float32(0.1)), float("inf")]


@pytest.mark.parametrize("value", [2**64, [2**64, 1], [2**63, -1], 2**63, -(2**63) - 1])
def test_integers_beyond_64_bits_are_refused_by_their_value(value):
    wrong = value[0] if isinstance(value, list) else value
    for kinds in (None, {"x": "int64"}):
        with pytest.raises(seekset.MismatchError, match=f"feature 'x' holds {wrong}, which does not fit into int64"):
            seekset.encode_example({"x": value}, kinds)


def test_kinds_of_features_that_are_not_there_are_refused():
    with pytest.raises(seekset.MismatchError, match="kinds speaks of 'b', but there are only 'a', 'c'"):
        seekset.encode_example({"a": 1, "c": 2}, kinds={"b": "int64"})
    with pytest.raises(seekset.MismatchError, match="kinds speaks of 'b', but there are only 'a', 'x'"):
        seekset.encode_sequence_example({"a": 1}, {"x": [[]]}, kinds={"x": "int64", "b": "int64"})


def test_what_is_no_mapping_of_names_is_refused():
    with pytest.raises(TypeError, match="features must map names to values, not be list"):
        seekset.encode_example([1])
    with pytest.raises(TypeError, match="feature 1: a name is text, not int"):
        seekset.encode_example({1: 1})
    with pytest.raises(TypeError, match="features must map names to values, not be list"):
        seekset.encode_sequence_example({}, [1])
    for steps, kind in ((3, "int"), ({"a": 1}, "dict"), (np.array(3), "ndarray")):
        with pytest.raises(TypeError, match=f"feature 'x': give a list of steps, not {kind}"):
            seekset.encode_sequence_example({}, {"x": steps})
