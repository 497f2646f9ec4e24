"""What programs do on a drive: each workload knows what was acknowledged to it."""

import os
import random
import subprocess
import threading
import time
from pathlib import Path

from crash.drive import Drive, run
from crash.tree import Failure, Stopped, Tree, read

CONFLICT = "(conflicted copy"


def end(process: "subprocess.Popen[str]") -> None:
    """Ends a program that is talked to by pipes, whatever it has not read."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        try:
            if pipe:
                pipe.close()
        except BrokenPipeError:
            pass


class Workload:
    """Something that goes on while the daemon is ended; `run` in a thread of its own."""

    def __init__(self, drive: Drive, scratch: Path, generator: random.Random, power: bool):
        self.drive = drive
        self.random = generator
        self.power = power
        self.name = type(self).__name__.lower()
        self.scratch = scratch / self.name
        self.scratch.mkdir()
        self.root = drive.mount / self.name
        self.cloud = drive.cloud / self.name
        self.stop = threading.Event()
        self.acknowledged = 0

    def run(self) -> None:
        """Works until `stop`, or until the drive fails."""
        while not self.stop.is_set():
            self.step()

    def prepare(self) -> None:
        """Makes what the workload begins with; nothing is ended meanwhile."""
        os.makedirs(self.root, exist_ok=True)

    def step(self) -> None:
        raise NotImplementedError

    def interrupt(self) -> None:
        """Ends a program that would not notice `stop` for long."""

    def check(self) -> None:
        """Looks, after a new start, whether everything acknowledged is there."""

    def check_cloud(self) -> None:
        """Looks whether anything in the cloud is half of something; no daemon runs."""

    def finish(self) -> None:
        """Looks at the end, with everything sent."""

    def compare(self) -> None:
        """Compares the cloud with the drive, where that is not by the trees alone."""

    def rest(self, longest: float) -> None:
        self.stop.wait(self.random.random() * longest)

    def bytes(self, longest: int) -> bytes:
        return self.random.randbytes(self.random.randint(1, longest))

    def text(self) -> bytes:
        """Can be told from any part of itself."""
        body = self.bytes(60_000)
        return b"begin %d\n" % len(body) + body + b"\nend\n"

    @staticmethod
    def require_whole(path: Path) -> None:
        """Looks whether a file is a whole text."""
        data = read(str(path))
        head, _, rest = data.partition(b"\n")
        words = head.split()
        size = int(words[1]) + 5 if len(words) == 2 and words[1].isdigit() else -1
        if len(rest) != size or not rest.endswith(b"\nend\n"):
            raise Failure(f"{path} is half of something: {len(data)} bytes")

    def program(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program on the drive; one that fails is taken for the drive's failure."""
        done = run(*command, limit=120, cwd=self.scratch,
                   env=self.drive.environment | environment)
        if done.returncode != 0:
            text = f"{' '.join(command)}: {done.returncode}: {done.stderr[-600:]}"
            raise OSError(os.strerror(5) + ", " + text)
        return done


