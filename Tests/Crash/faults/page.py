"""The page of memory that steers `faults.c` in the daemon."""

import errno
import mmap
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

# In the order of `faults.h`.
# Of the state there are the lock, keys and what stands in the runtime directory besides.
AREAS = ["content", "catalog", "cloud", "state", "any"]
ACTIONS = ["open", "read", "write", "flush", "name", "size", "look", "lock", "attribute",
           "create", "watch"]
MANNERS = ["refused", "short", "late", "killed", "short-killed", "late-killed"]
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
    # Whether calls are meant of a drive whose cloud is a bucket.
    with_bucket: bool = False
    # Whether it is the first start of all, which makes the state.
    at_first: bool = False

    def __str__(self) -> str:
        how = errno.errorcode[self.error]
        if self.area == BUCKET or self.kills:
            how = self.manner
        elif self.manner != "refused":
            how = f"{self.manner}-{how}"
        return f"{self.place}-{self.action}:{how}{'+' if self.lasts else ''}"

    @property
    def kills(self) -> bool:
        """Whether the daemon is ended there, before, amid or after a call."""
        return self.manner.endswith("killed")

    @property
    def has_bucket(self) -> bool:
        return self.with_bucket or self.area == BUCKET

    @property
    def group(self) -> str:
        """What has its turn in each run, however short."""
        if self.kills:
            return "kill-bucket" if self.has_bucket else "kill-folder"
        return "start" if self.at_start else "end" if self.at_end else self.area

    @property
    def place(self) -> str:
        """When it fails, and where."""
        when = {"first/": self.at_first, "start/": self.at_start, "end/": self.at_end,
                "bucket/": self.with_bucket}
        return "".join(name for name, applies in when.items() if applies) + self.area

    @property
    def area(self) -> str:
        return self.name.partition("-")[0]

    @property
    def action(self) -> str:
        return self.name.partition("-")[2]


def kinds() -> list[Kind]:
    """All that is tried, in this order."""
    while_working = calls() + requests()
    return while_working + at_start() + at_end(while_working) + kills()


def at_start() -> list[Kind]:
    """Calls that a daemon makes before it is usable, and what fails then."""
    return [Kind(name, errno.EMFILE if name == "any-open" else errno.EIO, at_start=True)
            for name in (
                "content-open", "content-name", "catalog-open", "catalog-read", "catalog-write",
                "catalog-size", "catalog-lock", "cloud-open", "cloud-look",
                "content-look", "content-read", "cloud-create", "any-open")]


def at_end(while_working: list[Kind]) -> list[Kind]:
    """Those that a daemon makes while it sends what is left and ends."""
    never = ("content-attribute", "content-size", "content-create", "catalog-open",
             "catalog-size", "cloud-watch", "bucket-get")
    return [kind._replace(at_end=True) for kind in while_working
            if kind.name not in never and kind.manner != "short" and kind.error != errno.EDQUOT]


# What a kill is tried at: whatever changes something outside of the process.
STEPS = {"content": "create write size name flush attribute", "catalog": "write size flush",
         "cloud": "create write name flush attribute"}
STEPS_AT_START = STEPS | {"content": "create write size name flush", "state": "create write name"}
STEPS_AT_END = {"content": "write name flush", "catalog": "write size flush",
                "cloud": "create write name flush attribute", "state": "name"}
STEPS_AT_FIRST = {"content": "name", "catalog": "create write size flush",
                  "cloud": "create", "state": "create write name"}
REQUESTS = "put part copy post delete record any"


def kills() -> list[Kind]:
    """Ends of the daemon: right before a step, amid the bytes of a write, right after it."""
    found = ends_of(STEPS, REQUESTS)
    found += [kind._replace(at_start=True) for kind in ends_of(STEPS_AT_START, REQUESTS)]
    found += [kind._replace(at_end=True) for kind in ends_of(STEPS_AT_END, REQUESTS)]
    return found + [kind._replace(at_first=True) for kind in ends_of(STEPS_AT_FIRST, "record any")
                    if not kind.with_bucket]


def ends_of(steps: dict[str, str], requests: str) -> list[Kind]:
    """Kills at these steps, and at these requests, with both kinds of cloud."""
    found = []
    for name in [f"{area}-{action}" for area, actions in steps.items()
                 for action in actions.split()]:
        manners = ["killed", "late-killed"] + ["short-killed"] * name.endswith("-write")
        clouds = [False] if name.startswith("cloud-") else [False, True]
        found += [Kind(name, manner=manner, with_bucket=has_bucket)
                  for has_bucket in clouds for manner in manners]
    return found + [Kind(f"bucket-{request}", manner=manner) for request in requests.split()
                    for manner in ("killed", "late-killed")]


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
        "catalog": "open read write flush size look",
        "cloud": "open read write flush name look attribute",
    }.items() for action in actions.split()]
    for error in errno.ENOSPC, errno.EDQUOT:
        found += [Kind(name, error, lasts=True) for name in (
            "content-create", "content-write", "content-size", "content-name", "catalog-write",
            "catalog-size", "cloud-create", "cloud-write", "cloud-name")]
        found += [Kind(name, error) for name in ("content-flush", "catalog-flush")]
    found += [Kind(name, errno.EROFS, lasts=True) for name in (
        "content-create", "content-write", "content-name", "catalog-write", "cloud-create",
        "cloud-write", "cloud-name")]
    found += [Kind("any-open", errno.EMFILE), Kind("any-open", errno.EMFILE, lasts=True),
              Kind("any-open", errno.ENFILE, lasts=True)]
    # What the system has few of.
    found += [Kind("cloud-watch", errno.ENOSPC), Kind("cloud-watch", errno.ENOSPC, lasts=True),
              Kind("cloud-lock", errno.ENOLCK)]
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

    def environment(self, library: Path, state: Path, cloud: Path,
                    runtime: Path) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "CLOUDFS_FAULT_PAGE": str(self.path),
                "CLOUDFS_FAULT_STATE": os.path.realpath(state),
                "CLOUDFS_FAULT_CLOUD": os.path.realpath(cloud),
                "CLOUDFS_FAULT_RUNTIME": os.path.realpath(runtime)}

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
