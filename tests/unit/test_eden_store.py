"""Contigs in sample databases, as Python's sqlite3 writes them: windows equal slices of the text."""

import errno
import os
import pickle
import random
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seekset
from eden_stores import SCHEMA, fetch, gather, letters_of, write_sample
from seekset import _core, errors

PAGES = [512, 1024, 4096, 16384, 65536]


def letters(count, seed=0, alphabet="ACGTNacgtn"):
    return "".join(random.Random(seed).choices(alphabet, k=count))


@pytest.fixture
def store(tmp_path):
    """`store({"A": {"id": "ACGT"}})` writes sample databases and opens them, in this order."""

    def store(samples, **options):
        paths = [
            write_sample(tmp_path / name / f"glm_dataset_{name}.sqlite", contigs.items(), **options)
            for name, contigs in samples.items()
        ]
        return _core.EdenSequences(list(samples), paths)

    return store


# --- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", PAGES)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_windows_equal_slices_of_the_text(store, threads, page_size, journal):
    samples = {
        name: {f"x__y-{name}__{k}": letters(length, seed=k) for k, length in enumerate((0, 1, 500, 70_000, 300_000))}
        for name in ("A", "B", "C")
    }
    sequences = store(samples, page_size=page_size, journal=journal)
    rng = random.Random(1)
    wanted = []
    for _ in range(300):
        database = rng.randrange(3)
        contig, text = rng.choice(list(samples["ABC"[database]].items()))
        wanted.append((database, contig, rng.randint(0, len(text)), rng.choice([0, 1, 64, 8190, 400_000])))
    reverse = [rng.random() < 0.5 for _ in wanted]
    expected = [
        letters_of(samples["ABC"[database]][contig], start, n, reverse=back)
        for (database, contig, start, n), back in zip(wanted, reverse, strict=True)
    ]
    assert fetch(sequences, wanted, reverse=reverse) == expected
    small = [(at, window) for at, window in enumerate(wanted) if len(expected[at]) <= 8190]
    tokens = gather(sequences, [w for _, w in small], columns=8190, reverse=[reverse[at] for at, _ in small])
    for row, (at, _) in zip(tokens, small, strict=True):
        assert bytes(row.astype(np.uint8)) == expected[at].encode().ljust(8190, b"\0")


@given(data=st.data())
def test_any_window_of_any_contig_equals_its_slice(tmp_path_factory, data):
    ids = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
    contigs = data.draw(st.dictionaries(ids, st.text("ACGTNacgtnRYK-*", max_size=3000), min_size=1, max_size=6))
    folder = tmp_path_factory.mktemp("any")
    path = write_sample(folder / "s.sqlite", contigs.items(), page_size=data.draw(st.sampled_from(PAGES)))
    sequences = _core.EdenSequences(["s"], [path])
    windows = st.sampled_from(sorted(contigs)).flatmap(
        lambda contig: st.tuples(
            st.just(0), st.just(contig), st.integers(0, len(contigs[contig])), st.integers(0, 4000), st.integers(0, 1)
        )
    )
    wanted = data.draw(st.lists(windows, max_size=30))
    reverse = [data.draw(st.booleans()) for _ in wanted]
    expected = [
        letters_of(contigs[contig], start, n, reverse=back)
        for (_, contig, start, n, _), back in zip(wanted, reverse, strict=True)
    ]
    assert fetch(sequences, wanted, reverse=reverse) == expected
    ends = [[2], [2, 7, 3]]
    tokens = gather(sequences, wanted, columns=4004, prefixes=ends, suffix=[9], pad=1, reverse=reverse)
    for row, window, text in zip(tokens, wanted, expected, strict=True):
        ids = [*ends[window[4]], *text.encode(), 9]
        assert row.tolist() == ids + [1] * (4004 - len(ids))


def test_letters_are_upper_cased_before_they_are_looked_up(store):
    sequences = store({"A": {"a": "acgtnACGTN"}})
    assert gather(sequences, [(0, "a", 0, 10)], columns=10, table="dna").tolist() == [list(b"ACGTNACGTN")]


def test_an_output_that_is_given_is_filled_and_returned(store):
    sequences = store({"A": {"a": "ACGT"}})
    out = np.full((2, 6), -5)
    assert gather(sequences, [(0, "a", 2, 9), (0, "a", 4, 9)], columns=6, pad=1, suffix=[0], out=out) is out
    assert out.tolist() == [[71, 84, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]]


