"""FASTA files of random sequences, and what a packed batch of them must hold."""

import random

import numpy as np

import seekset

LETTERS = "LAGVSERTIDPKQNFYMHWCXBZUO"


def write_fasta(path, lengths, seed=0, wrap=60, name=None):
    """A file with a sequence of each length; ids are the file's name and a number."""
    draw = random.Random(seed)
    records = []
    for number, length in enumerate(lengths):
        letters = "".join(draw.choices(LETTERS, k=length))
        lines = [letters[at : at + wrap] for at in range(0, length, wrap)]
        records.append("\n".join([f">{name or path.stem}_{number} of {len(lengths)}", *lines]) + "\n")
    path.write_text("".join(records))
    return path


def sequences_of(paths):
    """All records of some files by (file, id), read with plain Python."""
    found = {}
    for path in paths:
        for record in path.read_text().split(">")[1:]:
            header, *lines = record.split("\n")
            found[str(path), header.split()[0]] = "".join(lines)
    return found


def check_packed(batch, index, *, max_length=1022, table="esm"):
    """What a packed batch holds is what the plain sequences say."""
    table = seekset.TokenTable.named(table)
    ends = batch["cu_seqlens"].tolist()
    rows, starts = batch["rows"].tolist(), batch["starts"].tolist()
    assert len(ends) == len(rows) + 1 == batch["num_sequences"] + 1
    assert ends[0] == 0
    assert ends[-1] == len(batch["input_ids"]) == len(batch["position_ids"])
    plain = sequences_of(index.files)
    for at, (row, start) in enumerate(zip(rows, starts, strict=True)):
        entry = index.entry(row)
        assert batch["sequence_ids"][at] == entry.sequence_id
        letters = plain[str(entry.file_path), entry.sequence_id][start:][:max_length]
        expected = [*table.prefix, *(table[letter] for letter in letters), *table.suffix]
        span = slice(ends[at], ends[at + 1])
        assert batch["input_ids"][span].tolist() == expected
        assert batch["position_ids"][span].tolist() == list(range(len(expected)))
    assert batch["max_seqlen"] == int(np.diff(ends).max(initial=0))
