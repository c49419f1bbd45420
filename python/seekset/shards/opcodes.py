"""The opcodes of a pickle, walked without running them, to see what it would have the unpickler allocate."""

from __future__ import annotations

import re

__all__ = ["find_excess"]

# Opcodes that take as many bytes whatever they say. Those of a run without arguments are passed at once.
_BARE = rb"[(012NQRabde\]lost})u\x81\x85-\x89\x8f-\x94\x97\x98]*+"
_FIXED = re.compile(rb"(?s:%b(?:(?:[Kh\x80\x82].|[M\x83]..|[Jj\x84]....|[G\x95]........)%b)*+)" % (_BARE, _BARE))
_LINES = {ord(opcode): 1 for opcode in "FILSVPg"} | {ord(opcode): 2 for opcode in "ci"}
# How many bytes say how long the rest of an opcode is.
_LENGTHS = {
    **dict.fromkeys(b"UC\x8a\x8c", 1),
    **dict.fromkeys(b"TXB\x8b", 4),
    **dict.fromkeys(b"\x8d\x8e\x96", 8),
}
# Entries of the memo whose number may be anything: as many as a byte tells.
_FREE = 256
# Enough to tell that a number is large.
_DIGITS = 18


def find_excess(data: bytes) -> str | None:
    r"""What a pickle would have the unpickler allocate beyond its own size; nothing if it is modest.

    An unpickler makes room for all numbers up to the one under which it is told to keep a value, and for as many bytes
    as it is told will follow: a few bytes are enough to have it fill memory. Picklers count from 0.

    >>> import pickle
    >>> find_excess(pickle.dumps([["a", "b"]] * 3, protocol=2))
    >>> find_excess(b"]r\xff\xff\xff\x7f.")
    'at byte 1 it keeps a value as number 2147483647, though it has kept no more than 0'
    """
    at: int | None = 0
    kept = 0
    while at is not None:
        start = _FIXED.match(data, at).end()  # type: ignore[union-attr]
        if data[start : start + 1] in (b"q", b"r", b"p"):
            at, number = _put(data, start)
            if number > kept + _FREE:
                return f"at byte {start} it keeps a value as number {number}, though it has kept no more than {kept}"
            kept += 1
        else:
            at = _end(data, start)
        if at is not None and at > len(data):
            return f"at byte {start} it says that its next value ends at byte {at}, but it has {len(data)} bytes"
    return None  # up to the end, or to what the unpickler itself will find wrong


def _put(data: bytes, start: int) -> tuple[int, int]:
    """Where an opcode that keeps a value ends, and the number it gives."""
    at = start + 1
    if data[start:at] == b"p":
        end = data.find(b"\n", at) + 1 or len(data)
        digits = data[at:end].strip()
        # What is no number is for the unpickler to refuse; one with many digits is large, whatever it is.
        return end, int(digits[:_DIGITS]) if digits.isdigit() else 0
    end = at + (1 if data[start:at] == b"q" else 4)
    return end, int.from_bytes(data[at:end], "little")


def _end(data: bytes, start: int) -> int | None:
    """Where an opcode that has a length, or lines, ends; nothing for the one that ends a pickle, or is none."""
    if start >= len(data):
        return None
    opcode = data[start]
    if opcode in _LENGTHS:
        at = start + 1 + _LENGTHS[opcode]
        return at + int.from_bytes(data[start + 1 : at], "little")
    end: int | None = None
    for _ in range(_LINES.get(opcode, 0)):
        end = data.find(b"\n", end or start) + 1
        if not end:
            return None
    return end