@pytest.mark.parametrize(
    "out, error",
    [
        (np.zeros((1, 5), np.int64), ValueError),
        (np.zeros((2, 4), np.int64), ValueError),
        (np.zeros(4, np.int64), TypeError),
        (np.zeros((1, 4), np.int32), TypeError),
        (np.zeros((4, 8), np.int64)[:1, ::2], ValueError),
        ([[0] * 4], TypeError),
    ],
)
def test_an_output_of_another_shape_or_type_is_refused(store, out, error):
    with pytest.raises(error, match="out"):
        gather(store({"A": {"a": "ACGT"}}), [(0, "a", 0, 4)], columns=4, out=out)


def test_no_windows_are_no_rows(store):
    sequences = store({"A": {"a": "ACGT"}})
    assert gather(sequences, [], columns=4).shape == (0, 4)
    assert fetch(sequences, []) == []


def test_more_letters_than_columns_are_refused(store):
    with pytest.raises(errors.MismatchError, match="window 0 needs 5 columns, but the output has 4"):
        gather(store({"A": {"a": "ACGT"}}), [(0, "a", 0, 4)], columns=4, suffix=[0])


def test_arguments_that_do_not_fit_each_other_are_refused(store):
    sequences = store({"A": {"a": "ACGT"}})
    one, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    with pytest.raises(ValueError, match="must be of one length"):
        sequences.fetch(one, ["a"], none, one)
    with pytest.raises(ValueError, match=r"starts\[0\] is -1"):
        fetch(sequences, [(0, "a", -1, 4)])
    with pytest.raises(IndexError, match="row 1 is out of range"):
        fetch(sequences, [(1, "a", 0, 4)])
    with pytest.raises(ValueError, match="there is no prefix 3"):
        gather(sequences, [(0, "a", 0, 4, 3)], columns=4)
    with pytest.raises(errors.MismatchError, match="one database for each sample"):
        _core.EdenSequences(["A", "B"], ["x.sqlite"])


def test_windows_beyond_a_contig_name_window_contig_sample_and_file(store, tmp_path):
    sequences = store({"A": {"x": "ACGT" * 25}})
    one = np.array([100]), ["x"], np.array([31968]), np.array([8192])
    with pytest.raises(errors.MismatchError) as error:
        sequences.fetch(np.zeros(1, np.int64), *one[1:], windows=np.array([12]))
    assert str(error.value) == (
        f"window 12 of contig 'x' (sample A, {tmp_path}/A/glm_dataset_A.sqlite) starts at letter 31968, but the "
        "contig has 100 letters; the window database was made for a longer one"
    )
    assert fetch(sequences, [(0, "x", 100, 8192)]) == [""]


def test_a_missing_contig_is_named_with_window_sample_and_file(store, tmp_path):
    with pytest.raises(errors.MismatchError) as error:
        fetch(store({"A": {"x": "ACGT"}}), [(0, "x", 0, 4), (0, "y", 0, 4)])
    assert str(error.value) == (
        f"window 1 of contig 'y' (sample A, {tmp_path}/A/glm_dataset_A.sqlite) is not there: the database has no such "
        "contig"
    )


@pytest.mark.parametrize(
    "contig", ["it's", 'say "x"', " blank ", "", "ü✓", "../../etc", "a;DROP TABLE sequences", "%s", "a\nb"]
)
def test_odd_ids_are_found(store, contig):
    sequences = store({"A": {contig: "ACGT", "other": "TT"}})
    assert fetch(sequences, [(0, contig, 1, 2)]) == ["CG"]
    assert sequences.length(0, contig) == 4


def test_letters_without_an_id_are_named(store, tmp_path):
    sequences = store({"A": {"x": "ACGTXACGT"}})
    table = _core.TokenTable({"A": 1, "C": 2, "G": 3, "T": 4})
    arrays = np.zeros(1, np.int64), ["x"], np.array([2]), np.array([7])
    with pytest.raises(errors.MismatchError) as error:
        sequences.gather(
            *arrays, table=table, columns=9, pad=0, prefixes=[[]], prefix_of=np.zeros(1, np.int64), suffix=[],
            windows=np.array([7]),
        )  # fmt: skip
    assert str(error.value) == (
        f"{tmp_path}/A/glm_dataset_A.sqlite: record 'x' (row 7), position 4: the letter 'X' is not in token table "
        "'custom', which has no id for unknown letters"
    )