class Treelike(Workload):
    """A workload whose every call is known."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.tree = Tree(self.name, self.random, self.power)
        self.tree.root = str(self.root)
        self.tree.is_stopped = self.stop.is_set

    def run(self) -> None:
        try:
            super().run()
        except Stopped:
            return
        finally:
            self.acknowledged = self.tree.calls

    def check(self) -> None:
        self.tree.check()

    def check_cloud(self) -> None:
        self.tree.check_cloud(self.cloud, self.is_only_replaced)

    def is_only_replaced(self, name: str) -> bool:
        return False

    def store(self, name: str, data: bytes, flags: int, pieces: int = 1) -> None:
        """Writes a file from its beginning."""
        tree = self.tree
        file = tree.open(name, flags)
        try:
            size = max(1, len(data) // pieces)
            for offset in range(0, len(data), size):
                tree.write(file, name, data[offset:offset + size], offset)
            if self.power or self.random.random() < 0.3:
                tree.flush(file, name)
        except BaseException:
            os.close(file)
            raise
        tree.close(file, name)


class Saves(Treelike):
    """Editors: a new file over the old one, a backup, the same file cut or patched."""

    def step(self) -> None:
        number = self.random.randrange(4)
        pattern = self.random.choice([self.replace, self.back_up, self.cut, self.patch])
        pattern(f"{pattern.__name__}-{number}")
        self.rest(0.3 if self.random.random() < 0.8 else 1.5)

    def is_only_replaced(self, name: str) -> bool:
        return name.startswith("replace-")

    def replace(self, name: str) -> None:
        self.store(f"new {name}", self.text(), os.O_WRONLY | os.O_CREAT | os.O_EXCL
                   if f"new {name}" not in self.tree.nodes else os.O_WRONLY | os.O_TRUNC, 3)
        if name in self.tree.nodes and self.random.random() < 0.5:
            self.tree.chmod(f"new {name}", self.tree.nodes[name].mode)
        self.tree.rename(f"new {name}", name)

    def back_up(self, name: str) -> None:
        if name in self.tree.nodes:
            self.tree.rename(name, name + "~")
        self.store(name, self.text(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2)
        if name + "~" in self.tree.nodes and self.random.random() < 0.5:
            self.tree.unlink(name + "~")

    def cut(self, name: str) -> None:
        self.store(name, self.text(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2)

    def patch(self, name: str) -> None:
        if name not in self.tree.nodes:
            return self.cut(name)
        file = self.tree.open(name, os.O_RDWR)
        try:
            size = len(self.tree.nodes[name].data)
            for _ in range(self.random.randint(1, 3)):
                self.tree.write(file, name, self.bytes(3000), self.random.randint(0, size))
        except BaseException:
            os.close(file)
            raise
        self.tree.close(file, name)

    def check_cloud(self) -> None:
        super().check_cloud()
        for path in self.cloud.glob("replace-*"):
            if CONFLICT not in path.name:
                self.require_whole(path)


class Unflushed(Workload):
    """Saves that nobody flushes: whatever a power failure takes, each document is a whole one."""

    DOCUMENTS = 6

    @property
    def names(self) -> list[str]:
        return [f"document-{number}" for number in range(self.DOCUMENTS)]

    def prepare(self) -> None:
        super().prepare()
        for name in self.names:
            with open(self.root / name, "wb") as file:
                file.write(self.text())
                file.flush()
                os.fsync(file.fileno())

    def step(self) -> None:
        name = self.random.choice(self.names)
        replaces = self.random.random() < 0.5
        target = self.root / (f"new {name}" if replaces else name)
        if replaces and self.random.random() < 0.3:
            self.leave(target)
        text = self.text()
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            for piece in text[:len(text) // 2], text[len(text) // 2:]:
                os.write(file, piece)
        finally:
            os.close(file)
        if replaces:
            os.rename(target, self.root / name)
        self.acknowledged += 1
        self.rest(0.3)

    def leave(self, draft: Path) -> None:
        """Leaves a draft that is no document, long enough to be sent."""
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(file, b"draft")
            os.fsync(file)
        finally:
            os.close(file)
        self.stop.wait(0.8)

    def check(self) -> None:
        for name in self.names:
            self.require_whole(self.root / name)

    def check_cloud(self) -> None:
        for path in self.cloud.glob("document-*"):
            self.require_whole(path)


class Calls(Treelike):
    """Any call on any item."""

    # Items; a tree that grows makes every look at it longer.
    MOST = 50

    def step(self) -> None:
        names = sorted(self.tree.nodes)
        folders = [""] + [name for name in names if self.tree.nodes[name].kind == "folder"]
        files = [name for name in names if self.tree.nodes[name].kind == "file"]
        choice = self.random.random()
        folder = self.random.choice(folders)
        new = os.path.join(folder, f"{self.random.choice('abcdefgh')}{self.random.randrange(8)}")
        is_new = new not in names and len(names) < self.MOST
        if choice < 0.12 and folder.count("/") < 3 and is_new:
            self.tree.make_folder(new)
        elif choice < 0.17 and is_new:
            self.tree.make_link(new, b"to/" + self.bytes(20).hex().encode())
        elif choice < 0.35 and is_new:
            self.store(new, self.bytes(20_000), os.O_WRONLY | os.O_CREAT)
        elif choice < 0.55 and names:
            self.move(self.random.choice(names), new)
        elif choice < 0.68 and names:
            self.remove(self.random.choice(names))
        elif choice < 0.76 and names:
            name = self.random.choice(names)
            if self.tree.nodes[name].kind != "link":
                self.tree.chmod(name, self.random.choice([0o700, 0o750, 0o755, 0o777]))
                self.keep(name)
        elif choice < 0.84 and names:
            name = self.random.choice(names)
            if self.tree.nodes[name].kind != "link":
                key = f"user.key{self.random.randrange(3)}"
                self.tree.set_attribute(name, key, self.bytes(40))
                self.keep(name)
        elif choice < 0.87 and files:
            moment = self.random.randrange(1 << 60)
            name = self.random.choice(files)
            self.tree.set_time(name, moment)
            self.keep(name)
        elif choice < 0.91 and files:
            name = self.random.choice(files)
            self.tree.truncate(name, self.random.choice([0, 1, 4096, 30_000]))
        elif files:
            name = self.random.choice(files)
            file = self.tree.open(name, os.O_WRONLY | os.O_APPEND)
            try:
                self.tree.write(file, name, self.bytes(5000))
                if self.random.random() < 0.3:
                    self.tree.flush(file, name)
            except BaseException:
                os.close(file)
                raise
            self.tree.close(file, name)
        self.rest(0.03 if self.random.random() < 0.95 else 1)

    def keep(self, name: str) -> None:
        """Now and then flushes what was done to an item otherwise than by writing."""
        if not self.power or self.random.random() < 0.5:
            return
        if self.tree.nodes[name].kind == "folder":
            return self.tree.flush_folder(name)
        file = self.tree.open(name, os.O_RDONLY)
        try:
            self.tree.flush(file, name)
        finally:
            os.close(file)

    def move(self, old: str, new: str) -> None:
        nodes = self.tree.nodes
        if new == old or new.startswith(old + "/"):
            return
        if new in nodes:
            is_folder = nodes[old].kind == "folder"
            if is_folder != (nodes[new].kind == "folder") or self.has_children(new):
                return
        self.tree.rename(old, new)

    def remove(self, name: str) -> None:
        if not self.has_children(name):
            self.tree.unlink(name)

    def has_children(self, name: str) -> bool:
        return any(path.startswith(name + "/") for path in self.tree.nodes)


class Elsewhere(Workload):
    """Another device writes to the cloud; what it writes is read here, and evicted."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.versions: dict[str, bytes] = {}
        self.count = 0

    def step(self) -> None:
        self.count += 1
        name = f"file-{self.random.randrange(6)}"
        data = self.random.randbytes(100_000 + self.count)
        self.drive.source.put(f"{self.name}/{name}", data)
        self.versions[name] = data
        self.wait_for(name, data)
        if self.random.random() < 0.6:
            self.drive.evict(self.root / name)
            if read(str(self.root / name)) != data:
                raise Failure(f"elsewhere/{name} has other bytes after it was evicted")
        self.acknowledged += 1
        self.rest(0.3)

    def wait_for(self, name: str, data: bytes) -> None:
        end = time.monotonic() + 30
        while not self.stop.is_set():
            try:
                # Other tools leave no word in a bucket: who opens the folder has it compared.
                os.listdir(self.root)
                if os.stat(self.root / name).st_size == len(data):
                    break
            except FileNotFoundError:
                pass
            if time.monotonic() > end:
                raise Failure(f"elsewhere/{name}: the new version did not appear in 30 s")
            self.stop.wait(0.02)
        else:
            raise Stopped
        if read(str(self.root / name)) != data:
            raise Failure(f"elsewhere/{name} has other bytes than the cloud")

    def run(self) -> None:
        try:
            super().run()
        except Stopped:
            return

    def finish(self) -> None:
        for name, data in self.versions.items():
            self.wait_for(name, data)


class Rereading(Workload):
    """Several threads read what others evict."""

    FILES = 12

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.content = [self.random.randbytes(200_000 + number) for number in range(self.FILES)]
        for number, data in enumerate(self.content):
            self.drive.source.put(f"{self.name}/file-{number}", data)

    def run(self) -> None:
        failures: list[BaseException] = []

        def go_on(generator: random.Random) -> None:
            try:
                while not self.stop.is_set():
                    self.reread(generator)
            except (OSError, Failure) as error:
                failures.append(error)

        threads = [
            threading.Thread(target=go_on, args=[random.Random(self.random.random())], daemon=True)
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def reread(self, generator: random.Random) -> None:
        number = generator.randrange(self.FILES)
        path = str(self.root / f"file-{number}")
        if generator.random() < 0.3:
            self.drive.evict(Path(path))
        if read(path) != self.content[number]:
            raise Failure(f"rereading/file-{number} has other bytes")
        self.acknowledged += 1

    def check(self) -> None:
        for number, data in enumerate(self.content):
            if read(str(self.root / f"file-{number}")) != data:
                raise Failure(f"rereading/file-{number} has other bytes")
