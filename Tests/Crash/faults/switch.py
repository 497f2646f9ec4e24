"""Which fault a drive has at the moment: one of its calls, or one of its requests."""

from faults.gate import Gate
from faults.page import BUCKET, Kind, Page


class Switch:
    """Stands before what counts calls and what counts requests."""

    def __init__(self, calls: Page, requests: Gate | None):
        self.calls = calls
        self.requests = requests
        self.armed: Page | Gate = calls

    def arm(self, kind: Kind, number: int) -> None:
        """Lets the `number`-th of a kind fail, of those from now on."""
        self.disarm()
        self.armed = self.requests if kind.area == BUCKET and self.requests else self.calls
        self.armed.arm(kind, number)

    def disarm(self) -> None:
        self.calls.disarm()
        if self.requests:
            self.requests.disarm()

    @property
    def passed(self) -> int:
        """How many of the armed kind there were."""
        return self.armed.passed

    @property
    def failed(self) -> int:
        return self.armed.failed

    @property
    def first(self) -> str:
        """What failed first."""
        return self.armed.first

    def counts(self) -> dict[str, int]:
        """How many of each kind there ever were."""
        return self.calls.counts() | (self.requests.counts() if self.requests else {})
