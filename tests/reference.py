"""What the answers should be, in plain Python: slow, short and obviously right."""

from typing import NamedTuple

# IUPAC codes and their complements; everything else is its own complement.
COMPLEMENT = str.maketrans("ACGTURYSWKMBDHVNacgturyswkmbdhvn", "TGCAAYRSWMKVHDBNtgcaayrswmkvhdbn")

# Ids of the tables that come with seekset, from the papers and tokenizers they stand for.
ESM = {letter: 4 + k for k, letter in enumerate("LAGVSERTIDPKQNFYMHWCXBUZO.-")}
ESM_CLS, ESM_PAD, ESM_EOS, ESM_UNK = 0, 1, 2, 3
DNA = {letter: ord(letter.upper()) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"}
DNA_PAD, DNA_UNK = 1, 4
NUCLEOTIDE = {letter: "ACGTN".index(letter.upper().replace("U", "T")) for letter in "ACGTUNacgtun"}
NUCLEOTIDE_UNK = 4


class Record(NamedTuple):
    id: str
    description: str
    sequence: str


def parse(data):
    """The records of a FASTA file."""
    records, offset = [], 0
    for line in data.split(b"\n"):
        if line.startswith(b">"):
            description = line[1:].removesuffix(b"\r").decode()
            words = line[1:].split()
            records.append((words[0].decode() if words else str(offset), description, []))
        elif line.strip():
            records[-1][2].append(b"".join(line.split()).decode())
        offset += len(line) + 1
    return [Record(name, description, "".join(lines)) for name, description, lines in records]


def reverse_complement(letters):
    return letters.translate(COMPLEMENT)[::-1]


def wrap(letters, width, end=b"\n"):
    """Lines of `width` letters."""
    letters = letters.encode()
    return b"".join(letters[at : at + width] + end for at in range(0, len(letters), width))
