"""One drive, and one fault after the other: work, look, mend, and look again."""

import contextlib
import errno
import http.client
import json
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from crash.bucket import Bucket
from crash.drive import Drive, Watchdog
from crash.folder import Folder
from crash.tree import Failure, differences, walk
from faults import cloud_steps, local_steps
from faults.gate import Gate
from faults.page import BUCKET, Kind, Page
from faults.step import Cloud, Step
from faults.switch import Switch

# What the documents say that a fault becomes; of the cloud's, only reads of absent bytes tell.
SEEN = {errno.EIO: {errno.EIO}, errno.ENOSPC: {errno.ENOSPC}, errno.EDQUOT: {errno.EDQUOT},
        errno.EMFILE: {errno.EMFILE}, errno.ENFILE: {errno.EMFILE}, errno.EROFS: {errno.EROFS}}
SEEN_OF_CLOUD = {errno.ETIMEDOUT, errno.ENETUNREACH, errno.EIO}


class Socket(http.client.HTTPConnection):
    """HTTP to the drive's control socket."""

    def __init__(self, path: str, limit: float):
        super().__init__("drive", timeout=limit)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Run:
    """A drive whose calls fail, and what is known of its files."""

    LIMIT = 50
    # Rows of the queue tried while the catalog takes nothing: some in a second each, not hundreds.
    UNRECORDED = 300
    # Tables of the catalog that are empty when all was sent.
    EMPTY = ["outbox", "sent", "newer", "listing", "discard"]

    def __init__(self, folder: Path, library: Path, options: list[str], kind: Kind):
        self.folder = folder
        self.drive = Drive(folder, folder / "state")
        self.cloud: Cloud
        self.gate: Gate | None = None
        calls = Page(folder / "page")
        self.drive.environment |= calls.environment(
            library, self.drive.state, self.drive.cloud, self.drive.runtime)
        if kind.has_bucket:
            self.cloud = Bucket()
            self.gate = Gate(self.cloud.place, self.cloud.PREFIX, self.drive.end_at_once)
            self.drive.environment |= self.cloud.environment
            options = [*options, "--endpoint", self.gate.url]
        else:
            self.cloud = Folder(self.drive.cloud)
        self.page = Switch(calls, self.gate)
        self.drive.container = self.cloud.container
        # What is to be sent when the daemon ends must not be sent before.
        self.is_slow = kind.at_end
        self.drive.options = ["--quiet-time", "1m" if self.is_slow else "20ms", "--free-floor",
                              "0", "--read-timeout", "2s", *self.cloud.options, *options]
        self.steps: list[Step] = []
        self.tries = 0
        self.hits = 0
        self.starts = 0
        self.refusals = 0
        # How many calls of each kind a round makes, or its end.
        self.usual: dict[str, int] = {}
        # How many there were of a kind of steps when none was the last one.
        self.most: dict[str, int] = {}
        self.seen: dict[tuple[str, str], int] = {}

    # The drive

    def start(self) -> None:
        self.drive.start()
        self.starts += 1

    def ask(self, path: str, body: object, limit: float = 30) -> dict[str, object]:
        """Asks the daemon itself; starting a program for it would take longer."""
        sockets = list((self.drive.runtime / "cloudfs").glob("*.sock"))
        if len(sockets) != 1:
            raise Failure(f"the drive has {len(sockets)} sockets")
        connection = Socket(str(sockets[0]), limit)
        try:
            connection.request("POST", "/v1/" + path, json.dumps(body))
            answer = connection.getresponse()
            return json.loads(answer.read())
        finally:
            connection.close()

    def drain(self, limit: float = 20) -> bool:
        """Whether everything was sent in `limit` seconds."""
        end = time.monotonic() + limit
        while True:
            answer = self.ask("drain", {"timeoutSeconds": 0.1})
            left = answer.get("remaining")
            if isinstance(left, dict) and not any(left.values()):
                return True
            if time.monotonic() > end:
                return False

    # Rounds

    def prepare(self) -> None:
        """Makes the folders, and goes through all stories once without a fault."""
        self.start()
        more = cloud_steps.BUCKET_STEPS if isinstance(self.cloud, Bucket) else []
        for kind in local_steps.STEPS + cloud_steps.STEPS + more:
            step = kind(self.drive.mount, self.cloud, self.page)
            os.mkdir(step.root)
            self.steps.append(step)
        self.begin_round()
        self.work()
        self.end_round()
        before = self.page.counts()
        self.begin_round()
        self.work()
        if self.is_slow:
            before = self.page.counts()
            if self.drive.stop() != 0:
                raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
            after = self.page.counts()
            self.start()
            self.end_round()
        else:
            self.end_round()
            after = self.page.counts()
        self.usual = {name: after[name] - before.get(name, 0) for name in after}

    def begin_round(self) -> None:
        for step in self.steps:
            step.prepare()
        if not self.drain():
            raise Failure("what the stories begin with is not sent")
        for step in self.steps:
            step.absent()

    def work(self) -> None:
        for step in self.steps:
            step.attempt()

    def try_one(self, kind: Kind, number: int) -> bool:
        """One round with one fault; false if nothing failed."""
        what = f"{kind} {number}"
        with Watchdog(self.drive, self.LIMIT, f"{what}: the preparation"):
            self.begin_round()
        begin = self.drive.log.stat().st_size
        self.page.arm(kind, number)
        try:
            with Watchdog(self.drive, self.LIMIT, f"{what}: the work"):
                self.work()
                self.settle(kind)
        finally:
            self.page.disarm()
        is_hit = self.note_try()
        with self.blaming(what):
            self.judge(kind)
            self.judge_haste(begin)
            with Watchdog(self.drive, self.LIMIT, f"{what}: the look"):
                self.end_round()
        return is_hit

    def try_start(self, kind: Kind, number: int) -> bool:
        """One start with one fault, and the next without."""
        what = f"start, {kind} {number}"
        if self.drive.is_running and self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
        self.page.arm(kind, number)
        try:
            is_mounted = self.drive.start(may_refuse=True, limit=self.LIMIT)
        finally:
            self.page.disarm()
        is_hit = self.note_try()
        with self.blaming(what):
            if not is_mounted:
                if not is_hit or self.drive.mounts():
                    raise Failure(f"no drive, or half of one:\n{self.drive.last_words()}")
                self.refusals += 1
                self.start()
            with Watchdog(self.drive, self.LIMIT, f"{what}: the look"):
                self.end_round()
        return is_hit

    def try_end(self, kind: Kind, number: int) -> bool:
        """One end with one fault, while much is left to be sent; the next start finds it all."""
        what = f"end, {kind} {number}"
        with Watchdog(self.drive, self.LIMIT, f"{what}: the preparation"):
            self.begin_round()
            self.work()
            held = self.hold() if number % 2 else None
        self.page.arm(kind, number)
        try:
            if held is None:
                self.end_by_command()
            else:
                self.end_by_signal(held)
        finally:
            self.page.disarm()
        is_hit = self.note_try()
        with self.blaming(what):
            if self.drive.takeovers or self.drive.deaths or self.drive.mounts():
                raise Failure(f"the daemon ended badly:\n{self.drive.last_words()}")
            self.start()
            with Watchdog(self.drive, self.LIMIT, f"{what}: the look"):
                self.end_round()
        return is_hit

    def hold(self) -> int:
        """A file that is being written and stays open."""
        step = self.steps[0]
        file = step.open("held", os.O_RDWR | os.O_CREAT)
        step.write(file, "held", step.data(3000), 0)
        return file

    def end_by_signal(self, held: int, may_die: bool = False) -> None:
        """Ends the daemon by a signal, whoever uses the drive."""
        try:
            self.drive.ask_to_end()
            self.wait_for_end(may_die)
        finally:
            try:
                os.close(held)
            except OSError:
                # The drive is gone, and what was written is in its content already.
                pass

    def end_by_command(self, may_die: bool = False) -> None:
        """Ends the daemon by `cloudfs unmount`, and by a signal if that cannot reach it."""
        done = self.drive.command("unmount", str(self.drive.mount))
        if done.returncode != 0 and self.drive.is_running:
            self.drive.ask_to_end()
        self.wait_for_end(may_die)

    def wait_for_end(self, may_die: bool = False) -> None:
        process = self.drive.process
        status = process.wait(self.LIMIT) if process else 0
        if status < 0 and not (may_die and self.drive.was_killed):
            raise Failure(f"the daemon ended by the signal {-status}:\n{self.drive.last_words()}")

    def note_try(self) -> bool:
        """Counts a try; false if nothing failed."""
        is_hit = self.page.failed > 0
        self.tries += 1
        self.hits += is_hit
        return is_hit

    @contextlib.contextmanager
    def blaming(self, what: str) -> Iterator[None]:
        """Says of what goes wrong which call has failed before."""
        try:
            yield
        except (Failure, OSError) as failure:
            raise Failure(f"{what}, {self.page.first}: {failure}") from failure

    def settle(self, kind: Kind) -> None:
        """Lets what was done be sent, and what was sent be heard of, with the fault."""
        end = time.monotonic() + 1
        while time.monotonic() < end and not (self.page.failed and not kind.lasts):
            try:
                left = self.ask("drain", {"timeoutSeconds": 0}, limit=1)
            except (OSError, http.client.HTTPException, ValueError):
                return
            if left.get("remaining") == {"bytes": 0, "failed": 0, "uploading": 0, "waiting": 0}:
                return
            time.sleep(0.01)

    def judge(self, kind: Kind) -> None:
        """Whether programs saw the errors that are documented."""
        allowed = set() if kind.area in ("cloud", BUCKET) else SEEN[kind.error]
        if kind.area in ("cloud", "any", BUCKET):
            allowed = allowed | SEEN_OF_CLOUD
        # What the first flush could not write for want of room is lost from then on.
        if kind.name == "content-flush":
            allowed = allowed | {errno.EIO}
        # A listing has no less to give: it fails. Lasting faults may come to one after the first.
        is_listing = self.page.first.startswith("getdents64") or (
            kind.lasts and kind.area == "cloud")
        if kind.manner == "short" and kind.area != BUCKET and not is_listing:
            allowed = set()
        for step in self.steps:
            for call, error in step.refused:
                name = errno.errorcode.get(error.errno or 0, str(error))
                self.seen[call, name] = self.seen.get((call, name), 0) + 1
                # What cannot come into a mapping is SIGBUS, and what cannot leave it EIO.
                if error.errno not in allowed | ({errno.EIO} if call == "map" else set()):
                    raise Failure(f"{step.name}: {call} failed with {name}: {error}")
        if not self.drive.is_running or self.drive.takeovers:
            raise Failure(f"the daemon ended:\n{self.drive.last_words()}")

    def judge_haste(self, begin: int) -> None:
        """Whether what failed was tried again at once, over and over, since a place in the log."""
        with self.drive.log.open(errors="replace") as log:
            log.seek(begin)
            count = sum("a failure could not be recorded" in line for line in log)
        if count > self.UNRECORDED:
            raise Failure(f"{count} failures of the queue could not be recorded in one round")

    def end_round(self) -> None:
        """Everything that was acknowledged is there, and what was refused works now."""
        # What failed often is tried again within a minute, and at once for who asks.
        self.ask("drain", {"timeoutSeconds": 0})
        for step in self.steps:
            self.patiently(step.check)
        self.save_torn()
        if self.is_slow and not self.drain():
            raise Failure("not everything is sent")
        again = [step for step in self.steps if step.refused]
        for step in again:
            step.prepare()
        if again and not self.drain():
            raise Failure("not everything is sent")
        for step in again:
            step.absent()
            step.refused = []
            step.work()
            step.check()
        self.compare()
        self.check_quickly()

    def save_torn(self) -> None:
        """Saves anew what the disk is said to have lost: nothing else has it sent."""
        torn = {int(path.name.split(".")[0])
                for path in (self.drive.state / "content").glob("*/*")
                if self.is_torn(path)}
        for step in self.steps:
            for name, node in list(step.nodes.items()):
                path = step.path(name)
                if os.path.isfile(path) and os.lstat(path).st_ino in torn:
                    step.store(name + ".anew", node.data)
                    step.rename(name + ".anew", name)

    @staticmethod
    def is_torn(path: Path) -> bool:
        try:
            return path.stat().st_mode & 0o100 != 0
        except FileNotFoundError:
            # The drive has thrown it away since.
            return False

    @staticmethod
    def patiently(look: object) -> None:
        """Reads of absent bytes may fail for some seconds after the cloud, or their range, did."""
        transient = SEEN_OF_CLOUD.union(*SEEN.values())
        end = time.monotonic() + 10
        while True:
            try:
                look()  # type: ignore[operator]
                return
            except OSError as error:
                if error.errno not in transient or time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def compare(self) -> None:
        """The cloud has what the drive has."""
        end = time.monotonic() + 15
        while True:
            if not self.drain():
                queue = self.drive.command("queue", "--json", str(self.drive.mount)).stdout
                raise Failure(f"not everything is sent: {queue}")
            here = walk(str(self.drive.mount))
            there = self.cloud.walk()
            lines = differences(here, there, inodes=False)
            if not lines:
                return
            if time.monotonic() > end:
                raise Failure("the cloud, compared with the drive:\n  " + "\n  ".join(lines[:20]))
            time.sleep(0.02)

    def inspect(self, kills: bool) -> None:
        """`cloudfs check`, a new start, and both have nothing to say."""
        self.check_drive()
        if kills:
            self.drive.kill()
        elif self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
        else:
            self.require_empty_tables()
        self.start()
        for step in self.steps:
            self.patiently(step.check)
        self.compare()
        self.check_drive()

    def require_empty_tables(self) -> None:
        """All was sent, and no file is open: the catalog keeps nothing of what was under way."""
        # A look at a copy, which leaves no trace.
        copy = self.folder / "catalog"
        copy.mkdir(exist_ok=True)
        for path in self.drive.state.glob("catalog.sqlite*"):
            shutil.copyfile(path, copy / path.name)
        with contextlib.closing(sqlite3.connect(copy / "catalog.sqlite")) as catalog:
            for table in self.EMPTY:
                if rows := catalog.execute(f"SELECT * FROM {table} LIMIT 3").fetchall():
                    raise Failure(f"left over in {table}: {rows}"[:600])
        shutil.rmtree(copy)

    def check_drive(self) -> None:
        done = self.drive.command("check", str(self.drive.mount))
        if done.returncode != 0:
            raise Failure(f"check says:\n{done.stdout}{done.stderr}")

    def check_quickly(self) -> None:
        """What `cloudfs check` asks the daemon, but for what reads whole files.

        What could not be stored is tried again within seconds.
        """
        end = time.monotonic() + 5
        while findings := self.findings():
            if time.monotonic() > end:
                raise Failure(f"check says: {findings}")
            time.sleep(0.1)

    def findings(self, quick: bool = True) -> list[object]:
        place = None
        found: list[object] = []
        while True:
            answer = self.ask("check", {"repair": False, "quick": quick, "after": place})
            if "error" in answer:
                raise Failure(f"check fails: {answer}")
            found += answer["findings"]  # type: ignore[arg-type, operator]
            place = answer.get("next")
            if place is None:
                return found

    def dispose(self) -> None:
        self.drive.dispose()
        if self.gate:
            self.gate.close()
        self.cloud.dispose()
