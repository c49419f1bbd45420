"""Encoders for tests: one that treats every sequence on its own, to the bit, and the same one in trouble."""

import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np


class Sums:
    """Of each sequence: its tokens' number, sum, and sum weighted by place."""

    arrays = "numpy"
    max_length = None

    def __init__(self, device, seconds=0.0):
        self.device, self.seconds = device, seconds

    def __call__(self, batch):
        time.sleep(self.seconds)
        ids, ends = batch["input_ids"], batch["cu_seqlens"].tolist()
        return np.array([vector(ids[a:b]) for a, b in itertools.pairwise(ends)], dtype=np.float32)


def vector(ids):
    ids = np.asarray(ids, dtype=np.int64)
    return [len(ids), ids.sum(), (ids * np.arange(len(ids))).sum() % 65536]


class Growing(Sums):
    """As many numbers as the longest sequence of the batch has tokens, as one that forgets to take the mean."""

    def __call__(self, batch):
        return np.ones((batch["num_sequences"], int(batch["max_seqlen"])), dtype=np.float32)


class PerResidue(Sums):
    """Of each residue: its token and its place."""

    def __init__(self, device, per_token=False):
        super().__init__(device)

    def __call__(self, batch):
        ids, ends = batch["input_ids"], batch["cu_seqlens"].tolist()
        rows = [np.stack([ids[a + 1 : b - 1], np.arange(b - a - 2)], axis=1) for a, b in itertools.pairwise(ends)]
        return np.concatenate(rows).astype(np.float32)


