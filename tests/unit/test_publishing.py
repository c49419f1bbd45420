"""Files that are written beside their name and renamed: what errors say of them."""

import errno

import pytest

from seekset.publishing import published


def test_errors_name_the_file_that_was_wanted_and_not_the_one_beside_it(tmp_path, names):
    (tmp_path / "folder" / "full").mkdir(parents=True)
    for target in (tmp_path / "missing" / "x.html", tmp_path / "folder"):
        with pytest.raises(OSError, match="Errno") as caught, published(target) as part:
            part.write_text("all of it")
        assert (caught.value.filename, caught.value.filename2) == (str(target), None)
        assert ".part" not in str(caught.value)
    assert names() == ["folder"]


FULL = """
import resource, sys
from pathlib import Path
from seekset.publishing import published
resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
try:
    with published(Path(sys.argv[1])) as part:
        part.write_text("all of it")
except OSError as error:
    print(error.filename, error.strerror)
"""


def test_a_full_disk_is_told_with_the_file_that_was_to_be_written(run, tmp_path, names):
    assert run(FULL, tmp_path / "x.txt") == f"{tmp_path / 'x.txt'} File too large\n"
    assert "x.txt" not in names()


def test_errors_of_what_is_read_meanwhile_are_not_told_as_those_of_the_file(tmp_path):
    with pytest.raises(OSError, match="Input/output error") as caught, published(tmp_path / "x.txt"):
        raise OSError(errno.EIO, "Input/output error")
    assert caught.value.filename is None


def test_texts_of_others_errors_name_it_as_well(tmp_path):
    with pytest.raises(OSError, match="unable to open") as caught, published(tmp_path / "x.h5") as part:
        raise OSError(f"unable to open file (name = '{part}')")
    assert str(caught.value) == f"unable to open file (name = '{tmp_path / 'x.h5'}')"