@pytest.mark.parametrize("text, byte", [("ACGTé", "0xc3"), ("ACGT\0A", "0x00")])
def test_what_is_no_ascii_letter_is_a_format_error_with_contig_and_position(store, text, byte):
    sequences = store({"A": {"x": text}})
    with pytest.raises(errors.FormatError, match=f"contig 'x', position 4: expected a letter .*{byte}"):
        fetch(sequences, [(0, "x", 0, 9)])
    assert fetch(sequences, [(0, "x", 0, 4)]) == ["ACGT"]


# --- lengths ----------------------------------------------------------------------------------------------------------


def test_lengths_are_those_of_the_texts(store):
    contigs = {"b": "ACGT" * 50_000, "a": "", "c": "A"}
    sequences = store({"A": contigs, "B": {}})
    assert [sequences.length(0, contig) for contig in "abc"] == [0, 200_000, 1]
    assert sequences.length(0, "d") is None
    ids, lengths = sequences.contigs(0)
    assert dict(zip(ids, lengths.tolist(), strict=True)) == {contig: len(text) for contig, text in contigs.items()}
    assert ids == sorted(contigs)
    assert sequences.contigs(1)[0] == []
    with pytest.raises(IndexError):
        sequences.length(2, "a")


# --- databases that are not what they should be -----------------------------------------------------------------------


def test_nothing_is_opened_before_it_is_read(tmp_path):
    sequences = _core.EdenSequences(["A"], [tmp_path / "missing.sqlite"])
    with pytest.raises(FileNotFoundError) as error:
        fetch(sequences, [(0, "a", 0, 1)])
    assert error.value.errno == errno.ENOENT
    assert error.value.filename == str(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()
    write_sample(tmp_path / "missing.sqlite", [("a", "ACGT")])
    assert fetch(sequences, [(0, "a", 0, 1)]) == ["A"]


def test_a_folder_in_the_place_of_a_file_is_a_real_is_a_directory_error(tmp_path):
    with pytest.raises(IsADirectoryError):
        fetch(_core.EdenSequences(["A"], [tmp_path]), [(0, "a", 0, 1)])


def test_a_file_that_may_not_be_read_is_a_real_permission_error(tmp_path):
    path = write_sample(tmp_path / "a.sqlite", [("a", "ACGT")])
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything: then the letters must be right
        assert fetch(_core.EdenSequences(["A"], [path]), [(0, "a", 0, 4)]) == ["ACGT"]
        return
    with pytest.raises(PermissionError):
        fetch(_core.EdenSequences(["A"], [path]), [(0, "a", 0, 1)])


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_text_in_utf_16_is_a_format_error_that_says_so(store, encoding):
    with pytest.raises(errors.FormatError, match=f"must be stored as UTF-8, but this database has {encoding}"):
        fetch(store({"A": {"a": "ACGT"}}, encoding=encoding), [(0, "a", 0, 1)])


@pytest.mark.parametrize(
    "schema, found",
    [
        ("CREATE TABLE contigs (contig_id TEXT, nt_sequence TEXT)", "found only contigs"),
        ("CREATE TABLE sequences (contig_id TEXT, dna TEXT)", r"found sequences\(contig_id, dna\)"),
        (SCHEMA + " WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE VIEW sequences AS SELECT 'a' AS contig_id, 'ACGT' AS nt_sequence", "found a view of that name"),
        (None, "found no tables at all"),
    ],
)
def test_another_schema_is_a_format_error_with_what_was_expected_and_found(tmp_path, schema, found):
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.execute("PRAGMA user_version = 1")
    if schema is not None:
        connection.execute(schema)
    connection.commit()
    connection.close()
    with pytest.raises(errors.FormatError, match=r"expected a table sequences\(contig_id, nt_sequence\).*" + found):
        fetch(_core.EdenSequences(["A"], [tmp_path / "a.sqlite"]), [(0, "a", 0, 1)])


@pytest.mark.parametrize("value, kind", [(7, "integer"), (1.5, "real"), (None, "null")])
def test_a_value_that_is_no_text_is_a_format_error(tmp_path, value, kind):
    path = write_sample(tmp_path / "a.sqlite", [("a", value)], schema="CREATE TABLE sequences (contig_id, nt_sequence)")
    sequences = _core.EdenSequences(["A"], [path])
    for read in (lambda: fetch(sequences, [(0, "a", 0, 1)]), lambda: sequences.length(0, "a")):
        with pytest.raises(errors.FormatError, match=f"'a': expected text, found a value of the type {kind}"):
            read()


def test_letters_may_be_stored_as_a_blob(tmp_path):
    path = write_sample(tmp_path / "a.sqlite", [("a", b"acgt")])
    assert fetch(_core.EdenSequences(["A"], [path]), [(0, "a", 1, 9)]) == ["CGT"]


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 5000, b">a\nACGT\n" * 600])
def test_a_file_that_is_no_database_is_a_format_error(write, content):
    with pytest.raises(errors.FormatError, match=r"x\.fa"):
        fetch(_core.EdenSequences(["A"], [write(content)]), [(0, "a", 0, 1)])


