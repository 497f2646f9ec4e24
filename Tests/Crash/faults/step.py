"""A small story of calls in a folder of its own, with what must be there after each."""

import ctypes
import errno
import os
import random
import sys
from pathlib import Path
from typing import Callable

from crash.bucket import Bucket
from crash.folder import Folder
from crash.tree import Failure, Nodes, Stopped, Tree, describe, differences, is_mix, read
from faults.switch import Switch

Cloud = Folder | Bucket
LIBRARY = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2


class Step(Tree):
    """One story; `prepare` makes what it begins with, `work` is what faults hit."""

    def __init__(self, mount: Path, cloud: Cloud, page: Switch):
        self.page = page
        super().__init__(type(self).__name__.lower(), random.Random(self.__class__.__name__),
                         power=False)
        self.root = str(mount / self.name)
        self.cloud = cloud
        self.refused: list[tuple[str, OSError]] = []
        self.round = 0
        # What the cloud's device made of it, if it did something.
        self.elsewhere: Nodes = {}

    def prepare(self) -> None:
        """Makes what is missing; nothing fails meanwhile."""

    def work(self) -> None:
        raise NotImplementedError

    def absent(self) -> None:
        """Drops bytes that it begins without; everything is sent by then."""

    def is_settled(self) -> bool:
        """Whether the drive shows what was done elsewhere."""
        return True

    def attempt(self) -> None:
        """Works until a call fails."""
        self.refused = []
        try:
            self.work()
        except OSError as error:
            if not self.refused:
                self.refused.append(("look", error))
        except Stopped:
            self.refused.append(("call", OSError(errno.ENOTCONN, "the drive is gone")))

    def call(self, after: Nodes, work: Callable[[], object],
             written: tuple[str, bytes] | None = None) -> object:
        try:
            return super().call(after, work, written)
        except OSError as error:
            self.refused.append((sys._getframe(1).f_code.co_name, error))
            raise

    def data(self, size: int) -> bytes:
        """Other bytes each time."""
        self.round += 1
        return (b"%s %06d " % (self.name.encode(), self.round) * (size // 8 + 1))[:size]

    def store(self, name: str, data: bytes, flags: int = os.O_TRUNC, flush: bool = False) -> None:
        """Writes a file and closes it, which may tell of a failure too."""
        file = self.open(name, os.O_WRONLY | os.O_CREAT | flags)
        try:
            self.write(file, name, data, 0)
            if flush:
                self.flush(file, name)
        except OSError:
            os.close(file)
            raise
        self.close(file, name)

    def read(self, name: str) -> None:
        """Reads a file and compares it."""
        self.compare(name, self.call(self.nodes, lambda: read(self.path(name))), 0, 1 << 30)

    def compare(self, name: str, data: object, offset: int, count: int) -> None:
        want = self.nodes[name].data[offset:offset + count]
        if data == want:
            return
        assert isinstance(data, bytes)
        pairs = zip(data, want)
        first = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
        raise Failure(f"{self.name}/{name}: {len(data)} instead of {len(want)} bytes were read, "
                      f"which differ from {first} on: {data[first or 0:][:40]!r}")

    def write(self, file: int, name: str, data: bytes, offset: int | None = None) -> None:
        """Writes all, in pieces if the drive takes no more at once, as programs do."""
        old = self.nodes[name].data
        start = len(old) if offset is None else offset
        new = old[:start].ljust(start, b"\0") + data + old[start + len(data):]

        def work() -> None:
            done = 0
            while done < len(data):
                count = os.write(file, data[done:]) if offset is None else \
                    os.pwrite(file, data[done:], offset + done)
                if count == 0:
                    raise Failure(f"{name}: nothing was written")
                done += count

        self.call(self.changed(name, data=new, modified=None, flushed=False), work, (name, old))

    def ensure(self, name: str, size: int = 6000) -> None:
        if name not in self.nodes:
            self.store(name, self.data(size))

    def discard(self, name: str) -> None:
        if name in self.nodes:
            self.unlink(name)

    def evict(self, name: str) -> None:
        """Drops the bytes, if the drive allows it; the cloud must have them."""
        try:
            os.setxattr(self.path(name), "user.cloudfs.evict", b"1")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise

    def put_elsewhere(self, name: str, data: bytes) -> None:
        """Another device saves a version."""
        self.cloud.put(f"{self.name}/{name}", data)
        self.whole.add(hash(data))

    def check_kill(self, found: Nodes) -> None:
        """A call in flight may have set a file's time and not changed its bytes yet."""
        if self.pending:
            after = self.pending[0]
            before = {name: node._replace(modified=None)
                      if node.kind == "file" and name in after and after[name].modified is None
                      else node for name, node in self.nodes.items()}
            if not differences(before, found):
                return
        super().check_kill(found)

    def exchange(self, one: str, two: str) -> None:
        after = self.nodes | {one: self.nodes[two], two: self.nodes[one]}

        def work() -> None:
            old, new = os.fsencode(self.path(one)), os.fsencode(self.path(two))
            if LIBRARY.renameat2(-100, old, -100, new, EXCHANGE) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

        self.call(after, work)

    def check_there(self, there: Nodes) -> None:
        """Whatever the cloud has was whole at some time, or is of the write that was in flight."""
        for path, node in there.items():
            if node.kind != "file" or hash(node.data) in self.whole:
                continue
            after, written = self.pending or (self.nodes, None)
            if written and is_mix(node.data, written[1], after[written[0]].data):
                continue
            raise Failure(f"the cloud has a state of {self.name}/{path} that there never was: "
                          + describe(node))
