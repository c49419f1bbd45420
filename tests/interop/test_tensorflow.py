"""Beside TensorFlow: its files read here, and ours read there, with features of all kinds.

TensorFlow runs once for all of these tests, in a process of its own: it shares none with other users of protobuf.
"""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import seekset

# What both sides write. Floats are exact in float32; text is told apart from bytes by JSON as hexadecimal digits.
EXAMPLES = [
    {"x": [0.5, -1.5, 3.0e38], "n": [-(2**63)], "name": ["00ff"], "any": [1, 2, 300], "tags": ["61", ""], "none": []},
    {"x": [0.0, 1.0e-38, 2.0], "n": [2**63 - 1], "name": [""], "any": [], "tags": [], "none": []},
    {"x": [1.0, 2.0, 3.0], "n": [0], "name": ["c3a4"], "any": [-1], "tags": ["62"], "none": []},
]
KINDS = {"x": "float32", "n": "int64", "name": "bytes", "any": "int64", "tags": "bytes", "none": "float32"}
SEQUENCES = [
    {
        "context": {"n": [7]},
        "lists": {"x": [[0.5, 1.5], [2.5, 3.5]], "words": [["61"], [], ["62", "63"]], "k": [[1], [2]]},
    },
    {"context": {"n": [8]}, "lists": {"x": [], "words": [], "k": [[3]]}},
]
LIST_KINDS = {"n": "int64", "x": "float32", "words": "bytes", "k": "int64"}
FILES = {"plain": None, "gzip": "gzip", "zlib": "zlib"}

PROGRAM = """
    import json, sys
    import tensorflow as tf

    given = json.load(open("given.json"))

    def feature(kind, values):
        if kind == "float32":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        if kind == "int64":
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=map(bytes.fromhex, values)))

    def features(of, kinds):
        return tf.train.Features(feature={name: feature(kinds[name], values) for name, values in of.items()})

    def lists(of, kinds):
        steps = lambda name, steps: tf.train.FeatureList(feature=[feature(kinds[name], step) for step in steps])
        return tf.train.FeatureLists(feature_list={name: steps(name, all) for name, all in of.items()})

    for name, compression in given["files"].items():
        with tf.io.TFRecordWriter(f"theirs.{name}", options=(compression or "").upper()) as out:
            for one in given["examples"]:
                out.write(tf.train.Example(features=features(one, given["kinds"])).SerializeToString())
    with tf.io.TFRecordWriter("theirs.sequences") as out:
        for one in given["sequences"]:
            context, kinds = features(one["context"], given["list_kinds"]), given["list_kinds"]
            sequence = tf.train.SequenceExample(context=context, feature_lists=lists(one["lists"], kinds))
            out.write(sequence.SerializeToString())

    def plain(feature):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value)
        return [kind, [value.hex() for value in values] if kind == "bytes_list" else values]

    def records(path, compression):
        records = tf.data.TFRecordDataset(path, compression_type=(compression or "").upper())
        return [record.numpy() for record in records]

    found = {}
    for name, compression in given["files"].items():
        examples = [tf.train.Example.FromString(record) for record in records(f"ours.{name}", compression)]
        found[name] = [{name: plain(one) for name, one in example.features.feature.items()} for example in examples]
    found["sequences"] = []
    for record in records("ours.sequences", None):
        one = tf.train.SequenceExample.FromString(record)
        found["sequences"].append({
            "context": {name: plain(feature) for name, feature in one.context.feature.items()},
            "lists": {
                name: [plain(step) for step in steps.feature]
                for name, steps in one.feature_lists.feature_list.items()
            },
        })
    parsed = tf.io.parse_example(records("ours.plain", None), {
        "x": tf.io.FixedLenFeature((3,), tf.float32), "n": tf.io.FixedLenFeature((), tf.int64),
        "name": tf.io.FixedLenFeature((), tf.string), "any": tf.io.RaggedFeature(tf.int64),
    })
    found["parsed"] = {
        "x": parsed["x"].numpy().tolist(), "n": parsed["n"].numpy().tolist(),
        "name": [name.hex() for name in parsed["name"].numpy().tolist()], "any": parsed["any"].to_list(),
    }
    json.dump(found, open("found.json", "w"))
"""


