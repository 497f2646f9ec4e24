"""Small stories of all calls, each in a folder of its own: what is tried with each fault."""

import ctypes
import errno
import mmap
import os
import random
import sys
import time
from pathlib import Path
from typing import Callable

from crash.tree import Failure, Node, Nodes, Tree, read
from faults.page import Page

CONFLICT = "(conflicted copy"
LIBRARY = ctypes.CDLL(None, use_errno=True)
EXCHANGE = 2
PUNCH_HOLE = 3


class Step(Tree):
    """One story; `prepare` makes what it begins with, `work` is what faults hit."""

    def __init__(self, mount: Path, cloud: Path, page: Page):
        self.page = page
        super().__init__(type(self).__name__.lower(), random.Random(self.__class__.__name__),
                         power=False)
        self.root = str(mount / self.name)
        self.cloud = cloud / self.name
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

    def attempt(self) -> None:
        """Works until a call fails."""
        self.refused = []
        try:
            self.work()
        except OSError as error:
            if not self.refused:
                self.refused.append(("look", error))

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
        self.close(file)

    def close(self, file: int) -> None:
        self.call(self.nodes, lambda: os.close(file))

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

        self.call(self.changed(name, data=new, flushed=False), work, (name, old))

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
        self.cloud.mkdir(exist_ok=True)
        draft = self.cloud.parent.parent / "draft"
        draft.write_bytes(data)
        os.rename(draft, self.cloud / name)
        self.whole.add(data)


class Create(Step):
    def prepare(self) -> None:
        self.discard("new")

    def work(self) -> None:
        self.store("new", self.data(9000), os.O_EXCL, flush=True)
        self.read("new")


class Overwrite(Step):
    """A version that the cloud has is changed in place."""

    def prepare(self) -> None:
        self.ensure("file")

    def work(self) -> None:
        file = self.open("file", os.O_RDWR)
        try:
            self.write(file, "file", self.data(700), 100)
            self.write(file, "file", self.data(3000), 5500)
            self.flush(file, "file")
            self.write(file, "file", self.data(50), 0)
        except OSError:
            os.close(file)
            raise
        self.close(file)


class Cut(Step):
    def prepare(self) -> None:
        self.ensure("anew")
        self.ensure("size")

    def work(self) -> None:
        self.store("anew", self.data(5000))
        self.truncate("size", 100)
        self.truncate("size", 8000)
        self.truncate("size", 0)
        file = self.open("size", os.O_WRONLY | os.O_APPEND)
        try:
            self.write(file, "size", self.data(2000))
            self.write(file, "size", self.data(2000))
        except OSError:
            os.close(file)
            raise
        self.close(file)


class Save(Step):
    """Editors: aside and renamed over, renamed to a backup, exchanged."""

    def prepare(self) -> None:
        self.ensure("over")
        self.ensure("kept")
        self.ensure("one")
        self.ensure("two", 50)

    def work(self) -> None:
        self.store("over~", self.data(6100), flush=True)
        self.rename("over~", "over")
        self.rename("kept", "kept~")
        self.store("kept", self.data(4000))
        self.unlink("kept~")
        self.exchange("one", "two")

    def exchange(self, one: str, two: str) -> None:
        nodes = self.nodes
        after = nodes | {one: nodes[two], two: nodes[one]}

        def work() -> None:
            old, new = os.fsencode(self.path(one)), os.fsencode(self.path(two))
            if LIBRARY.renameat2(-100, old, -100, new, EXCHANGE) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

        self.call(after, work)


class Folders(Step):
    def prepare(self) -> None:
        for name in "moved/in/file", "moved/in", "moved", "made/in/file", "made/in", "made":
            self.discard(name)

    def work(self) -> None:
        self.make_folder("made")
        self.make_folder("made/in")
        self.store("made/in/file", self.data(300))
        self.rename("made", "moved")
        self.unlink("moved/in/file")
        self.unlink("moved/in")
        self.unlink("moved")


class Links(Step):
    def prepare(self) -> None:
        self.ensure("file", 10)
        self.discard("link")

    def work(self) -> None:
        self.make_link("link", b"to/nowhere")
        if os.readlink(self.path("link")) != "to/nowhere":
            raise Failure("a link has another target")
        try:
            os.link(self.path("file"), self.path("hard"))
        except OSError as error:
            if error.errno != errno.EPERM:
                raise
        self.unlink("link")


class Metadata(Step):
    def prepare(self) -> None:
        self.ensure("file")

    def work(self) -> None:
        self.set_attribute("file", "user.key", self.data(30))
        self.chmod("file", 0o600 if self.nodes["file"].mode != 0o600 else 0o640)
        self.set_times("file", self.round * 1_000_000_007)
        os.listxattr(self.path("file"))
        self.remove_attribute("file", "user.key")
        os.statvfs(self.root)

    def set_times(self, name: str, moment: int) -> None:
        self.call(self.nodes, lambda: os.utime(self.path(name), ns=(moment, moment)))

    def remove_attribute(self, name: str, key: str) -> None:
        rest = tuple(pair for pair in self.nodes[name].attributes if pair[0] != key)
        self.call(self.changed(name, attributes=rest),
                  lambda: os.removexattr(self.path(name), key))


