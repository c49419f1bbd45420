"""Messages between a process and its child: whole ones are delivered, parts are waited for no longer than asked."""

import os
import signal
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path

import pytest

from runs import environment, wait_for
from seekset.child import Child
from seekset.inference.post import Post


@pytest.fixture
def ends():
    here, there = Pipe()
    with here, there:
        yield Post(here), Post(there), there


def test_a_message_is_delivered_when_all_of_it_has_come(ends):
    here, there, pipe = ends
    there.send(["whole", 1])
    whole = os.read(here.fileno(), 1 << 16)
    for cut in (1, 7, 8, 9, len(whole) - 1):
        os.write(pipe.fileno(), whole[:cut])
        assert not here.poll(0)
        assert not here.poll(0.01)
        os.write(pipe.fileno(), whole[cut:])
        assert here.poll(0)
        assert here.receive() == ["whole", 1]
        assert not here.poll(0)


def test_several_messages_that_came_together_are_told_apart(ends):
    here, there, _ = ends
    for number in range(5):
        there.send(number)
    assert [here.receive() for _ in range(5) if here.poll(0)] == list(range(5))


def test_the_end_comes_after_what_was_said_and_a_part_of_a_message_is_none(ends):
    here, there, pipe = ends
    there.send("last words")
    os.write(pipe.fileno(), b"\0\0\0\0\0\0\0\x10half")
    pipe.close()
    assert here.receive() == "last words"
    assert here.poll(0)
    with pytest.raises(EOFError, match="12 bytes of a message"):
        here.receive()


def test_a_child_that_is_stopped_while_it_writes_is_not_waited_for():
    child = Child("odd_encoders:chatter")
    post = Post(child.connection)
    try:
        assert post.poll(60)
        child.signal(signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].startswith("T"))
        # What fits into the connection, and then a part of a message.
        while post.poll(0.1):
            assert len(post.receive()) == 1_000_003
        child.signal(signal.SIGCONT)
        assert post.poll(60)
    finally:
        child.end()


def test_messages_larger_than_the_connection_come_whole():
    program = (
        "from seekset.child import Child\n"
        "from seekset.inference.post import Post\n"
        "child = Child('odd_encoders:chatter')\n"
        "post = Post(child.connection)\n"
        "print([len(post.receive()) for _ in range(3)])\n"
        "child.end()\n"
    )
    run = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    assert run.stdout == "[1000003, 1000003, 1000003]\n"
