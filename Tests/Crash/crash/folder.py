"""A folder as the cloud, and what another device does there."""

import os
from pathlib import Path

from crash.tree import Node, Nodes, walk


class Folder:
    """A cloud that is a folder: other devices change it with plain calls."""

    # What makes a drive on it quick to hear of them.
    options: list[str] = []

    def __init__(self, path: Path):
        self.path = path
        self.draft = path.parent / "draft"

    @property
    def container(self) -> str:
        return f"local:{self.path}"

    def show(self, folder: Path) -> None:
        """It is shown as it is."""

    def has_folder(self, name: str) -> bool:
        return (self.path / name).is_dir()

    def put(self, name: str, data: bytes) -> None:
        """Saves a version, which is there whole or not at all."""
        (self.path / name).parent.mkdir(exist_ok=True)
        self.draft.write_bytes(data)
        os.rename(self.draft, self.path / name)

    def move(self, old: str, new: str, node: Node) -> Node:
        """Moves a file, and tells what it is afterwards."""
        os.rename(self.path / old, self.path / new)
        return node

    def remove(self, name: str) -> None:
        os.unlink(self.path / name)

    def remove_folder(self, name: str) -> None:
        os.rmdir(self.path / name)

    def walk(self) -> Nodes:
        """All that devices share."""
        return walk(str(self.path), skipping=".cloudfs")

    def dispose(self) -> None:
        """Nothing is left behind but the folder."""
