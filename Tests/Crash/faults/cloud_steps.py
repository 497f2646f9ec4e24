"""Stories in which the cloud takes part: absent bytes, other devices, conflicts."""

import os
import time
from pathlib import Path

from crash.tree import Failure, Node, read, walk
from faults.gate import Gate
from faults.page import Page
from faults.step import Cloud, Step

CONFLICT = "(conflicted copy"


class Absent(Step):
    """Bytes that only the cloud has."""

    def prepare(self) -> None:
        self.ensure("whole", 30_000)
        self.ensure("parts", 300_000)

    def absent(self) -> None:
        for name in "whole", "parts":
            self.evict(name)

    def work(self) -> None:
        self.read("whole")
        file = self.open("parts", os.O_RDWR)
        try:
            self.write(file, "parts", self.data(5000), 100_000)
            self.read_piece(file, "parts", 95_000, 12_000)
        except OSError:
            os.close(file)
            raise
        self.close(file, "parts")
        os.setxattr(self.path("whole"), "user.cloudfs.evict", b"1")
        self.read("whole")

    def read_piece(self, file: int, name: str, offset: int, count: int) -> None:
        def work() -> bytes:
            data = b""
            while len(data) < count:
                piece = os.pread(file, count - len(data), offset + len(data))
                if not piece:
                    break
                if len(piece) < count - len(data) and not self.page.failed:
                    raise Failure(f"{name}: {len(piece)} of {count} bytes at {offset}")
                data += piece
            return data

        self.compare(name, self.call(self.nodes, work), offset, count)


class Elsewhere(Step):
    """Another device makes, changes, moves and removes what is shown here."""

    def prepare(self) -> None:
        if not self.nodes:
            self.store("changed", self.data(3000))
            self.store("gone", self.data(100))
            self.store("old", self.data(2000))

    def work(self) -> None:
        if not self.cloud.has_folder(self.name):
            raise Failure("the cloud lost a folder")
        changed = self.data(7000)
        self.put_elsewhere("changed", changed)
        self.put_elsewhere("made", changed[:500])
        nodes = dict(self.nodes)
        node = nodes["changed"]._replace(data=changed, modified=None)
        self.elsewhere = {"changed": node, "made": Node("file", changed[:500], 0o644)}
        for name, new in ("old", "new"), ("new", "old"):
            if name in nodes:
                place = f"{self.name}/"
                self.elsewhere[new] = self.cloud.move(place + name, place + new, nodes[name])
                break
        if "gone" in nodes:
            self.cloud.remove(f"{self.name}/gone")
        else:
            self.put_elsewhere("gone", changed[:100])
            self.elsewhere["gone"] = Node("file", changed[:100], 0o644)

    def check(self) -> None:
        """Only waited for: nobody promised when it comes."""
        self.nodes, self.pending = self.elsewhere or self.nodes, None
        end = time.monotonic() + 30
        while True:
            try:
                super().check()
                return
            except (Failure, OSError):
                if time.monotonic() > end:
                    raise
            time.sleep(0.02)


class Conflict(Step):
    """Both sides change a file."""

    def __init__(self, mount: Path, cloud: Cloud, page: Page | Gate):
        super().__init__(mount, cloud, page)
        self.mine: list[bytes] = []
        self.theirs = b""

    def prepare(self) -> None:
        for name in list(self.nodes):
            if CONFLICT in name:
                self.unlink(name)
        self.ensure("file", 1500)
        self.theirs = b""

    def work(self) -> None:
        before = self.nodes["file"].data
        file = self.open("file", os.O_WRONLY | os.O_TRUNC)
        try:
            self.mine = [before, b""]
            mine = self.data(2500)
            self.theirs = self.data(1700)
            self.put_elsewhere("file", self.theirs)
            self.mine.append(mine)
            self.write(file, "file", mine, 0)
            self.mine = [mine]
        except OSError:
            os.close(file)
            raise
        self.close(file, "file")

    def check(self) -> None:
        """Before the cloud was heard of there is one version, then there are two."""
        if not self.theirs:
            return super().check()
        end = time.monotonic() + 30
        while True:
            found = {name: read(self.path(name)) for name in os.listdir(self.root)}
            copies = [data for name, data in found.items() if CONFLICT in name]
            is_whole = found.get("file") == self.theirs and len(copies) <= 1
            # Nothing of ours is kept if there was nothing to keep.
            was_kept = copies[0] in self.mine if copies else len(self.mine) > 1
            if is_whole and was_kept:
                break
            if time.monotonic() > end:
                raise Failure(f"conflict: {[(name, len(data)) for name, data in found.items()]}")
            time.sleep(0.02)
        self.nodes = {name: node for name, node in walk(self.root).items()}
        self.pending = None


class Large(Step):
    """A file that is sent in parts, and moved."""

    def prepare(self) -> None:
        self.discard("moved")
        self.ensure("file", 9 << 20)

    def work(self) -> None:
        self.store("file", self.data(9 << 20))
        self.rename("file", "moved")


STEPS = [Absent, Elsewhere, Conflict]
# Where requests have a limit of size.
BUCKET_STEPS = [Large]