class Mapped(Step):
    """Stores into a mapping, by a process of its own: what cannot come is SIGBUS."""

    STATUS = 77

    def prepare(self) -> None:
        self.ensure("file", 9000)

    def work(self) -> None:
        old, data = self.nodes["file"].data, self.data(900)
        new = old[:5000] + data + old[5900:]
        self.map(self.changed("file", data=new), data, old)

    def map(self, after: Nodes, data: bytes, old: bytes) -> None:
        self.call(after, lambda: self.store_in_child("file", data), ("file", old))

    def store_in_child(self, name: str, data: bytes) -> None:
        process = os.fork()
        if process == 0:
            status = 0
            try:
                file = os.open(self.path(name), os.O_RDWR)
                with mmap.mmap(file, 0) as memory:
                    memory[5000:5900] = data
                    memory.flush()
                os.close(file)
            except OSError as error:
                status = error.errno or self.STATUS
            except BaseException:  # pylint: disable=broad-except
                status = self.STATUS
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status == -7:
            raise OSError(errno.EIO, "SIGBUS")
        if status < 0 or status == self.STATUS:
            raise Failure(f"a program that mapped a file ended with {status}")
        if status:
            raise OSError(status, os.strerror(status))


class Ranges(Step):
    def prepare(self) -> None:
        self.ensure("from", 20_000)
        self.discard("to")

    def work(self) -> None:
        self.store("to", self.data(20_000), os.O_EXCL)
        source = os.open(self.path("from"), os.O_RDONLY)
        try:
            target = self.open("to", os.O_RDWR)
            try:
                self.copy(source, target, 4096, 8192)
                self.punch(target, 4096, 4096)
                self.allocate(target, 30_000)
                os.lseek(target, 0, os.SEEK_HOLE)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def copy(self, source: int, target: int, offset: int, count: int) -> None:
        old = self.nodes["to"].data
        new = old[:offset] + self.nodes["from"].data[:count] + old[offset + count:]

        def work() -> None:
            done = 0
            while done < count:
                step = os.copy_file_range(source, target, count - done, done, offset + done)
                if step == 0:
                    raise Failure("copy_file_range copies nothing")
                done += step

        self.call(self.changed("to", data=new), work, ("to", old))

    def punch(self, target: int, offset: int, count: int) -> None:
        old = self.nodes["to"].data
        new = old[:offset] + bytes(count) + old[offset + count:]
        place, length = ctypes.c_int64(offset), ctypes.c_int64(count)

        def work() -> None:
            if LIBRARY.fallocate(target, PUNCH_HOLE, place, length) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

        self.call(self.changed("to", data=new), work, ("to", old))

    def allocate(self, target: int, size: int) -> None:
        new = self.nodes["to"].data.ljust(size, b"\0")
        self.call(self.changed("to", data=new), lambda: os.posix_fallocate(target, 0, size))


class Nameless(Step):
    """A file without a name is a file until its last close."""

    def prepare(self) -> None:
        self.ensure("file")

    def work(self) -> None:
        file = self.open("file", os.O_RDWR)
        data = self.nodes["file"].data
        try:
            self.unlink("file")
            os.pwrite(file, b"more", 10)
            if os.pread(file, 100, 0) != data[:10] + b"more" + data[14:100]:
                raise Failure("a file without a name has other bytes")
        finally:
            os.close(file)


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
        self.close(file)
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
        if not self.cloud.is_dir():
            raise Failure("the cloud lost a folder")
        changed = self.data(7000)
        self.put_elsewhere("changed", changed)
        self.put_elsewhere("made", changed[:500])
        nodes = dict(self.nodes)
        node = nodes["changed"]._replace(data=changed)
        self.elsewhere = {"changed": node, "made": Node("file", changed[:500], 0o644)}
        for name, new in ("old", "new"), ("new", "old"):
            if name in nodes:
                os.rename(self.cloud / name, self.cloud / new)
                self.elsewhere[new] = nodes[name]
                break
        if "gone" in nodes:
            os.unlink(self.cloud / "gone")
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

    def __init__(self, mount: Path, cloud: Path, page: Page):
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
        self.close(file)

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
        from crash.tree import walk
        self.nodes = {name: node for name, node in walk(self.root).items()}
        self.pending = None


STEPS = [Create, Overwrite, Cut, Save, Folders, Links, Metadata, Mapped, Ranges, Nameless, Absent,
         Elsewhere, Conflict]
