"""The databases of Sharded Eden as Python's own sqlite3 writes them: the oracle of tests."""

import sqlite3

import numpy as np

import seekset
from seekset import _core

SCHEMA = "CREATE TABLE sequences (contig_id TEXT PRIMARY KEY, nt_sequence TEXT NOT NULL)"


def write_sample(path, contigs, *, page_size=4096, journal="delete", encoding="UTF-8", schema=SCHEMA):
    """Write a sample database from pairs of ids and letters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute(f"PRAGMA encoding = '{encoding}'")
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute(schema)
    connection.executemany("INSERT INTO sequences VALUES (?, ?)", contigs)
    connection.commit()
    connection.close()
    return path


def write_windows(path, rows, metadata=None, *, index=True):
    """Write a window database from pairs of contigs and places, numbered as they come."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE metadata (key TEXT PRIMARY KEY, value INTEGER NOT NULL)")
    connection.execute(
        "CREATE TABLE window_mappings "
        "(window_idx INTEGER PRIMARY KEY, sequence_id TEXT NOT NULL, window_in_seq_idx INTEGER NOT NULL)"
    )
    connection.executemany(
        "INSERT INTO window_mappings VALUES (?, ?, ?)", [(at, contig, k) for at, (contig, k) in enumerate(rows)]
    )
    connection.executemany("INSERT INTO metadata VALUES (?, ?)", (metadata or {}).items())
    if index:
        connection.execute("CREATE INDEX idx_sequence_id ON window_mappings (sequence_id)")
    connection.commit()
    connection.close()
    return path


def read_windows(path):
    """All rows of a window database, and its metadata."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT * FROM window_mappings ORDER BY window_idx").fetchall()
    metadata = dict(connection.execute("SELECT * FROM metadata"))
    connection.close()
    return rows, metadata


def gather(sequences, wanted, *, columns, table="bytes", prefixes=((),), suffix=(), pad=0, out=None, reverse=None):
    """Token ids of windows, which are (database, contig, start, letters) or have a prefix's number as well."""
    databases, contigs, starts, letters = (
        (list(column) for column in zip(*(w[:4] for w in wanted), strict=True)) if wanted else ([], [], [], [])
    )
    return sequences.gather(
        np.array(databases, dtype=np.int64),
        contigs,
        np.array(starts, dtype=np.int64),
        np.array(letters, dtype=np.int64),
        reverse=None if reverse is None else np.array(reverse, dtype=bool),
        table=_core.TokenTable.named(table),
        columns=columns,
        pad=pad,
        prefixes=[list(prefix) for prefix in prefixes],
        prefix_of=np.array([w[4] if len(w) > 4 else 0 for w in wanted], dtype=np.int64),
        suffix=list(suffix),
        out=out,
    )


def fetch(sequences, wanted, *, reverse=None):
    """The letters of windows, which are (database, contig, start, letters)."""
    return sequences.fetch(
        np.array([w[0] for w in wanted], dtype=np.int64),
        [w[1] for w in wanted],
        np.array([w[2] for w in wanted], dtype=np.int64),
        np.array([w[3] for w in wanted], dtype=np.int64),
        reverse=None if reverse is None else np.array(reverse, dtype=bool),
    )


def letters_of(text, start, letters, *, reverse=False):
    """What a window must be, by slicing the text."""
    window = text[start : start + letters].upper()
    return seekset.reverse_complement(window) if reverse else window
