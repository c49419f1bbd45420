"""Decoder processes: what they send back, how they end, and what is left of them."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import seekset
from hex_shards import hex_examples, write_hex
from seekset.shards import Decoder, NpzShards, PickleShards, pack_shard
from seekset.shards.packed import census_of
from seekset.shards.readers import is_exhaustion

OWN = """
import os, signal, time
from pathlib import Path

class Own:
    def count(self, path):
        return 2
    def read(self, path):
        return {"x": [1, 2]}

class Ends(Own):
    def read(self, path):
        os._exit(3)

class Killed(Own):
    def read(self, path):
        os.kill(os.getpid(), signal.SIGKILL)

class Crashes(Own):
    def read(self, path):
        os.kill(os.getpid(), signal.SIGSEGV)

class Full(MemoryError):
    def __init__(self, one, two):
        super().__init__("full")

class Fills(Own):
    def read(self, path):
        raise Full(1, 2)

class Slow(Own):
    def read(self, path):
        Path(f"{path}.began").touch()
        time.sleep(600)

class Wrong(Own):
    def read(self, path):
        raise LookupError("nothing there")

class OddError(Exception):
    def __init__(self, one, two):
        super().__init__("odd")

class Odd(Own):
    def read(self, path):
        raise OddError(1, 2)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with readers of one's own, in a folder that only the path knows."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "own_readers.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    import own_readers

    yield own_readers
    del sys.modules["own_readers"]


@pytest.fixture
def decoder():
    with Decoder() as decoder:
        yield decoder


def pid(decoder):
    return decoder._process.pid


def is_there(process):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_comes_back_is_what_is_packed_here(decoder, tmp_path):
    path = write_hex(tmp_path / "a.pkl.gz", [*hex_examples(30, without_policy={3}), {"board": None}])
    np.savez(tmp_path / "a.npz", x=np.arange(10))
    for reader, shard, rows in [
        (PickleShards(), path, None),
        (PickleShards(), path, (2, 17)),
        (PickleShards(), path, (5, 5)),
        (NpzShards(), tmp_path / "a.npz", (3, 9)),
    ]:
        here, there = pack_shard(reader, shard, rows), decoder.pack(reader, shard, rows)
        assert (there.content, there.bad, there.fields) == (here.content, here.bad, here.fields)
        assert there.ends.tolist() == here.ends.tolist()
        assert decoder.count(reader, shard) == census_of(reader, shard)
    assert decoder.pack(PickleShards(), path).bad.keys() == {30}


def test_objects_come_back(decoder, tmp_path):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(["a", ("b", np.arange(2))]))
    packed = decoder.pack(PickleShards(), tmp_path / "a.pkl")
    assert (packed.fields, packed.objects()[0], packed.objects()[1][1].tolist()) == (None, "a", [0, 1])


def test_a_large_answer_comes_whole(decoder, tmp_path):
    x = np.random.default_rng(0).integers(0, 2**62, 1_000_000)
    np.savez(tmp_path / "a.npz", x=x)
    assert decoder.pack(NpzShards(), tmp_path / "a.npz").content == pack_shard(NpzShards(), tmp_path / "a.npz").content


def test_errors_are_those_that_reading_raises(decoder, tmp_path, own):
    (tmp_path / "a.pkl").write_bytes(b"cos\nsystem\n.")
    with pytest.raises(seekset.FormatError, match=r"a\.pkl: .*it names os\.system, which is refused"):
        decoder.count(PickleShards(), tmp_path / "a.pkl")
    with pytest.raises(FileNotFoundError) as missing:
        decoder.count(PickleShards(), tmp_path / "missing.pkl")
    assert missing.value.filename == str(tmp_path / "missing.pkl")
    with pytest.raises(LookupError, match="nothing there") as error:
        decoder.count(own.Wrong(), tmp_path / "a.pkl")
    assert "own_readers.py" in error.value.__notes__[0]
    with pytest.raises(seekset.SeeksetError, match="OddError: odd"):
        decoder.count(own.Odd(), tmp_path / "a.pkl")
    assert decoder.count(own.Own(), tmp_path / "a.pkl").rows == 2


