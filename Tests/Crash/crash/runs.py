"""Rounds: work, an end, a new start, and a look at what is left."""

import errno
import json
import os
import random
import threading
import time
from pathlib import Path

from crash import points, programs, synced, work
from crash.bucket import Bucket
from crash.drive import Disk, Drive, Watchdog
from crash.tree import Absent, Failure, differences, walk

USUAL = [work.Saves, work.Calls, programs.Database, programs.Commits, programs.Unpacking,
         programs.Mirroring, work.Elsewhere, programs.Packaging]
# Those whose programs flush what they write, or replace it as a whole.
OUTLASTING = [work.Saves, work.Calls, programs.Database, programs.Commits, work.Unflushed,
              synced.Synced]


class Run:
    """One drive from its first start to the comparison at the end."""

    def __init__(self, folder: Path, generator: random.Random, power: str | None = None,
                 rereads: bool = False, has_bucket: bool = False, passes_through: bool = True):
        self.random = generator
        self.has_bucket = has_bucket
        self.disk = Disk(power, folder) if power else None
        self.drive = Drive(folder, (self.disk.path if self.disk else folder) / "state",
                           Bucket() if has_bucket else None, passes_through)
        scratch = folder / "scratch"
        scratch.mkdir()
        kinds = list(OUTLASTING if power else USUAL) + ([work.Rereading] if rereads else [])
        self.workloads = [
            kind(self.drive, scratch, random.Random(generator.random()), power is not None)
            for kind in kinds
        ]
        self.threads: list[threading.Thread] = []
        self.failures: list[str] = []
        self.tolerates_errors = False
        self.is_cut = False
        self.kills = 0
        # How many of them were kills at a random moment.
        self.moments = 0
        # After so many every workload must have come to something.
        self.many = 6 if power else 10
        self.hits: dict[str, int] = {}
        self.tries: dict[str, int] = {}

    # Steps of a round

    def start(self, faults: str = "") -> bool:
        """Mounts, and frees those who wait for a daemon that could not be ended."""
        try:
            is_mounted = self.drive.start(faults)
        except Failure:
            if not self.threads:
                raise
            self.drive.abort("a daemon that was killed keeps the next from mounting")
            is_mounted = self.drive.start(faults)
        self.join(20)
        return is_mounted

    def check(self) -> None:
        """Looks at everything that was acknowledged before the last end."""
        for load in self.workloads:
            with Watchdog(self.drive, 90, f"the check of {load.name}"):
                self.check_one(load)
        with Watchdog(self.drive, 90, "cloudfs check"):
            self.drive.require_sound("--quick")

    def check_one(self, load: work.Workload) -> None:
        """After a power failure the cloud may be ahead of the catalog: what is absent here can only
        be read when the new version was found, and what has moved in the cloud is in neither place
        until its new folder was listed."""
        end = time.monotonic() + (15 if self.disk else 0)
        while True:
            try:
                return load.check()
            except (OSError, Failure) as error:
                is_early = isinstance(error, Absent) or os.strerror(errno.ESTALE) in str(error)
                if not is_early or time.monotonic() > end:
                    raise
            time.sleep(0.5)

    def begin(self) -> None:
        """Starts the workloads."""
        for load in self.workloads:
            load.stop.clear()
            thread = threading.Thread(target=self.work, args=[load], name=load.name, daemon=True)
            self.threads.append(thread)
            thread.start()

    def work(self, load: work.Workload) -> None:
        try:
            load.run()
        except OSError as error:
            # What programs say has no number.
            if self.tolerates_errors and error.errno not in (None, errno.EIO):
                self.failures.append(f"{load.name} saw another error than EIO: {error!r}")
            end = time.monotonic() + 5
            while self.drive.is_running and not self.is_cut and not self.tolerates_errors:
                if time.monotonic() > end:
                    self.failures.append(f"{load.name}, with the daemon running: {error!r}")
                    return
                time.sleep(0.05)
        except Exception as error:  # pylint: disable=broad-except
            self.failures.append(f"{load.name}: {error!r}"[:3000])

    def end_work(self, in_peace: bool = False) -> None:
        """Tells the workloads to stop, and waits for them unless a daemon lingers.

        Their programs are interrupted, unless they are to end what they do `in_peace`.
        """
        for load in self.workloads:
            load.stop.set()
            if not in_peace:
                load.interrupt()
        self.join(5 if self.drive.lingers else 20)

    def join(self, limit: float) -> None:
        """Waits for the workloads; those that hang are freed, unless the next start can do it."""
        end = time.monotonic() + limit
        for thread in self.threads:
            begun = time.monotonic()
            thread.join(max(0, end - begun))
            if time.monotonic() - begun > 3:
                print(f"{thread.name} took {time.monotonic() - begun:.1f} s to end", flush=True)
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        lingers = limit <= 5
        if self.threads and not lingers:
            names = ", ".join(thread.name for thread in self.threads)
            self.drive.abort(f"still in a call: {names}")
            for thread in self.threads:
                thread.join(20)
            self.threads = []

    def require_no_failure(self) -> None:
        if self.failures:
            raise Failure("\n".join(self.failures))

    def check_cloud(self) -> None:
        """Looks at the cloud while no daemon runs."""
        self.drive.look_there()
        for load in self.workloads:
            load.check_cloud()

    def prepare(self) -> None:
        """Makes what the workloads begin with, and has all of it survive."""
        self.start()
        print(f"the kernel reads local files by {self.drive.require_way()}", flush=True)
        for load in self.workloads:
            load.prepare()
        if self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")

    # Kills

    def kill_once(self, point: str | None) -> bool:
        """One round that ends with a kill: at a point, or anywhere.

        Returns whether the point was reached.
        """
        faults = ""
        if point:
            attempt = self.tries[point] = self.tries.get(point, 0) + 1
            later = attempt == 1 and not points.is_at_start(point)
            faults = f"{point}=kill@{self.random.randrange(3) if later else 0}"
        is_mounted = self.start(faults)
        if is_mounted:
            try:
                self.check()
            except (OSError, Failure):
                if not self.drive.has_ended(2):
                    raise
        if not is_mounted or not self.drive.is_running:
            self.note_hit(point)
            self.drive.kill()
            self.start()
            self.check()
            if point and is_mounted:
                self.drive.kill()
                self.kills += 1
                return True
            point = None
        self.begin()
        limit = 10 if point else 0.3 + self.random.random() * 4
        end = time.monotonic() + limit
        while self.drive.is_running and time.monotonic() < end:
            time.sleep(0.01)
        is_hit = not self.drive.is_running
        if is_hit:
            self.note_hit(point)
        self.drive.kill()
        self.kills += 1
        self.end_work()
        self.require_no_failure()
        self.check_cloud()
        return is_hit

    def note_hit(self, point: str | None) -> None:
        if point is None or not self.drive.was_killed:
            status = self.drive.process.poll() if self.drive.process else None
            raise Failure(f"the daemon ended by itself with {status}:\n{self.drive.last_words()}")
        self.hits[point] = self.hits.get(point, 0) + 1

    def kill_often(self, count: int, only: list[str]) -> list[str]:
        """Kills at points and at random moments; gives the points that were missed.

        Every point has its turn where the number allows that beside a fifth of random moments;
        else as many as have room. One that is missed is tried again.
        """
        wanted = list(only or points.names(self.has_bucket))
        self.random.shuffle(wanted)
        wanted = wanted[:count - count // 5]
        turns = [*wanted, *[None] * (count - len(wanted))]
        self.random.shuffle(turns)
        number = 0
        while turns:
            point = turns.pop(0)
            begun = time.monotonic()
            self.kill_once(point)
            number += 1
            self.moments += point is None
            is_hit = point in self.hits
            what = "a random moment" if point is None else point if is_hit else f"missed {point}"
            print(f"kill {number}: {what} ({time.monotonic() - begun:.1f} s)", flush=True)
            if point and not is_hit and self.tries[point] < 4:
                turns.append(point)
        return [name for name in wanted if name not in self.hits]

    # Workers

    def outlive_each(self, count: int, only: list[str], seconds: float | None) -> list[str]:
        """Workers end at every point and at random moments, and no program may notice.

        With `seconds` it ends then, and gives no point that was missed.
        """
        waiting = [name for name in only or points.names(self.has_bucket) if not points.is_at_start(name)]
        wanted = list(waiting)
        # Each round ends about three.
        self.many *= 3
        self.random.shuffle(waiting)
        end = time.monotonic() + (seconds or 0)
        while (self.kills < count or waiting) if seconds is None else time.monotonic() < end:
            point = waiting.pop(0) if waiting else None
            begun, before = time.monotonic(), self.kills
            self.outlive_once(point)
            what = "random moments" if point is None else point if point in self.hits \
                else f"missed {point}"
            print(f"{self.kills - before} workers: {what} ({time.monotonic() - begun:.1f} s)",
                  flush=True)
            if point and point not in self.hits and self.tries[point] < 4:
                waiting.append(point)
        return [name for name in wanted if name not in self.hits] if seconds is None else []

    def outlive_once(self, point: str | None) -> None:
        self.start()
        self.check()
        if self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
        faults, mark = "", self.drive.log.stat().st_size
        if point:
            attempt = self.tries[point] = self.tries.get(point, 0) + 1
            faults = f"{point}=crash@{self.random.randrange(3) if attempt == 1 else 0}"
        served = self.drive.served
        # One that dies before the drive is usable is not replaced.
        if not self.drive.start(faults, may_refuse=bool(faults)):
            return
        self.begin()
        end = time.monotonic() + (10 if point else self.random.random())
        while time.monotonic() < end and self.drive.served == served:
            time.sleep(0.02)
        if point and self.has_failed(point, mark):
            self.hits[point] = self.hits.get(point, 0) + 1
            self.kills += 1
        for _ in range(self.random.randrange(1, 4)):
            self.drive.kill_worker()
            self.kills += 1
            time.sleep(self.random.random() / 2)
        self.end_work(in_peace=True)
        self.require_no_failure()
        if self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
        self.check_cloud()

    # Failures

    def fail_each(self, only: list[str]) -> list[str]:
        """Every point fails once; gives the points that were missed."""
        self.tolerates_errors = True
        waiting = list(only or points.names(self.has_bucket))
        self.random.shuffle(waiting)
        missed = []
        while waiting:
            point = waiting.pop(0)
            attempt = self.tries[point] = self.tries.get(point, 0) + 1
            passes = self.random.randrange(3) if attempt == 1 else 0
            if points.is_at_start(point):
                passes = 0
            begun = time.monotonic()
            is_hit = self.fail_once(point, f"{point}=fail@{passes}*1")
            print(f"fail: {point if is_hit else 'missed ' + point} "
                  f"({time.monotonic() - begun:.1f} s)", flush=True)
            if is_hit:
                self.hits[point] = 1
            elif attempt < 4:
                waiting.append(point)
            else:
                missed.append(point)
        return missed

    def fail_once(self, point: str, faults: str) -> bool:
        self.start()
        self.check()
        if self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
        mark = self.drive.log.stat().st_size
        if self.start(faults):
            self.begin()
            end = time.monotonic() + 10
            while time.monotonic() < end and not self.has_failed(point, mark):
                time.sleep(0.1)
            # What goes on after the failure counts too.
            time.sleep(0.5)
            is_running = self.drive.is_running
            self.end_work()
            self.require_no_failure()
            if not is_running:
                raise Failure(f"the daemon ended by a failure:\n{self.drive.last_words()}")
            self.drive.stop()
        self.check_cloud()
        return self.has_failed(point, mark)

    def has_failed(self, point: str, mark: int) -> bool:
        with self.drive.log.open("rb") as log:
            log.seek(mark)
            return f"the fault point {point} is reached".encode() in log.read()

    # Power

    def cut_often(self, count: int) -> None:
        """Rounds that end with a power failure of the state's disk."""
        assert self.disk
        for number in range(count):
            begun = time.monotonic()
            self.start()
            self.check()
            self.begin()
            end = time.monotonic() + 0.3 + self.random.random() * 4
            while self.drive.is_running and time.monotonic() < end:
                time.sleep(0.01)
            if not self.drive.is_running:
                raise Failure(f"the daemon ended by itself:\n{self.drive.last_words()}")
            self.require_no_failure()
            self.is_cut = True
            # All at once: what fails as the disk is gone is not to be sent any more.
            self.drive.freeze()
            self.disk.cut(late=self.random.random() < 0.5)
            self.drive.kill()
            self.kills += 1
            # Without power nobody waits for a daemon that the kernel still holds a rest of.
            self.drive.free()
            self.end_work()
            self.drive.detach()
            self.disk.cycle()
            self.is_cut = False
            self.require_no_failure()
            self.check_cloud()
            print(f"cut {number + 1} ({time.monotonic() - begun:.1f} s)", flush=True)

    # The end

    def finish(self) -> None:
        """Everything is sent, and the cloud has what the drive has."""
        self.tolerates_errors = False
        self.start()
        self.check()
        for load in self.workloads:
            load.stop.clear()
            with Watchdog(self.drive, 60, f"the end of {load.name}"):
                load.finish()
        mount = str(self.drive.mount)
        done = self.drive.command("drain", "--wait", "--timeout", "90s", mount, limit=120)
        if done.returncode != 0:
            raise Failure(f"not everything was sent:\n{done.stderr}\n{self.drive.last_words()}")
        with Watchdog(self.drive, 90, "the comparison"):
            here = walk(mount)
        self.drive.look_there()
        there = walk(str(self.drive.cloud), skipping=".cloudfs")
        for load in self.workloads:
            load.compare()
            if isinstance(load, programs.Packaging):
                # What is a file there is a folder here.
                for nodes in here, there:
                    for path in [path for path in nodes if path.startswith(f"{load.name}/")]:
                        del nodes[path]
        self.drive.require_way()
        self.drive.require_sound()
        if lines := differences(here, there, inodes=False):
            raise Failure("the cloud, compared with the drive:\n  " + "\n  ".join(lines[:20]))
        copies = [path for path in there if work.CONFLICT in path]
        if copies:
            raise Failure(f"conflicted copies of this device's own work: {copies}")
        queue = self.drive.command("queue", "--json", mount)
        if json.loads(queue.stdout):
            raise Failure(f"the outbox is not empty: {queue.stdout}")
        if self.drive.stop() != 0 or self.drive.mounts():
            raise Failure(f"it did not end in order:\n{self.drive.last_words()}")
        self.check_cloud()

    def dispose(self) -> None:
        """Leaves no process, no mount and no disk."""
        for load in self.workloads:
            load.stop.set()
            load.interrupt()
        self.drive.dispose()
        for thread in self.threads:
            thread.join(5)
        if self.disk:
            self.disk.detach()
        self.drive.source.dispose()
