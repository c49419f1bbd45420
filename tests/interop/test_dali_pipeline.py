"""The helper's pipelines run in real DALI, on the CPU, and give what our own dataset gives."""

import json

import pytest

import seekset
from seekset.datasets import TFRecordDataset

FEATURES = {
    "x": ("float32", (2, 2)),
    "label": "int64",
    "small": "int32",
    "name": "bytes",
    "tags": ("int64", None),
    "pairs": ("int64", (None, 2)),
}


@pytest.fixture
def examples(tmp_path):
    for name, numbers in (("a", range(3)), ("b", range(3, 8))):
        with seekset.TFRecordWriter(tmp_path / f"{name}.tfrecord", index=name == "a") as writer:
            for k in numbers:
                values = {
                    "x": [k, 1.5, 2.5, -k],
                    "label": k,
                    "small": -k,
                    "name": f"n{k}",
                    "tags": [k] * (k + 1),
                    "pairs": [[k, 1]] * (k + 1),
                }
                writer.write_example(values)
    return "*.tfrecord"


def test_a_pipeline_reads_what_the_dataset_reads(dali, examples, tmp_path):
    program = """
        import json, sys
        from seekset.dali import tfrecord_pipeline
        given = json.loads(sys.argv[1])
        features = {name: tuple(kind) if isinstance(kind, list) else kind for name, kind in given.items()}
        pipe = tfrecord_pipeline("*.tfrecord", features, batch_size=4)
        records = []
        for _ in range(2):
            columns = pipe.run()
            for at in range(4):
                records.append([bytes(c.at(at)).decode() if name == "name" else c.at(at).tolist()
                                for name, c in zip(features, columns)])
        print(json.dumps(records))
    """
    delivered = json.loads(dali(program, json.dumps(FEATURES)))
    ours = TFRecordDataset(tmp_path / examples, FEATURES, shuffle=False)
    expected = [[v.decode() if isinstance(v, bytes) else v.tolist() for v in item.values()] for item in ours]
    assert delivered == expected
    assert (tmp_path / "b.tfrecord.idx").exists()


def test_shards_have_every_record_once(dali, examples):
    program = """
        from seekset.dali import READER, tfrecord_pipeline
        for shard in range(2):
            pipe = tfrecord_pipeline("*.tfrecord", {"label": "int64"}, 2, shard_id=shard, num_shards=2,
                                     random_shuffle=True, seed=3, stick_to_shard=True)
            assert pipe.reader_meta(READER)["epoch_size"] == 8
            print(*sorted(int(label) for _ in range(2) for label in pipe.run()[0].as_array()))
    """
    assert dali(program) == "0 1 2 3\n4 5 6 7\n"


def test_what_dali_can_not_read_is_refused(dali, examples):
    program = """
        from seekset import Feature
        from seekset.dali import tfrecord_pipeline
        for feature in (("bytes", None), Feature("int64", default=7)):
            try:
                tfrecord_pipeline("*.tfrecord", {"name": feature}, 2)
            except ValueError as error:
                print(error)
    """
    assert dali(program).splitlines() == [
        "feature 'name': DALI reads one byte string per record, not shape None",
        "feature 'name': DALI has no defaults for features that a record lacks",
    ]


def test_features_that_do_not_fit_the_records_are_refused_before_dali_reads_them(dali, examples, tmp_path):
    with seekset.TFRecordWriter(tmp_path / "c.tfrecord") as writer:
        for k in range(3):
            writer.write_example({"label": k} if k < 2 else {"other": k})
    program = """
        from seekset import MismatchError
        from seekset.dali import tfrecord_pipeline
        wanted = [("a", {"label": "bytes"}), ("a", {"x": ("int64", (4,))}), ("a", {"x": ("float32", (8,))}),
                  ("a", {"nope": ("int64", (3,))}), ("a", {"tags": ("int64", (1,))}), ("c", {"label": "int64"})]
        for name, features in wanted:
            try:
                tfrecord_pipeline(f"{name}.tfrecord", features, batch_size=2)
            except MismatchError as error:
                print(error)
    """
    assert dali(program).splitlines() == [
        "a.tfrecord: record 0, byte 0: feature 'label': expected bytes values, found int64 values",
        "a.tfrecord: record 0, byte 0: feature 'x': expected int64 values, found float values",
        "a.tfrecord: record 0, byte 0: feature 'x': expected 8 values, found 4",
        "a.tfrecord: record 0, byte 0: feature 'nope': expected it, or a default to take instead; found neither",
        "a.tfrecord: record 1, byte 125: feature 'tags': expected 1 values, found 2",
        "c.tfrecord: record 2, byte 68: feature 'label': expected it, or a default to take instead; found neither",
    ]


def test_a_file_without_records_is_no_reason_to_refuse_the_others(dali, examples, tmp_path):
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    program = """
        from seekset.dali import tfrecord_pipeline
        pipe = tfrecord_pipeline(["a.tfrecord", "empty.tfrecord"], {"label": "int64"}, batch_size=3)
        print(pipe.run()[0].as_array().tolist())
    """
    assert dali(program) == "[0, 1, 2]\n"
