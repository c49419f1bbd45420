"""The native index: when it is used, when it is built anew, and where it is kept."""

import os
import pickle
import shutil
import warnings

import pyarrow as pa
import pytest

import seekset

OLD = b">a one\nMKVLA\nAG\n>b\nMK\n"
NEW = b">a one\nWWWWW\nWW\n>b\nWW\n"  # of the same size


def indexed(path, **options):
    """The path of a file that has an index."""
    seekset.Fasta(path, **options).close()
    return path


def sequences(path, **options):
    with seekset.Fasta(path, **options) as fa:
        return [record.sequence for record in fa.values()]


def copy_time(path, time):
    os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))


# --- used while it fits ---------------------------------------------------------------------------------------------


def test_the_first_open_writes_the_index_and_the_second_uses_it(write, names):
    path = indexed(write(OLD))
    assert names() == ["x.fa", "x.fa.sidx"]
    written = (path.parent / "x.fa.sidx").stat()
    assert sequences(path) == ["MKVLAAG", "MK"]
    again = (path.parent / "x.fa.sidx").stat()
    assert (again.st_ino, again.st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_file_that_was_only_read_keeps_its_index(write):
    path = indexed(write(OLD))
    os.utime(path, ns=(1, path.stat().st_mtime_ns))
    assert sequences(path, rebuild=False) == ["MKVLAAG", "MK"]


def test_a_file_that_was_moved_with_its_index_keeps_it(write, tmp_path):
    path = indexed(write(OLD))
    path.rename(tmp_path / "y.fa")
    (tmp_path / "x.fa.sidx").rename(tmp_path / "y.fa.sidx")
    assert sequences(tmp_path / "y.fa", rebuild=False) == ["MKVLAAG", "MK"]


def test_index_says_where_the_index_is(write, tmp_path, names):
    (tmp_path / "indexes").mkdir()
    index = tmp_path / "indexes" / "mine"
    with seekset.Fasta(write(OLD), index=index) as fa:
        assert fa.index_path == index
    assert names() == ["indexes", "x.fa"]
    assert sequences(tmp_path / "x.fa", index=str(index), rebuild=False) == ["MKVLAAG", "MK"]


# --- stale ----------------------------------------------------------------------------------------------------------


def longer(path):
    path.write_bytes(OLD + b">c\nWW\n")


def shorter(path):
    path.write_bytes(OLD[:-1])


def touched(path):
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def swapped(path):
    """Other letters, the same size, and the old time copied along."""
    before = path.stat()
    path.write_bytes(NEW)
    copy_time(path, before)


def replaced(path):
    """Another file of the same size and time in its place."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(NEW)
    copy_time(other, before)
    other.replace(path)


CHANGES = {
    longer: (["MKVLAAG", "MK", "WW"], "size was 22 bytes and is 28 now"),
    shorter: (["MKVLAAG", "MK"], "size was 22 bytes and is 21 now"),
    touched: (["MKVLAAG", "MK"], "modification time"),
    swapped: (["WWWWWWW", "WW"], "contents differ"),
    replaced: (["WWWWWWW", "WW"], "contents differ"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_indexed_anew(write, change):
    path = indexed(write(OLD))
    change(path)
    expected, _ = CHANGES[change]
    assert sequences(path) == expected
    assert sequences(path, rebuild=False) == expected


@pytest.mark.parametrize("change", CHANGES)
def test_without_rebuild_a_changed_file_is_a_stale_index_error(write, change):
    path = indexed(write(OLD))
    index = (path.parent / "x.fa.sidx").read_bytes()
    change(path)
    _, why = CHANGES[change]
    with pytest.raises(seekset.StaleIndexError, match=why) as error:
        seekset.Fasta(path, rebuild=False)
    assert "x.fa.sidx" in str(error.value)
    assert (path.parent / "x.fa.sidx").read_bytes() == index


def test_one_changed_byte_in_a_sampled_block_of_a_large_file_is_noticed(write):
    path = indexed(write(b">a\n" + b"ACGT" * 500_000))
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"N")
    copy_time(path, before)
    with pytest.raises(seekset.StaleIndexError, match="contents differ"):
        seekset.Fasta(path, rebuild=False)


def test_without_rebuild_a_missing_index_is_a_stale_index_error(write, names):
    with pytest.raises(seekset.StaleIndexError, match="there is none"):
        seekset.Fasta(write(OLD), rebuild=False)
    assert names() == ["x.fa"]


# --- not this file's ------------------------------------------------------------------------------------------------


def test_an_index_of_another_file_is_not_used(write, tmp_path):
    other = indexed(write(NEW + b">c\nA\n", "other.fa"))
    path = write(OLD)
    shutil.copy(f"{other}.sidx", f"{path}.sidx")
    with pytest.raises(seekset.StaleIndexError, match="size"):
        seekset.Fasta(path, rebuild=False)
    assert sequences(path) == ["MKVLAAG", "MK"]


def test_an_index_of_another_file_of_the_same_size_and_time_is_not_used(write):
    other, path = indexed(write(NEW, "other.fa")), write(OLD)
    copy_time(path, other.stat())
    shutil.copy(f"{other}.sidx", f"{path}.sidx")
    with pytest.raises(seekset.StaleIndexError, match="contents differ"):
        seekset.Fasta(path, rebuild=False)
    assert sequences(path) == ["MKVLAAG", "MK"]


@pytest.mark.parametrize("rubbish", [b"", b"ARROW1", b"ARROW1\0\0" + b"x" * 100 + b"ARROW1", OLD])
def test_a_file_that_is_no_index_is_not_used(write, rubbish):
    path = write(OLD)
    write(rubbish, "x.fa.sidx")
    with pytest.raises(seekset.StaleIndexError, match="not a usable index"):
        seekset.Fasta(path, rebuild=False)
    assert sequences(path) == ["MKVLAAG", "MK"]
    assert sequences(path, rebuild=False) == ["MKVLAAG", "MK"]


def rewrite(index, **metadata):
    """Writes an index again with pyarrow, with other metadata."""
    table = pa.ipc.open_file(index).read_all()
    known = {**table.schema.metadata, **{f"seekset.{key}".encode(): value for key, value in metadata.items()}}
    table = table.replace_schema_metadata({key: value for key, value in known.items() if value is not None})
    with pa.ipc.new_file(index, table.schema) as file:
        file.write_table(table)


def test_an_index_that_pyarrow_wrote_again_as_it_was_is_used(write):
    path = indexed(write(OLD))
    rewrite(f"{path}.sidx")
    assert sequences(path, rebuild=False) == ["MKVLAAG", "MK"]


def test_an_index_from_before_metadata_had_a_checksum_is_used(write):
    path = indexed(write(OLD))
    rewrite(f"{path}.sidx", check=None)
    assert sequences(path, rebuild=False) == ["MKVLAAG", "MK"]


@pytest.mark.parametrize(
    "metadata, why",
    [
        ({"version": b"2"}, "version 1, found 2"),
        ({"version": b"0"}, "version 1, found 0"),
        ({"version": b"one"}, "not a number"),
        ({"version": None}, "lack seekset.version"),
        ({"kind": b"tfrecord"}, "kind 'fasta', found 'tfrecord'"),
        ({"kind": None}, "lack seekset.kind"),
        ({"check": None, "file_size": b"7"}, "size"),
        ({"check": None, "file_mtime_ns": b"7"}, "modification time"),
        ({"check": None, "file_sample": b"7"}, "contents differ"),
        ({"check": None, "file_sample": None}, "lack seekset.file_sample"),
        ({"repeated_ids": b"1"}, "its metadata are damaged"),
        ({"first_repeat": None}, "its metadata are damaged"),
        ({"check": b"7"}, "its metadata are damaged"),
    ],
)
def test_an_index_of_another_version_or_kind_is_not_used(write, metadata, why):
    path = indexed(write(OLD))
    rewrite(f"{path}.sidx", **metadata)
    with pytest.raises(seekset.StaleIndexError, match=why):
        seekset.Fasta(path, rebuild=False)
    assert sequences(path) == ["MKVLAAG", "MK"]
    assert sequences(path, rebuild=False) == ["MKVLAAG", "MK"]


# --- kept in memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["missing/folder/x.sidx", "x.fa/x.sidx"])
def test_an_index_that_cannot_be_written_is_kept_in_memory_with_one_warning(write, tmp_path, names, index):
    path = write(OLD)
    with pytest.warns(seekset.SeeksetWarning, match="kept in memory") as warned:
        fa = seekset.Fasta(path, index=tmp_path / index)
    assert len(warned) == 1
    assert str(tmp_path / index) in str(warned[0].message)
    assert fa.index_path is None
    assert [record.sequence for record in fa.values()] == ["MKVLAAG", "MK"]
    assert fa.gather(["b"], tokens="esm").values.tolist() == [0, 20, 15, 2]
    assert fa.lengths.tolist() == [7, 2]
    assert names() == ["x.fa"]


def test_the_warning_points_at_the_line_that_opened_the_file(write, tmp_path):
    path = write(OLD)
    with pytest.warns(seekset.SeeksetWarning) as warned:
        seekset.Fasta(path, index=tmp_path / "missing" / "x.sidx")
    assert warned[0].filename == __file__


def test_the_warning_is_given_once_per_line(write, tmp_path):
    path = write(OLD)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        for _ in range(5):
            seekset.Fasta(path, index=tmp_path / "missing" / "x.sidx").close()
    assert len(warned) == 1


def test_a_folder_that_may_not_be_written_is_no_obstacle(write, run, tmp_path):
    write(OLD)
    tmp_path.chmod(0o755)
    printed = run("""
        import os, warnings, seekset
        seekset.Fasta, seekset.SeeksetWarning
        os.chmod(".", 0o555)
        if os.geteuid() == 0:  # root may write everywhere, so be nobody
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        with warnings.catch_warnings(record=True) as warned:
            fa = seekset.Fasta("x.fa")
        print([one.category.__name__ for one in warned], fa.index_path, fa.fetch_many([1, 0]), fa["a"].description)
    """)
    tmp_path.chmod(0o755)
    assert printed == "['SeeksetWarning'] None ['MK', 'MKVLAAG'] a one\n"


def test_an_index_that_cannot_be_replaced_is_kept_in_memory(write, tmp_path):
    path = write(OLD)
    (tmp_path / "x.fa.sidx").mkdir()
    with pytest.warns(seekset.SeeksetWarning, match=r"x\.fa\.sidx can't be written .*kept in memory"):
        fa = seekset.Fasta(path)
    assert fa.index_path is None
    assert fa.fetch_many(["b", "a"]) == ["MK", "MKVLAAG"]
    fa._core.verify()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.fa", "x.fa.sidx"]


def test_an_index_in_memory_holds_many_records_too(write, tmp_path):
    data = b"".join(b">%d\nAC\nA\n" % k for k in range(50_000))
    with pytest.warns(seekset.SeeksetWarning):
        fa = seekset.Fasta(write(data), index=tmp_path / "missing" / "x.sidx")
    assert [fa.row(str(k)) for k in range(0, 50_000, 97)] == list(range(0, 50_000, 97))
    assert bytes(fa.gather(range(50_000)).values) == b"ACA" * 50_000


def test_a_pickled_handle_without_a_written_index_works(write, tmp_path):
    with pytest.warns(seekset.SeeksetWarning):
        fa = seekset.Fasta(write(OLD), index=tmp_path / "missing" / "x.sidx")
    again = pickle.loads(pickle.dumps(fa))
    with pytest.warns(seekset.SeeksetWarning):
        assert again.fetch("b") == "MK"
