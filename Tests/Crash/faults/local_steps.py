"""Stories of calls that only this machine makes."""

import ctypes
import errno
import mmap
import os

from crash.tree import Failure, Nodes
from faults.step import LIBRARY, Step

PUNCH_HOLE = 3


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
        self.close(file, "file")


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
        self.close(file, "size")


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
        self.discard("kept")

    def work(self) -> None:
        self.make_link("kept", b"to/somewhere")
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
        self.set_attribute("file", "user.sent", self.data(30))

    def work(self) -> None:
        self.remove_attribute("file", "user.sent")
        self.set_attribute("file", "user.key", self.data(30))
        self.chmod("file", 0o600 if self.nodes["file"].mode != 0o600 else 0o640)
        self.call(self.nodes, lambda: os.chown(self.path("file"), 1000 + self.round % 2, -1))
        self.set_time("file", self.round * 1_000_000_007)
        os.listxattr(self.path("file"))
        self.remove_attribute("file", "user.key")
        os.statvfs(self.root)

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
        self.map(self.changed("file", data=new, modified=None), data, old)

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
            finally:
                os.close(target)
            # Of a file that nobody writes its content is asked.
            os.lseek(source, 0, os.SEEK_HOLE)
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

        self.call(self.changed("to", data=new, modified=None), work, ("to", old))

    def punch(self, target: int, offset: int, count: int) -> None:
        old = self.nodes["to"].data
        new = old[:offset] + bytes(count) + old[offset + count:]
        place, length = ctypes.c_int64(offset), ctypes.c_int64(count)

        def work() -> None:
            if LIBRARY.fallocate(target, PUNCH_HOLE, place, length) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

        self.call(self.changed("to", data=new, modified=None), work, ("to", old))

    def allocate(self, target: int, size: int) -> None:
        new = self.nodes["to"].data.ljust(size, b"\0")
        self.call(self.changed("to", data=new, modified=None),
                  lambda: os.posix_fallocate(target, 0, size))


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


STEPS = [Create, Overwrite, Cut, Save, Folders, Links, Metadata, Mapped, Ranges, Nameless]
