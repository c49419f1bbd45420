"""Sharded Eden's databases and items, written down plainly with Python's own sqlite3: what ours are compared with."""

import sqlite3
from contextlib import closing

from window_reference import BOS, EOS, PAD, SEP, eden_count


def write_samples(folder, samples):
    """`{sample: {contig: letters}}` as sample databases."""
    for sample, contigs in samples.items():
        (folder / sample).mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(folder / sample / f"glm_dataset_{sample}.sqlite")) as db:
            db.execute("CREATE TABLE sequences (contig_id TEXT PRIMARY KEY, nt_sequence TEXT NOT NULL)")
            db.executemany("INSERT INTO sequences VALUES (?, ?)", contigs.items())
            db.commit()
    return folder


def windows_of(samples, window, stride, threshold=0):
    """All windows in order: contig and number."""
    lengths = {contig: len(letters) for contigs in samples.values() for contig, letters in contigs.items()}
    return [
        (contig, k)
        for contig in sorted(lengths)
        for k in range(eden_count(lengths[contig], window, stride))
        if not threshold or min(window, lengths[contig] - k * stride) >= threshold
    ]


def write_windows(path, samples, window, stride, threshold=0, /, **metadata):
    """A window database; a keyword of None leaves a key of the metadata out, any other replaces it."""
    rows = windows_of(samples, window, stride, threshold)
    keys = {"window_size": window, "stride": stride, "window_min_length_threshold": threshold}
    keys |= {"total_windows": len(rows), "distinct_sequences": len({contig for contig, _ in rows}), **metadata}
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE metadata (key TEXT PRIMARY KEY, value INTEGER NOT NULL)")
        db.execute(
            "CREATE TABLE window_mappings (window_idx INTEGER PRIMARY KEY, sequence_id TEXT NOT NULL, "
            "window_in_seq_idx INTEGER NOT NULL)"
        )
        db.executemany("INSERT INTO metadata VALUES (?, ?)", [pair for pair in keys.items() if pair[1] is not None])
        db.executemany("INSERT INTO window_mappings VALUES (?, ?, ?)", [(n, *row) for n, row in enumerate(rows)])
        db.execute("CREATE INDEX idx_sequence_id ON window_mappings(sequence_id)")
        db.commit()
    return path


class ByteTokenizer:
    """A tokenizer object, as NeMo's byte tokenizer: letters are their ASCII codes."""

    bos_id, eos_id, pad_id, _sep_id, unk_id = BOS, EOS, PAD, SEP, 4

    def text_to_ids(self, text):
        return list(text.encode())


def item(letters, stride, window, k, *, bos=True, eos=True, control=(), separated=False):
    """The item of a contig's k-th window, as lists."""
    header = [BOS] * bos + [*control] + [SEP] * separated
    footer = [EOS] * eos
    content = window - len(header) - len(footer)
    tokens = [*header, *letters[k * stride : k * stride + content].upper().encode(), *footer]
    tokens += [PAD] * (window - len(tokens))
    labels = [*tokens[1:], PAD]
    special = {BOS, EOS, SEP, PAD, *control}
    return {
        "tokens": tokens,
        "labels": labels,
        "loss_mask": [float(label not in special) for label in labels],
        "position_ids": list(range(window)),
    }
