"""Beside bgzip and samtools: the .gzi and .fai of compressed files, byte for byte."""

import subprocess

import numpy as np
import pysam
import pytest
from hypothesis import given, settings

import reference
import seekset
import strategies

END_MARK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


def noise(size):
    return np.random.default_rng(7).choice(np.frombuffer(b"ACGT", np.uint8), size).tobytes().decode()


FILES = {
    "one block": b">a one\nACGT\nAC\n>b\nGG\n",
    "several blocks": b">a one\n" + reference.wrap(noise(300_000), 60) + b">b\n" + reference.wrap(noise(99), 10),
    "a long line": b">a\n" + noise(300_000).encode() + b"\n",
    "well compressed": b">a\n" + b"ACGT" * 100_000 + b"\n",
    "exactly one block": b">a\n" + b"A" * (65_280 - 4) + b"\n",
    "exactly two blocks": b">a\n" + b"A" * (2 * 65_280 - 4) + b"\n",
    "CRLF": b">a\r\n" + reference.wrap(noise(100_000), 61, b"\r\n"),
}


def bgzip_table(path):
    """The .gzi that `bgzip -r` writes."""
    table = path.with_name(path.name + ".gzi")
    subprocess.run(["bgzip", "-r", path], check=True)
    content = table.read_bytes()
    table.unlink()
    return content


def our_table(path):
    """The .gzi that seekset writes when it opens the file."""
    table = path.with_name(path.name + ".gzi")
    seekset.Fasta(path, duplicates="first").close()
    content = table.read_bytes()
    table.unlink()
    path.with_name(path.name + ".sidx").unlink()
    return content


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_the_gzi_is_that_of_bgzip(write, bgzip, data):
    path = bgzip(write(data))
    assert our_table(path) == bgzip_table(path)


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_the_fai_and_gzi_that_faidx_writes_are_those_of_samtools(write, bgzip, data):
    path = bgzip(write(data))
    made = [path.with_name(path.name + suffix) for suffix in (".fai", ".gzi")]
    assert seekset.faidx(path) == made[0]
    ours = [file.read_bytes() for file in made]
    [file.unlink() for file in made]
    pysam.faidx(str(path))
    assert ours == [file.read_bytes() for file in made]


JOINED = {
    "two files": lambda pack: pack(b">a\nACGT\n") + pack(b">b\nAC\n"),
    "three files": lambda pack: pack(b">a\nACGT\n") + pack(b"GG\n") + pack(b">b\nAC\n"),
    "many end marks": lambda pack: pack(b">a\nACGT\n") + END_MARK * 3 + pack(b">b\nAC\n"),
    "end marks at the end": lambda pack: pack(b">a\nACGT\n") + END_MARK * 2,
    "large files": lambda pack: pack(FILES["several blocks"]) + pack(FILES["a long line"]),
    "no end mark": lambda pack: pack(FILES["several blocks"]).removesuffix(END_MARK),
    "an empty block first": lambda pack: END_MARK + pack(b">a\nACGT\n") + pack(b">b\nAC\n"),
}


@pytest.mark.filterwarnings("ignore:.*the empty block that ends")
@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED)
def test_the_gzi_of_joined_files_is_that_of_bgzip(write, bgzip, join):
    path = write(join(bgzip.bytes), "x.fa.gz")
    assert our_table(path) == bgzip_table(path)


@pytest.mark.filterwarnings("ignore:.*the empty block that ends")
@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED)
def test_joined_files_read_with_the_gzi_of_bgzip(write, bgzip, join):
    path = write(join(bgzip.bytes), "x.fa.gz")
    plain = subprocess.run(["bgzip", "-dc", path], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["bgzip", "-r", path], check=True)
    with seekset.Fasta(path, duplicates="first") as fa:
        assert fa.fetch_many(range(len(fa))) == [record.sequence for record in reference.parse(plain)]


@given(data=strategies.well_formed())
@settings(max_examples=25)
def test_fetch_from_compressed_files_is_that_of_pysam(scratch, data):
    packed = subprocess.run(["bgzip", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    path = scratch(packed)
    with seekset.Fasta(path) as fa, pysam.FastaFile(str(path)) as theirs:
        assert list(fa) == theirs.references
        assert [fa.fetch(name) for name in fa] == [theirs.fetch(name) for name in fa]
