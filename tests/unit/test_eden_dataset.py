"""Sharded Eden's windows: the same files, the same tensors; and what goes wrong is said."""

import csv
import itertools
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from conformance import CHECKS, Conformance
from eden_reference import ByteTokenizer, item, windows_of, write_samples, write_windows
from seekset import MismatchError, StaleIndexError, TokenTable, create_sample_database, precompute_window_database
from seekset.datasets import ShardedEdenDataset, WindowDataset
from seekset.loading import ResumableBatchSampler, collate
from window_reference import as_lists, fasta, letters, reverse_complement

SAMPLES = {
    "A": {"BCR__E-A__c1": "ACGTNNacgtTTGACCA" * 3, "BCR__E-A__c2": "", "XY__E-A__c9": "ACG"},
    "B.2": {"BCR__E-B-2__c1": "GGGTTTAAACCCgattaca", "BCR__F-B-2__c1": "T"},
}
CONTIGS = {contig: letters for contigs in SAMPLES.values() for contig, letters in contigs.items()}
WINDOW, STRIDE = 16, 9


@pytest.fixture
def dbs(tmp_path):
    return write_samples(tmp_path / "dbs", SAMPLES)


@pytest.fixture
def windows(tmp_path):
    return write_windows(tmp_path / "train.sqlite", SAMPLES, WINDOW, STRIDE)


def made(dbs, windows, tokenizer="dna", **options):
    return ShardedEdenDataset(tokenizer, dbs, windows, **{"seq_length": WINDOW, "stride": STRIDE, **options})


def expected(**options):
    return [item(CONTIGS[contig], STRIDE, WINDOW, k, **options) for contig, k in windows_of(SAMPLES, WINDOW, STRIDE)]


@pytest.mark.parametrize(
    "tokenizer", ["dna", ByteTokenizer(), TokenTable.named("dna")], ids=["name", "object", "table"]
)
@pytest.mark.parametrize(
    "options, as_told",
    [
        ({}, {}),
        ({"legacy_header": True}, {"separated": True}),
        ({"include_bos": False}, {"bos": False}),
        ({"include_eos": False}, {"eos": False}),
        ({"include_bos": False, "include_eos": False}, {"bos": False, "eos": False}),
    ],
)
def test_items_are_those_of_the_original(dbs, windows, tokenizer, options, as_told):
    ds = made(dbs, windows, tokenizer, **options)
    assert [as_lists(ds[place]) for place in range(len(ds))] == expected(**as_told)
    assert [as_lists(found) for found in ds.__getitems__(range(len(ds)))] == expected(**as_told)


def test_dtypes_are_those_of_the_original(dbs, windows):
    found = made(dbs, windows, create_attention_mask=True)[0]
    assert {name: (value.dtype, tuple(value.shape)) for name, value in found.items()} == {
        "tokens": (torch.int64, (WINDOW,)),
        "labels": (torch.int64, (WINDOW,)),
        "loss_mask": (torch.float32, (WINDOW,)),
        "position_ids": (torch.int64, (WINDOW,)),
        "attention_mask": (torch.bool, (1, WINDOW, WINDOW)),
    }
    assert torch.equal(found["attention_mask"][0], torch.tril(torch.ones(WINDOW, WINDOW)) < 0.5)


def test_labels_end_in_padding(dbs, windows):
    ds = made(dbs, windows)
    assert {ds[place]["labels"][-1].item() for place in range(len(ds))} == {1}


# --- control tags ---


def test_control_tags_are_ids_of_the_tokenizer(dbs, windows):
    """A tag of the byte tokenizer is as many ids as it has letters."""
    window = 40
    path = write_windows(windows.with_name("long.sqlite"), SAMPLES, window, STRIDE)
    ds = ShardedEdenDataset(ByteTokenizer(), dbs, path, seq_length=window, stride=STRIDE, use_control_tags=True)
    for place, (contig, k) in enumerate(windows_of(SAMPLES, window, STRIDE)):
        tag = f"<ctrl_{contig.split('__')[0].lower()}>".encode()
        found = as_lists(ds[place])
        told = item(CONTIGS[contig], STRIDE, window, k, control=tag, separated=True)
        assert found == told


