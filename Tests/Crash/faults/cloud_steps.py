"""Stories in which the cloud takes part: absent bytes, other devices, conflicts."""

import os
import time
from pathlib import Path

from crash.tree import Failure, Node, differences, is_mix, read, walk
from faults.step import Cloud, Step
from faults.switch import Switch

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


class Partly(Step):
    """Changes of files of which nothing is here, or a part."""

    SIZE = 200_000
    NAMES = ["cut", "longer", "appended", "synced", "saved", "moved", "one", "two", "gone",
             "in/inner"]

    def prepare(self) -> None:
        for name in "out/inner", "out", "elsewhere", "draft":
            self.discard(name)
        if "in" not in self.nodes:
            self.make_folder("in")
        for name in self.NAMES:
            if name not in self.nodes or len(self.nodes[name].data) != self.SIZE:
                self.store(name, self.data(self.SIZE))

    def absent(self) -> None:
        for name in self.NAMES:
            self.evict(name)

    def work(self) -> None:
        self.truncate("cut", 70_000)
        self.truncate("cut", 90_000)
        self.truncate("longer", 260_000)
        self.put("appended", os.O_WRONLY | os.O_APPEND, None, None)
        self.put("synced", os.O_RDWR | os.O_SYNC, 50_000, 150_001)
        self.put("draft", os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0, 9000)
        self.rename("draft", "saved")
        self.set_attribute("moved", "user.key", self.data(20))
        self.write_and_move("moved", "elsewhere")
        self.exchange("one", "two")
        self.put("one", os.O_RDWR, 199_000, 4096)
        self.unlink("gone")
        self.rename("in", "out")
        self.put("out/inner", os.O_RDWR, 8192, 100_000)
        self.read("out/inner")

    def put(self, name: str, flags: int, *places: int | None) -> None:
        """Opens a file, writes some pieces, and closes it."""
        file = self.open(name, flags)
        try:
            for place in places:
                self.write(file, name, self.data(3000), place)
        except OSError:
            os.close(file)
            raise
        self.close(file, name)

    def write_and_move(self, old: str, new: str) -> None:
        """What is open has another name before it is closed."""
        file = self.open(old, os.O_RDWR)
        try:
            self.write(file, old, self.data(5000), 20_000)
            self.rename(old, new)
            self.write(file, new, self.data(5000), 22_000)
        except OSError:
            os.close(file)
            raise
        self.close(file, new)


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
        self.change_folders(changed[:200])

    def change_folders(self, data: bytes) -> None:
        """There is one folder, which goes as another one comes."""
        old, new = ("in", "out") if "in" in self.nodes else ("out", "in")
        if old in self.nodes:
            self.cloud.remove(f"{self.name}/{old}/inner")
            self.cloud.remove_folder(f"{self.name}/{old}")
        self.put_elsewhere(f"{new}/inner", data)
        self.elsewhere |= {new: Node("folder", mode=0o755),
                           f"{new}/inner": Node("file", data, 0o644)}

    def is_settled(self) -> bool:
        return not differences(self.elsewhere or self.nodes, walk(self.root))

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

    def __init__(self, mount: Path, cloud: Cloud, page: Switch):
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
            was_kept = self.is_ours(copies[0]) if copies else len(self.mine) > 1
            if is_whole and was_kept:
                break
            if time.monotonic() > end:
                raise Failure(f"conflict: {[(name, len(data)) for name, data in found.items()]}")
            time.sleep(0.02)
        self.nodes = {name: node for name, node in walk(self.root).items()}
        self.pending = None

    def is_ours(self, data: bytes) -> bool:
        """Whether it is what was acknowledged, or a part of the write that was in flight."""
        return data in self.mine or len(self.mine) > 1 and is_mix(data, b"", self.mine[-1])


class Large(Step):
    """A file that is sent in parts, and moved."""

    def prepare(self) -> None:
        self.discard("moved")
        self.ensure("file", 9 << 20)

    def work(self) -> None:
        self.store("file", self.data(9 << 20))
        self.rename("file", "moved")


STEPS = [Absent, Partly, Elsewhere, Conflict]
# Where requests have a limit of size.
BUCKET_STEPS = [Large]
