"""What programs do on a drive: each workload knows what was acknowledged to it."""

import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from crash.drive import Drive, run
from crash.tree import Failure, Stopped, Tree, describe, read, walk

CONFLICT = "(conflicted copy"


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

    def rest(self, longest: float) -> None:
        self.stop.wait(self.random.random() * longest)

    def bytes(self, longest: int) -> bytes:
        return self.random.randbytes(self.random.randint(1, longest))

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
        finally:
            os.close(file)


class Saves(Treelike):
    """Editors: a new file over the old one, a backup, the same file cut or patched."""

    def step(self) -> None:
        number = self.random.randrange(4)
        pattern = self.random.choice([self.replace, self.back_up, self.cut, self.patch])
        pattern(f"{pattern.__name__}-{number}")
        self.rest(0.3 if self.random.random() < 0.8 else 1.5)

    def is_only_replaced(self, name: str) -> bool:
        return name.startswith("replace-")

    def text(self) -> bytes:
        """Can be told from any part of itself."""
        body = self.bytes(60_000)
        return b"begin %d\n" % len(body) + body + b"\nend\n"

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
        finally:
            os.close(file)

    def check_cloud(self) -> None:
        super().check_cloud()
        for path in self.cloud.glob("replace-*"):
            data = read(str(path))
            head, _, rest = data.partition(b"\n")
            if CONFLICT in path.name:
                continue
            if len(rest) != int(head.split()[1]) + 5 or not rest.endswith(b"\nend\n"):
                raise Failure(f"the cloud has half of {path.name}: {len(data)} bytes")


class Calls(Treelike):
    """Any call on any item."""

    def step(self) -> None:
        names = sorted(self.tree.nodes)
        folders = [""] + [name for name in names if self.tree.nodes[name].kind == "folder"]
        files = [name for name in names if self.tree.nodes[name].kind == "file"]
        choice = self.random.random()
        folder = self.random.choice(folders)
        new = os.path.join(folder, f"{self.random.choice('abcdefgh')}{self.random.randrange(8)}")
        if choice < 0.12 and folder.count("/") < 3 and new not in names:
            self.tree.make_folder(new)
        elif choice < 0.17 and new not in names:
            self.tree.make_link(new, b"to/" + self.bytes(20).hex().encode())
        elif choice < 0.35 and new not in names and len(names) < 60:
            self.store(new, self.bytes(20_000), os.O_WRONLY | os.O_CREAT)
        elif choice < 0.55 and names:
            self.move(self.random.choice(names), new)
        elif choice < 0.68 and names:
            self.remove(self.random.choice(names))
        elif choice < 0.76 and names:
            name = self.random.choice(names)
            if self.tree.nodes[name].kind != "link":
                self.tree.chmod(name, self.random.choice([0o700, 0o750, 0o755, 0o777]))
        elif choice < 0.84 and names:
            name = self.random.choice(names)
            if self.tree.nodes[name].kind != "link":
                key = f"user.key{self.random.randrange(3)}"
                self.tree.set_attribute(name, key, self.bytes(40))
        elif choice < 0.90 and files:
            name = self.random.choice(files)
            self.tree.truncate(name, self.random.choice([0, 1, 4096, 30_000]))
        elif files:
            name = self.random.choice(files)
            file = self.tree.open(name, os.O_WRONLY | os.O_APPEND)
            try:
                self.tree.write(file, name, self.bytes(5000))
                if self.random.random() < 0.3:
                    self.tree.flush(file, name)
            finally:
                os.close(file)
        self.rest(0.03 if self.random.random() < 0.95 else 1)

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


