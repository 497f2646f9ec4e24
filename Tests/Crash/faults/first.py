"""The first start of a drive, killed while it makes its state."""

import shutil

from crash.drive import Watchdog
from crash.tree import Failure, Node, Nodes, differences, read, walk
from faults.kills import Kills
from faults.page import Kind
from faults.run import Run


class FirstRun(Run):
    """A cloud that has something already, and drives on it that have nothing yet."""

    def prepare(self) -> None:
        """Goes through a start and its end once without a fault."""
        for number in range(3):
            self.cloud.put(f"file-{number}", b"%d" % number * (3000 << number))
        self.cloud.put("folder/inner", b"in a folder")
        before = self.page.counts()
        self.start()
        self.compare()
        self.leave()
        after = self.page.counts()
        self.usual = {name: after[name] - before.get(name, 0) for name in after}

    def leave(self) -> None:
        """Ends the drive, and forgets its state."""
        if self.drive.stop() != 0:
            raise Failure(f"the daemon ended with a failure:\n{self.drive.last_words()}")
        shutil.rmtree(self.drive.state)

    def inspect(self, kills: bool) -> None:
        """There is no drive between two tries."""


class FirstKills(Kills):
    """Ends of daemons that start for the first time."""

    def attempt(self, kind: Kind, number: int) -> bool:
        run = self.run
        assert isinstance(run, FirstRun)
        what = f"{kind} {number}"
        before = run.cloud.walk()
        run.page.arm(kind, number)
        try:
            self.start(what)
        finally:
            run.page.disarm()
        is_hit = run.note_try()
        with run.blaming(what):
            self.go_on(is_hit)
            with Watchdog(self.drive, run.LIMIT, f"{what}: the look"):
                self.use(run, before)
            run.leave()
        if not is_hit:
            run.most[str(kind)] = run.page.passed
        return is_hit

    def use(self, run: Run, before: Nodes) -> None:
        """The drive has what the cloud had before, and sends what is new."""
        self.require_same(before, walk(str(self.drive.mount)), "the drive")
        path = self.drive.mount / "file-0"
        data = b"new " * 2000
        path.write_bytes(data)
        if not run.drain():
            raise Failure("not everything is sent")
        if read(str(path)) != data:
            raise Failure("what was written is not there")
        after = before | {"file-0": Node("file", data, before["file-0"].mode)}
        self.require_same(after, run.cloud.walk(), "the cloud")
        self.require_tidy()

    def require_same(self, wanted: Nodes, found: Nodes, whose: str) -> None:
        plain = {name: node._replace(modified=None) for name, node in wanted.items()}
        if lines := differences(plain, found, inodes=False):
            raise Failure(f"{whose} is not as the cloud was:\n  " + "\n  ".join(lines))
