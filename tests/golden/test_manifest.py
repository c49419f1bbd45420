"""Every specimen gives what the manifest says, read in every way there is."""

import re
import shutil
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

import seekset

HERE = Path(__file__).parent
MANIFEST = tomllib.loads((HERE / "manifest.toml").read_text())["specimen"]


def specimens(*, valid):
    return [pytest.param(one, id=one["file"]) for one in MANIFEST if one["valid"] is valid]


@pytest.fixture
def copy(tmp_path):
    """`copy(specimen)` is a copy of its file in the test's folder, where an index may be written."""
    return lambda specimen: Path(shutil.copy(HERE / "specimens" / specimen["file"], tmp_path))


def warned(specimen):
    """Expects the specimen's warning, if it has one."""
    match = specimen.get("warning")
    return nullcontext() if match is None else pytest.warns(seekset.SeeksetWarning, match=match)


def place(specimen):
    """The error's place, as messages put it."""
    line = f"line {specimen['line']}, " if "line" in specimen else ""
    return f"{line}byte {specimen['byte']}"


def test_the_manifest_lists_the_specimens_that_there_are():
    files = sorted(path.name for path in (HERE / "specimens").iterdir() if path.name != ".gitattributes")
    assert sorted(one["file"] for one in MANIFEST) == files
    assert {key for one in MANIFEST for key in ("tags", "origin") if not one[key]} == set()


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("specimen", specimens(valid=True))
def test_a_valid_specimen_has_the_ids_and_letters_of_the_manifest(copy, specimen, io):
    with warned(specimen):
        fa = seekset.Fasta(copy(specimen), io=io)
    with fa:
        assert list(fa) == specimen["ids"]
        assert [record.sequence for record in fa.values()] == specimen["sequences"]
        assert fa.fetch_many(list(fa)) == specimen["sequences"]
        assert fa.lengths.tolist() == list(map(len, specimen["sequences"]))


@pytest.mark.parametrize("specimen", specimens(valid=True))
def test_a_valid_specimen_gives_the_same_from_its_index(copy, specimen):
    path = copy(specimen)
    with warned(specimen):
        seekset.Fasta(path).close()
        fa = seekset.Fasta(path, rebuild=False)
    with fa:
        assert dict(zip(fa, fa.fetch_many(range(len(fa))), strict=True)) == dict(
            zip(specimen["ids"], specimen["sequences"], strict=True)
        )


@pytest.mark.parametrize("io", ["mmap", "pread"])
@pytest.mark.parametrize("specimen", specimens(valid=False))
def test_an_invalid_specimen_is_refused_with_the_place_of_the_fault(copy, specimen, io):
    path = copy(specimen)
    with pytest.raises(seekset.SeeksetError) as error:
        seekset.Fasta(path, io=io)
    assert type(error.value).__name__ == specimen["error"]
    assert str(path) in str(error.value)
    assert re.search(rf"\b{place(specimen)}\b", str(error.value))


@pytest.mark.parametrize("specimen", specimens(valid=False))
def test_an_invalid_specimen_leaves_no_index(copy, specimen, names):
    path = copy(specimen)
    with pytest.raises(seekset.SeeksetError):
        seekset.Fasta(path)
    kept = {path.name, path.name + ".gzi"}
    # An index that holds duplicates is right, and serves duplicates="first".
    assert set(names()) <= kept | ({path.name + ".sidx"} if specimen["error"] == "DuplicateIdError" else set())
