"""FASTA files as a stream without an index."""

import json
import pickle
import subprocess
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import seekset
from conformance import StreamConformance, in_a_list
from reference import parse, wrap
from seekset.datasets import SequenceDataset
from seekset.errors import FormatError, MismatchError, SeeksetWarning, StaleIndexError
from seekset.world import World
from strategies import any_fasta

# Records of many lengths: none, one residue, several chunks of the small size below.
LENGTHS = [3, 0, 1, 200, 5, 40, 1, 90, 7]
CHUNK = 64


def fasta(name, lengths):
    letters = ["ACDEFGHIKLMNPQRSTVWY"[k % 20] * length for k, length in enumerate(lengths)]
    return b"".join(b">%s_%d some words\n" % (name.encode(), k) + wrap(text, 30) for k, text in enumerate(letters))


@pytest.fixture
def folder(tmp_path):
    """Three files; one is empty."""
    for name, lengths in (("a", LENGTHS), ("b", []), ("c", [12, 6])):
        (tmp_path / f"{name}.fa").write_bytes(fasta(name, lengths))
    return tmp_path


@pytest.fixture
def conformance(folder):
    return StreamConformance(partial(SequenceDataset, folder, chunk_bytes=CHUNK), key=record_id)


def record_id(item):
    return item["id"]


def ids(dataset):
    return [item["id"] for item in dataset]


# --- the contract of all datasets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, CHUNK, 1 << 20])
def test_every_record_comes_once(folder, chunk):
    StreamConformance(partial(SequenceDataset, folder, chunk_bytes=chunk), key=record_id).every_item_comes_once()


def test_loaders_deliver_every_record_once(conformance):
    conformance.loaders_deliver_every_item_once()


def test_every_epoch_has_the_order_of_the_files(conformance):
    conformance.orders_are_pure_functions_of_seed_and_epoch(shuffled=False)


def test_a_fresh_process_agrees(conformance):
    conformance.a_fresh_process_agrees()


def test_epochs_reach_persistent_workers(conformance):
    conformance.epochs_reach_persistent_workers()


def test_streams_resume_at_every_record(folder, conformance):
    conformance.streams_resume_at_every_item()
    StreamConformance(partial(SequenceDataset, folder), key=record_id).streams_resume_at_every_item()


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_stateful_loaders_resume_at_every_batch(conformance, workers):
    conformance.stateful_loaders_resume_at_every_batch(workers)


def test_workers_that_have_nothing_to_read_let_the_epoch_end(folder):
    one_chunk = StreamConformance(partial(SequenceDataset, folder / "a.fa"), key=record_id)
    one_chunk.stateful_loaders_resume_at_every_batch(3)


# --- what it gives ----------------------------------------------------------------------------------------------------


def test_items_are_dicts_of_text_in_file_order_and_no_index_is_written(folder):
    before = set(folder.iterdir())
    items = list(SequenceDataset(folder, chunk_bytes=CHUNK))
    assert items[0] == {"id": "a_0", "sequence": "AAA", "file": str(folder / "a.fa")}
    assert items[-1] == {"id": "c_1", "sequence": "CCCCCC", "file": str(folder / "c.fa")}
    assert [item["id"] for item in items] == [f"a_{k}" for k in range(9)] + ["c_0", "c_1"]
    assert [len(item["sequence"]) for item in items] == [*LENGTHS, 12, 6]
    assert set(folder.iterdir()) == before


@pytest.mark.parametrize("most", [1, 5, 64, 1000, None])
def test_sequences_are_cut_at_so_many_residues(folder, most):
    cut = [item["sequence"] for item in SequenceDataset(folder / "a.fa", most, chunk_bytes=CHUNK)]
    whole = [record.sequence for record in seekset.Fasta(folder / "a.fa").values()]
    assert cut == [sequence[:most] for sequence in whole]


