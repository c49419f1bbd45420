"""`seekset doctor`, run as people run it: in a process of its own."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from seekset import _core
from seekset.cli.parts import PARTS


@pytest.fixture
def doctor(tmp_path):
    """`doctor("--json", hidden=["torch"])` runs the command, with packages hidden from it."""

    def doctor(*words, hidden=(), **environment):
        program = f"""
import sys, importlib.metadata as metadata
found = metadata.version
def version(name):
    if name in {list(hidden)}:
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
sys.modules.update(dict.fromkeys({list(hidden)}))
sys.argv = ["seekset", "doctor", *{list(words)}]
from seekset.cli import main
main()
"""
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return doctor


def test_programs_are_told_all_of_it(doctor):
    done = doctor("--json", SEEKSET_THREADS="3", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["versions"]["seekset"] == version("seekset")
    assert facts["versions"]["numpy"] == version("numpy")
    assert facts["extension"]["path"] == _core.__file__
    assert facts["extension"]["error"] is None
    assert (facts["threads"]["seekset"], facts["threads"]["SEEKSET_THREADS"]) == (3, "3")
    assert facts["threads"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert facts["memory"]["total"] >= facts["memory"]["available"] > 0
    assert all(place["free"] > 0 for place in facts["free"].values())
    assert (facts["devices"]["gpus"], facts["devices"]["torch"]["gpus"]) == ([], [])
    assert {part["part"]: part["version"] for part in facts["parts"]}["h5py"] == version("h5py")


def test_people_see_what_is_missing_and_what_installs_it(doctor):
    done = doctor(hidden=["ray", "torch"])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "ray\tnot found: pip install 'seekset[ray]'\tseekset[ray]\tembed --backend ray" in lines
    assert "torch\tnot installed" in lines
    assert any(line.startswith("h5py\t3.") for line in lines)


def test_torch_that_can_not_be_imported_is_told_and_no_reason_to_fail(doctor, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart is not there')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = doctor("--json", PYTHONPATH=path)
    assert done.returncode == 0
    devices = json.loads(done.stdout)["devices"]
    assert (devices["torch"], devices["torch_error"]) == (None, "OSError: libcudart is not there")


def test_an_extension_that_can_not_be_loaded_is_exit_code_1(doctor):
    done = doctor("-q", hidden=["seekset._core"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("seekset: the extension can't be loaded: ")
    assert "pip install --force-reinstall seekset" in done.stderr
    done = doctor("--json", hidden=["seekset._core"])
    assert (done.returncode, json.loads(done.stdout)["extension"]["path"]) == (1, None)


def test_parts_are_those_that_the_package_offers():
    from importlib.metadata import metadata

    offered = set(metadata("seekset").get_all("Provides-Extra"))
    assert {part.extra for part in PARTS} <= offered
