"""The wheel and the sdist that people get, taken apart and used. `make check-package` builds them first."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIST = Path(os.environ["SEEKSET_DIST"]).absolute()
EXTRAS = {"all", "dali", "eden", "inference", "parquet", "plot", "ray", "torch"}

PROGRAM = """
import seekset

open("x.fa", "w").write(">a one\\nMKVLAAG\\n>b\\nMKV\\n")
fa = seekset.Fasta("x.fa")
assert fa["b"].sequence == "MKV" and fa.gather([1, 0], tokens="esm").values.shape == (14,)
index = seekset.SequenceIndex.create(["x.fa"], "all.sidx")
assert seekset.Plan.create(index, max_tokens=14).tokens.tolist() == [14]
assert len(seekset.WindowPlan("x.fa", window=5, stride=2)) == 3
with seekset.TFRecordWriter("x.tfrecord") as out:
    out.write_example({"x": [0.5, 1.5], "label": 7})
columns = seekset.TFRecordFile("x.tfrecord").examples([0], features={"label": "int64"})
assert columns["label"].tolist() == [7]
try:
    import seekset.datasets
except ImportError as error:
    print(error)
"""


def one(pattern):
    (found,) = DIST.glob(pattern)
    return found


def contents(wheel):
    """Names in a wheel, with whatever the version is left out."""
    return {re.sub(r"^seekset-[^/]*\.dist-info", "dist-info", name) for name in zipfile.ZipFile(wheel).namelist()}


def metadata(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(archive.read(name).decode())


@pytest.fixture(scope="module")
def sources():
    """The files of the package as they are under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "seekset"], cwd=ROOT / "python", capture_output=True, text=True, check=True
    )
    return set(listed.stdout.split())


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """An environment with the wheel, what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", one("*.whl")], check=True)
    return folder


def in_it(environment, *words):
    """What a program of an environment prints, run in its folder and free of what is set here."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [environment / "bin" / words[0], *words[1:]],
        cwd=environment,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_wheel_serves_every_python_from_3_11_on():
    assert re.fullmatch(r"seekset-[0-9.]+-cp311-abi3-(many)?linux.*\.whl", one("*.whl").name)


def test_the_wheel_has_the_package_and_nothing_else(sources):
    names = contents(one("*.whl"))
    package = {name for name in names if name.startswith("seekset/")}
    assert package == sources | {"seekset/_core.abi3.so"}
    assert {"seekset/py.typed", "seekset/_core.pyi"} <= package
    assert "dist-info/licenses/LICENSE" in names
    assert {name.partition("/")[0] for name in names} <= {"seekset", "dist-info", "seekset.libs"}


def test_the_metadata_requires_three_packages_and_offers_all_extras():
    found = metadata(one("*.whl"))
    required = [need for need in found.get_all("Requires-Dist") if "extra ==" not in need]
    assert {re.match("[a-z]+", need).group() for need in required} == {"click", "numpy", "rich"}
    assert len(required) == 3
    assert set(found.get_all("Provides-Extra")) == EXTRAS
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"


def test_the_wheel_works_in_an_empty_environment(empty):
    installed = {line.partition("==")[0].lower() for line in in_it(empty, "pip", "freeze").splitlines()}
    assert {name for name in installed if "seekset" not in name} == {
        "click",
        "markdown-it-py",
        "mdurl",
        "numpy",
        "pygments",
        "rich",
    }
    assert in_it(empty, "python", "-c", PROGRAM) == "seekset.datasets needs torch: pip install 'seekset[torch]'\n"
    assert in_it(empty, "seekset", "--version") == f"seekset {metadata(one('*.whl'))['Version']}\n"
    assert in_it(empty, "seekset", "get", "x.fa", "b") == ">b\nMKV\n"


def test_the_sdist_has_what_a_build_needs_and_nothing_that_was_built():
    with tarfile.open(one("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", "python/seekset/py.typed"} <= names
    assert {"Cargo.lock", "rust/core/src/lib.rs", "rust/py/src/lib.rs"} <= names
    assert not [
        name for name in names if name.endswith((".so", ".pyc")) or name.startswith(("target", "tests", "demo"))
    ]


def test_the_sdist_builds_the_same_wheel(tmp_path):
    # With a target of its own: cargo takes what was built of the same sources elsewhere, even where a file is missing.
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, one("*.tar.gz")],
        env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")},
        check=True,
    )
    (built,) = tmp_path.glob("*.whl")
    assert contents(built) == contents(one("*.whl"))
    assert metadata(built).as_string() == metadata(one("*.whl")).as_string()
