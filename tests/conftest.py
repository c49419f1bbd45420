"""Fixtures that all tests share: files, programs and the number of threads."""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import hypothesis
import pytest
from hypothesis.configuration import set_hypothesis_home_dir

import seekset

pytest_plugins = ["hung"]

# Workers of a fork server are forks of a process that has imported what they need, and not each of a bare one.
multiprocessing.set_forkserver_preload(["torch.utils.data", "seekset.datasets"])

# Hypothesis keeps a cache, which is not to lie in the working folder.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "seekset-hypothesis")

# The same examples on every run; `pytest --hypothesis-profile=explore` looks for new ones.
hypothesis.settings.register_profile("seekset", deadline=None, database=None, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("explore", deadline=None, database=None, max_examples=2000)
hypothesis.settings.load_profile("seekset")


@pytest.fixture
def write(tmp_path):
    """`write(b">a\\nAC\\n")` puts bytes into a file of the test's own folder and returns its path."""

    def write(data, name="x.fa"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def opened(write):
    """`opened(b">a\\nAC\\n")` is an open Fasta of these bytes."""

    def opened(data, **options):
        return seekset.Fasta(write(data), **options)

    return opened


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """`scratch(data)` is the path of a new file: hypothesis calls one test many times, so it can't use `write`."""
    folder = tmp_path_factory.mktemp("scratch")
    count = 0

    def scratch(data):
        nonlocal count
        count += 1
        path = folder / f"{count}.fa"
        path.write_bytes(data)
        return path

    return scratch


@pytest.fixture
def bgzip():
    """`bgzip(path)` compresses a file with the real bgzip, beside it, and returns the path of the result."""

    def bgzip(path):
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(bgzip.bytes(path.read_bytes()))
        return packed

    def pack(data):
        return subprocess.run(["bgzip", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout

    bgzip.bytes = pack
    return bgzip


@pytest.fixture
def program(tmp_path):
    """`program(source)` is the command that runs a Python program, in a process of its own."""

    def program(source, *arguments):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        return [sys.executable, str(path), *map(str, arguments)]

    return program


@pytest.fixture
def run(program, tmp_path):
    """`run(source, ...)` runs a Python program in the test's folder and returns what it printed.

    A program that crashes, fails or hangs fails the test.
    """

    def run(source, *arguments, **environment):
        command, environment = program(source, *arguments), {**os.environ, **environment}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def tensorflow(run):
    """`tensorflow(source, ...)` runs a program with `tf` in it, apart: no two users of protobuf share a process."""
    return lambda source, *arguments: run(
        "import tensorflow as tf\n" + textwrap.dedent(source), *arguments, TF_CPP_MIN_LOG_LEVEL="3"
    )


@pytest.fixture
def dali(run):
    """`dali(source, ...)` runs a program with DALI's `fn`, `pipeline_def` and `tfrec` in it, apart."""
    imports = "from nvidia.dali import fn, pipeline_def, tfrecord as tfrec\n"
    return lambda source, *arguments: run(imports + textwrap.dedent(source), *arguments)


def halted(process):
    """Whether a process was stopped before it came to its end."""
    process.send_signal(signal.SIGSTOP)
    while process.poll() is None:
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].startswith("T"):
            return True
    return False


def unfinished(process, folder):
    """The bytes of the file under way: the first that is open in the folder and has no name, or that of a part."""
    with suppress(OSError):
        for descriptor in sorted(Path(f"/proc/{process.pid}/fd").iterdir(), key=lambda path: int(path.name)):
            name = str(descriptor.readlink())
            if name.startswith(f"{folder}/#") or name.endswith(".part"):
                return descriptor.stat().st_size
    return None


@pytest.fixture
def stopped(tmp_path):
    """`stopped(command)` runs a command that writes an index, and gives its process, stopped while that is unfinished.

    It is stopped before it gets another signal, so that it can't come to its end in between; one that has come too far
    by then is started again.
    """

    def stopped(command):
        before = set(tmp_path.iterdir())
        while True:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            process = subprocess.Popen(command, cwd=tmp_path, **pipes)
            while process.poll() is None and unfinished(process, tmp_path) is None:
                time.sleep(0.001)
            if halted(process) and (size := unfinished(process, tmp_path)) is not None and size < 1 << 21:
                return process
            process.kill()
            process.communicate()
            for made in set(tmp_path.iterdir()) - before:
                made.unlink()

    return stopped


@pytest.fixture
def interrupted(stopped):
    """`interrupted(command)` runs a command that writes an index, and sends it Ctrl-C while the index is unfinished."""

    def interrupted(command):
        process = stopped(command)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        return process.communicate(timeout=300), process.returncode

    return interrupted


@pytest.fixture
def killed(stopped):
    """`killed(command)` runs a command that writes an index, and kills it while the index is unfinished."""

    def killed(command):
        process = stopped(command)
        process.kill()
        process.communicate()

    return killed


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    """The test runs once with each of these numbers of threads."""
    seekset.set_threads(request.param)
    yield request.param
    seekset.set_threads(0)


@pytest.fixture
def in_threads():
    """`in_threads(work)` is what `work()` gives with one thread, with two and with five."""

    def in_threads(work):
        results = []
        for threads in (1, 2, 5):
            seekset.set_threads(threads)
            results.append(work())
        return results

    yield in_threads
    seekset.set_threads(0)


@pytest.fixture
def names(tmp_path):
    """`names()` lists the files in the test's folder, hidden ones too."""
    return lambda: sorted(path.name for path in tmp_path.iterdir())