def test_control_tags_of_a_table_are_its_specials(dbs, windows):
    letters = {chr(code): code for code in range(ord("A"), ord("Z") + 1)}
    specials = {"eos": 0, "pad": 1, "bos": 2, "sep": 3, "unk": 4, "<ctrl_bcr>": 200, "<ctrl_xy>": 300}
    ds = made(dbs, windows, TokenTable(letters, specials=specials, fold_case=True), use_control_tags=True)
    tags = {"BCR": 200, "XY": 300}
    for place, (contig, k) in enumerate(windows_of(SAMPLES, WINDOW, STRIDE)):
        told = item(CONTIGS[contig], STRIDE, WINDOW, k, control=[tags[contig.split("__")[0]]], separated=True)
        assert as_lists(ds[place]) == told


def test_a_tag_that_the_tokenizer_does_not_know_is_refused(dbs, windows):
    with pytest.raises(MismatchError, match="control tag mismatch: the tokenizer does not know '<ctrl_bcr>'"):
        made(dbs, windows, use_control_tags=True)

    class Unknowing(ByteTokenizer):
        def text_to_ids(self, text):
            return [self.unk_id] if text.startswith("<ctrl") else super().text_to_ids(text)

    with pytest.raises(MismatchError, match="does not know"):
        made(dbs, windows, Unknowing(), use_control_tags=True)


# --- strands, orders, native files ---


def test_reverse_complements_are_drawn_from_seed_epoch_and_window(dbs, windows):
    plain, ds = made(dbs, windows), made(dbs, windows, rc_aug=True, seed=1)
    other = made(dbs, windows, ByteTokenizer(), rc_aug=True, seed=1, shuffle=True)
    strands = set()
    for epoch in range(3):
        for data in (ds, other):
            data.set_epoch(epoch)
        for place in range(len(ds)):
            tokens = [token for token in plain[place]["tokens"].tolist() if token > 3]
            letters = "".join(map(chr, tokens))
            found = "".join(chr(token) for token in ds[place]["tokens"].tolist() if token > 3)
            assert found in (letters, reverse_complement(letters))
            if letters != reverse_complement(letters):
                strands.add((epoch, place, found == letters))
        shuffled = sorted(tuple(other[place]["tokens"].tolist()) for place in range(len(other)))
        assert shuffled == sorted(tuple(ds[place]["tokens"].tolist()) for place in range(len(ds)))
    assert {strand for _, _, strand in strands} == {True, False}


def test_native_and_sqlite_paths_agree(tmp_path, write):
    contigs = {f"X__E-S__{number:03}": "ACGTTGCAAN"[: 1 + number % 10] * (number % 9) for number in range(40)}
    genome = write(fasta(contigs))
    create_sample_database("S", contigs.items(), tmp_path / "dbs")
    path = write_windows(tmp_path / "w.sqlite", {"S": contigs}, WINDOW, STRIDE)
    stored = made(tmp_path / "dbs", path)
    rules = {"window": WINDOW, "stride": STRIDE, "tail": "drop", "min_length": 0, "shuffle": False}
    native = WindowDataset(genome, **rules)
    assert len(native) == len(stored)
    pairs = zip(native.__getitems__(range(len(native))), stored.__getitems__(range(len(stored))), strict=True)
    assert all(as_lists(one) == as_lists(other) for one, other in pairs)


LETTERS = st.text("ACGTNacgtn", max_size=60)


