"""A checksum over all bytes of a file."""

import pytest

from seekset import _core


def test_the_digest_is_of_all_bytes_and_of_nothing_else(write):
    same = [_core.file_digest(write(b"A" * 3_000_000 + b"C", name)) for name in ("a", "b")]
    other = _core.file_digest(write(b"A" * 2_999_999 + b"CC"))
    assert same[0] == same[1] != other
    # xxh3 of 128 bits, of nothing and of one letter.
    assert _core.file_digest(write(b"")) == "99aa06d3014798d86001c324468d497f"
    assert _core.file_digest(write(b"a")) == "a96faf705af16834e6c632b61e964e1f"


def test_progress_is_told_and_files_that_are_none_are_named(write, tmp_path):
    told = []
    _core.file_digest(write(b"x" * 5_000_000), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (5_000_000, 5_000_000)
    with pytest.raises(FileNotFoundError, match="missing"):
        _core.file_digest(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        _core.file_digest(tmp_path)
