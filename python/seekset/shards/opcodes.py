"""The opcodes of a pickle, walked without running them, to see what it would have the unpickler allocate."""

from __future__ import annotations

import re

__all__ = ["memo_is_sound"]

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


def memo_is_sound(data: bytes) -> bool:
    r"""Whether a pickle numbers what it keeps from 0 on.

    An unpickler makes room for all numbers up to the one that it is told: six bytes are enough to have it fill
    memory. Picklers count.

    >>> import pickle
    >>> memo_is_sound(pickle.dumps([["a", "b"]] * 3, protocol=2)), memo_is_sound(b"]r\xff\xff\xff\x7f.")
    (True, False)
    """
    at: int | None = 0
    kept = _FREE
    while at is not None:
        at = _FIXED.match(data, at).end()  # type: ignore[union-attr]
        opcode = data[at : at + 1]
        if opcode in (b"q", b"r", b"p"):
            at, number = _put(data, at + 1, opcode)
            kept += 1
            if number > kept:
                return False
        else:
            at = _end(data, at)
    return True  # up to the end, or to what the unpickler itself will find wrong


def _put(data: bytes, at: int, opcode: bytes) -> tuple[int, int]:
    """Where an opcode that keeps a value ends, and the number it gives."""
    if opcode == b"p":
        end = data.find(b"\n", at) + 1 or len(data)
        digits = data[at:end].strip()
        # What is no number is for the unpickler to refuse; one with many digits is large, whatever it is.
        return end, int(digits) if digits.isdigit() and len(digits) < 10 else 0 if not digits.isdigit() else 1 << 62  # noqa: PLR2004
    end = at + (1 if opcode == b"q" else 4)
    return end, int.from_bytes(data[at:end], "little")


def _end(data: bytes, at: int) -> int | None:
    """Where an opcode that has a length, or lines, ends; nothing for the one that ends a pickle, or is none."""
    if at >= len(data):
        return None
    opcode = data[at]
    if opcode in _LENGTHS:
        start = at + 1 + _LENGTHS[opcode]
        return start + int.from_bytes(data[at + 1 : start], "little")
    end: int | None = None
    for _ in range(_LINES.get(opcode, 0)):
        end = data.find(b"\n", end or at) + 1
        if not end:
            return None
    return end
