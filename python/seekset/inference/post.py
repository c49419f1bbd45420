"""The post between a process and its child: messages over a connection, of which only whole ones are delivered.

A child that is stopped or killed while it writes leaves a part of a message behind. Whoever begins to read it waits for
the rest, for ever perhaps; here it is kept until there is more, and nobody waits longer than they said.
"""

from __future__ import annotations

import os
import pickle
import struct
import time
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekset.child import Pipe

__all__ = ["Post"]

# How long a message is, before it.
_SIZE = struct.Struct("!Q")
# As much as is read at once.
_BLOCK = 1 << 16


class Post:
    """One end of a connection. One thread may send while another receives.

    >>> from multiprocessing import Pipe
    >>> here, there = map(Post, Pipe())
    >>> here.send("a message")
    >>> there.poll(1), there.receive(), there.poll(0)
    (True, 'a message', False)
    """

    def __init__(self, connection: Pipe) -> None:
        self._connection = connection
        # What has come and was not received yet.
        self._come = bytearray()
        self._ended = False

    def fileno(self) -> int:
        """What can be waited for: more has come, or the other end is closed."""
        return self._connection.fileno()

    def send(self, message: Any) -> None:
        """Say something; an ``OSError`` if nobody is there."""
        content = ForkingPickler.dumps(message)
        rest = memoryview(_SIZE.pack(len(content)) + bytes(content))
        while rest:
            rest = rest[os.write(self.fileno(), rest) :]

    def poll(self, seconds: float | None) -> bool:
        """Whether there is a message to :meth:`receive`, or the end; waits so long for it, or until there is."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self._is_whole():
            if self._ended:
                return True
            left = None if end is None else max(end - time.monotonic(), 0)
            if not wait([self._connection], left):
                return False
            self._read()
        return True

    def receive(self) -> Any:
        """The next message, waited for; an ``EOFError`` if there will be none, or not all of it."""
        self.poll(None)
        if not self._is_whole():
            raise EOFError(f"the connection ended with {len(self._come)} bytes of a message")
        end = self._end()
        content = bytes(self._come[_SIZE.size : end])
        del self._come[:end]
        return pickle.loads(content)  # noqa: S301 (from a process of our own)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _end(self) -> int:
        size: int = _SIZE.unpack_from(self._come)[0]
        return _SIZE.size + size

    def _is_whole(self) -> bool:
        return len(self._come) >= _SIZE.size and len(self._come) >= self._end()

    def _read(self) -> None:
        try:
            more = os.read(self.fileno(), _BLOCK)
        except ConnectionResetError:
            more = b""
        self._ended = not more
        self._come += more
