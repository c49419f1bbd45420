"""Files that are written beside their name and renamed: what errors say of them."""

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


def test_texts_of_others_errors_name_it_as_well(tmp_path):
    with pytest.raises(OSError, match="unable to open") as caught, published(tmp_path / "x.h5") as part:
        raise OSError(f"unable to open file (name = '{part}')")
    assert str(caught.value) == f"unable to open file (name = '{tmp_path / 'x.h5'}')"
