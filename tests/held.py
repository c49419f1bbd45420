"""Processes that can't be ended: whoever traces one is told of its end first, and here does not listen."""

import ctypes
import os
import signal
from contextlib import contextmanager

# Of <sys/ptrace.h> and <sys/wait.h>.
_PTRACE_SEIZE, _WALL = 0x4206, 0x40000000


@contextmanager
def held(pid):
    """Have a process stay until this ends, even if it is killed: as if it waited for a device that does not answer."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long] * 4
    if ptrace(_PTRACE_SEIZE, pid, 0, 0):
        raise OSError(ctypes.get_errno(), f"process {pid} can't be traced")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, _WALL)