@given(data=any_fasta(), chunk=st.integers(1, 80), most=st.none() | st.integers(1, 40))
def test_any_file_gives_the_records_that_a_handle_gives(scratch, data, chunk, most):
    path = scratch(data)
    found = [(item["id"], item["sequence"]) for item in SequenceDataset(path, most, chunk_bytes=chunk)]
    with seekset.Fasta(path, duplicates="first") as fa:
        assert found == [(record.id, record.sequence[:most]) for record in fa.values()]
    assert found == [(record.id, record.sequence[:most]) for record in parse(data)]


@given(
    files=st.lists(st.lists(st.integers(0, 100), max_size=6), min_size=1, max_size=3),
    chunk=st.integers(1, 100),
    ranks=st.sampled_from([1, 2, 3, 5]),
    workers=st.sampled_from([1, 2, 3]),
)
def test_any_files_come_once_over_any_world(tmp_path_factory, files, chunk, ranks, workers):
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{k}.fa" for k in range(len(files))]
    for path, lengths in zip(paths, files, strict=True):
        path.write_bytes(fasta(path.stem, lengths))
    worlds = [World(rank, ranks, worker, workers) for rank in range(ranks) for worker in range(workers)]
    delivered = [name for world in worlds for name in ids(SequenceDataset(paths, world=world, chunk_bytes=chunk))]
    assert sorted(delivered) == sorted(f"{k}_{n}" for k, lengths in enumerate(files) for n in range(len(lengths)))


def test_compressed_files_are_read_as_plain_ones(folder, bgzip):
    plain = SequenceDataset(folder / "a.fa", chunk_bytes=CHUNK)
    packed = SequenceDataset(bgzip(folder / "a.fa"), chunk_bytes=CHUNK)
    assert [(i["id"], i["sequence"]) for i in packed] == [(i["id"], i["sequence"]) for i in plain]


def test_files_are_read_in_the_order_given_and_each_once(folder):
    a, c = ([f"a_{k}" for k in range(9)], ["c_0", "c_1"])
    assert ids(SequenceDataset([folder / "c.fa", folder / "a.fa", folder / "c.fa"])) == c + a
    assert ids(SequenceDataset(str(folder / "*.fa"))) == ids(SequenceDataset([str(folder)])) == a + c
    assert SequenceDataset(folder).files == [folder / f"{name}.fa" for name in "abc"]


def test_a_second_iteration_starts_again_whatever_became_of_the_first(folder):
    ds = SequenceDataset(folder, chunk_bytes=CHUNK)
    first = iter(ds)
    next(first)
    assert ids(ds) == ids(ds)
    assert ds.epoch == 0


def test_states_are_json_and_say_chunk_and_records(folder):
    ds = SequenceDataset(folder)
    items = iter(ds)
    for records in range(1, 9):
        next(items)
        state = json.loads(json.dumps(ds.state_dict()))
        assert (state["epoch"], state["position"], state["records"]) == (0, 0, records)
    next(items)
    assert (ds.state_dict()["position"], ds.state_dict()["records"]) == (1, 0), "the second file comes next"
    assert state == {
        "version": 1,
        "epoch": 0,
        "position": 0,
        "records": 8,
        "files": ds.fingerprint,
        "chunk_bytes": 1 << 20,
        "rank": 0,
        "world_size": 1,
        "workers": 1,
    }


def test_a_dataset_that_was_unpickled_reads_where_it_is(folder):
    ds = SequenceDataset(folder, chunk_bytes=CHUNK)
    next(iter(ds))
    assert ids(pickle.loads(pickle.dumps(ds))) == ids(ds)


def test_spawned_workers_read_their_share(folder):
    ds = SequenceDataset(folder, chunk_bytes=CHUNK)
    loader = DataLoader(ds, 4, num_workers=2, multiprocessing_context="spawn", collate_fn=in_a_list)
    assert sorted(item["id"] for batch in loader for item in batch) == sorted(ids(ds))


# --- what it refuses --------------------------------------------------------------------------------------------------


