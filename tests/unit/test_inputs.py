"""The files of a run are known by their content; those that nobody has touched are not read again."""

import os

import pytest

from seekset.errors import StaleIndexError
from seekset.inference.inputs import Input


def test_a_file_that_nobody_touched_is_taken_for_the_same(write):
    path = write(b">a\nMKV\n")
    before = Input.read(path)
    assert before.again(path) is before
    # Its letters are not looked at: this is what a change that keeps size and time costs.
    path.write_bytes(b">a\nVKM\n")
    os.utime(path, ns=(before.mtime_ns, before.mtime_ns))
    assert before.again(path) is before


def test_one_with_another_time_size_or_path_is_read(write):
    path = write(b">a\nMKV\n", "a.fa")
    before = Input.read(path)
    os.utime(path, ns=(5, 5))
    assert before.again(path) == Input(before.path, 7, 5, before.digest)
    other = write(b">a\nVKM\n", "b.fa")
    os.utime(other, ns=(before.mtime_ns, before.mtime_ns))
    found = before.again(other)
    assert (found.path, found.size, found.mtime_ns) == (str(other), before.size, before.mtime_ns)
    assert found.digest != before.digest
    path.write_bytes(b">a\nMKVL\n")
    os.utime(path, ns=(before.mtime_ns, before.mtime_ns))
    assert before.again(path).digest != before.digest


def test_a_file_that_changes_while_a_run_is_prepared_is_told(write):
    path = write(b">a\nMKV\n")
    found = Input.read(path)
    found.check()
    os.utime(path, ns=(5, 5))
    with pytest.raises(StaleIndexError, match=f"{path}: it has changed while the run was prepared: expected 7 bytes"):
        found.check()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        found.check()
