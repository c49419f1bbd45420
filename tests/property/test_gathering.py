"""Gathers are what plain Python makes of the same records and options."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
import seekset
import strategies
from seekset import TokenTable


class Table(NamedTuple):
    """A table as seekset has it, and as a dict."""

    tokens: str | TokenTable
    ids: dict[str, int]
    unk: int | None
    pad: int
    prefix: list[int]
    suffix: list[int]

    def encode(self, text, specials):
        values = [self.ids.get(letter, self.unk) for letter in text]
        return [*self.prefix, *values, *self.suffix] if specials else values


CUSTOM = TokenTable({"A": 500, "C": 7}, specials={"unk": 1, "pad": 2}, prefix=[9, 8], suffix=[600])
TABLES = {
    "esm": Table("esm", reference.ESM, 3, 1, [0], [2]),
    "dna": Table("dna", reference.DNA, 4, 1, [], []),
    "nucleotide": Table("nucleotide", reference.NUCLEOTIDE, 4, 4, [], []),
    "bytes": Table("bytes", {chr(code): code for code in range(128)}, None, 0, [], []),
    "custom": Table(CUSTOM, {"A": 500, "C": 7}, 1, 2, [9, 8], [600]),
}
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


class Wanted(NamedTuple):
    """A file and what is asked of it: rows, starts, lengths and directions, and the letters that should come."""

    data: bytes
    rows: list[int]
    starts: list[int]
    lengths: list[int]
    flags: list[bool]

    def texts(self, *, windows=False, most=None):
        records = [record.sequence for record in reference.parse(self.data)]
        found = []
        for row, start, length, flag in zip(self.rows, self.starts, self.lengths, self.flags, strict=True):
            text = records[row][start : start + length] if windows else records[row][:most]
            found.append(reference.reverse_complement(text) if flag else text)
        return found


@st.composite
def requests(draw):
    data = draw(strategies.any_fasta().filter(lambda data: b">" in data))
    sizes = [len(record.sequence) for record in reference.parse(data)]
    rows = draw(st.lists(st.integers(0, len(sizes) - 1), max_size=12))
    starts = [draw(st.integers(0, sizes[row])) for row in rows]
    lengths = draw(st.lists(st.integers(0, 40), min_size=len(rows), max_size=len(rows)))
    flags = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    return Wanted(data, rows, starts, lengths, flags)


@every_table
@given(wanted=requests(), most=st.none() | st.integers(0, 40), specials=st.booleans(), wide=st.booleans())
@settings(max_examples=40)
def test_ragged_gathers(scratch, table, wanted, most, specials, wide):
    expected = [table.encode(text, specials) for text in wanted.texts(most=most)]
    options = {"dtype": "int64" if wide else "int32", "max_length": most, "specials": specials}
    with seekset.Fasta(scratch(wanted.data), duplicates="first") as fa:
        batch = fa.gather(wanted.rows, tokens=table.tokens, reverse_complement=wanted.flags, **options)
    assert batch.values.dtype == options["dtype"]
    assert batch.values.tolist() == [value for one in expected for value in one]
    assert np.diff(batch.offsets).tolist() == list(map(len, expected))


@every_table
@given(wanted=requests(), specials=st.booleans(), extra=st.integers(0, 3))
@settings(max_examples=40)
def test_windows(scratch, table, wanted, specials, extra):
    expected = [table.encode(text, specials) for text in wanted.texts(windows=True)]
    columns = max(map(len, expected), default=0) + extra
    out = np.full((len(wanted.rows), columns), 77, np.int32)
    options = {"reverse_complement": wanted.flags, "tokens": table.tokens, "specials": specials, "out": out}
    with seekset.Fasta(scratch(wanted.data), duplicates="first") as fa:
        assert fa.gather_windows(wanted.rows, wanted.starts, wanted.lengths, **options) is out
    assert out.tolist() == [values + [table.pad] * (columns - len(values)) for values in expected]


@given(
    wanted=requests(), alphabet=st.sampled_from(["ACGT", "AC", "NTGCA"]), unknown=st.sampled_from(["zeros", "quarter"])
)
def test_one_hot(scratch, wanted, alphabet, unknown):
    text = "".join(wanted.texts()).upper()
    share = float(np.float32(1 / len(alphabet))) if unknown == "quarter" else 0.0
    rows = {letter: [float(column == letter) for column in alphabet] for letter in alphabet}
    options = {"one_hot": alphabet, "unknown": unknown, "dtype": "float32", "reverse_complement": wanted.flags}
    with seekset.Fasta(scratch(wanted.data), duplicates="first") as fa:
        batch = fa.gather(wanted.rows, **options)
    assert batch.values.shape == (len(text), len(alphabet))
    assert batch.values.tolist() == [rows.get(letter, [share] * len(alphabet)) for letter in text]
