"""Where what is written must arrive: a bucket of s3sim, or a folder that plays the cloud."""

import os
import shutil
import time
from pathlib import Path


class Cloud:
    """What both kinds can do; names of objects are paths, and a prefix is how they begin."""

    def count(self, prefix: str) -> tuple[int, int]:
        """How many objects have keys that begin like this, and how many bytes."""
        raise NotImplementedError

    def remove(self, prefix: str) -> None:
        raise NotImplementedError

    def fill(self, folder: str, objects: int) -> None:
        """Makes so many objects in a folder, of which only the names count."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forgets what was counted, and what earlier measurements left."""
        raise NotImplementedError

    def statistics(self) -> dict:
        """What was asked of it so far; empty where nobody counts."""
        return {}

    def wait_for(self, prefix: str, objects: int, size: int, limit: float) -> float | None:
        """The time at which so much had arrived, or nothing when it did not."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            arrived, arrived_bytes = self.count(prefix)
            if arrived >= objects and arrived_bytes >= size:
                return time.time()
            time.sleep(0.02)
        return None


class FolderCloud(Cloud):
    """The container of a `local:` drive."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def reset(self) -> None:
        self.remove("w/")
        self.remove(".cloudfs/")

    def count(self, prefix: str) -> tuple[int, int]:
        folder = self._root / prefix.rpartition("/")[0]
        found = total = 0
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if not os.path.relpath(path, self._root).startswith(prefix):
                    continue
                try:
                    total += os.lstat(path).st_size
                except FileNotFoundError:
                    continue
                found += 1
        return found, total

    def fill(self, folder: str, objects: int) -> None:
        make_names(self._root / folder, objects)

    def remove(self, prefix: str) -> None:
        shutil.rmtree(self._root / prefix, ignore_errors=True)


def make_names(folder: Path, count: int) -> None:
    """Empty files, called as s3sim calls what it makes up."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"f{number:08d}.txt").touch()