class Troubled(Sums):
    """Does something bad with a batch that holds the sequence ``poison``: always, or ``times`` times in all."""

    def __init__(self, device, trouble, marks="", times=1_000_000, seconds=0.0):
        super().__init__(device, seconds)
        self.trouble, self.marks, self.times = trouble, marks, times

    def __call__(self, batch):
        if "poison" in batch["sequence_ids"] and self._is_due():
            found = getattr(self, f"_{self.trouble}")(batch)
            if found is not None:
                return found
        return super().__call__(batch)

    def _is_due(self):
        if not self.marks:
            return True
        for k in range(self.times):
            try:
                os.close(os.open(Path(self.marks) / f"trouble-{k}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False

    def _raise(self, batch):
        raise ValueError("this sequence [bold]is poison[/bold]")

    def _mumble(self, batch):
        # A file name that is no UTF-8, as the system gives it.
        raise ValueError("there is no file caf\udce9.txt")

    def _segv(self, batch):
        os.kill(os.getpid(), signal.SIGSEGV)

    def _kill(self, batch):
        os.kill(os.getpid(), signal.SIGKILL)

    def _leave(self, batch):
        os._exit(0)

    def _hang(self, batch):
        time.sleep(3600)

    def _nan(self, batch):
        found = super().__call__(batch)
        found[batch["sequence_ids"].index("poison"), 1] = np.nan
        return found

    def _rows(self, batch):
        return super().__call__(batch)[:-1]

    def _memory(self, batch):
        if len(batch["sequence_ids"]) > 1:
            raise MemoryError("more than one at a time is too much")

    def _never(self, batch):
        raise MemoryError("too much at any size")


class Unloadable:
    """Can't be made."""

    def __init__(self, device):
        raise RuntimeError("the weights are not there")


class SlowToLoad(Sums):
    """Takes its time."""

    def __init__(self, device):
        super().__init__(device)
        time.sleep(60)


class Helped(Sums):
    """Has a process of its own, which does not end by itself."""

    def __init__(self, device, pids, seconds=0.0):
        super().__init__(device, seconds)
        helper = subprocess.Popen(["sleep", "3600"])
        (Path(pids) / str(helper.pid)).touch()


class Greedy(Sums):
    """Opens files until there is no room for another, and works all the same."""

    def __call__(self, batch):
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        found = super().__call__(batch)
        if os.environ.get("SEEKSET_GREEDY") == "yes":
            try:
                while True:
                    os.open("/dev/null", os.O_RDONLY)
            except OSError:
                pass
        return found


class Dying(Sums):
    """Dies with every batch after so many, in every process."""

    def __init__(self, device, after=0):
        super().__init__(device)
        self.left = after

    def __call__(self, batch):
        if os.environ.get("SEEKSET_DYING") == "yes" and self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        return super().__call__(batch)


def place():
    """Which worker this process is: the name of its log, or of the check's."""
    return Path("/proc/self/fd/1").readlink().stem


class Biased(Sums):
    """Fails in one worker only, with every batch, or with the first ``times``: a broken device, as others see it.

    Others begin when that one has: it makes the file ``mark``, if there is to be one.
    """

    def __init__(self, device, where="worker_1", how="raise", times=1_000_000, seconds=0.0, mark=""):
        super().__init__(device, seconds if place() != where else 0.0)
        self.left = times if place() == where else 0
        self.how, self.mark = how, mark

    def __call__(self, batch):
        if self.left:
            if self.mark:
                Path(self.mark).touch()
            self.left -= 1
            if self.how == "segv":
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.how == "lacking":
                return np.full((batch["num_sequences"], 3), np.nan)
            if self.how == "memory":
                raise MemoryError("this device has none")
            raise RuntimeError("this device is broken")
        while self.mark and place() != "check" and not Path(self.mark).exists():
            time.sleep(0.01)
        if "poison" in batch["sequence_ids"]:
            raise ValueError("poison")
        return super().__call__(batch)


class Breaking(Sums):
    """Breaks after so many batches in each process, and fails with all that follow; with ``poison`` it fails always.

    Of the ranks of torchrun, those break that the environment names.
    """

    def __init__(self, device, after=2, said="this process is broken", notes=""):
        super().__init__(device)
        self.after, self.said, self.notes = after, said, notes
        if os.environ.get("RANK") not in (None, os.environ.get("SEEKSET_BREAKING", "none")) or place() == "check":
            self.after = -1

    def __call__(self, batch):
        if self.notes and place() != "check":
            with Path(self.notes).open("a") as file:
                file.write(f"{os.getpid()} {' '.join(batch['sequence_ids'])}\n")
        if any(name.startswith("poison") for name in batch["sequence_ids"]):
            raise ValueError("poison")
        if self.after == 0:
            raise RuntimeError(self.said)
        self.after -= 1
        return super().__call__(batch)


class Scribbling(Sums):
    """Turns round whatever arrays it is given, once it has its answer."""

    def __init__(self, device, arrays="numpy", letters=False):
        super().__init__(device)
        self.arrays = arrays
        if letters:
            self.tokens = None

    def __call__(self, batch):
        if "sequences" in batch:
            found = np.array([[len(letters), 0, 0] for letters in batch["sequences"]], dtype=np.float32)
        else:
            found = super().__call__({**batch, "input_ids": np.asarray(batch["input_ids"])})
        for name in ("rows", "starts"):
            if name in batch:
                batch[name][:] = batch[name].flip(0) if self.arrays == "torch" else batch[name][::-1].copy()
        return found


class Loose(Sums):
    """Says what it wants in types of numpy, or in numbers."""

    specials = 1
    max_length = np.int64(1000)
    dim = np.int32(3)


class Stammering(Sums):
    """Says half a message with a batch that holds the sequence ``poison``, and then nothing."""

    def __call__(self, batch):
        if "poison" in batch["sequence_ids"] and place() != "check":
            os.write(int(sys.argv[2]), b"\0\0\0\0\0\0\x01\0half of it")
            time.sleep(3600)
        return super().__call__(batch)


class Counting(Sums):
    """Notes how many tokens and sequences each batch has, in a file."""

    def __init__(self, device, notes, layout="packed"):
        super().__init__(device)
        self.notes, self.layout = notes, layout

    def __call__(self, batch):
        ids = batch["input_ids"]
        if place() != "check":
            with Path(self.notes).open("a") as file:
                file.write(f"{ids.size} {batch['num_sequences']}\n")
        if self.layout == "packed":
            return super().__call__(batch)
        return np.array([vector(row[mask == 1]) for row, mask in zip(ids, batch["attention_mask"], strict=True)])


class Unlucky(Sums):
    """Can't be made in the ranks of torchrun that the environment names; hangs in a batch in others that it names."""

    def __init__(self, device, seconds=0.0):
        super().__init__(device, seconds)
        if os.environ.get("RANK") == os.environ.get("SEEKSET_UNLOADABLE", "none") and place() != "check":
            raise RuntimeError("this rank has no weights")

    def __call__(self, batch):
        if os.environ.get("RANK") == os.environ.get("SEEKSET_HANGING", "none") and place() != "check":
            time.sleep(3600)
        return super().__call__(batch)


def sums(batch):
    """A function as an encoder: it takes no device and no options."""
    return Sums("cpu")(batch)


sums.arrays, sums.max_length = "numpy", None


class OnePerSequence(Sums):
    """Takes per_token, and gives a row for each sequence all the same."""

    def __init__(self, device, per_token=False):
        super().__init__(device)


def chatter(connection):
    """What a child process may run: it says long things, for ever."""
    from seekset.child import end_with_parent
    from seekset.inference.post import Post

    end_with_parent()
    post = Post(connection)
    while True:
        post.send(bytes(1_000_003))


class Lingering(Sums):
    """Leaves a thread behind that does not end, which a process would wait for."""

    def __init__(self, device):
        super().__init__(device)
        # What looks at an encoder before a run, and workers alike.
        threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
