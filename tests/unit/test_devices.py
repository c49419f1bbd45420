"""Which devices words name, in a process that may see some GPUs or none."""

import pytest

from seekset.errors import MismatchError, SeeksetWarning
from seekset.inference import devices
from seekset.inference.devices import Device, find_gpus, parse_devices


@pytest.mark.parametrize(
    "visible, words, names",
    [
        ("", None, ["cpu"]),
        ("0,1", None, ["cuda:0", "cuda:1"]),
        ("4,6,7", "2,0", ["cuda:7", "cuda:4"]),
        ("4,6,7", "cuda:1", ["cuda:6"]),
        ("0", "cpu, cpu ,0", ["cpu", "cpu", "cuda:0"]),
        ("GPU-8f,GPU-9a", "1", ["cuda:GPU-9a"]),
        ("", "GPU-8f", ["cuda:GPU-8f"]),
        ("0,-1,2", None, ["cuda:0"]),
    ],
)
def test_devices_by_words(monkeypatch, visible, words, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [device.name for device in parse_devices(words)] == names


@pytest.mark.parametrize(
    "words, said", [("3", "there are 2: 0 to 1"), ("gpu0", "expected cpu, a number"), ("", "found ''")]
)
def test_words_that_name_no_device(monkeypatch, words, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(MismatchError, match=said):
        parse_devices(words)


def test_a_number_of_workers_must_fit(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert len(parse_devices(None, count=1)) == 1
    with pytest.raises(MismatchError, match="3 workers were asked for, but there are 2 GPUs"):
        parse_devices(None, count=3)
    with pytest.raises(MismatchError, match="3 workers were asked for, but 1 devices are named"):
        parse_devices("cpu", count=3)
    with pytest.raises(ValueError, match="world_size must be at least 1"):
        parse_devices(None, count=0)


def test_without_a_word_of_which_are_visible_the_driver_is_asked(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0\\n1\\n3\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert find_gpus({}) == ["0", "1", "3"]


@pytest.mark.parametrize(
    "script, said",
    [
        ("#!/bin/sh\necho NVIDIA-SMI has failed; exit 9\n", "exit code 9: NVIDIA-SMI has failed"),
        ("#!/bin/sh\nexec sleep 60\n", "it took longer than 1 s"),
        ("no program", "Exec format error"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_with_what_to_do_about_it_and_asked_once(
    tmp_path, monkeypatch, script, said
):
    monkeypatch.setattr(devices, "_PATIENCE", 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    program = tmp_path / "nvidia-smi"
    program.write_text(script)
    program.chmod(0o755)
    with pytest.warns(SeeksetWarning) as told:
        assert parse_devices(None) == [Device("cpu")]
    [warning] = told
    assert f"{program} is there, but does not say which GPUs there are ({said}" in str(warning.message)
    assert "Name them in CUDA_VISIBLE_DEVICES, such as 0,1, or give --devices cpu" in str(warning.message)
    # What it says from now on is not heard: all parts of a run have to agree.
    program.write_text("#!/bin/sh\necho 0\n")
    assert find_gpus({}) == []


def test_a_process_sees_its_device_alone():
    assert Device("cuda", "3").environment(2)["CUDA_VISIBLE_DEVICES"] == "3"
    assert Device("cpu").environment(2)["CUDA_VISIBLE_DEVICES"] == ""
    assert Device("cpu").environment(0)["OMP_NUM_THREADS"] == "1"
    assert (Device("cuda", "3").inside, Device("cpu").inside) == ("cuda:0", "cpu")