def test_files_that_are_not_there_are_refused_at_once(tmp_path):
    for missing in ("missing.fa", "*.fa", "missing/"):
        with pytest.raises(FileNotFoundError, match=r"missing|[*]"):
            SequenceDataset(tmp_path / missing)
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        SequenceDataset(tmp_path)
    with pytest.raises(ValueError, match="there are no FASTA files: fasta_files is empty"):
        SequenceDataset([])


@pytest.mark.parametrize("name", ["max_length", "chunk_bytes"])
def test_arguments_that_are_none_are_refused(folder, name):
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, .*but is {wrong}"):
            SequenceDataset(folder, **{name: wrong})
    with pytest.raises(TypeError, match=r"integer|whole number"):
        SequenceDataset(folder, **{name: 1.5})


def test_plain_gzip_is_refused_with_advice(write):
    path = write(b">a\nACGT\n")
    packed = path.with_name("x.fa.gz")
    packed.write_bytes(subprocess.run(["gzip", "-c", path], stdout=subprocess.PIPE, check=True).stdout)
    with pytest.raises(FormatError, match=r"x\.fa\.gz.*bgzip"):
        SequenceDataset(packed)


def test_a_file_without_its_end_mark_is_told(folder, bgzip):
    path = bgzip(folder / "a.fa")
    path.write_bytes(path.read_bytes()[:-28])
    with pytest.warns(SeeksetWarning, match="may have been cut short"):
        ds = SequenceDataset(path)
    assert len(ids(ds)) == 9


@pytest.mark.parametrize(
    "data, message",
    [
        (b"ACGT\n>a\nAC\n", "line 1, byte 0: expected '>' before any other text, found 'A'"),
        (b"\n" * 200 + b"ACGT\n>a\n", "line 201, byte 200: expected '>' before any other text, found 'A'"),
        (b">a\nAC\x00GT\n", "line 2, byte 5: expected letters in a sequence line, found a NUL byte"),
        (b">a\nAC\n>\xff\nGT\n", "line 3, byte 7: expected text in UTF-8 in a header, found the byte 0xff"),
        (b">a\rACGT\r>b\rAC\n", "line 1, byte 2: expected LF or CRLF at the end of a header"),
    ],
)
@pytest.mark.parametrize("chunk", [3, 64])
def test_what_is_no_fasta_is_refused_with_its_place(write, data, message, chunk):
    with pytest.raises(FormatError, match=f"x.fa: {message}"):
        list(SequenceDataset(write(data), chunk_bytes=chunk))


@pytest.mark.parametrize("unpickled", [True, False])
def test_a_file_that_changes_is_refused(folder, unpickled):
    ds = SequenceDataset(folder / "a.fa", chunk_bytes=CHUNK)
    if not unpickled:
        next(iter(ds))  # a file that is open
    with (folder / "a.fa").open("ab") as file:
        file.write(b">more\nACGT\n")
    with pytest.raises(StaleIndexError, match=r"a\.fa: .*its size was"):
        list(pickle.loads(pickle.dumps(ds)) if unpickled else ds)


def test_states_of_other_files_ranks_and_chunks_are_refused(folder):
    here = SequenceDataset(folder)
    for there, message in [
        (SequenceDataset(folder / "a.fa"), "files was 'a.fa, "),
        (SequenceDataset(folder, chunk_bytes=CHUNK), "chunk_bytes was 64 and is 1048576 here"),
        (SequenceDataset(folder, world=World(1, 2)), "rank was 1 and is 0 here"),
        (SequenceDataset(folder, world=World(0, 2)), "world_size was 2 and is 1 here"),
    ]:
        with pytest.raises(MismatchError, match=f"state mismatch: {message}"):
            here.load_state_dict(there.state_dict())
    for name, value in (("records", -1), ("records", None), ("position", "x")):
        with pytest.raises(MismatchError, match=f"state mismatch: {name} must be a whole number from 0 on"):
            here.load_state_dict({**here.state_dict(), name: value})
    with pytest.raises(MismatchError, match="position was 9, but an epoch ends at 2 here"):
        here.load_state_dict({**here.state_dict(), "position": 9})
