"""Tests that hang: their children tell where they are and are killed; then pytest-timeout ends the test itself."""

import contextlib
import faulthandler
import os
import signal
import threading
import time
from pathlib import Path

import pytest

# So long before the end of its time, a test's children are asked, and so long they have to answer.
_BEFORE, _TO_ANSWER = 10, 3

_ASKING = pytest.StashKey[threading.Timer]()
_SHOWN = pytest.StashKey[int]()


def pytest_configure(config):
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        config.stash[_SHOWN] = shown = os.dup(2)
    # Forks inherit it. Other programs that a test has started end by the signal, which is as well.
    faulthandler.register(signal.SIGUSR1, file=shown, all_threads=True)


def pytest_timeout_set_timer(item, settings):
    timer = threading.Timer(max(1, settings.timeout - _BEFORE), _end, [item.nodeid, item.config.stash[_SHOWN]])
    timer.daemon = True
    timer.start()
    item.stash[_ASKING] = timer


def pytest_timeout_cancel_timer(item):
    if timer := item.stash.get(_ASKING, None):
        timer.cancel()


def _end(test, shown):
    """A child that lives on would keep open what the runner waits for."""
    os.write(shown, f"\n{test} hangs here, and its children after it:\n".encode())
    faulthandler.dump_traceback(file=shown, all_threads=True)
    children = _descendants(os.getpid())
    for number in (signal.SIGUSR1, signal.SIGKILL):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        time.sleep(_TO_ANSWER)


def _descendants(process):
    children: list[int] = []
    for found in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            children += map(int, found.read_text().split())
    return children + [other for child in children for other in _descendants(child)]
