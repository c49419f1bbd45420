"""More files than a process may have descriptors: shards of a data set come by the thousand."""

import gzip

import pytest

from frames import records

FILES = 400

# Python and torch have some descriptors of their own; of these, seekset takes a quarter.
FEW = """
    import os, resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = lambda: len(os.listdir("/proc/self/fd"))
"""


@pytest.fixture
def few(run):
    """Runs a program that may have 200 descriptors."""
    return lambda source: run(FEW + source)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_tfrecords_are_a_dataset_whatever_their_number(tmp_path, few, compressed):
    for number in range(FILES):
        found = records(*(f"{number} {k}".encode() for k in range(3)))
        path = tmp_path / f"train.tfrecord-{number:05d}-of-{FILES:05d}{'.gz' if compressed else ''}"
        path.write_bytes(gzip.compress(found) if compressed else found)
    printed = few("""
    import pickle
    from torch.utils.data import DataLoader
    from seekset.datasets import TFRecordDataset
    from seekset.loading import ResumableBatchSampler

    first = TFRecordDataset("train.tfrecord*", seed=1)
    print(len(first.files))
    for data in first, pickle.loads(pickle.dumps(first)):
        sampler = ResumableBatchSampler(data, batch_size=7)
        loader = DataLoader(data, batch_sampler=sampler, collate_fn=list, num_workers=2)
        got = [item for batch in loader for item in batch]
        print(len(got), len(set(got)), held() < 100)
    """)
    assert printed == f"{FILES}\n" + 2 * f"{FILES * 3} {FILES * 3} True\n"


@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_files_without_a_descriptor_are_read_and_looked_at_like_others(tmp_path, few, io):
    for number in range(FILES):
        (tmp_path / f"{number}.tfrecord").write_bytes(records(b"one", b"two"))
    (tmp_path / "elsewhere").mkdir()
    printed = few(f"""
    from pathlib import Path
    import seekset

    files = [seekset.TFRecordFile(f"{{number}}.tfrecord", io="{io}") for number in range({FILES})]
    os.chdir("elsewhere")
    print(all(file.get_many([1, 0]) == [b"two", b"one"] and file[1] == b"two" for file in files))
    def told(change):
        found = set()
        for number in (0, {FILES} - 1):
            change(Path(f"../{{number}}.tfrecord"))
            try:
                files[number].get_many([1])
            except seekset.StaleIndexError as error:
                found.add(str(error).partition(": ")[2])
        print(*found)
    told(lambda path: os.utime(path, (1, 1)))
    told(lambda path: path.write_bytes(b"x"))
    told(Path.unlink)
    """)
    assert printed == (
        "True\n"
        "it was written to after it was opened; open it again\n"
        "its size was 38 bytes when it was opened and is 1 now; open it again\n"
        "it was deleted or replaced after it was opened; open it again\n"
    )


def test_fasta_handles_may_be_as_many(tmp_path, few):
    for number in range(FILES):
        (tmp_path / f"{number}.fa").write_text(f">a\nACGT\n>b {number}\nAC\nGT\n")
    printed = few(f"""
    import seekset

    files = [seekset.Fasta(f"{{number}}.fa") for number in range({FILES})]
    print(held() < 100, all(files[k]["b"].description == f"b {{k}}" for k in range({FILES})))
    print({{file.fetch("b", 1, 4) for file in files}}, {{file.gather([1, 0]).values.tobytes() for file in files}})
    """)
    assert printed == "True True\n{'CGT'} {b'ACGTACGT'}\n"


def test_a_file_that_was_renamed_opens_under_its_new_name(tmp_path, few):
    for number in range(FILES):
        (tmp_path / f"{number}.tfrecord").write_bytes(records(b"one", b"two"))
    printed = few(f"""
    import seekset

    files = [seekset.TFRecordFile(f"{{number}}.tfrecord") for number in range({FILES})]
    os.rename("{FILES - 1}.tfrecord", "new.tfrecord")
    print(seekset.TFRecordFile("new.tfrecord").get_many([1]))
    """)
    assert printed == "[b'two']\n"
