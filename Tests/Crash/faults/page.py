"""The page of memory that steers `faults.c` in the daemon."""

import errno
import mmap
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

# In the order of `faults.h`.
AREAS = ["content", "catalog", "cloud", "any"]
ACTIONS = ["open", "read", "write", "flush", "name", "size", "look", "map", "lock", "attribute",
           "create"]
MANNERS = ["refused", "short", "late"]
# Not a call but a request, which `gate.py` stands before.
BUCKET = "bucket"
# The last of all calls.
EVER = (1 << 62)


class Kind(NamedTuple):
    """What fails, and how."""

    name: str
    error: int = errno.EIO
    manner: str = "refused"
    # Whether all later calls fail as well.
    lasts: bool = False
    # Whether the calls are counted from the daemon's start on.
    at_start: bool = False
    # Whether they are counted from when the daemon is asked to end.
    at_end: bool = False

    def __str__(self) -> str:
        how = errno.errorcode[self.error]
        if self.area == BUCKET:
            how = self.manner
        elif self.manner != "refused":
            how = f"{self.manner}-{how}"
        when = "start/" if self.at_start else "end/" if self.at_end else ""
        return f"{when}{self.name}:{how}{'+' if self.lasts else ''}"

    @property
    def area(self) -> str:
        return self.name.partition("-")[0]

    @property
    def action(self) -> str:
        return self.name.partition("-")[2]


def kinds() -> list[Kind]:
    """All that is tried, in this order."""
    while_working = calls() + requests()
    return while_working + at_start() + at_end(while_working)


def at_start() -> list[Kind]:
    """Calls that a daemon makes before it is usable, and what fails then."""
    return [Kind(name, errno.EMFILE if name == "any-open" else errno.EIO, at_start=True)
            for name in (
                "content-open", "content-name", "catalog-open", "catalog-read", "catalog-write",
                "catalog-size", "catalog-map", "catalog-lock", "cloud-open", "cloud-look",
                "any-open")]


def at_end(while_working: list[Kind]) -> list[Kind]:
    """Those that a daemon makes while it sends what is left and ends."""
    never = ("content-attribute", "content-size", "catalog-open", "catalog-size", "catalog-map",
             "bucket-get")
    return [kind._replace(at_end=True) for kind in while_working
            if kind.name not in never and kind.manner != "short" and kind.error != errno.EDQUOT]


def requests() -> list[Kind]:
    """Requests to a bucket: refused as too many, cut off, or carried out without an answer."""
    found = [Kind(f"bucket-{action}", manner=manner) for manner, actions in {
        "refused": "list get head put part copy post delete record news",
        "cut": "list get head put part copy post delete record",
        "late": "put part copy post delete record",
        "short": "list get news",
    }.items() for action in actions.split()]
    found += [Kind(f"bucket-{action}", manner="refused", lasts=True)
              for action in "list get head put copy delete record news any".split()]
    return found + [Kind("bucket-any", manner="cut", lasts=True)]


def calls() -> list[Kind]:
    """Calls to the system, for a drive whose cloud is a folder."""
    found = [Kind(f"{area}-{action}") for area, actions in {
        "content": "open read write flush name size look attribute",
        "catalog": "open read write flush size look map lock",
        "cloud": "open read write flush name look attribute",
    }.items() for action in actions.split()]
    for error in errno.ENOSPC, errno.EDQUOT:
        found += [Kind(name, error, lasts=True) for name in (
            "content-create", "content-write", "content-size", "catalog-write", "catalog-size",
            "cloud-create", "cloud-write", "cloud-name")]
        found += [Kind(name, error) for name in ("content-flush", "catalog-flush")]
    found += [Kind("any-open", errno.EMFILE), Kind("any-open", errno.ENFILE, lasts=True)]
    found += [Kind(name, errno.EIO, lasts=True) for name in (
        "content-read", "content-write", "content-flush", "catalog-read", "catalog-write",
        "catalog-flush", "cloud-open", "cloud-read", "cloud-write")]
    found += [Kind(name, errno.EIO, "late") for name in (
        "content-write", "catalog-write", "catalog-flush", "cloud-write", "cloud-name")]
    found += [Kind(name, errno.EIO, "short", lasts) for lasts in (False, True) for name in (
        "content-read", "content-write", "catalog-read", "catalog-write", "cloud-read",
        "cloud-write")]
    return found


class Page:
    """What the library in the daemon reads and counts."""

    HEAD = struct.Struct("4i4q32s224s")

    def __init__(self, path: Path):
        self.path = path
        size = self.HEAD.size + 8 * len(AREAS) * len(ACTIONS)
        with path.open("w+b") as file:
            file.truncate(size)
            self.memory = mmap.mmap(file.fileno(), size)
        self.disarm()

    def environment(self, library: Path, state: Path, cloud: Path) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "CLOUDFS_FAULT_PAGE": str(self.path),
                "CLOUDFS_FAULT_STATE": os.path.realpath(state),
                "CLOUDFS_FAULT_CLOUD": os.path.realpath(cloud)}

    def arm(self, kind: Kind, number: int) -> None:
        """Lets the call `number` of a kind fail, of those from now on."""
        last = EVER if kind.lasts else number
        self.HEAD.pack_into(self.memory, 0, -1, ACTIONS.index(kind.action), kind.error,
                            MANNERS.index(kind.manner), number, last, 0, 0, b"", b"")
        struct.pack_into("i", self.memory, 0, AREAS.index(kind.area))

    def disarm(self) -> None:
        struct.pack_into("i", self.memory, 0, -1)

    @property
    def passed(self) -> int:
        """How many calls of the armed kind there were."""
        return self.HEAD.unpack_from(self.memory)[6]

    @property
    def failed(self) -> int:
        return self.HEAD.unpack_from(self.memory)[7]

    @property
    def first(self) -> str:
        """The first call that failed, and its file."""
        call, path = self.HEAD.unpack_from(self.memory)[8:]
        return " of ".join(text.split(b"\0")[0].decode(errors="replace") for text in (call, path))

    def counts(self) -> dict[str, int]:
        """How many calls of each kind there ever were."""
        values = struct.iter_unpack("q", self.memory[self.HEAD.size:])
        names = [f"{area}-{action}" for area in AREAS for action in ACTIONS]
        return {name: value for name, (value,) in zip(names, values) if value}

    def wait_for_failure(self, limit: float) -> bool:
        """Whether something fails within `limit` seconds."""
        end = time.monotonic() + limit
        while not self.failed and time.monotonic() < end:
            time.sleep(0.002)
        return self.failed > 0
