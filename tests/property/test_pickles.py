"""Pickles that the extension reads equal what Python's own unpickler makes of them, value by value."""

import io
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seekset
from seekset.shards import PickleShards
from seekset.shards.unpickling import load_objects, load_pickle
from stacked import stacked

MOST = 1 << 24
READER = PickleShards(max_bytes=MOST)
DOCUMENTED = (seekset.FormatError, seekset.MemoryLimitError)

dtypes = st.sampled_from(["?", "i1", "<i2", ">i2", "<i4", ">i8", "u1", ">u4", "<f2", "<f4", ">f4", "<f8", ">f8"])
more_dtypes = st.one_of(dtypes, st.sampled_from(["<c8", ">c16", "S3", "<U2", ">U2", "U0"]))
shapes = st.sampled_from([(), (1,), (2,), (3,), (0,), (2, 3), (3, 2), (2, 1, 2), (0, 4)])


@st.composite
def arrays(draw, dtypes=more_dtypes):
    """Arrays of any dtype, shape and order, with any bytes in them."""
    dtype, shape = np.dtype(draw(dtypes)), draw(shapes)
    size = dtype.itemsize * int(np.prod(shape))
    if dtype.kind == "U" or not dtype.itemsize:
        return np.full(shape, "a", dtype=dtype)
    raw = bytearray(draw(st.binary(min_size=size, max_size=size)))
    array = np.frombuffer(raw, dtype="u1" if dtype.kind == "b" else dtype).reshape(shape)
    array = array > 100 if dtype.kind == "b" else array
    return np.asfortranarray(array) if draw(st.booleans()) else array.copy()


numbers = st.one_of(
    st.floats(),
    st.sampled_from([3.4028235677973366e38, 3.4028235677973362e38, -1e39, 0.1]),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    arrays(dtypes).filter(lambda array: array.shape).map(lambda array: array.reshape(-1)[:1]),
    arrays(dtypes).filter(lambda array: array.size).map(lambda array: array.reshape(-1)[0]),
)
few = {"max_size": 2}
others = st.one_of(
    st.none(),
    st.text(**few),
    st.binary(**few),
    st.binary(**few).map(bytearray),
    st.complex_numbers(),
    st.lists(st.integers(), **few),
    st.frozensets(st.integers(), **few),
    st.sets(st.text(**few), **few),
    st.tuples(),
    st.tuples(st.integers(), st.text(**few)),
    st.dictionaries(st.text(**few), st.integers(), **few),
    arrays(),
    st.sampled_from([np.float64(7), np.str_("a"), np.bytes_(b"b"), np.longdouble(1)]),
)
names = st.sampled_from(["x", "y", "policy", "has_x", "has_policy", "grün", "\ud800", "a\nb", "\\u0041"])


@st.composite
def examples(draw):
    """Examples of some fields, most of which are of one kind in most of them."""
    fields = {
        name: draw(st.one_of(numbers, arrays(), others)) for name in draw(st.lists(names, unique=True, max_size=4))
    }
    found = []
    for _ in range(draw(st.integers(0, 5))):
        example = dict(fields)
        for name in draw(st.lists(names, max_size=2)):
            change = draw(st.sampled_from(["none", "missing", "number", "array", "other"]))
            if change == "missing":
                example.pop(name, None)
            else:
                by_change = {"none": st.none(), "number": numbers, "array": arrays(), "other": others}
                example[name] = draw(by_change[change])
        found.append(example)
    if draw(st.integers(0, 9)) == 0:
        found.insert(draw(st.integers(0, len(found))), draw(others))
    return found


def plainly(path):
    """What Python's unpickler makes of the examples of a file, with the same names allowed."""
    content = path.read_bytes()
    found, _ = load_pickle(content, path, max_bytes=MOST)
    inside = found.get("examples") if type(found) is dict else found
    if type(inside) not in (list, tuple):
        raise seekset.FormatError(f"{path}: no examples")
    return stacked(list(load_objects(content, path, max_bytes=MOST)))


def check_equal(path, rows, dropped, absent):
    """What the extension reads is the very same."""
    found = READER.read(path)
    assert (found.columns is None, found.bad) == (rows.columns is None, rows.bad)
    if rows.columns is None:
        assert len(found) == len(rows)
        return
    assert found.fields == rows.fields
    for name, column in rows.columns.items():
        assert np.array_equal(found.columns[name], column, equal_nan=column.dtype.kind in "fc"), name
    assert READER._load(path)[1:3] == (dropped, absent)


@given(examples(), st.integers(0, 5), st.booleans())
@settings(max_examples=500)
def test_any_examples_are_the_same_rows_in_every_protocol(scratch, examples, protocol, inside):
    path = scratch(pickle.dumps({"n": 1, "examples": examples} if inside else examples, protocol))
    try:
        expected = stacked(examples)
    except seekset.FormatError:
        with pytest.raises(seekset.FormatError, match="may be None, and 'has_"):
            READER.read(path)
        return
    check_equal(path, *expected)


@given(examples(), st.integers(0, 5))
def test_what_python_reads_without_the_memo_is_the_same(scratch, examples, protocol):
    file = io.BytesIO()
    pickler = pickle._Pickler(file, protocol)
    pickler.fast = True
    pickler.dump(examples)
    path = scratch(file.getvalue())
    try:
        expected = plainly(path)
    except DOCUMENTED:
        return
    check_equal(path, *expected)


@given(examples(), st.integers(0, 5), st.data())
@settings(max_examples=1000)
def test_a_pickle_with_other_bytes_is_refused_or_read_as_python_reads_it(scratch, examples, protocol, data):
    content = bytearray(pickle.dumps(examples, protocol))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["change", "bit", "remove", "repeat"])):
            case "change":
                content[at] = data.draw(st.integers(0, 255))
            case "bit":
                content[at] ^= 1 << data.draw(st.integers(0, 7))
            case "remove":
                del content[at : at + data.draw(st.integers(1, 4))]
            case "repeat":
                content[at:at] = content[at : at + data.draw(st.integers(1, 8))]
        if not content:
            return
    path = scratch(bytes(content))
    try:
        READER.read(path)
    except DOCUMENTED:
        return
    check_equal(path, *plainly(path))