@given(
    samples=st.dictionaries(
        st.sampled_from(["A", "B", "C.D"]), st.lists(LETTERS, min_size=1, max_size=4), min_size=1, max_size=3
    ),
    window=st.integers(4, 20),
    stride=st.integers(1, 22),
    legacy=st.booleans(),
)
def test_any_windows_of_any_contigs(tmp_path_factory, samples, window, stride, legacy):
    folder = tmp_path_factory.mktemp("eden")
    named = {
        sample: {f"p__q-{sample.replace('.', '-')}__{number}": letters for number, letters in enumerate(contigs)}
        for sample, contigs in samples.items()
    }
    write_samples(folder / "dbs", named)
    path = write_windows(folder / "w.sqlite", named, window, stride)
    contigs = {contig: letters for of_sample in named.values() for contig, letters in of_sample.items()}
    told = [
        item(contigs[contig], stride, window, k, separated=legacy) for contig, k in windows_of(named, window, stride)
    ]
    for tokenizer in ("dna", ByteTokenizer()):
        ds = ShardedEdenDataset(tokenizer, folder / "dbs", path, seq_length=window, stride=stride, legacy_header=legacy)
        assert [as_lists(found) for found in ds.__getitems__(range(len(ds)))] == told


# --- what is wrong is said ---


def test_a_database_made_for_other_windows_is_refused(dbs, windows, tmp_path):
    for options, words in [
        ({"seq_length": 20}, "mismatch: it was made with window_size 16, but seq_length is 20"),
        ({"stride": 10}, "mismatch: it was made with stride 9, but stride is 10"),
        ({"window_min_length_threshold": 4}, "mismatch: .* window_min_length_threshold 0, but 4 was given"),
    ]:
        with pytest.raises(MismatchError, match=words) as raised:
            made(dbs, windows, **options)
        assert str(windows) in str(raised.value)
    pruned = write_windows(tmp_path / "pruned.sqlite", SAMPLES, WINDOW, STRIDE, 4)
    with pytest.raises(MismatchError, match=r"mismatch: .* window_min_length_threshold 4, but none was given"):
        made(dbs, pruned)
    assert len(made(dbs, pruned, window_min_length_threshold=4)) == len(windows_of(SAMPLES, WINDOW, STRIDE, 4))


def test_only_window_size_and_stride_are_required_of_the_metadata(dbs, tmp_path):
    rest = dict.fromkeys(["window_min_length_threshold", "total_windows", "distinct_sequences"])
    ds = made(dbs, write_windows(tmp_path / "few.sqlite", SAMPLES, WINDOW, STRIDE, **rest))
    assert [as_lists(found) for found in ds] == expected()
    for key in ("window_size", "stride"):
        path = write_windows(tmp_path / f"{key}.sqlite", SAMPLES, WINDOW, STRIDE, **{key: None})
        with pytest.raises(MismatchError, match=f"its metadata have no {key}"):
            made(dbs, path)


def test_a_database_without_metadata_is_refused(dbs, windows):
    with closing(sqlite3.connect(windows)) as db:
        db.execute("DROP TABLE metadata")
    with pytest.raises(ValueError, match="metadata") as raised:
        made(dbs, windows)
    assert str(windows) in str(raised.value)


