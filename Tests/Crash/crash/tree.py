"""What a folder must hold: every call that returned, and one that may have happened."""

import os
import random
import stat
from pathlib import Path
from typing import Callable, NamedTuple

HIDDEN = "user.cloudfs"


class Failure(Exception):
    """A promise of the drive was broken."""


class Absent(Failure):
    """Items are not there; what else is there is as it must be."""


class Stopped(Exception):
    """The round is over: no further call is made."""


class Node(NamedTuple):
    """An item as programs see it."""

    kind: str
    data: bytes = b""
    mode: int = 0
    attributes: tuple[tuple[str, bytes], ...] = ()
    inode: int | None = None
    # Of a file, in nanoseconds; `None` if nobody has looked since it was written.
    modified: int | None = None
    # Whether a power failure must leave these bytes.
    flushed: bool = False
    # Whether it must leave this time, too.
    timed: bool = False


Nodes = dict[str, Node]

# What a change of a file's bytes makes of the rest.
UNKNOWN: dict[str, object] = {"modified": None, "flushed": False, "timed": False}


def look(path: str) -> Node:
    """Reads an item, all of its bytes included."""
    status = os.lstat(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Node("link", os.readlink(os.fsencode(path)), 0, (), status.st_ino)
    names = sorted(name for name in os.listxattr(path) if not name.startswith(HIDDEN))
    attributes = tuple((name, os.getxattr(path, name)) for name in names)
    if stat.S_ISDIR(status.st_mode):
        return Node("folder", b"", mode, attributes, status.st_ino)
    return Node("file", read(path), mode, attributes, status.st_ino, status.st_mtime_ns)


def read(path: str) -> bytes:
    """Reads a file without keeping a handle that a collector would close at some other time."""
    file = os.open(path, os.O_RDONLY)
    try:
        pieces = []
        while piece := os.read(file, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(file)


def walk(root: str, skipping: str | None = None) -> Nodes:
    """All items below a folder, by their paths in it."""
    nodes: Nodes = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        for name in os.listdir(os.path.join(root, folder)):
            path = os.path.join(folder, name)
            if path == skipping:
                continue
            nodes[path] = look(os.path.join(root, path))
            if nodes[path].kind == "folder":
                waiting.append(path)
    return nodes


def contents(nodes: Nodes) -> set[int]:
    """The hashes of all files' bytes."""
    return {hash(node.data) for node in nodes.values() if node.kind == "file"}


def describe(node: Node | None) -> str:
    """A node in a few words."""
    if node is None:
        return "nothing"
    attributes = " ".join(f"{name}={value!r}" for name, value in node.attributes)
    return (f"{node.kind} {node.mode:o} inode {node.inode} {len(node.data)} bytes of "
            f"{node.modified} "
            f"{node.data[:24]!r} {attributes}")


def differences(wanted: Nodes, found: Nodes, written: tuple[str, bytes] | None = None,
                inodes: bool = True) -> list[str]:
    """What is not as it must be.

    `written` names a file whose last write may have happened in part, and its bytes before.
    """
    lines = []
    for path in sorted(wanted.keys() | found.keys()):
        want, have = wanted.get(path), found.get(path)
        if want is not None and have is not None:
            same = want._replace(inode=None, flushed=False, timed=False)
            if written and path == written[0] and is_mix(have.data, written[1], want.data):
                same = same._replace(data=have.data)
            if want.modified is None:
                same = same._replace(modified=have.modified)
            known = not inodes or want.inode is None or want.inode == have.inode
            if same == have._replace(inode=None, flushed=False, timed=False) and known:
                continue
        lines.append(f"{path}: {describe(have)}, but must be {describe(want)}")
    return lines


def is_mix(data: bytes, old: bytes, new: bytes) -> bool:
    """Whether a write that led from `old` to `new` can have stopped at `data`."""
    if data == new or data == old:
        return True
    if not min(len(old), len(new)) <= len(data) <= max(len(old), len(new)):
        return False
    older, newer = old.ljust(len(data), b"\0"), new.ljust(len(data), b"\0")
    return all(byte in (older[index], newer[index]) for index, byte in enumerate(data))


class Tree:
    """A folder of the drive that one worker changes, call by call."""

    def __init__(self, name: str, generator: random.Random, power: bool):
        self.name = name
        self.random = generator
        self.power = power
        self.root = ""
        self.nodes: Nodes = {}
        self.pending: tuple[Nodes, tuple[str, bytes] | None] | None = None
        # What a power failure may go back to, oldest first.
        self.past: list[Nodes] = [{}]
        # Every state of any file between two calls, by its hash: they are many, and some large.
        self.whole: set[int] = set()
        self.calls = 0
        # How often a power failure left one answer only: other modes than the usual ones, some
        # attributes, times.
        self.compared = {"mode": 0, "attributes": 0, "modified": 0}
        self.is_stopped: Callable[[], bool] = lambda: False

    def call(self, after: Nodes, work: Callable[[], object],
             written: tuple[str, bytes] | None = None) -> object:
        """Makes one call; what it changes counts from the moment it returns."""
        if self.is_stopped():
            raise Stopped
        self.pending = (after, written)
        value = work()
        self.settle(after)
        return value

    def settle(self, after: Nodes) -> None:
        """Takes over what has happened."""
        self.nodes, self.pending = after, None
        self.whole |= contents(after)
        self.calls += 1
        if self.power:
            self.past.append(after)

    def path(self, name: str) -> str:
        """Where an item of the tree is on this machine."""
        return os.path.join(self.root, name)

    def changed(self, name: str, **values: object) -> Nodes:
        """The tree with one item changed."""
        return self.nodes | {name: self.nodes[name]._replace(**values)}

    def learn_inode(self, name: str) -> None:
        """Notes the number that a new item got, before the next call."""
        inode = os.lstat(self.path(name)).st_ino
        self.nodes = self.changed(name, inode=inode)

    # Calls

    def make_folder(self, name: str) -> None:
        self.call(self.nodes | {name: Node("folder", mode=0o755)},
                  lambda: os.mkdir(self.path(name), 0o755))
        self.learn_inode(name)

    def make_link(self, name: str, target: bytes) -> None:
        self.call(self.nodes | {name: Node("link", target)},
                  lambda: os.symlink(target, os.fsencode(self.path(name))))
        self.learn_inode(name)

    def open(self, name: str, flags: int) -> int:
        if name not in self.nodes:
            after = self.nodes | {name: Node("file", mode=0o644, flushed=True)}
        elif flags & os.O_TRUNC:
            after = self.changed(name, data=b"", **UNKNOWN)
        else:
            after = self.nodes
        is_new = name not in self.nodes
        file = self.call(after, lambda: os.open(self.path(name), flags, 0o644))
        assert isinstance(file, int)
        try:
            if is_new:
                self.learn_inode(name)
        except BaseException:
            os.close(file)
            raise
        return file

    def write(self, file: int, name: str, data: bytes, offset: int | None = None) -> None:
        """Writes at an offset, or where `O_APPEND` says."""
        old = self.nodes[name].data
        start = len(old) if offset is None else offset
        new = old[:start].ljust(start, b"\0") + data + old[start + len(data):]

        def work() -> None:
            count = os.write(file, data) if offset is None else os.pwrite(file, data, offset)
            if count != len(data):
                raise Failure(f"{name}: {count} of {len(data)} bytes were written")

        self.call(self.changed(name, data=new, **UNKNOWN), work, (name, old))

    def close(self, file: int, name: str) -> None:
        """Closes it, and notes the time that it has from now on."""
        try:
            self.call(self.nodes, lambda: os.close(file))
        except Stopped:
            os.close(file)
            raise
        self.learn_time(name)

    def learn_time(self, name: str) -> None:
        status = os.lstat(self.path(name))
        self.nodes = self.changed(name, modified=status.st_mtime_ns)

    def truncate(self, name: str, size: int) -> None:
        data = self.nodes[name].data[:size].ljust(size, b"\0")
        self.call(self.changed(name, data=data, **UNKNOWN),
                  lambda: os.truncate(self.path(name), size))
        self.learn_time(name)

    def set_time(self, name: str, moment: int) -> None:
        self.call(self.changed(name, modified=moment, timed=False),
                  lambda: os.utime(self.path(name), ns=(moment, moment)))

    def chmod(self, name: str, mode: int) -> None:
        self.call(self.changed(name, mode=mode), lambda: os.chmod(self.path(name), mode))

    def set_attribute(self, name: str, key: str, value: bytes) -> None:
        attributes = dict(self.nodes[name].attributes) | {key: value}
        self.call(self.changed(name, attributes=tuple(sorted(attributes.items()))),
                  lambda: os.setxattr(self.path(name), key, value))

    def unlink(self, name: str) -> None:
        after = {path: node for path, node in self.nodes.items() if path != name}
        is_folder = self.nodes[name].kind == "folder"
        remove = os.rmdir if is_folder else os.unlink
        self.call(after, lambda: remove(self.path(name)))

    def rename(self, old: str, new: str) -> None:
        after: Nodes = {}
        for path, node in self.nodes.items():
            if path == old or path.startswith(old + "/"):
                after[new + path[len(old):]] = node
            else:
                after.setdefault(path, node)
        self.call(after, lambda: os.rename(self.path(old), self.path(new)))

    def flush(self, file: int, name: str) -> None:
        """`fsync`: what it promises survives a power failure."""
        after = self.changed(name, flushed=True)
        if self.power:
            # A file that was written has some time now, and keeps it.
            moment = os.fstat(file).st_mtime_ns
            after = self.changed(name, flushed=True, timed=True, modified=moment)
        self.call(after, lambda: os.fsync(file))
        self.past = [after]

    def flush_folder(self, name: str) -> None:
        """`fsync` of a folder: every name, mode and attribute so far survives a power failure."""
        file = os.open(self.path(name), os.O_RDONLY)
        try:
            self.call(self.nodes, lambda: os.fsync(file))
        finally:
            os.close(file)
        self.past = [self.nodes]

    # What is left

    def check(self) -> None:
        """Compares the tree with what must be there, and goes on from what is."""
        found = walk(self.root) if os.path.isdir(self.root) else {}
        if not self.power:
            self.check_kill(found)
        else:
            self.check_cut(found)
        self.whole |= contents(found)
        self.nodes = {path: node._replace(flushed=True, timed=True)
                      for path, node in found.items()}
        self.pending, self.past = None, [self.nodes]

    def check_kill(self, found: Nodes) -> None:
        """Everything acknowledged, and the call in flight or not."""
        lines = differences(self.nodes, found)
        if lines and self.pending:
            after, written = self.pending
            if not differences(after, found, written):
                return
            lines.append("nor is it as after the call that was in flight:")
            lines += differences(after, found, written)
        if lines:
            raise Failure(f"{self.name}:\n  " + "\n  ".join(lines))

    def check_cut(self, found: Nodes) -> None:
        """Each item as it was at some time since the last flush, mode and attributes included;
        flushed bytes and times are there."""
        states = self.past + [self.nodes] + ([self.pending[0]] if self.pending else [])
        # Under whatever name: what was written may be there where a new name is not.
        written = {node.inode for state in states for node in state.values()
                   if node.kind == "file" and not node.flushed and node.inode}
        lines = []
        is_absence = True
        for path in sorted(set(found).union(*states)):
            have = found.get(path)
            self.count_compared([state.get(path) for state in states])
            if not any(self.may_be(have, state.get(path), written) for state in states):
                is_absence = is_absence and have is None
                lines.append(f"{path}: {describe(have)}, but it never was, since the last flush: "
                             + "; ".join(sorted({describe(state.get(path)) for state in states})))
        if lines:
            kind = Absent if is_absence else Failure
            raise kind(f"{self.name}:\n  " + "\n  ".join(lines))

    @staticmethod
    def may_be(have: Node | None, was: Node | None, written: set[int]) -> bool:
        if have is None or was is None:
            return have is was
        if have.kind != was.kind or was.inode not in (None, have.inode):
            return False
        if (have.mode, have.attributes) != (was.mode, was.attributes):
            return False
        if was.kind == "file" and was.inode in written:
            return True
        if was.timed and have.modified != was.modified:
            return False
        return have.data == was.data or was.kind == "file" and not was.flushed

    def count_compared(self, states: list[Node | None]) -> None:
        """Counts what only one answer was right for, of the things that a flush must keep."""
        first = states[0]
        if first is None or None in states:
            return
        for what in self.compared:
            values = {getattr(state, what) for state in states if state}
            if what == "modified" and not all(state and state.timed for state in states):
                continue
            usual = {"attributes": (), "mode": 0o755 if first.kind == "folder" else 0o644}
            self.compared[what] += len(values) == 1 and getattr(first, what) != usual.get(what)

    def check_cloud(self, cloud: Path, replaced: Callable[[str], bool]) -> None:
        """Whatever the cloud has was whole at some time.

        `replaced` says of a name whether it only ever stood for complete versions.
        """
        if not cloud.is_dir():
            return
        there = {path: node for path, node in walk(os.fspath(cloud)).items()
                 if node.kind == "file"}
        for path, node in there.items():
            if hash(node.data) in self.whole:
                continue
            if self.pending and self.pending[1] and not replaced(path):
                # The write that was in flight may have been sent in part.
                name, old = self.pending[1]
                if is_mix(node.data, old, self.pending[0][name].data):
                    continue
            raise Failure(f"the cloud has a state of {self.name}/{path} that there never was: "
                          + describe(node))
        # No daemon runs: what was sent before is there, and what will be is what is here.
        self.whole = contents(there) | contents(self.nodes)
