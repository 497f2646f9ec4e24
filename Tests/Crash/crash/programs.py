"""What well-known programs do on a drive."""

import ctypes
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from crash.drive import run
from crash.tree import Failure, describe, walk
from crash.work import Workload, end


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
    base.execute("DELETE FROM entry WHERE n <= ?", (n - 60,))
    base.execute("COMMIT")
    print(n, flush=True)
    if sys.stdin.readline() == "": break
base.close()
"""
    READER = """
import sqlite3, sys, zlib
base = sqlite3.connect(sys.argv[1], timeout=2)
assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",), "integrity_check"
rows = []
if base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
    for n, text, crc in base.execute("SELECT n, text, sum FROM entry ORDER BY n"):
        assert zlib.crc32(text) == crc, f"row {n}"
        rows.append(n)
last = rows[-1] if rows else 0
assert rows == list(range(max(1, last - 59), last + 1)), rows
print(last)
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
            end(process)

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

    # Commits of one repository, before another one is begun.
    MOST = 25

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.commits: list[str] = []
        self.number = 0
        self.count = 0

    @property
    def copy(self) -> Path:
        return self.root / str(self.number)

    def git(self, *arguments: str) -> str:
        return self.program(
            "git", "-C", str(self.copy), "-c", "core.fsync=all", "-c", "gc.auto=0",
            *arguments, **self.SETTINGS
        ).stdout.strip()

    def prepare(self) -> None:
        super().prepare()
        self.begin()

    def begin(self) -> None:
        """Makes a repository; one whose making was interrupted is made once more."""
        if self.copy.exists():
            shutil.rmtree(self.copy)
        self.copy.mkdir()
        self.git("init", "-q", "-b", "main")
        # It flushes nothing of that.
        for folder, _, names in os.walk(self.copy):
            for name in [*names, "."]:
                self.flush(os.path.join(folder, name))

    @staticmethod
    def flush(path: str) -> None:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def step(self) -> None:
        if len(self.commits) >= self.MOST:
            self.commits = []
            self.number += 1
            self.begin()
            self.remove_old()
        for _ in range(3):
            path = self.copy / f"source-{self.random.randrange(20)}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                os.write(file, self.bytes(4000))
            finally:
                os.close(file)
        self.count += 1
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"commit {self.count}")
        self.commits.append(self.git("rev-parse", "HEAD"))
        self.acknowledged += 1
        self.rest(0.3)

    def remove_old(self) -> None:
        for name in os.listdir(self.root):
            if name != str(self.number):
                shutil.rmtree(self.root / name)

    def check(self) -> None:
        if not self.commits:
            return self.begin()
        # What git itself says to do after a crash.
        for lock in (self.copy / ".git").rglob("*.lock"):
            lock.unlink()
        try:
            self.git("fsck", "--full", "--strict", "--no-dangling")
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
        self.remove_old()


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
            there = path.read_bytes() if path.exists() else None
            if there is not None and there not in versions:
                raise Failure(f"the cloud has a state of mirroring/{name} that there never was")
            # No daemon runs: nothing older comes any more.
            known = {self.old.get(name), self.new.get(name), there}
            self.versions[name] = {version for version in known if version is not None}


class Packaging(Workload):
    """Documents that are folders, each saved beside the old one and exchanged for it."""

    EXCHANGE = 2

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.count = 0
        self.saved: dict[str, int] = {}
        self.begun: dict[str, int] = {}

    def step(self) -> None:
        self.count += 1
        name = f"p{self.random.randrange(4)}.bundle"
        draft = self.root / f".#{name}"
        if draft.exists():
            shutil.rmtree(draft)
        (draft / "sub").mkdir(parents=True)
        total = hashlib.sha256()
        names = [f"{self.random.choice(['', 'sub/'])}file-{n}"
                 for n in range(self.random.randint(0, 6))]
        for path in sorted(names):
            data = self.bytes(20_000)
            (draft / path).write_bytes(data)
            total.update(path.encode() + data)
        (draft / "index").write_text(f"{self.count} {total.hexdigest()}\n")
        self.begun[name] = self.count
        if (self.root / name).exists():
            self.exchange(draft, self.root / name)
            self.saved[name] = self.count
            shutil.rmtree(draft)
        else:
            os.rename(draft, self.root / name)
            self.saved[name] = self.count
        self.acknowledged += 1
        if self.random.random() < 0.4:
            self.evict(name)
        self.rest(0.5)

    def exchange(self, one: Path, other: Path) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        if library.renameat2(-100, str(one).encode(), -100, str(other).encode(), self.EXCHANGE):
            raise OSError(ctypes.get_errno(), "the exchange failed")

    def evict(self, name: str) -> None:
        """Waits until it is sent, and looks into it when its tree is gone."""
        end = time.monotonic() + 3
        while os.getxattr(self.root / name, "user.cloudfs.status") != b"local":
            if self.stop.wait(0.02) or time.monotonic() > end:
                return
        self.drive.evict(self.root / name)
        self.check_one(name)

    @staticmethod
    def number(files: dict[str, bytes]) -> int | None:
        """Which save the files are; `None` if they are none, or half of one."""
        words = files.get("index", b"").split()
        total = hashlib.sha256()
        for path in sorted(files.keys() - {"index"}):
            total.update(path.encode() + files[path])
        if len(words) != 2 or words[1] != total.hexdigest().encode():
            return None
        return int(words[0])

    def check_one(self, name: str) -> None:
        files = {path: node.data for path, node in walk(str(self.root / name)).items()
                 if node.kind == "file"}
        found = self.number(files)
        if found not in (self.saved[name], self.begun[name]):
            raise Failure(f"packaging/{name} is save {found}, and must be {self.saved[name]} or "
                          f"{self.begun[name]}: {sorted(files)}")

    def check(self) -> None:
        for name in sorted(self.begun):
            if name in self.saved:
                self.check_one(name)
        strange = [name for name in os.listdir(self.root)
                   if not name.startswith(".#") and name not in self.begun]
        if strange:
            raise Failure(f"packaging: nobody made {strange}")

    def numbers(self) -> dict[str, int]:
        """Which save of each document the cloud has."""
        numbers: dict[str, int] = {}
        for path in self.cloud.glob("*"):
            with tarfile.open(path) as archive:
                files = {member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
                         for member in archive.getmembers() if member.isfile()}
            number = self.number(files)
            if number is None:
                raise Failure(f"the cloud has half of packaging/{path.name}: {sorted(files)}")
            numbers[path.name] = number
        return numbers

    def check_cloud(self) -> None:
        self.numbers()

    def compare(self) -> None:
        for name, number in self.numbers().items():
            if number not in (self.saved[name], self.begun[name]):
                raise Failure(f"the cloud has save {number} of packaging/{name}, not "
                              f"{self.saved[name]}")
        if missing := self.saved.keys() - self.numbers().keys():
            raise Failure(f"the cloud does not have {sorted(missing)}")
