"""TFRecord files put together byte by byte, by a checksum that is right by inspection."""

import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _entry(byte):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]


def checksum(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def header(length):
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", checksum(packed))


def record(payload):
    return header(len(payload)) + payload + struct.pack("<I", checksum(payload))


def records(*payloads):
    return b"".join(map(record, payloads))


def unchecked(*payloads):
    """Records as some writers leave them: with zeros for checksums."""
    return b"".join(struct.pack("<QI", len(payload), 0) + payload + bytes(4) for payload in payloads)


def lines(*payloads):
    """The index of these records, worked out here."""
    at, text = 0, ""
    for payload in payloads:
        text += f"{at} {len(payload) + 16}\n"
        at += len(payload) + 16
    return text
