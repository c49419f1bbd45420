"""Files compressed by bgzip: the same answers as the plain file, and damage that is noticed."""

import bz2
import gzip
import lzma
import os
import struct
import subprocess
import warnings

import numpy as np
import pytest

import reference
import seekset

END_MARK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


def protein(seed, size):
    return np.random.default_rng(seed).choice(np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8), size).tobytes().decode()


# Several blocks, records within one and across many, even and uneven lines.
RECORDS = {
    "short": protein(1, 50),
    "long": protein(2, 150_000),
    "uneven": protein(3, 90_000),
    "empty": "",
    "last": protein(4, 20_000),
}
FILE = b"".join(
    b">%b some words\r\n" % name.encode() + reference.wrap(text[:7], 3) + reference.wrap(text[7:], 61)
    if name == "uneven"
    else b">%b some words\n" % name.encode() + reference.wrap(text, 60)
    for name, text in RECORDS.items()
)


def in_small_blocks(bgzip, data, size, empty=False):
    """As bgzip would write it if its blocks held `size` bytes; or with empty blocks between them."""
    blocks = [bgzip.bytes(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join(block if empty else block.removesuffix(END_MARK) for block in blocks) + END_MARK


@pytest.fixture(params=["as it is", "small blocks", "empty blocks", "no end mark", "pread"])
def packed(request, write, bgzip):
    """The same file, compressed in several ways."""
    data, kind = bgzip.bytes(FILE), request.param
    assert data.endswith(END_MARK)
    if kind == "small blocks":
        data = in_small_blocks(bgzip, FILE, 4001)
    elif kind == "empty blocks":
        data = in_small_blocks(bgzip, FILE, 50_001, empty=True)
    elif kind == "no end mark":
        data = data.removesuffix(END_MARK)
    with warnings.catch_warnings():
        if kind == "no end mark":
            warnings.simplefilter("ignore", seekset.SeeksetWarning)
        return seekset.Fasta(write(data, "x.fa.gz"), io="pread" if kind == "pread" else "mmap")


# --- the same answers -----------------------------------------------------------------------------------------------


def test_all_records_are_those_of_the_plain_file(packed):
    assert list(packed) == list(RECORDS)
    assert [record.sequence for record in packed.values()] == list(RECORDS.values())
    assert packed.fetch_many(list(RECORDS)[::-1]) == list(RECORDS.values())[::-1]
    assert [record.description for record in packed.values()] == [f"{name} some words" for name in RECORDS]
    assert packed.lengths.tolist() == list(map(len, RECORDS.values()))


def test_parts_are_those_of_the_plain_file(packed):
    for name in ("long", "uneven", "last"):
        text = RECORDS[name]
        for start in range(0, len(text), 3001):
            assert packed.fetch(name, start, start + 100) == text[start : start + 100]
        assert packed[name][::-997] == text[::-997]
        assert packed[name].reverse_complement(100, 70_000) == reference.reverse_complement(text[100:70_000])


def test_gathers_are_those_of_the_plain_file(packed, write):
    plain = seekset.Fasta(write(FILE, "plain.fa"))
    rows = np.random.default_rng(5).integers(0, 5, 40)
    for options in ({"tokens": "esm"}, {"tokens": "dna", "dtype": "int64"}, {"reverse_complement": True}):
        ours, theirs = packed.gather(rows, **options), plain.gather(rows, **options)
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
    starts = np.arange(0, 90_000, 509)
    windows = [fa.gather_windows([2] * len(starts), starts, 300, tokens="esm") for fa in (packed, plain)]
    np.testing.assert_array_equal(*windows)


def test_the_index_speaks_of_the_letters_inside(write, bgzip):
    plain, packed = seekset.Fasta(write(FILE, "plain.fa")), seekset.Fasta(write(bgzip.bytes(FILE), "x.fa.gz"))
    assert [packed._core.entry(row) for row in range(5)] == [plain._core.entry(row) for row in range(5)]


def test_compression_is_told_by_content_and_not_by_name(write, bgzip):
    assert seekset.Fasta(write(bgzip.bytes(b">a\nMK\n"), "x.fa")).fetch("a") == "MK"
    assert seekset.Fasta(write(b">a\nMK\n", "y.fa.gz")).fetch("a") == "MK"


def test_an_empty_compressed_file_is_an_empty_fasta(write, bgzip):
    assert list(seekset.Fasta(write(bgzip.bytes(b""), "x.fa.gz"))) == []
    assert list(seekset.Fasta(write(END_MARK * 3, "y.fa.gz"))) == []


def test_a_file_that_starts_with_an_empty_block_reads_as_any_other(write, bgzip):
    path = write(END_MARK + bgzip.bytes(FILE), "x.fa.gz")
    assert seekset.Fasta(path).fetch_many(range(5)) == list(RECORDS.values())


def test_a_file_that_starts_with_an_empty_block_reads_with_the_table_of_bgzip(write, bgzip):
    path = write(END_MARK + bgzip.bytes(FILE), "x.fa.gz")
    subprocess.run(["bgzip", "-r", path], check=True)
    assert seekset.Fasta(path).fetch_many(range(5)) == list(RECORDS.values())


def test_faults_in_the_text_are_placed_by_line_and_byte_of_the_text(write, bgzip):
    text = b">a\n" + b"MKVLA\n" * 30_000 + b"MK\0\n"
    with pytest.raises(seekset.FormatError, match=r"x\.fa\.gz: line 30002, byte 180005: .*NUL"):
        seekset.Fasta(write(bgzip.bytes(text), "x.fa.gz"))


# --- damage ---------------------------------------------------------------------------------------------------------

SMALL = b">a one\nMKVLA\nAGIVG\n>b\nWY\n"


def outcome(path, **options):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", seekset.SeeksetWarning)
            fa = seekset.Fasta(path, **options)
        with fa:
            return fa.fetch_many(list(fa))
    except seekset.FormatError as error:
        return type(error)


def test_a_flipped_byte_is_an_error_or_does_not_matter(write, bgzip):
    packed = in_small_blocks(bgzip, SMALL, 9)
    outcomes = set()
    for at in range(len(packed)):
        damaged = packed[:at] + bytes([packed[at] ^ 0x41]) + packed[at + 1 :]
        found = outcome(write(damaged, f"{at}.fa.gz"))
        outcomes.add(found if isinstance(found, type) else tuple(found))
    assert outcomes - {seekset.CorruptRecordError, seekset.FormatError} == {("MKVLAAGIVG", "WY")}


def test_a_block_that_is_damaged_after_the_index_was_made_is_an_error_and_not_wrong_letters(write, bgzip):
    packed = in_small_blocks(bgzip, SMALL, 9)
    path = write(packed, "x.fa.gz")
    seekset.Fasta(path).close()
    time = path.stat()
    for at in range(len(packed)):
        path.write_bytes(packed[:at] + bytes([packed[at] ^ 0x41]) + packed[at + 1 :])
        os.utime(path, ns=(time.st_atime_ns, time.st_mtime_ns))
        assert outcome(path) in (["MKVLAAGIVG", "WY"], seekset.CorruptRecordError, seekset.FormatError)


def test_a_damaged_block_is_named_by_its_place_in_the_file(write, bgzip):
    packed = bytearray(bgzip.bytes(FILE))
    second = struct.unpack_from("<H", packed, 16)[0] + 1
    packed[second + 1000] ^= 0xFF
    with pytest.raises(seekset.CorruptRecordError, match=rf"x\.fa\.gz: byte {second}: block 1: "):
        seekset.Fasta(write(packed, "x.fa.gz"))


def test_a_file_that_was_cut_short_is_an_error(write, bgzip):
    packed = bgzip.bytes(SMALL).removesuffix(END_MARK)
    for length in range(2, len(packed)):
        path = write(packed[:length], f"{length}.fa.gz")
        with pytest.raises(seekset.CorruptRecordError, match=r"byte 0: .*cut short"):
            seekset.Fasta(path)


def test_a_file_that_was_cut_in_a_later_block_is_an_error(write, bgzip):
    packed = bgzip.bytes(FILE)
    first = struct.unpack_from("<H", packed, 16)[0] + 1
    for length in (first + 1, first + 17, first + 18, first + 1000, len(packed) - 1, len(packed) - 27):
        with pytest.raises(seekset.CorruptRecordError, match="cut short"):
            seekset.Fasta(write(packed[:length], f"{length}.fa.gz"))


@pytest.mark.parametrize("work", [seekset.Fasta, seekset.faidx])
def test_a_file_without_its_end_mark_works_with_a_warning(write, bgzip, work):
    path = write(bgzip.bytes(SMALL).removesuffix(END_MARK), "x.fa.gz")
    with pytest.warns(seekset.SeeksetWarning, match=r"x\.fa\.gz: the empty block that ends .* cut short") as warned:
        work(path)
    assert [warning.filename for warning in warned] == [__file__]
    with pytest.warns(seekset.SeeksetWarning):
        assert seekset.Fasta(path).fetch_many(["b", "a"]) == ["WY", "MKVLAAGIVG"]


def test_what_follows_the_blocks_must_be_a_block(write, bgzip):
    packed = bgzip.bytes(SMALL)
    for rest in (b"rubbish of some length", b"\0" * 40, gzip.compress(b"MK\n")):
        with pytest.raises(seekset.FormatError, match=f"byte {len(packed)}: "):
            seekset.Fasta(write(packed + rest, "x.fa.gz"))


FOREIGN = {
    "gzip": (gzip.compress(SMALL), "plain gzip.*bgzip"),
    "zstd": (b"\x28\xb5\x2f\xfd" + SMALL, "zstd.*bgzip"),
    "xz": (lzma.compress(SMALL), "xz.*bgzip"),
    "bzip2": (bz2.compress(SMALL), "bzip2.*bgzip"),
}


@pytest.mark.parametrize("data, message", FOREIGN.values(), ids=FOREIGN)
def test_other_compressions_are_refused_with_the_remedy(write, names, data, message):
    path = write(data)
    for work in (seekset.Fasta, seekset.faidx):
        with pytest.raises(seekset.FormatError, match=message) as error:
            work(path)
        assert f"{path}: byte 0: " in str(error.value)
    assert names() == ["x.fa"]


# --- the block table ------------------------------------------------------------------------------------------------


@pytest.fixture
def compressed(write, bgzip):
    """A compressed file, indexed; and its block table as it should be."""
    path = write(bgzip.bytes(FILE), "x.fa.gz")
    seekset.Fasta(path).close()
    return path, path.with_name("x.fa.gz.gzi").read_bytes()


def test_the_block_table_is_written_beside_the_file(compressed, names):
    assert names() == ["x.fa.gz", "x.fa.gz.gzi", "x.fa.gz.sidx"]


def test_a_good_block_table_is_left_alone(compressed):
    path, _ = compressed
    table = path.with_name("x.fa.gz.gzi")
    before = table.stat()
    assert seekset.Fasta(path).fetch("short") == RECORDS["short"]
    assert (table.stat().st_ino, table.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_missing_block_table_is_made_again(compressed):
    path, table = compressed
    path.with_name("x.fa.gz.gzi").unlink()
    assert seekset.Fasta(path).fetch("short") == RECORDS["short"]
    assert path.with_name("x.fa.gz.gzi").read_bytes() == table


def test_a_missing_block_table_is_not_written_without_rebuild(compressed, names):
    path, _ = compressed
    path.with_name("x.fa.gz.gzi").unlink()
    assert seekset.Fasta(path, rebuild=False).fetch("short") == RECORDS["short"]
    path.with_name("x.fa.gz.sidx").unlink()
    with pytest.raises(seekset.StaleIndexError, match="there is none"):
        seekset.Fasta(path, rebuild=False)
    assert names() == ["x.fa.gz"]


def test_a_missing_block_table_is_made_again_by_an_index_of_many_files(compressed, tmp_path):
    path, table = compressed
    seekset.SequenceIndex.create([path], tmp_path / "all.sidx")
    path.with_name("x.fa.gz.gzi").unlink()
    index = seekset.SequenceIndex.load(tmp_path / "all.sidx")
    assert index.fetch_many([0]) == [max(RECORDS.values(), key=len)]
    assert path.with_name("x.fa.gz.gzi").read_bytes() == table


def test_an_old_block_table_is_replaced(compressed, bgzip):
    path, _ = compressed
    path.with_name("x.fa.gz.gzi").unlink()
    path.with_name("x.fa.gz.gzi").write_bytes(struct.pack("<Q", 0))
    path.write_bytes(in_small_blocks(bgzip, FILE, 30_000))
    os.utime(path.with_name("x.fa.gz.gzi"), ns=(0, path.stat().st_mtime_ns - 1))
    assert seekset.Fasta(path).fetch_many(range(5)) == list(RECORDS.values())
    assert struct.unpack("<Q", path.with_name("x.fa.gz.gzi").read_bytes()[:8]) == (len(FILE) // 30_000,)


def shifted(table):
    """The same number of entries, all 5 bytes further on."""
    return table[:8] + b"".join(struct.pack("<QQ", c + 5, u) for c, u in struct.iter_unpack("<QQ", table[8:]))


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda table: table[:-1],
        lambda table: table[:-16],
        lambda table: table + bytes(16),
        lambda table: struct.pack("<Q", 2**60) + table[8:],
        lambda table: table[:8] + table[24:40] + table[8:24] + table[40:],
        lambda _: b"rubbish!" * 3,
        shifted,
    ],
    ids=["empty", "cut in a number", "cut", "longer", "huge count", "not rising", "rubbish", "shifted"],
)
def test_a_damaged_block_table_is_replaced(compressed, damage):
    path, table = compressed
    beside = path.with_name("x.fa.gz.gzi")
    beside.unlink()
    beside.write_bytes(damage(table))
    assert seekset.Fasta(path).fetch_many(range(5)) == list(RECORDS.values())
    assert beside.read_bytes() == table


def foreign(bgzip, data):
    """The block table of another file."""
    raw = bgzip.bytes(data).removesuffix(END_MARK)
    starts, at, inflated = [], 0, 0
    while at < len(raw):
        size = struct.unpack_from("<H", raw, at + 16)[0] + 1
        starts.append((at, inflated))
        inflated += struct.unpack_from("<I", raw, at + size - 4)[0]
        at += size
    return struct.pack("<Q", len(starts) - 1) + b"".join(struct.pack("<QQ", *start) for start in starts[1:])


OTHERS = {
    "of one block": lambda bgzip: foreign(bgzip, SMALL),
    "shorter": lambda bgzip: foreign(bgzip, FILE[:150_000]),
    "longer": lambda bgzip: foreign(bgzip, FILE * 2),
    "as long": lambda bgzip: foreign(bgzip, FILE[::-1]),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("index", ["fits", "is missing"])
def test_the_block_table_of_another_file_is_replaced(compressed, bgzip, other, index):
    path, table = compressed
    beside = path.with_name("x.fa.gz.gzi")
    beside.unlink()
    beside.write_bytes(other(bgzip))
    if index == "is missing":
        path.with_name("x.fa.gz.sidx").unlink()
    assert seekset.Fasta(path).fetch_many(range(5)) == list(RECORDS.values())
    assert beside.read_bytes() == table


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_block_table_of_another_file_is_stale_without_rebuild(compressed, bgzip, other):
    path, _ = compressed
    beside = path.with_name("x.fa.gz.gzi")
    beside.unlink()
    beside.write_bytes(other(bgzip))
    with pytest.raises(seekset.StaleIndexError, match=r"x\.fa\.gz: its block table .*x\.fa\.gz\.gzi is not that of"):
        seekset.Fasta(path, rebuild=False)
    assert beside.read_bytes() == other(bgzip)


def test_an_entry_of_a_large_block_table_that_is_wrong_is_mended_with_the_index(write, bgzip):
    blocks = in_small_blocks(bgzip, FILE, 1000)
    path = write(blocks, "x.fa.gz")
    seekset.Fasta(path).close()
    beside = path.with_name("x.fa.gz.gzi")
    table = beside.read_bytes()
    entries = list(struct.iter_unpack("<QQ", table[8:]))
    entries[5] = (entries[5][0] + 1, entries[5][1])  # between those that are looked at
    beside.unlink()
    beside.write_bytes(table[:8] + b"".join(struct.pack("<QQ", *entry) for entry in entries))
    with pytest.raises(seekset.CorruptRecordError, match="byte"):
        seekset.Fasta(path).fetch_many(range(5))
    path.with_name("x.fa.gz.sidx").unlink()
    assert seekset.Fasta(path).fetch_many(range(5)) == list(RECORDS.values())
    assert beside.read_bytes() == table


def test_a_block_table_with_one_damaged_byte_gives_an_error_or_the_right_answer(compressed):
    path, table = compressed
    wrong = []
    for bits in (0x01, 0x80):
        for at in range(len(table)):
            path.with_name("x.fa.gz.gzi").unlink()
            path.with_name("x.fa.gz.gzi").write_bytes(table[:at] + bytes([table[at] ^ bits]) + table[at + 1 :])
            wrong += [at for name in RECORDS if letters(path, name) not in (RECORDS[name], None)]
    assert wrong == []


def letters(path, name):
    """One record, or nothing where seekset notices that something is wrong."""
    try:
        with seekset.Fasta(path, rebuild=False) as fa:
            return fa.fetch(name)
    except seekset.SeeksetError:
        return None


def test_a_block_table_that_is_cut_while_it_is_open_is_no_crash(run, compressed):
    printed = run("""
        import os, time, seekset
        fa = seekset.Fasta("x.fa.gz")
        names = list(fa)
        os.truncate("x.fa.gz.gzi", 0)
        time.sleep(0.01)
        for name in names:
            try:
                fa.fetch(name)
            except seekset.SeeksetError:
                pass
        print("alive")
    """)
    assert printed == "alive\n"


def test_a_folder_that_cannot_be_written_keeps_the_block_table_in_memory(write, bgzip, run, tmp_path):
    write(bgzip.bytes(SMALL), "x.fa.gz")
    tmp_path.chmod(0o755)
    printed = run("""
        import os, warnings, seekset
        seekset.Fasta, seekset.SeeksetWarning
        os.chmod(".", 0o555)
        if os.geteuid() == 0:  # root may write everywhere, so be nobody
            os.setgroups([]), os.setgid(65534), os.setuid(65534)
        with warnings.catch_warnings(record=True) as warned:
            print(seekset.Fasta("x.fa.gz").fetch_many([0, 1]), len(warned))
    """)
    tmp_path.chmod(0o755)
    assert printed == "['MKVLAAGIVG', 'WY'] 1\n"