def test_relative_paths_are_those_of_the_moment(decoder, tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        np.savez("a.npz", x=np.arange(len(name) + ord(name[0])))
        assert decoder.count(NpzShards(), Path("a.npz")).rows == 3 + ord(name[0])


def test_a_reader_that_can_not_get_there_is_told(decoder, own):
    class Here(own.Own):
        pass

    with pytest.raises(seekset.MismatchError, match="the reader Here can't be sent to a decoder process"):
        decoder.count(Here(), Path("a"))
    decoder.count(own.Own(), Path("a"))
    own.Later = type("Later", (own.Own,), {"__module__": "own_readers"})
    with pytest.raises(seekset.MismatchError, match=r"can't be imported in a decoder process .*must be in a module"):
        decoder.count(own.Later(), Path("a"))


@pytest.mark.parametrize(
    "reader, how, from_outside",
    [
        ("Ends", "ended with exit code 3", False),
        ("Crashes", "was ended by SIGSEGV", False),
        ("Killed", "was ended by SIGKILL", True),
    ],
)
def test_a_process_that_dies_is_told_with_the_shard_and_started_again(decoder, own, reader, how, from_outside):
    with pytest.raises(seekset.SeeksetError, match=f"^a.shard: the process that read it {how}$") as error:
        decoder.pack(getattr(own, reader)(), Path("a.shard"))
    assert is_exhaustion(error.value) == from_outside
    assert decoder.count(own.Own(), Path("a")).rows == 2


def test_memory_that_has_run_out_there_has_run_out_here(decoder, own):
    with pytest.raises(MemoryError, match="Full: full"):
        decoder.pack(own.Fills(), Path("a.shard"))


def test_a_process_that_is_killed_while_it_waits_is_told(decoder, own):
    decoder.count(own.Own(), Path("a"))
    os.kill(pid(decoder), signal.SIGKILL)
    with pytest.raises(seekset.SeeksetError, match="was ended by SIGKILL"):
        decoder.count(own.Own(), Path("a"))
    assert decoder.count(own.Own(), Path("a")).rows == 2


def test_closing_ends_the_process_at_once_and_waits_for_it(tmp_path, own):
    decoder = Decoder()
    process = pid(decoder)
    found = []

    def ask():
        with pytest.raises(seekset.SeeksetError, match="the process that read it was closed") as error:
            decoder.pack(own.Slow(), tmp_path / "a")
        found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until((tmp_path / "a.began").exists)
    decoder.close()
    thread.join()
    assert found
    assert not is_there(process)
    decoder.close()
    with pytest.raises(ValueError, match="closed"):
        decoder.count(own.Own(), Path("a"))


def test_a_decoder_that_nobody_has_any_more_leaves_no_process_and_no_descriptor(own):
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    processes = []
    for _ in range(3):
        decoder = Decoder()
        decoder.count(own.Own(), Path("a"))
        processes.append(pid(decoder))
        del decoder
    gc.collect()
    assert not any(map(is_there, processes))
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_decoder_ends_with_its_parent_even_if_a_fork_lives_on(tmp_path, program):
    command = program("""
        import os, sys, time
        from seekset.shards import Decoder
        decoder = Decoder()
        if os.fork() == 0:  # holds the connection, too
            time.sleep(600)
        print(decoder._process.pid, flush=True)
        time.sleep(600)
    """)
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        process = int(parent.stdout.readline())
        assert is_there(process)
        parent.kill()
        wait_until(lambda: not is_there(process))
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.communicate()


def test_a_fork_has_a_process_of_its_own(decoder, own):
    decoder.count(own.Own(), Path("a"))
    process = pid(decoder)
    child = os.fork()
    if child == 0:
        fine = False
        try:
            fine = decoder.count(own.Own(), Path("a")).rows == 2 and pid(decoder) != process
            decoder.close()
        finally:
            os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_there(process)
    assert decoder.count(own.Own(), Path("a")).rows == 2
    assert pid(decoder) == process


def test_it_works_in_a_daemonic_process(tmp_path, run):
    write_hex(tmp_path / "a.pkl", hex_examples(4))
    printed = run("""
        import multiprocessing
        from pathlib import Path
        from seekset.shards import Decoder, PickleShards

        def work():
            with Decoder() as decoder:
                print(len(decoder.pack(PickleShards(), Path("a.pkl"))), flush=True)

        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                process = multiprocessing.get_context(method).Process(target=work, daemon=True)
                process.start()
                process.join()
    """)
    assert printed == "4\n" * 3


def test_ctrl_c_is_for_the_parent(decoder, own):
    decoder.count(own.Own(), Path("a"))
    os.kill(pid(decoder), signal.SIGINT)
    assert decoder.count(own.Own(), Path("a")).rows == 2
    assert os.getpgid(pid(decoder)) != os.getpgid(0)


@pytest.fixture
def interruptible():
    """SIGINT raises KeyboardInterrupt, also where whoever started the tests has it ignored, as shells do behind `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_question_does_not_answer_the_next_one(decoder, own, tmp_path, interruptible):
    def interrupt():
        wait_until((tmp_path / "a.began").exists)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        decoder.pack(own.Slow(), tmp_path / "a")
    thread.join()
    assert decoder.count(own.Own(), Path("a")).rows == 2


def test_a_decoder_imports_no_torch(decoder, tmp_path, monkeypatch):
    (tmp_path / "modules_reader.py").write_text("""
import sys
class Modules:
    def count(self, path):
        return len(self.read(path))
    def read(self, path):
        return sorted(sys.modules)
""")
    monkeypatch.syspath_prepend(tmp_path)
    from modules_reader import Modules

    with Decoder() as fresh:
        modules = fresh.pack(Modules(), Path("a")).objects()
    assert "numpy" in modules
    assert not {"torch", "pyarrow", "rich", "click"} & set(modules)