def test_files_that_are_not_there_are_named(dbs, windows, tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        made(dbs, tmp_path / "none.sqlite")
    assert raised.value.filename.endswith("none.sqlite")
    with pytest.raises(FileNotFoundError):
        made(tmp_path / "nowhere", windows)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No SQLite files"):
        made(tmp_path / "empty", windows)
    write_samples(tmp_path / "other", {"Z": {"p__q-Z__1": "A"}, "Y": {"p__q-Y__1": "A"}})
    with pytest.raises(FileNotFoundError, match="is in sample 'A'") as raised:
        made(tmp_path / "other", windows)
    assert raised.value.filename.endswith("A/glm_dataset_A.sqlite")


def test_a_sample_id_is_matched_and_never_a_path(dbs, tmp_path):
    hostile = {"A": {"p__q-../../etc__1": "ACGT"}, "B.2": {}}
    path = write_windows(tmp_path / "hostile.sqlite", hostile, WINDOW, STRIDE)
    with pytest.raises(FileNotFoundError, match="is in sample"):
        made(dbs, path)


def test_a_window_of_a_contig_that_is_in_no_database_is_named(dbs, tmp_path):
    extra = {**SAMPLES, "A": {**SAMPLES["A"], "BCR__E-A__zz": "ACGT"}}
    ds = made(dbs, write_windows(tmp_path / "extra.sqlite", extra, WINDOW, STRIDE))
    place = windows_of(extra, WINDOW, STRIDE).index(("BCR__E-A__zz", 0))
    with pytest.raises(MismatchError) as raised:
        ds[place]
    for word in (str(place), "BCR__E-A__zz", "sample", "A"):
        assert word in str(raised.value)


def test_a_sequence_shorter_than_its_windows_is_refused(dbs, tmp_path):
    longer = {**SAMPLES, "A": {**SAMPLES["A"], "XY__E-A__c9": "A" * 60}}
    ds = made(dbs, write_windows(tmp_path / "longer.sqlite", longer, WINDOW, STRIDE))
    place = windows_of(longer, WINDOW, STRIDE).index(("XY__E-A__c9", 3))
    with pytest.raises(MismatchError, match="starts at letter 27, but the contig has 3 letters"):
        ds[place]


def test_numbers_that_are_none_are_refused(dbs, windows):
    ds = made(dbs, windows)
    with pytest.raises(IndexError, match="out of range"):
        ds[len(ds)]
    for seq_length, words in [(2, "no room for letters beside 2 special"), (0, "seq_length must be at least 1")]:
        path = write_windows(windows.with_name(f"{seq_length}.sqlite"), SAMPLES, max(seq_length, 1), STRIDE)
        with pytest.raises(ValueError, match=words):
            made(dbs, path, seq_length=seq_length)


@pytest.mark.parametrize(
    "tokenizer, words",
    [
        (object(), "expected a token table or an object with text_to_ids or tokenize, found object"),
        (TokenTable({"A": 5}, specials={"pad": 0}), "has no bos id"),
        ("esm", "has no bos id"),
    ],
)
def test_tokenizers_that_lack_something_are_refused(dbs, windows, tokenizer, words):
    with pytest.raises(MismatchError, match=words):
        made(dbs, windows, tokenizer)


def test_a_tokenizer_that_gives_texts_is_refused(dbs, windows):
    class Texts(ByteTokenizer):
        text_to_ids = None

        def tokenize(self, text):
            return list(text)

    with pytest.raises(MismatchError, match="where an id was expected"):
        made(dbs, windows, Texts())[0]


def test_a_damaged_number_of_a_window_is_no_address(dbs, windows):
    with closing(sqlite3.connect(windows)) as db:
        db.execute("UPDATE window_mappings SET window_in_seq_idx = ? WHERE window_idx = 1", (2**61,))
        db.execute("UPDATE window_mappings SET window_in_seq_idx = -1 WHERE window_idx = 2")
        db.commit()
    ds = made(dbs, windows)
    for place in (1, 2):
        with pytest.raises(ValueError, match=f"window {place}"):
            ds[place]


def test_databases_that_were_replaced_are_noticed_in_other_processes(dbs, windows):
    pickled = pickle.dumps(made(dbs, windows))
    pickle.loads(pickled)
    create_sample_database("A", [("x__y-A__1", "ACGT")], dbs)
    with pytest.raises(StaleIndexError, match=r"glm_dataset_A.sqlite: it has changed"):
        pickle.loads(pickled)


def test_a_state_of_databases_that_were_made_anew_is_refused_though_they_have_as_many_bytes(dbs, windows):
    path = create_sample_database("A", SAMPLES["A"].items(), dbs)
    state, size = made(dbs, windows).state_dict(), path.stat().st_size
    create_sample_database("A", [(contig, text[::-1]) for contig, text in SAMPLES["A"].items()], dbs)
    assert path.stat().st_size == size
    with pytest.raises(MismatchError, match=r"state mismatch: files was 'train\.sqlite, "):
        made(dbs, windows).load_state_dict(state)
    create_sample_database("A", SAMPLES["A"].items(), dbs)
    made(dbs, windows).load_state_dict(state)


@pytest.mark.parametrize("read", [False, True], ids=["before it is read", "after it was read"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_database_that_changes_while_it_is_open_is_noticed_with_the_next_batch(dbs, windows, shuffle, read):
    ds = made(dbs, windows, shuffle=shuffle)
    places = range(len(ds))
    if read:
        ds.__getitems__(places)
    create_sample_database("A", [(contig, text[::-1] + "A") for contig, text in SAMPLES["A"].items()], dbs)
    with pytest.raises(StaleIndexError, match=r"glm_dataset_A.sqlite: it has changed since it was opened"):
        ds.__getitems__(places)


def test_a_window_database_that_changes_while_it_is_open_is_noticed_with_the_next_batch(dbs, windows):
    ds = made(dbs, windows)
    ds[0]
    os.utime(windows, (1, 1))
    with pytest.raises(StaleIndexError, match="it has changed since it was opened: its modification time was"):
        ds[1]


# --- processes ---


def test_a_fork_waits_while_a_window_database_is_written(tmp_path, run):
    """The child writes one, too: it needs the mutexes that a writing thread may hold."""
    printed = run(
        """
        import os, threading
        import numpy as np
        import seekset.eden
        from seekset import _core
        done = False

        def write(name, contigs):
            writer = _core.EdenWindowsWriter(name, window_size=4, stride=2)
            writer.add([f"c{k:05}" for k in range(contigs)], np.full(contigs, 40))
            return writer.finish()

        def keep_writing(name):
            while not done:
                write(name, 500)

        threads = [threading.Thread(target=keep_writing, args=(name,)) for name in ("a.sqlite", "b.sqlite")]
        for thread in threads:
            thread.start()
        for _ in range(100):
            child = os.fork()
            if child == 0:
                os._exit(write("c.sqlite", 10)[0] != 190)
            assert os.waitpid(child, 0)[1] == 0
        done = True
        for thread in threads:
            thread.join()
        print("all")
        """
    )
    assert printed.split() == ["all"]


def test_a_fork_waits_until_no_thread_is_inside_sqlite(tmp_path, run):
    """A child that was forked while a thread held one of SQLite's mutexes would hang for ever."""
    samples = {f"S{number}": {f"p__q-S{number}__1": letters(4000)} for number in range(6)}
    write_samples(tmp_path / "dbs", samples)
    write_windows(tmp_path / "w.sqlite", samples, WINDOW, STRIDE)
    printed = run(
        """
        import os, threading
        from seekset.datasets import ShardedEdenDataset
        ds = ShardedEdenDataset("dna", "dbs", "w.sqlite", seq_length=16, stride=9)
        done = False

        def read(first):
            while not done:
                ds.__getitems__(range(first, first + 300))
                ds.close()

        threads = [threading.Thread(target=read, args=(first,)) for first in (0, 500)]
        for thread in threads:
            thread.start()
        for _ in range(40):
            child = os.fork()
            if child == 0:
                ds.__getitems__(range(16))
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        done = True
        for thread in threads:
            thread.join()
        print("all")
        """
    )
    assert printed.split() == ["all"]


@pytest.mark.parametrize("moment", ["before", "after_in_parent", "after_in_child"])
def test_datasets_may_be_collected_as_garbage_while_a_fork_is_made(dbs, windows, tmp_path, run, moment):
    """Other packages run code around a fork, too: where it collects garbage, databases are closed in its midst."""
    printed = run(
        f"""
        import gc, os, threading
        gc.disable()
        os.register_at_fork({moment}=gc.collect)  # before seekset: it runs while forks are held back
        from seekset.datasets import ShardedEdenDataset

        def waste():
            for _ in range(3):
                ds = ShardedEdenDataset("dna", {str(dbs)!r}, {str(windows)!r}, seq_length=16, stride=9)
                ds.__getitems__(range(4))
                ds.itself = ds

        for _ in range(5):
            waste()
            child = os.fork()
            if child == 0:
                waste()
                gc.collect()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        done = False

        def collect():
            while not done:
                waste()
                gc.collect()

        thread = threading.Thread(target=collect)
        thread.start()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        done = True
        thread.join()
        gc.collect()
        links = [f"/proc/self/fd/{{fd}}" for fd in os.listdir("/proc/self/fd")]
        print(sum(os.readlink(link).endswith(".sqlite") for link in links if os.path.islink(link)))
        """
    )
    assert printed.split() == ["0"]


def test_spawned_workers_log_the_rank_of_their_dataset(dbs, windows, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    ds = made(dbs, windows, log_windows=True, log_dir=tmp_path / "logs")
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    list(DataLoader(ds, batch_size=4, num_workers=1, multiprocessing_context="spawn", collate_fn=collate))
    assert {row["rank"] for row in logged(tmp_path / "logs")} == {"3"}


def _sums(ds, queue):
    queue.put([int(ds[place]["tokens"].sum()) for place in range(len(ds))])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_however_started_read_the_same(dbs, windows, method):
    ds = made(dbs, windows)
    told = [int(ds[place]["tokens"].sum()) for place in range(len(ds))]
    context = torch.multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_sums, args=(ds, queue))
    process.start()
    assert queue.get(timeout=60) == told
    process.join()
    assert [int(ds[place]["tokens"].sum()) for place in range(len(ds))] == told


def test_more_samples_than_a_process_may_have_files_open(tmp_path, run):
    samples = {f"S{number}": {f"p__q-S{number}__1": "ACGT" * 9} for number in range(150)}
    write_samples(tmp_path / "dbs", samples)
    write_windows(tmp_path / "w.sqlite", samples, WINDOW, STRIDE)
    printed = run(
        """
        import resource, sys
        from seekset.datasets import ShardedEdenDataset
        resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
        ds = ShardedEdenDataset("dna", "dbs", "w.sqlite", seq_length=16, stride=9)
        for _ in range(2):
            items = ds.__getitems__(range(len(ds)))
        print(len(items), items[-1]["tokens"].tolist()[:3])
        """
    )
    assert printed.split() == [str(len(windows_of(samples, WINDOW, STRIDE))), "[2,", "71,", "84]"]


def test_files_are_let_go_of(dbs, windows, run, tmp_path):
    printed = run(
        """
        import gc, os
        from seekset.datasets import ShardedEdenDataset

        def open_databases():
            links = (os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd"))
            return sum(os.readlink(link).endswith(".sqlite") for link in links if os.path.islink(link))

        def made():
            return ShardedEdenDataset("dna", "dbs", "train.sqlite", seq_length=16, stride=9)

        ds = made()
        list(ds)
        first = open_databases()
        ds.close()
        closed = open_databases()
        list(ds)
        again = open_databases()
        try:
            ds[10_000]
        except IndexError:
            pass
        del ds
        gc.collect()
        print(first > 0, closed, again > 0, open_databases())
        """
    )
    assert printed.split() == ["True", "0", "True", "0"]


def _make(dbs, windows, **options):
    return made(dbs, windows, **{"rc_aug": True, "shuffle": True, "seed": 3, **options})


def _key(found):
    return tuple(found["tokens"].tolist())


@pytest.fixture
def conformance(tmp_path):
    samples = {"A": {"x__y-A__1": letters(150)}, "B": {"x__y-B__1": "GG", "x__y-B__2": "ACCCA"}}
    write_samples(tmp_path / "dbs", samples)
    return Conformance(
        partial(_make, tmp_path / "dbs", write_windows(tmp_path / "c.sqlite", samples, WINDOW, STRIDE)), _key
    )


@pytest.mark.parametrize("check", CHECKS)
def test_what_every_dataset_keeps(conformance, check):
    getattr(conformance, check)()


@pytest.mark.parametrize("workers, streamed", list(itertools.product((0, 2), (True, False))))
def test_resuming_with_torchdata(conformance, workers, streamed):
    conformance.stateful_loaders_resume_at_every_batch(workers, streamed=streamed)


def test_one_window_can_be_shuffled(tmp_path):
    samples = {"A": {"only": "ACGT"}}
    write_samples(tmp_path / "dbs", samples)
    ds = made(tmp_path / "dbs", write_windows(tmp_path / "1.sqlite", samples, WINDOW, STRIDE), shuffle=True)
    assert [as_lists(found) for found in ds] == [item("ACGT", STRIDE, WINDOW, 0)]


# --- the log ---


def logged(folder):
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open() as file:
            rows += csv.DictReader(file)
    return rows


@pytest.mark.parametrize("workers", [0, 2])
def test_windows_that_were_read_are_logged(dbs, windows, tmp_path, workers):
    ds = made(dbs, windows, log_windows=True, log_dir=tmp_path / "logs", split="val")
    context = {"multiprocessing_context": "fork"} if workers else {}
    sampler = ResumableBatchSampler(ds, 2)
    list(DataLoader(ds, batch_sampler=sampler, collate_fn=collate, num_workers=workers, **context))
    rows = logged(tmp_path / "logs")
    told = [(str(n), contig, str(k)) for n, (contig, k) in enumerate(windows_of(SAMPLES, WINDOW, STRIDE))]
    found = sorted((row["window_idx"], row["sequence_id"], row["window_in_seq_idx"]) for row in rows)
    assert found == sorted(told)
    assert {row["rank"] for row in rows} == {"0"}
    assert all(row["sample_id"] in SAMPLES and int(row["access_ts"]) > 0 for row in rows)
    names = [path.name for path in (tmp_path / "logs").iterdir()]
    assert len(names) == max(workers, 1)
    assert all(name.startswith("window_access_val_rank0_") and len(name) == 36 for name in names)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_log_is_whole_when_its_process_is_stopped(dbs, windows, tmp_path, program, sent):
    source = """
        import sys, time
        from seekset.datasets import ShardedEdenDataset
        ds = ShardedEdenDataset("dna", "dbs", "train.sqlite", seq_length=16, stride=9, log_windows=True, log_dir="logs")
        for place in range(len(ds)):
            ds[place]
        print("read", flush=True)
        time.sleep(60)
        """
    with subprocess.Popen(program(source), stdout=subprocess.PIPE, cwd=tmp_path, env=os.environ) as process:
        assert process.stdout.readline() == b"read\n"
        process.send_signal(sent)
        process.wait()
    assert len(logged(tmp_path / "logs")) == len(windows_of(SAMPLES, WINDOW, STRIDE))
    assert sys.executable


# --- with what is made by seekset itself ---


def test_databases_made_by_seekset_are_read_like_any_other(tmp_path):
    import polars as pl

    for sample, contigs in SAMPLES.items():
        create_sample_database(sample, contigs.items(), tmp_path / "dbs")
    table = pl.DataFrame({"contig_id": list(CONTIGS), "length": [len(letters) for letters in CONTIGS.values()]})
    table.write_parquet(tmp_path / "contigs.parquet")
    path = tmp_path / "train.sqlite"
    precompute_window_database(tmp_path / "contigs.parquet", path, window_size=WINDOW, stride=STRIDE)
    assert [as_lists(found) for found in made(tmp_path / "dbs", path)] == expected()
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT window_idx, sequence_id, window_in_seq_idx FROM window_mappings").fetchall()
        keys = dict(db.execute("SELECT key, value FROM metadata"))
    told = windows_of(SAMPLES, WINDOW, STRIDE)
    assert rows == [(n, contig, k) for n, (contig, k) in enumerate(told)]
    assert keys == {
        "window_size": WINDOW,
        "stride": STRIDE,
        "window_min_length_threshold": 0,
        "total_windows": len(told),
        "distinct_sequences": len(CONTIGS),
    }
    assert np.array_equal(np.arange(len(told)), [row[0] for row in rows])
