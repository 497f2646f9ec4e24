"""The daemon is killed right before a step, amid it, or right after it; the next one has it all."""

import errno
import http.client
import random
import threading
import time
from typing import Callable

from crash.drive import Watchdog
from crash.tree import Failure, walk
from faults.page import Kind
from faults.run import Run

# What programs hear of a drive whose daemon is gone.
GONE = {errno.ENOTCONN, errno.ECONNABORTED}
# Where a first end comes from, before the start that is killed as well.
FIRST = ["content-write", "content-name", "content-create", "catalog-write", "cloud-write",
         "cloud-name"]
FIRST_WITH_BUCKET = ["content-write", "content-name", "catalog-write", "bucket-put", "bucket-copy",
                     "bucket-record", "bucket-any"]


class Kills:
    """Ends of one drive's daemon, one after the other."""

    def __init__(self, run: Run, seed: int):
        self.run = run
        self.drive = run.drive
        self.seed = seed
        self.problem: BaseException | None = None
        self.worker: threading.Thread | None = None

    def attempt(self, kind: Kind, number: int) -> bool:
        """One round that is ended there; false if there was no such step."""
        what = f"{kind} {number}"
        with Watchdog(self.drive, self.run.LIMIT, f"{what}: the preparation"):
            self.run.begin_round()
        try:
            if kind.at_start:
                what += " after " + self.end_first(kind, number)
                self.run.page.arm(kind, number)
                self.start(what)
            elif kind.at_end:
                self.end(kind, number)
            else:
                self.run.page.arm(kind, number)
                self.watch(self.work, what)
        finally:
            self.run.page.disarm()
        is_hit = self.run.note_try()
        with self.run.blaming(what):
            self.go_on(is_hit)
            with Watchdog(self.drive, self.run.LIMIT, f"{what}: the look"):
                self.look()
        if not is_hit:
            self.run.most[str(kind)] = self.run.page.passed
        return is_hit

    # What is ended

    def watch(self, body: Callable[[], None], what: str) -> None:
        """Has programs do something until they are done or the daemon is dead."""
        self.problem = None
        self.worker = threading.Thread(target=self.keep_problem, args=[body], daemon=True)
        self.worker.start()
        with Watchdog(self.drive, self.run.LIMIT, what):
            while self.worker.is_alive() and not self.run.page.failed:
                self.worker.join(0.05)
            # Where the kernel holds a rest of the daemon behind a call, the next start frees both.
            self.worker.join(3)
        if self.worker.is_alive() and not self.run.page.failed:
            raise Failure(f"{what} does not end")

    def keep_problem(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as problem:  # pylint: disable=broad-except
            self.problem = problem

    def work(self) -> None:
        """All stories, and what becomes of them."""
        self.run.work()
        self.settle()

    def settle(self) -> None:
        """Has everything sent, heard of and read, as long as there is a daemon."""
        end = time.monotonic() + 10
        while not self.run.page.failed and time.monotonic() < end:
            try:
                left = self.run.ask("drain", {"timeoutSeconds": 0.05}, limit=5).get("remaining")
                walk(str(self.drive.mount))
                is_heard = all(step.is_settled() for step in self.run.steps)
            except (OSError, http.client.HTTPException, ValueError, Failure):
                time.sleep(0.01)
                continue
            if is_heard and isinstance(left, dict) and not any(left.values()):
                return

    def end_first(self, kind: Kind, number: int) -> str:
        """Ends the daemon at some step of the work: the next start has much to put in order.

        Says which step it was.
        """
        generator = random.Random(f"{self.seed} {kind} {number}")
        name = generator.choice(FIRST_WITH_BUCKET if kind.has_bucket else FIRST)
        manner = generator.choice(["killed", "late-killed"])
        usual = self.run.usual.get(name, 0)
        first = generator.randint(1, max(1, usual // 2))
        what = f"{name}:{manner} {first}"
        self.run.page.arm(Kind(name, manner=manner), first)
        self.watch(self.work, what)
        self.run.page.disarm()
        self.judge(self.run.page.failed > 0)
        self.finish_end(self.run.page.failed > 0)
        self.look_there()
        return what

    def start(self, what: str) -> None:
        """Starts it, and has it go on with what was under way."""
        is_mounted = self.drive.start(limit=self.run.LIMIT, may_die=True)
        if is_mounted:
            self.run.starts += 1
            self.finish_work()
            self.watch(self.settle, what)
        elif not self.run.page.failed:
            raise Failure(f"the daemon was killed by somebody else:\n{self.drive.last_words()}")

    def end(self, kind: Kind, number: int) -> None:
        """Asks it to end, with much left to be sent."""
        self.run.work()
        held = self.run.hold() if number % 2 else None
        self.run.page.arm(kind, number)
        if held is None:
            self.run.end_by_command(may_die=True)
        else:
            self.run.end_by_signal(held, may_die=True)

    # What is left

    def go_on(self, is_hit: bool) -> None:
        """Requires that it is dead, if so, and starts the next one."""
        self.judge(is_hit)
        if is_hit:
            self.finish_end(True)
            self.look_there()
        if not self.drive.is_running:
            self.run.start()
        self.finish_work()

    def finish_end(self, is_hit: bool) -> None:
        """Waits until the whole daemon is dead, by the step where it was killed if it was."""
        if is_hit and not self.drive.has_ended(10):
            raise Failure("the daemon lives on")
        if is_hit and not self.drive.was_killed:
            status = self.drive.process.poll() if self.drive.process else None
            raise Failure(f"the daemon ended with {status}:\n{self.drive.last_words()}")
        self.drive.kill()
        if self.drive.lingers:
            # A start would free the mount, but what is started closes the stories' files first.
            self.drive.free()

    def finish_work(self) -> None:
        """Waits for the stories, whose calls all come back once there is a daemon again."""
        if self.worker:
            self.worker.join(20)
            if self.worker.is_alive():
                self.drive.abort("a call does not come back")
                self.worker.join(20)
                raise Failure("a call on the dead mount does not come back")
        self.worker = None
        if self.problem:
            raise self.problem

    def judge(self, is_hit: bool) -> None:
        """Whether programs saw a drive that is gone, and nothing else."""
        for step in self.run.steps:
            for call, error in step.refused:
                allowed = GONE | ({errno.EIO} if call == "map" else set()) if is_hit else set()
                if error.errno not in allowed:
                    name = errno.errorcode.get(error.errno or 0, str(error))
                    raise Failure(f"{step.name}: {call} failed with {name}: {error}")
            # It has begun anew by the next round.
            step.refused = []
        if self.drive.takeovers:
            raise Failure(f"a worker was lost alone:\n{self.drive.last_words()}")

    def look_there(self) -> None:
        """Looks at the cloud while there is no daemon: nothing of it may be half of anything."""
        if self.run.gate:
            self.run.gate.wait_for_silence()
        there = self.run.cloud.walk()
        for step in self.run.steps:
            step.check_there({path.removeprefix(f"{step.name}/"): node
                              for path, node in there.items()
                              if path.startswith(f"{step.name}/")})

    def look(self) -> None:
        """All is there on both sides, and nothing is left over."""
        self.run.end_round()
        self.require_tidy()

    def require_tidy(self) -> None:
        """`cloudfs check` finds nothing, and nothing is left over of what was under way."""
        if findings := self.run.findings(quick=False):
            raise Failure(f"check says: {findings}")
        end = time.monotonic() + 10
        while litter := self.litter():
            if time.monotonic() > end:
                raise Failure(f"left over: {', '.join(litter)}")
            time.sleep(0.05)

    def litter(self) -> list[str]:
        """Files that nothing needs."""
        own = self.drive.cloud / ".cloudfs"
        places = [self.drive.state / "lost+found", own / "staging", own / "trash",
                  own / "lost+found"]
        return [str(path) for place in places if place.is_dir() for path in place.iterdir()]
