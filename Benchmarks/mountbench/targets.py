"""What is measured: the local file system, and a peer's mount of the simulated cloud."""

import json
import os
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

from mountbench import machine, settings
from mountbench.clouds import Cloud, FolderCloud, make_names
from mountbench.simulator import Simulator


# How long a peer may be busy with itself, and how much processor time in half a second is none.
_PATIENCE = 60
_IDLE = 0.02


class Native:
    """The local disk, which is beside every peer in every run."""

    name = "native"
    is_cloud = False
    has_link = False
    cases: list[str] | None = None
    process_id: int | None = None
    attribute: str | None = "user.benchmark"
    data = settings.NATIVE

    def make_cold(self) -> None:
        machine.drop_caches(3)

    def remount(self) -> None:
        machine.drop_caches(3)

    def wipe(self, folder: str) -> None:
        shutil.rmtree(self.data / folder, ignore_errors=True)

    def fill(self, folder: str, count: int) -> None:
        make_names(self.data / folder, count)

    def settle(self) -> None:
        pass

    def stop(self) -> None:
        pass


class Peer:
    """A program of `peers.toml` that mounts the bucket."""

    is_cloud = True

    def __init__(self, name: str, simulator: Simulator) -> None:
        peers = tomllib.loads(settings.PEERS_FILE.read_text())
        if name not in peers:
            raise SystemExit(f"{settings.PEERS_FILE} has no peer {name}: {', '.join(peers)}")
        self.name = name
        # A variant that differs in one respect only is measured where that matters.
        self.cases: list[str] | None = peers[name].get("cases")
        # An attribute that every file has, where programs see any.
        self.attribute: str | None = peers[name].get("attribute")
        self.data = settings.ROOT / "mounts" / name
        self.has_link = "folder" not in peers[name]
        self._cache = settings.DISK / "caches" / name
        self._log = settings.ROOT / f"{name}.log"
        self._process: subprocess.Popen | None = None
        places = {
            "ROOT": settings.ROOT,
            "PROGRAMS": settings.PROGRAMS,
            "MOUNT": self.data,
            "CACHE": self._cache,
            "ENDPOINT": settings.ENDPOINT,
            "BUCKET": settings.BUCKET,
            "LOCAL": settings.LOCAL,
        }
        self.cloud: Cloud = simulator
        if not self.has_link:
            self.cloud = FolderCloud(Path(peers[name]["folder"].format(**places)))
        self.command = [word.format(**places) for word in peers[name]["command"]]
        self._environment = {
            variable: value.format(**places)
            for variable, value in peers[name].get("environment", {}).items()
        }
        self._version_command = [word.format(**places) for word in peers[name]["version"]]
        self._drives_command = [word.format(**places) for word in peers[name].get("drives", [])]

    @property
    def process_id(self) -> int | None:
        return self._process.pid if self._process else None

    def version(self) -> str:
        done = subprocess.run(self._version_command, capture_output=True, text=True, check=False)
        return (done.stdout or done.stderr).partition("\n")[0].strip()

    def make_cold(self) -> None:
        """Unmounts, forgets everything that was cached, and mounts again."""
        self.stop()
        shutil.rmtree(self._cache, ignore_errors=True)
        machine.drop_caches(3)
        self._start()

    def remount(self) -> None:
        """Unmounts and mounts again: the kernel forgets, the peer may remember."""
        self.stop()
        machine.drop_caches(3)
        self._start()

    def wipe(self, folder: str) -> None:
        """Removes a folder from the cloud, and everything that was known about it."""
        self.stop()
        shutil.rmtree(self._cache, ignore_errors=True)
        self.cloud.remove(folder + "/")
        self._start()
        self.settle()

    def fill(self, folder: str, count: int) -> None:
        """Makes names in the cloud that the peer does not know."""
        self.cloud.fill(folder, count)

    def settle(self) -> None:
        """Waits until the peer does nothing by itself any more, such as comparing the bucket."""
        deadline = time.monotonic() + _PATIENCE
        while not self._has_compared() and time.monotonic() < deadline:
            time.sleep(0.5)
        used = machine.usage(self.process_id)["cpu_s"]
        while time.monotonic() < deadline:
            time.sleep(0.5)
            before, used = used, machine.usage(self.process_id)["cpu_s"]
            if used - before <= _IDLE:
                return

    def _has_compared(self) -> bool:
        """Whether the first comparison with the cloud is over; so it is for peers without one."""
        if not self._drives_command:
            return True
        # Its status is another one where drives are mounted that it cannot ask.
        told = subprocess.run(
            self._drives_command,
            capture_output=True,
            check=False,
            timeout=_PATIENCE,
            env={**os.environ, **self._environment},
        )
        drives = {drive["mountpoint"]: drive for drive in json.loads(told.stdout)}
        # A daemon that is busy may not have answered in time.
        status = drives.get(str(self.data), {}).get("status")
        return status is not None and status["listing"]["isComplete"]

    def stop(self) -> None:
        if machine.is_mounted(self.data):
            self._unmount()
        if self._process:
            try:
                self._process.wait(90)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self._cache.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not machine.is_mounted(self.data):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not mount, see {self._log}")
            time.sleep(0.02)
        os.listdir(self.data)

    def _unmount(self) -> None:
        for _ in range(60):
            done = subprocess.run(["fusermount3", "-u", self.data], stderr=subprocess.DEVNULL)
            if done.returncode == 0 or not machine.is_mounted(self.data):
                return
            time.sleep(0.5)
        subprocess.run(["umount", "-l", self.data], check=False)


def remove_leftovers(root: Path) -> None:
    """Detaches what an interrupted run left mounted."""
    for mountpoint in (root / "mounts").glob("*"):
        if machine.is_mounted(mountpoint):
            subprocess.run(["umount", "-l", mountpoint], check=False)