def test_random_bytes_are_never_a_database(write):
    for seed in range(50):
        content = random.Random(seed).randbytes(8192)
        for start in (b"", b"SQLite format 3\0"):
            with pytest.raises(errors.FormatError):
                fetch(_core.EdenSequences(["A"], [write(start + content)]), [(0, "a", 0, 1)])


CONTIGS = {f"x__y-A__{k}": letters(length, seed=k) for k, length in enumerate((100, 20_000, 3, 60_000, 5000))}


def read_all(path):
    """The letters of all contigs that are read without an error; a contig may also be missing."""
    found = {}
    for contig, text in CONTIGS.items():
        try:
            (found[contig],) = fetch(_core.EdenSequences(["A"], [path]), [(0, contig, 0, len(text))])
        except errors.SeeksetError:
            continue
    return found


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_a_file_cut_anywhere_is_an_error_and_never_other_letters(tmp_path, page_size):
    whole = write_sample(tmp_path / "a.sqlite", CONTIGS.items(), page_size=page_size).read_bytes()
    path = tmp_path / "cut.sqlite"
    for cut in [*range(0, 200, 9), *range(200, len(whole), len(whole) // 40), len(whole) - 1]:
        path.write_bytes(whole[:cut])
        assert read_all(path) == {}, cut


def test_zeroed_pages_are_errors_and_never_other_letters(tmp_path):
    whole = write_sample(tmp_path / "a.sqlite", CONTIGS.items(), page_size=1024).read_bytes()
    path = tmp_path / "zeroed.sqlite"
    lost = 0
    for page in range(len(whole) // 1024):
        path.write_bytes(whole[: page * 1024] + b"\0" * 1024 + whole[(page + 1) * 1024 :])
        found = read_all(path)
        lost += len(found) < len(CONTIGS)
        for contig, text in found.items():
            assert text == CONTIGS[contig].upper(), (page, contig)
    assert lost == len(whole) // 1024


def test_bytes_changed_at_random_never_crash(tmp_path):
    whole = write_sample(tmp_path / "a.sqlite", CONTIGS.items(), page_size=512).read_bytes()
    path = tmp_path / "changed.sqlite"
    for seed in range(300):
        rng = random.Random(seed)
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 4, 50])):
            # Half of the changes meet headers and page heads, which say where things are.
            at = (
                rng.randrange(len(whole))
                if rng.random() < 0.5
                else rng.randrange(len(whole) // 512) * 512 + rng.randrange(12)
            )
            changed[at] = rng.randrange(256)
        path.write_bytes(changed)
        for contig, text in read_all(path).items():
            assert len(text) <= len(CONTIGS[contig])


def test_a_database_that_another_process_writes_to_says_that_it_is_locked(store, run):
    sequences = store({"A": {"a": "ACGT"}})
    sequences.close()
    output = run(
        """
        import sqlite3, subprocess, sys
        path = "A/glm_dataset_A.sqlite"
        if len(sys.argv) == 1:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            subprocess.run([sys.executable, __file__, "read"], check=True)
        else:
            import numpy as np
            from seekset import _core
            try:
                one = np.zeros(1, np.int64)
                _core.EdenSequences(["A"], [path]).fetch(one, ["a"], one, one + 4)
            except OSError as error:
                print(error)
        """
    )
    assert "A/glm_dataset_A.sqlite: the database is locked" in output


def test_a_contig_that_another_process_changes_is_seen_after_close(store, run):
    sequences = store({"A": {"a": "ACGT" * 5000}}, journal="wal")
    assert fetch(sequences, [(0, "a", 0, 4)]) == ["ACGT"]
    run(
        """
        import sqlite3
        connection = sqlite3.connect("A/glm_dataset_A.sqlite")
        connection.execute("UPDATE sequences SET nt_sequence = 'TTTTTTTT'")
        connection.commit()
        """
    )
    # What is open stays what it was: a window of one batch can't be of another text than that of the next.
    assert fetch(sequences, [(0, "a", 4, 4)]) == ["ACGT"]
    sequences.close()
    assert fetch(sequences, [(0, "a", 0, 4)]) == ["TTTT"]
    with pytest.raises(errors.MismatchError, match="made for a longer one"):
        fetch(sequences, [(0, "a", 100, 4)])


# --- processes and threads --------------------------------------------------------------------------------------------


def test_more_databases_and_contigs_than_are_kept_open_are_read(run):
    output = run(
        """
        import resource, sqlite3
        import numpy as np
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))  # 32 files are kept, over all threads
        from seekset import _core
        paths = []
        for sample in range(80):
            paths.append(f"{sample}.sqlite")
            connection = sqlite3.connect(paths[-1])
            connection.execute("CREATE TABLE sequences (contig_id TEXT PRIMARY KEY, nt_sequence TEXT NOT NULL)")
            rows = [(f"c{k}", f"{sample:05d}{k:05d}") for k in range(40)]
            connection.executemany("INSERT INTO sequences VALUES (?, ?)", rows)
            connection.commit()
            connection.close()
        sequences = _core.EdenSequences([str(k) for k in range(80)], paths)
        rng = np.random.default_rng(0)
        for _ in range(3):
            databases, contigs = rng.integers(0, 80, 2000), rng.integers(0, 40, 2000)
            found = sequences.fetch(databases, [f"c{k}" for k in contigs], np.zeros(2000, int), np.full(2000, 99))
            assert found == [f"{s:05d}{k:05d}" for s, k in zip(databases, contigs)]
        print("read")
        """
    )
    assert output == "read\n"


def test_threads_read_at_the_same_time(store):
    contigs = {f"c{k}": letters(50_000, seed=k) for k in range(20)}
    sequences = store({"A": contigs})
    wrong = []

    def read(seed):
        rng = random.Random(seed)
        for _ in range(20):
            wanted = [(0, f"c{rng.randrange(20)}", rng.randrange(50_000), 3000) for _ in range(30)]
            expected = [letters_of(contigs[contig], start, n) for _, contig, start, n in wanted]
            if fetch(sequences, wanted) != expected:
                wrong.append(seed)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert not wrong


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_read_what_their_parent_has_open(run, method):
    output = run(
        """
        import multiprocessing, sqlite3, sys
        import numpy as np
        from seekset import _core

        def read(sequences, seed):
            rng = np.random.default_rng(seed)
            starts = rng.integers(0, 100_000, 200)
            zeros = np.zeros(200, np.int64)
            found = sequences.fetch(zeros, ["a"] * 200, starts, zeros + 50)
            text = "ACGTTGCAAC" * 10_000
            assert found == [text[start:start + 50] for start in starts]
            return len(found)

        def opened():
            return _core.EdenSequences(["A"], ["a.sqlite"])

        inherited = None

        def work(seed):
            return read(inherited or opened(), seed)

        if __name__ == "__main__":
            connection = sqlite3.connect("a.sqlite")
            connection.execute("CREATE TABLE sequences (contig_id TEXT PRIMARY KEY, nt_sequence TEXT NOT NULL)")
            connection.execute("INSERT INTO sequences VALUES ('a', ?)", ["ACGTTGCAAC" * 10_000])
            connection.commit()
            connection.close()
            inherited = opened()
            read(inherited, 0)
            with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
                print(sum(pool.map(work, range(8))))
            print(read(inherited, 9))
        """,
        method,
    )
    assert output == "1600\n200\n"


def test_the_gil_is_released_while_windows_are_read(store):
    contigs = {f"c{k}": letters(200_000, seed=k) for k in range(4)}
    sequences = store({"A": contigs})
    steps, done = 0, threading.Event()

    def count():
        nonlocal steps
        while not done.is_set():
            steps += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = steps
    while steps - before < 100:
        fetch(sequences, [(0, f"c{k % 4}", 0, 200_000) for k in range(64)])
    done.set()
    counter.join()


# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_sample_database_is_what_sqlite_reads(tmp_path):
    contigs = [("x__y-A__2", "acgtN" * 100_000), ("x__y-A__1", ""), ("it's", "AC")]
    path = seekset.create_sample_database("A", iter(contigs), tmp_path)
    assert path == tmp_path / "A" / "glm_dataset_A.sqlite"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT * FROM sequences ORDER BY rowid").fetchall() == contigs
    assert connection.execute("PRAGMA page_size").fetchone() == (65536,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [row[:3] for row in connection.execute("SELECT name, type, pk FROM pragma_table_info('sequences')")] == [
        ("contig_id", "TEXT", 1),
        ("nt_sequence", "TEXT", 0),
    ]
    connection.close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert oct(path.stat().st_mode & 0o777) == oct(0o666 & ~umask())


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    "contigs, error, match",
    [
        ([("a", "AC"), ("b", "A"), ("a", "AC")], errors.DuplicateIdError, "contig 'a' is there twice, in rows 0 and 2"),
        ([("a", "ACé")], errors.FormatError, "contig 'a', position 2: expected a letter"),
        ([("a", "A\0C")], errors.FormatError, "contig 'a', position 1: expected a letter"),
        ([("a\0b", "AC")], errors.FormatError, "holds a NUL"),
        ([("a", 5)], TypeError, "str"),
        ([("a",)], ValueError, "unpack"),
    ],
)
def test_what_can_not_be_written_leaves_what_was_there(tmp_path, contigs, error, match):
    path = seekset.create_sample_database("A", [("old", "ACGT")], tmp_path)
    before = path.read_bytes()
    with pytest.raises(error, match=match):
        seekset.create_sample_database("A", contigs, tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_no_sample_database_is_not_replaced(tmp_path):
    path = tmp_path / "A" / "glm_dataset_A.sqlite"
    path.parent.mkdir()
    path.write_text("dear diary")
    with pytest.raises(errors.MismatchError, match="there is a file already, and it is no sample database"):
        seekset.create_sample_database("A", [("a", "ACGT")], tmp_path)
    assert path.read_text() == "dear diary"


def test_a_database_with_changes_beside_it_is_not_replaced(tmp_path):
    path = seekset.create_sample_database("A", [("a", "ACGT")], tmp_path)
    Path(f"{path}-wal").write_bytes(b"changes")
    with pytest.raises(errors.MismatchError, match="in use, or was left in the middle of a change"):
        seekset.create_sample_database("A", [("a", "AC")], tmp_path)


@pytest.mark.parametrize("sample", ["", ".", "..", "a/b", "/a", "a\0b"])
def test_a_sample_that_can_not_name_a_folder_is_refused(tmp_path, sample):
    with pytest.raises(ValueError, match="can't be the name of a folder"):
        seekset.create_sample_database(sample, [], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_databases_are_found_by_the_names_of_their_folders(tmp_path):
    from seekset.eden import find_sample_databases

    for sample in ("B", "A.1", "ü"):
        seekset.create_sample_database(sample, [("a", "ACGT")], tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "C").mkdir()
    (tmp_path / "C" / "glm_dataset_D.sqlite").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    assert find_sample_databases(tmp_path) == {
        sample: tmp_path / sample / f"glm_dataset_{sample}.sqlite" for sample in ("A.1", "B", "ü")
    }
    with pytest.raises(ValueError, match="No SQLite files"):
        find_sample_databases(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        find_sample_databases(tmp_path / "missing")


def test_errors_of_windows_can_be_pickled(store):
    with pytest.raises(errors.MismatchError) as error:
        fetch(store({"A": {}}), [(0, "a", 0, 1)])
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
