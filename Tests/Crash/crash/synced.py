"""Programs whose writes are on the disk when they return: nobody calls `fsync` for them."""

import mmap
import os
import random
import subprocess
import sys

from crash.tree import Failure, Stopped, describe, is_mix, look
from crash.work import Workload, end

# Stores into a mapping and flushes it with msync, one store for each line that it reads. In a
# process of its own: a store into a file whose disk is away ends it by SIGBUS.
STORER = """
import mmap, os, random, sys
file = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(file).st_size
with mmap.mmap(file, size) as mapping:
    os.close(file)
    print("ready", flush=True)
    for line in sys.stdin:
        offset, length, seed = map(int, line.split())
        mapping[offset:offset + length] = random.Random(seed).randbytes(length)
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        mapping.flush(start, min(size, offset + length) - start)
        print("stored", flush=True)
"""


class Synced(Workload):
    """Files written with O_DSYNC and O_SYNC, and a mapping that is flushed: what was acknowledged
    is there, and nothing else."""

    MAPPED = "mapped"
    SIZE = 16 * mmap.PAGESIZE + 100
    # Files that are written with O_DSYNC and with O_SYNC.
    MOST = 8

    def __init__(self, *arguments: object):
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.content: dict[str, bytes] = {}
        # The time that a file had when its last write with O_SYNC returned.
        self.times: dict[str, int] = {}
        # The write that has not returned: its file, and the bytes after it.
        self.pending: tuple[str, bytes] | None = None
        # What is being removed, and may be there or not.
        self.removing: str | None = None
        self.counts = {"O_DSYNC": 0, "O_SYNC": 0, "msync": 0}
        self.count = 0
        self.process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        super().prepare()
        self.content[self.MAPPED] = self.random.randbytes(self.SIZE)
        file = os.open(self.root / self.MAPPED, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.write(file, self.content[self.MAPPED])
            os.fsync(file)
        finally:
            os.close(file)

    def run(self) -> None:
        try:
            super().run()
        except Stopped:
            return

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.4:
            self.store()
        elif choice < 0.7:
            self.write("O_DSYNC", os.O_DSYNC)
        else:
            self.write("O_SYNC", os.O_SYNC)
        self.rest(0.2)

    # Writes

    def write(self, manner: str, flag: int) -> None:
        """Opens a file, new or not, and writes some pieces, each of which counts by itself."""
        names = sorted(self.content.keys() - {self.MAPPED})
        if len(names) < self.MOST and (not names or self.random.random() < 0.4):
            self.count += 1
            name = f"file-{self.count}"
        else:
            name = self.random.choice(names)
        old = self.content.get(name)
        if old is None:
            self.pending = name, b""
        file = os.open(self.root / name, os.O_WRONLY | os.O_CREAT | flag, 0o644)
        try:
            for _ in range(self.random.randint(1, 5)):
                old = self.write_piece(file, name, old or b"")
                if flag == os.O_SYNC:
                    self.times[name] = os.fstat(file).st_mtime_ns
                self.counts[manner] += 1
                self.acknowledged += 1
        finally:
            os.close(file)

    def write_piece(self, file: int, name: str, old: bytes) -> bytes:
        data = self.bytes(9000)
        start = self.random.choice([0, len(old), self.random.randint(0, len(old))])
        new = old[:start] + data + old[start + len(data):]
        # The time of a write with O_DSYNC is nothing that a program waits for.
        self.times.pop(name, None)
        self.pending = name, new
        if os.pwrite(file, data, start) != len(data):
            raise Failure(f"{name}: a write took less than it got")
        # A log that is cut off has ext4 answer some of those who wait for it as if it were written.
        # No other call returns without the daemon.
        if self.drive.is_frozen:
            raise Stopped
        self.content[name], self.pending = new, None
        return new

    def store(self) -> None:
        """Stores some pieces into the mapping."""
        process = self.process = subprocess.Popen(
            [sys.executable, "-c", STORER, str(self.root / self.MAPPED)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.drive.environment)
        assert process.stdin and process.stdout and process.stderr
        try:
            self.hear(process, "ready")
            for _ in range(self.random.randint(1, 4)):
                if self.stop.is_set():
                    break
                length = self.random.randint(1, 2 * mmap.PAGESIZE)
                offset = self.random.randint(0, self.SIZE - length)
                seed = self.random.randrange(1 << 32)
                old = self.content[self.MAPPED]
                data = random.Random(seed).randbytes(length)
                new = old[:offset] + data + old[offset + length:]
                self.pending = self.MAPPED, new
                process.stdin.write(f"{offset} {length} {seed}\n")
                process.stdin.flush()
                self.hear(process, "stored")
                self.content[self.MAPPED], self.pending = new, None
                self.counts["msync"] += 1
                self.acknowledged += 1
        except BrokenPipeError:
            raise OSError("msync: " + process.stderr.read()[-600:]) from None
        finally:
            end(process)

    @staticmethod
    def hear(process: "subprocess.Popen[str]", word: str) -> None:
        assert process.stdout and process.stderr
        if process.stdout.readline().strip() != word:
            raise OSError("msync: " + (process.stderr.read()[-600:] or f"{process.wait()}"))

    def interrupt(self) -> None:
        if self.process:
            self.process.kill()

    # What is left

    def check(self) -> None:
        for name in sorted(os.listdir(self.root)):
            if name not in self.content and name not in (self.removing, self.name_pending):
                raise Failure(f"{self.name}: nobody made {name}")
        here = dict(self.content)
        for name in here:
            here[name] = self.check_one(name)
        name = self.name_pending
        if name and name not in here and (self.root / name).exists():
            here[name] = self.check_one(name)
        self.content, self.times, self.pending = here, {}, None
        self.remove_old()

    @property
    def name_pending(self) -> str | None:
        return self.pending[0] if self.pending else None

    def check_one(self, name: str) -> bytes:
        """Requires what was acknowledged, and gives what is there: a write may be in flight."""
        old = self.content.get(name, b"")
        try:
            have = look(str(self.root / name))
        except FileNotFoundError:
            raise Failure(f"{self.name}/{name} is gone, of which {len(old)} bytes were acknowledged") \
                from None
        new = self.pending[1] if self.pending and self.pending[0] == name else old
        if not is_mix(have.data, old, new):
            raise Failure(f"{self.name}/{name} is not what was acknowledged, {len(old)} bytes, but "
                          f"{describe(have)}; the first difference is at "
                          f"{first_difference(old, have.data)}")
        if have.modified != self.times.get(name, have.modified):
            raise Failure(f"{self.name}/{name} is of {have.modified}, and was of {self.times[name]} "
                          "when a write with O_SYNC returned")
        return have.data

    def remove_old(self) -> None:
        """Makes room; the flush of the folder is what removes the names for good."""
        if self.removing and (self.root / self.removing).exists():
            os.unlink(self.root / self.removing)
        names = sorted(self.content.keys() - {self.MAPPED}, key=lambda name: int(name[5:]))
        if len(names) >= self.MOST:
            self.removing = names[0]
            del self.content[self.removing]
            os.unlink(self.root / self.removing)
        folder = os.open(self.root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.removing = None


def first_difference(one: bytes, other: bytes) -> int:
    """The first byte at which they differ."""
    for index, (left, right) in enumerate(zip(one, other)):
        if left != right:
            return index
    return min(len(one), len(other))
