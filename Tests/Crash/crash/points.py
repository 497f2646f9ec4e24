"""The points at which the engine can be ended, as its source names them."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "Sources/CloudFS/Model/NamedFaults.swift"


# What is sent to a bucket is not staged first.
ONLY_IN_FOLDERS = {"upload.staged"}


def names(has_bucket: bool = False) -> list[str]:
    """All points, in the order of the source; of a bucket those that it passes."""
    found = re.findall(r'FaultPoint\("([a-z.]+)"\)', SOURCE.read_text())
    return [name for name in found if not (has_bucket and name in ONLY_IN_FOLDERS)]


def is_at_start(point: str) -> bool:
    """Whether it is reached before the drive is usable, and then once."""
    return point.startswith(("recovery.", "mount."))