def in_bytes(values, kind):
    return [bytes.fromhex(value) for value in values] if kind == "bytes" else values


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with our files, theirs, and what they found in ours."""
    folder = tmp_path_factory.mktemp("tensorflow")
    for name, compression in FILES.items():
        with seekset.TFRecordWriter(folder / f"ours.{name}", compression=compression) as out:
            for one in EXAMPLES:
                out.write_example({name: in_bytes(values, KINDS[name]) for name, values in one.items()}, KINDS)
    with seekset.TFRecordWriter(folder / "ours.sequences") as out:
        for one in SEQUENCES:
            lists = {name: [in_bytes(step, LIST_KINDS[name]) for step in steps] for name, steps in one["lists"].items()}
            out.write_sequence_example(one["context"], lists, LIST_KINDS)
    given = {"files": FILES, "examples": EXAMPLES, "kinds": KINDS, "sequences": SEQUENCES, "list_kinds": LIST_KINDS}
    (folder / "given.json").write_text(json.dumps(given))
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def found(folder):
    return json.loads((folder / "found.json").read_text())


LISTS = {"float32": "float_list", "int64": "int64_list", "bytes": "bytes_list"}


def as_floats(values, kind):
    return np.array(values, dtype=np.float32).tolist() if kind == "float32" else values


@pytest.mark.parametrize("name", FILES)
def test_tensorflow_reads_our_examples(found, name):
    assert found[name] == [
        {name: [LISTS[KINDS[name]], as_floats(values, KINDS[name])] for name, values in one.items()} for one in EXAMPLES
    ]


def test_tensorflow_reads_our_sequence_examples(found):
    assert found["sequences"] == [
        {
            "context": {"n": ["int64_list", one["context"]["n"]]},
            "lists": {
                name: [[LISTS[LIST_KINDS[name]], step] for step in steps] for name, steps in one["lists"].items()
            },
        }
        for one in SEQUENCES
    ]


def test_we_read_tensorflows_examples(folder):
    tf = seekset.TFRecordFile(folder / "theirs.plain", verify="full")
    for row, one in enumerate(EXAMPLES):
        example = tf.example(row)
        assert set(example) == set(one)
        for name, values in one.items():
            expected = as_floats(in_bytes(values, KINDS[name]), KINDS[name])
            assert [*example[name]] == expected
            assert isinstance(example[name], list) or example[name].dtype == KINDS[name]


def test_our_columns_are_those_of_parse_example(folder, found):
    features = {"x": ("float32", (3,)), "n": "int64", "name": "bytes", "any": ("int64", None)}
    for file in ("ours.plain", "theirs.plain"):
        tf = seekset.TFRecordFile(folder / file)
        columns = tf.examples(range(len(tf)), features)
        assert columns["x"].tolist() == found["parsed"]["x"]
        assert columns["n"].tolist() == found["parsed"]["n"]
        assert [name.hex() for name in columns["name"]] == found["parsed"]["name"]
        values, offsets = columns["any"]
        assert [part.tolist() for part in np.split(values, offsets[1:-1])] == found["parsed"]["any"]


def test_we_read_tensorflows_sequence_examples(folder):
    tf = seekset.TFRecordFile(folder / "theirs.sequences", verify="full")
    context, lists = tf.sequence_examples(
        [0, 1], {"n": "int64"}, {"x": ("float32", (2,)), "words": ("bytes", None), "k": "int64"}
    )
    assert context["n"].tolist() == [7, 8]
    assert lists["x"].values.tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert lists["x"].offsets.tolist() == [0, 2, 2]
    assert (lists["k"].values.tolist(), lists["k"].offsets.tolist()) == ([1, 2, 3], [0, 2, 3])
    assert lists["words"].values.tolist() == [b"a", b"b", b"c"]
    assert (lists["words"].steps.tolist(), lists["words"].offsets.tolist()) == ([0, 1, 1, 3], [0, 3, 3])
    context, lists = tf.sequence_example(0)
    assert (context["n"].tolist(), lists["words"]) == ([7], [[b"a"], [], [b"b", b"c"]])


def test_what_tensorflow_writes_is_what_we_write(folder):
    assert (folder / "ours.plain.idx").read_text() == seekset.index_tfrecord_bytes(
        (folder / "theirs.plain").read_bytes()
    )
    assert len((folder / "ours.plain").read_bytes()) == len((folder / "theirs.plain").read_bytes())
