"""FASTA files for hypothesis to try."""

from hypothesis import strategies as st

LETTERS = "ACGTNacgtnRYKMSWBDHVUMELKQ*-."
SPACES = " \t"

plain_words = st.text("abcdefgXYZ019_.|-", min_size=1, max_size=8)
words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
sequences = st.text(LETTERS, max_size=60)
line_ends = st.sampled_from([b"\n", b"\r\n"])


@st.composite
def headers(draw, name):
    """A header line with a description that may hold anything but line ends, `>` too."""
    rest = draw(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=12))
    return f">{name} {rest}".encode() if rest else f">{name}".encode()


@st.composite
def record(draw, header, end):
    """A record of equal lines, the last one shorter or equal."""
    letters = draw(st.text(LETTERS, min_size=1, max_size=60)).encode()
    width = draw(st.integers(1, 70))
    lines = [letters[at : at + width] + end for at in range(0, len(letters), width)]
    return header + end + b"".join(lines)


@st.composite
def well_formed(draw):
    """A file that samtools indexes: lines alike, names different, no record empty, blank lines only after records."""
    end = draw(line_ends)
    blank = st.sampled_from([b"", b"", end, end + end])
    parts = [draw(blank)]
    for name in draw(st.lists(words, min_size=1, max_size=5, unique=True)):
        parts += [draw(record(draw(headers(name)), end)), draw(blank)]
    data = b"".join(parts)
    return data.removesuffix(end) if draw(st.booleans()) else data


@st.composite
def plain(draw):
    """A file that everybody reads: well-formed, in ASCII, without blank lines."""
    end = draw(line_ends)
    names = draw(st.lists(plain_words, min_size=1, max_size=5, unique=True))
    return b"".join(draw(record(f">{name} some words".encode(), end)) for name in names)


@st.composite
def any_fasta(draw):
    """A file with everything that is allowed: uneven lines, blanks, empty records, records without names."""
    parts = [draw(st.sampled_from([b"", b"\n", b" \r\n\n"]))]
    names = draw(st.lists(words, max_size=6, unique=True))
    for name in names:
        parts += [draw(headers(draw(st.sampled_from([name, name, ""])))), draw(line_ends)]
        for line in draw(st.lists(st.text(LETTERS + SPACES, max_size=30), max_size=5)):
            parts += [line.encode(), draw(line_ends)]
    data = b"".join(parts)
    return data.removesuffix(b"\n") if draw(st.booleans()) else data
