"""Who has a run's folder: on this host by the system's lock, on others by a lease that the folder's clock judges."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from runs import environment, wait_for
from seekset.inference import lock as locks
from seekset.inference.lock import FolderLock, FolderLockedError, holder

ELSEWHERE = {"pid": 4711, "host": "elsewhere", "since": "2026-01-01T00:00:00+0000"}

# What another host does: it has its own name, and its system's lock is not seen here.
OTHER_HOST = """
import fcntl, socket, sys
from pathlib import Path
socket.gethostname = lambda: "elsewhere"
fcntl.flock = lambda *_: None
from seekset.inference import lock as locks
locks._BEAT = 0.05
with locks.FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def lease(folder, seconds_ago):
    """The lease of another host, as it leaves it; the folder's clock says how long ago."""
    (folder / "clock").touch()
    (folder / "run.lock").write_text(json.dumps(ELSEWHERE))
    touched = (folder / "clock").stat().st_mtime - seconds_ago
    os.utime(folder / "run.lock", (touched, touched))


@pytest.fixture
def other_host(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_HOST, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


FULL = """
import resource, sys
from pathlib import Path
from seekset.inference.lock import FolderLock
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    with FolderLock(Path(sys.argv[1])):
        print("held")
except OSError as error:
    print(error.filename, error.strerror)
"""


def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for(run, tmp_path):
    # No file may have a byte: what a full disk says, but for its words.
    assert run(FULL, tmp_path) == f"{tmp_path / 'run.lock'} File too large\n"


def test_a_fresh_lease_of_another_host_refuses_with_who_has_it(tmp_path):
    lease(tmp_path, 50)
    with pytest.raises(FolderLockedError, match="process 4711 on elsewhere, since 2026-01-01"), FolderLock(tmp_path):
        pass
    assert holder(tmp_path) == ELSEWHERE
    assert json.loads((tmp_path / "run.lock").read_text()) == ELSEWHERE


def test_a_stale_lease_of_another_host_is_taken_over(tmp_path):
    lease(tmp_path, 61)
    assert holder(tmp_path) is None
    with FolderLock(tmp_path):
        found = holder(tmp_path)
    assert (found["pid"], found["host"]) == (os.getpid(), socket.gethostname())
    assert holder(tmp_path) is None


@pytest.mark.parametrize("wrong", [-7200, 7200])
@pytest.mark.parametrize("seconds, taken", [(50, False), (61, True)])
def test_a_clock_of_this_machine_that_goes_wrong_does_not_matter(tmp_path, monkeypatch, wrong, seconds, taken):
    lease(tmp_path, seconds)
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + wrong)
    assert (holder(tmp_path) is None) == taken
    if taken:
        with FolderLock(tmp_path):
            assert holder(tmp_path)["pid"] == os.getpid()
    else:
        with pytest.raises(FolderLockedError, match="process 4711 on elsewhere"), FolderLock(tmp_path):
            pass


def test_a_run_on_another_host_keeps_its_lease_fresh_and_lets_go_of_it(tmp_path, other_host):
    # Older than any beat: it is touched again while it is held.
    os.utime(tmp_path / "run.lock", (0, 0))
    wait_for(lambda: holder(tmp_path))
    with (
        pytest.raises(FolderLockedError, match=f"process {other_host.pid} on elsewhere"),
        FolderLock(tmp_path),
    ):
        pass
    other_host.stdin.close()
    assert other_host.wait(60) == 0
    with FolderLock(tmp_path):
        pass


def test_a_run_on_another_host_that_was_killed_is_waited_for_until_its_lease_is_stale(tmp_path, other_host):
    other_host.kill()
    other_host.wait(60)
    with pytest.raises(FolderLockedError, match="on elsewhere"), FolderLock(tmp_path):
        pass
    lease(tmp_path, 61)
    with FolderLock(tmp_path):
        pass


def test_whoever_is_thought_gone_notices_that_another_has_taken_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_BEAT", 0.02)
    with FolderLock(tmp_path) as lock:
        assert lock.lost is None
        (tmp_path / "run.lock").write_text(json.dumps(ELSEWHERE))
        assert wait_for(lambda: lock.lost) == "process 4711 on elsewhere has taken the folder"
    # What is another's is left as it is.
    assert holder(tmp_path) == ELSEWHERE
