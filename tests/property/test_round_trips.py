"""Whatever is written as an Example is read back, one by one and in columns."""

from contextlib import suppress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import seekset

floats = st.lists(st.floats(width=32), max_size=6)
integers = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6)
strings = st.lists(st.binary(max_size=6), max_size=4)
names = st.text(st.characters(codec="utf-8"), max_size=6)


@given(
    st.dictionaries(
        names,
        st.one_of(
            st.tuples(st.just("float32"), floats),
            st.tuples(st.just("int64"), integers),
            st.tuples(st.just("bytes"), strings),
        ),
    )
)
def test_one_example(features):
    kinds = {name: kind for name, (kind, _) in features.items()}
    payload = seekset.encode_example({name: values for name, (_, values) in features.items()}, kinds)
    found = seekset.decode_example(payload)
    assert list(found) == list(features)
    for name, (kind, values) in features.items():
        same(found[name], kind, values)


@given(st.lists(st.tuples(floats, integers, strings), max_size=8), st.booleans())
def test_columns(rows, missing):
    kinds = {"f": "float32", "i": "int64", "s": "bytes"}
    payloads = [seekset.encode_example(dict(zip(kinds, row, strict=True)), kinds) for row in rows]
    if missing:
        payloads.append(b"")
        rows = [*rows, ([], [], [])]
    features = {name: seekset.Feature(kind, None, default=[]) for name, kind in kinds.items()}
    columns = seekset.decode_examples(payloads, features)
    for (name, kind), column in zip(kinds.items(), zip(*rows, strict=True), strict=False):
        values, offsets = columns[name]
        for row, expected in enumerate(column):
            same(values[offsets[row] : offsets[row + 1]], kind, expected)


@given(st.lists(st.lists(st.tuples(integers, strings), max_size=4), max_size=5))
def test_sequences(records):
    kinds = {"i": "int64", "s": "bytes"}
    payloads = [
        seekset.encode_sequence_example({}, {"i": [step[0] for step in steps], "s": [step[1] for step in steps]}, kinds)
        for steps in records
    ]
    _, lists = seekset.decode_sequence_examples(payloads, {}, {name: (kind, None) for name, kind in kinds.items()})
    for which, (name, kind) in enumerate(kinds.items()):
        values, steps, offsets = lists[name]
        for record, expected in enumerate(records):
            found = range(offsets[record], offsets[record + 1])
            assert len(found) == len(expected)
            for step, values_of in zip(found, expected, strict=True):
                same(values[steps[step] : steps[step + 1]], kind, values_of[which])


@given(st.binary(max_size=60))
def test_any_bytes_are_an_example_or_refused(payload):
    for read in (
        seekset.decode_example,
        seekset.decode_sequence_example,
        lambda payload: seekset.decode_examples([payload]),
    ):
        with suppress(seekset.FormatError):
            read(payload)


def same(found, kind, expected):
    if kind == "bytes":
        assert list(found) == expected
    else:
        assert found.dtype == kind
        assert found.tobytes() == np.array(expected, dtype=kind).tobytes()
