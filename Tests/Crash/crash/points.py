"""The points at which the engine can be ended, as its source names them."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "Sources/CloudFS/Model/NamedFaults.swift"


def names() -> list[str]:
    """All points, in the order of the source."""
    return re.findall(r'FaultPoint\("([a-z.]+)"\)', SOURCE.read_text())


def is_at_start(point: str) -> bool:
    """Whether it is reached before the drive is usable, and then once."""
    return point.startswith(("recovery.", "mount."))
