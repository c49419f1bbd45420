"""What windows are, written down a second time, plainly: the reference that the tests compare with."""

import random

COMPLEMENT = str.maketrans("ACGTUNacgtun", "TGCAANtgcaan")
BOS, EOS, PAD, SEP = 2, 0, 1, 3


def eden_count(length, window, stride):
    return 1 if length < window else 1 + (length - window) // stride


def spans(length, *, window, content, stride, tail, min_length=1):
    """Starts and ends of the windows of a contig."""
    if length < min_length:
        return []
    if tail == "drop":
        starts = [k * stride for k in range(eden_count(length, window, stride))]
    else:
        starts, at = [0], 0
        while at + content < length:
            at += stride
            if tail == "anchor":
                starts.append(min(at, length - content))
            elif at < length:
                starts.append(at)
    return [(start, min(start + content, length)) for start in starts]


def reverse_complement(text):
    return text[::-1].translate(COMPLEMENT)


def item(letters, window, *, header=(BOS,), footer=(EOS,), special=(BOS, EOS, PAD, SEP), ignored=()):
    """Tokens, labels and loss mask of a window's letters, as lists. `ignored` are letters whose labels don't count."""
    tokens = [*header, *map(ord, letters.upper()), *footer]
    tokens += [PAD] * (window - len(tokens))
    labels = [*tokens[1:], PAD]
    mask = [float(label not in special) for label in labels]
    for at, letter in enumerate(letters):
        if letter in ignored and at + len(header) > 0:
            mask[at + len(header) - 1] = 0.0
    return {"tokens": tokens, "labels": labels, "loss_mask": mask, "position_ids": list(range(window))}


def letters(count, seed=0):
    """So many letters, of which no few that follow each other come twice."""
    return "".join(random.Random(seed).choices("ACGT", k=count))


def fasta(contigs, width=60):
    """The bytes of a FASTA file of these contigs, by name."""
    lines = []
    for name, letters in contigs.items():
        lines.append(f">{name}")
        lines += [letters[at : at + width] for at in range(0, len(letters), width)]
    return ("\n".join(lines) + "\n").encode()


def as_lists(item):
    return {name: value.tolist() for name, value in item.items()}