class Database(Workload):
    """Transactions of SQLite, with both kinds of journal."""

    WRITER = """
import sqlite3, sys, zlib
name, journal, level, first = sys.argv[1:5]
base = sqlite3.connect(name, isolation_level=None, timeout=2)
base.execute(f"PRAGMA journal_mode={journal}")
base.execute(f"PRAGMA synchronous={level}")
base.execute("CREATE TABLE IF NOT EXISTS entry (n INTEGER PRIMARY KEY, text BLOB, sum INTEGER)")
n = base.execute("SELECT coalesce(max(n), 0) FROM entry").fetchone()[0]
while True:
    n += 1
    text = (b"%d " % n) * 300
    base.execute("BEGIN IMMEDIATE")
    base.execute("INSERT INTO entry VALUES (?, ?, ?)", (n, text, zlib.crc32(text)))
    base.execute("UPDATE entry SET text = text WHERE n = ?", (max(1, n - 7),))
    base.execute("COMMIT")
    print(n, flush=True)
    if sys.stdin.readline() == "": break
base.close()
"""
    READER = """
import sqlite3, sys, zlib
base = sqlite3.connect(sys.argv[1], timeout=2)
assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",), "integrity_check"
rows = 0
if base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
    for n, text, crc in base.execute("SELECT n, text, sum FROM entry ORDER BY n"):
        rows += 1
        assert n == rows and zlib.crc32(text) == crc, f"row {n}"
print(rows)
"""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.counts = {"delete.db": 0, "wal.db": 0}
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        name = self.random.choice(list(self.counts))
        journal, level = ("DELETE", "EXTRA") if name == "delete.db" else ("WAL", "FULL")
        process = self.process = subprocess.Popen(
            [sys.executable, "-c", self.WRITER, str(self.root / name), journal, level, "0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.drive.environment)
        assert process.stdin and process.stdout and process.stderr
        try:
            while not self.stop.is_set():
                line = process.stdout.readline()
                if not line and self.stop.is_set():
                    return
                if not line:
                    raise OSError("sqlite: " + process.stderr.read()[-600:])
                self.counts[name] = int(line)
                self.acknowledged += 1
                self.rest(0.1)
                process.stdin.write("\n")
                process.stdin.flush()
        except BrokenPipeError:
            raise OSError("sqlite: " + process.stderr.read()[-600:]) from None
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def interrupt(self) -> None:
        # It would go on asking a dead drive for ten seconds.
        if self.process:
            self.process.kill()

    def check(self) -> None:
        for name, count in self.counts.items():
            if count == 0 and not (self.root / name).exists():
                continue
            done = run(sys.executable, "-c", self.READER, str(self.root / name))
            if done.returncode != 0:
                raise Failure(f"{name}: {done.stderr[-600:]}")
            if not count <= int(done.stdout) <= count + 1:
                raise Failure(f"{name}: {done.stdout.strip()} rows, of {count} that were committed")
            self.counts[name] = int(done.stdout)


class Commits(Workload):
    """A working copy of git."""

    SETTINGS = {
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
    }

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.commits: list[str] = []

    def git(self, *arguments: str) -> str:
        return self.program(
            "git", "-C", str(self.root), "-c", "core.fsync=all", "-c", "gc.auto=0",
            *arguments, **self.SETTINGS
        ).stdout.strip()

    def prepare(self) -> None:
        super().prepare()
        self.git("init", "-q", "-b", "main")

    def step(self) -> None:
        for _ in range(3):
            path = self.root / f"source-{self.random.randrange(20)}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                os.write(file, self.bytes(4000))
            finally:
                os.close(file)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"commit {len(self.commits) + 1}")
        self.commits.append(self.git("rev-parse", "HEAD"))
        self.acknowledged += 1
        self.rest(0.3)

    def check(self) -> None:
        # What git itself says to do after a crash.
        for lock in (self.root / ".git").rglob("*.lock"):
            lock.unlink()
        try:
            self.git("fsck", "--full", "--strict", "--no-dangling")
            if not self.commits:
                return
            there = self.git("rev-list", "HEAD").split()
        except OSError as error:
            raise Failure(f"git: {error}") from None
        # The name of the last commit is renamed after its flush: a power failure may undo that.
        certain = self.commits[:-1] if self.power else self.commits
        if lost := [commit for commit in certain if commit not in there]:
            raise Failure(f"git: commits are gone: {lost}")
        if len(there) > len(self.commits) + 1:
            raise Failure(f"git: {len(there)} commits, of {len(self.commits)} that were made")
        self.commits = there[::-1]


class Unpacking(Workload):
    """tar, which says of each file that it begins with it."""

    FILES = 60

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        source = self.scratch / "source"
        self.content: dict[str, bytes] = {}
        for number in range(self.FILES):
            name = f"folder-{number % 7}/deep/file-{number}"
            self.content[name] = self.bytes(30_000)
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.content[name])
        self.archive = self.scratch / "archive.tar"
        run("tar", "-C", str(source), "-cf", str(self.archive), ".")
        self.number = 0
        self.done: dict[int, set[str]] = {}
        self.removing: set[int] = set()

    def step(self) -> None:
        self.number += 1
        number = self.number
        target = self.root / str(number)
        os.makedirs(target, exist_ok=True)
        self.done[number] = set()
        process = subprocess.Popen(
            ["tar", "-C", str(target), "-xvf", str(self.archive)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.drive.environment)
        # It goes on after an error, and names the file.
        output, errors = process.communicate(timeout=120)
        begun = [line.removeprefix("./") for line in output.splitlines()]
        failed = set(re.findall(r"^tar: \./(\S+): ", errors, re.MULTILINE))
        self.done[number] = self.content.keys() & set(begun[:-1]) - failed
        self.acknowledged += len(self.done[number])
        if process.returncode != 0:
            raise OSError("tar: " + errors[-600:])
        self.done[number] = set(self.content)
        self.remove_below(number - 1)
        self.rest(0.5)

    def remove_below(self, number: int) -> None:
        for old in [old for old in sorted(self.done) if old < number]:
            # From here on it may be there in part.
            self.removing.add(old)
            shutil.rmtree(self.root / str(old))
            del self.done[old]
            self.removing.discard(old)

    def check(self) -> None:
        for number in sorted(self.done):
            folder = self.root / str(number)
            found = walk(str(folder)) if folder.is_dir() else {}
            for name, node in found.items():
                data = self.content.get(name)
                if node.kind != "file" or node.data == data:
                    continue
                if data is None or not data.startswith(node.data):
                    raise Failure(f"unpacking/{number}/{name} has other bytes")
            if number in self.removing:
                continue
            for name in sorted(self.done[number]):
                if name not in found or found[name].data != self.content[name]:
                    raise Failure(f"unpacking/{number}/{name} is not whole: "
                                  + describe(found.get(name)))
        # What was interrupted is not gone on with.
        for number in sorted(self.removing):
            if not (self.root / str(number)).exists():
                self.removing.discard(number)
                self.done.pop(number, None)
        self.remove_below(max(self.done, default=0))

    def check_cloud(self) -> None:
        if not self.cloud.is_dir():
            return
        for path, node in walk(str(self.cloud)).items():
            data = self.content.get(path.partition("/")[2])
            if node.kind == "file" and (data is None or not data.startswith(node.data)):
                raise Failure(f"the cloud has other bytes of unpacking/{path}")


class Mirroring(Workload):
    """rsync, again and again, of a folder that changes meanwhile."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.source = self.scratch / "source"
        self.source.mkdir()
        self.old: dict[str, bytes] = {}
        self.new: dict[str, bytes] = {}
        self.versions: dict[str, set[bytes]] = {}

    def step(self) -> None:
        for _ in range(8):
            name = f"file-{self.random.randrange(40)}"
            data = self.bytes(40_000)
            (self.source / name).write_bytes(data)
            self.new = self.new | {name: data}
            self.versions.setdefault(name, set()).add(data)
        self.program("rsync", "-a", "--checksum", f"{self.source}/", f"{self.root}/")
        self.old = self.new
        self.acknowledged += 1
        self.rest(0.5)

    def check(self) -> None:
        found: dict[str, bytes] = {}
        for name, node in walk(str(self.root)).items():
            if re.fullmatch(r"\..+\.\w{6}", name):
                os.unlink(self.root / name)
                continue
            if node.data not in (self.old.get(name), self.new.get(name)):
                raise Failure(f"mirroring/{name} is neither the old version nor the new one: "
                              + describe(node))
            found[name] = node.data
        if gone := [name for name in self.old if name not in found]:
            raise Failure(f"mirroring: gone: {gone}")
        # The next run may be interrupted too, with other versions to send.
        self.old = found

    def check_cloud(self) -> None:
        for name, versions in self.versions.items():
            path = self.cloud / name
            if path.exists() and path.read_bytes() not in versions:
                raise Failure(f"the cloud has a state of mirroring/{name} that there never was")


class Elsewhere(Workload):
    """Another device writes to the cloud; what it writes is read here, and evicted."""

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.cloud.mkdir()
        self.versions: dict[str, bytes] = {}
        self.count = 0

    def step(self) -> None:
        self.count += 1
        name = f"file-{self.random.randrange(6)}"
        data = self.random.randbytes(100_000 + self.count)
        draft = self.scratch / "draft"
        draft.write_bytes(data)
        os.rename(draft, self.cloud / name)
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
        self.cloud.mkdir()
        self.content = [self.random.randbytes(200_000 + number) for number in range(self.FILES)]
        for number, data in enumerate(self.content):
            (self.cloud / f"file-{number}").write_bytes(data)

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
