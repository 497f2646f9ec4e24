"""A daemon in the foreground, started and ended as often as wanted, and its mount."""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from crash.bucket import Bucket
from crash.folder import Folder
from crash.tree import Failure

# With vfork a thread that starts a program stops all others until it runs, and before that it
# closes files of the drive, which the daemon may be waited for.
subprocess._USE_VFORK = False  # type: ignore[attr-defined]

CONTROL = Path("/sys/fs/fuse/connections")
DETACH = 2


def run(*command: str, limit: float = 60, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, which comes within `limit` seconds."""
    return subprocess.run(command, timeout=limit, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, **options)  # type: ignore[call-overload]


def members(group: int) -> dict[int, bool]:
    """The processes of a group that are not over, and whether the kernel only holds a rest of them.

    Such a rest is a thread that it keeps behind a request, of a process that is dead.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                is_dead = fields[0] == "Z"
                if not is_dead or len(list((folder / "task").iterdir())) > 1:
                    found[int(folder.name)] = is_dead
        except (OSError, IndexError):
            pass
    return found


def users_of_detached() -> list[str]:
    """Who has files open on mounts that were taken away: of a drive they hold its disk too."""
    here = {line.split()[0] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    found = []
    for entry in Path("/proc").glob("[0-9]*/fdinfo/*"):
        process = entry.parent.parent
        try:
            words = entry.read_text().split()
            link = os.readlink(process / "fd" / entry.name)
            is_here = words[words.index("mnt_id:") + 1] in here
            if link.startswith("/") and not is_here:
                found.append(f"{(process / 'comm').read_text().strip()} {process.name}: {link}")
        except (OSError, ValueError):
            pass
    return found


class Drive:
    """One drive: its cloud, its state, its mountpoint, and the daemon of the moment."""

    def __init__(self, folder: Path, state: Path, bucket: Bucket | None = None,
                 passes_through: bool | None = None):
        # Where what the cloud has can be looked at; of a bucket, when `look_there` was called.
        self.cloud = folder / "cloud"
        self.source = bucket or Folder(self.cloud)
        self.container = self.source.container
        self.mount = folder / "drive"
        self.state = state
        self.log = folder / "daemon.log"
        self.runtime = folder / "run"
        for path in (self.cloud, self.mount, self.runtime, folder / "home"):
            path.mkdir()
        # A program that starts while the drive is away must not work in the bare folder. Where a
        # file system cannot forbid that, the next mount refuses a folder that is not empty.
        run("chattr", "+i", str(self.mount))
        programs = os.environ.get("CLOUDFS_BINARIES", ".build/debug")
        self.programs = Path(programs).resolve()
        self.environment = os.environ | {
            "XDG_RUNTIME_DIR": str(self.runtime), "HOME": str(folder / "home"),
            "XDG_DATA_HOME": str(folder / "home"), "TMPDIR": str(folder),
        }
        self.process: subprocess.Popen[bytes] | None = None
        # The groups of daemons of which the kernel held a rest when they were killed.
        self.old: list[int] = []
        self.options = ["--quiet-time", "300ms", "--package", "bundle"]
        # How the kernel must read and write local files; `None` for as it can.
        self.passes_through = passes_through
        if passes_through is False:
            self.options.append("--no-passthrough")
        if bucket:
            self.environment |= bucket.environment
            self.options += ["--endpoint", bucket.url, *bucket.options]
        # Whether the daemon was stopped to be killed: what returns from now on was not promised.
        self.is_frozen = False
        self.aborts = 0
        self.lingering = 0

    # Start and end

    def start(self, faults: str = "", limit: float = 60, may_refuse: bool = False,
              may_die: bool = False) -> bool:
        """Mounts; false if a fault ended the daemon before the drive was usable.

        `may_refuse` says that it may end by itself, with a status that is not 0, and `may_die` that
        somebody may kill it.
        """
        self.is_frozen = False
        notify = self.runtime / "notify"
        notify.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
            ear.bind(str(notify))
            ear.settimeout(0.05)
            with self.log.open("ab") as log:
                log.write(f"--- faults: {faults or 'none'}\n".encode())
                log.flush()
                self.process = subprocess.Popen(
                    [str(self.programs / "cloudfs-mount"), "-f", "--state-dir", str(self.state),
                     "--device-name", "crash", "--log-level", "info", *self.options,
                     self.container, str(self.mount)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                    env=self.environment | {"CLOUDFS_FAULTS": faults, "NOTIFY_SOCKET": str(notify)})
            end = time.monotonic() + limit
            while time.monotonic() < end:
                try:
                    if b"READY=1" in ear.recv(4096).split(b"\n"):
                        return True
                except TimeoutError:
                    pass
                if self.process.poll() is not None:
                    if faults and (self.was_killed or "=fail" in faults):
                        return False
                    if may_die and self.was_killed:
                        return False
                    if may_refuse and (self.process.returncode or 0) > 0:
                        return False
                    raise Failure(f"the daemon ended with {self.process.returncode} instead of "
                                  f"mounting:\n{self.last_words()}")
        self.abort("the drive was not mounted in time")
        raise Failure(f"the drive was not mounted in {limit:.0f} s:\n{self.last_words()}")

    @property
    def is_running(self) -> bool:
        """Whether supervisor or worker is there."""
        if self.process is None:
            return False
        return self.process.poll() is None or False in members(self.process.pid).values()

    @property
    def lingers(self) -> bool:
        """Whether the kernel still holds a rest of a daemon that was killed."""
        return any(members(group) for group in self.old)

    @property
    def takeovers(self) -> int:
        """How often a worker was lost, and another one took its place."""
        return self.log.read_text(errors="replace").count("another one takes over")

    @property
    def deaths(self) -> int:
        """How often a worker ended by a signal, of which the supervisor told."""
        return self.log.read_text(errors="replace").count("worker ended with signal")

    @property
    def was_killed(self) -> bool:
        return self.process is not None and self.process.poll() == -signal.SIGKILL

    def has_ended(self, limit: float) -> bool:
        """Whether the daemon has ended, or does within `limit` seconds."""
        end = time.monotonic() + limit
        while self.is_running and time.monotonic() < end:
            time.sleep(0.01)
        return not self.is_running

    def freeze(self) -> None:
        """Stops the daemon where it is, to be killed."""
        self.is_frozen = True
        if self.process is not None and self.is_running:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def end_at_once(self) -> None:
        """Sends SIGKILL to all of the daemon, and waits for nothing."""
        process = self.process
        if process is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                # It was over already.
                pass

    def kill(self, limit: float = 5) -> None:
        """Ends the daemon as the kernel would; one that does not end is left to the next start."""
        if self.process is None:
            return
        group = self.process.pid
        if self.is_running:
            os.killpg(group, signal.SIGKILL)
            self.process.wait(limit)
        end = time.monotonic() + limit
        while members(group) and time.monotonic() < end:
            time.sleep(0.005)
        if members(group):
            self.lingering += 1
            self.old.append(group)
        self.process = None

    def kill_worker(self, limit: float = 30) -> None:
        """Ends the worker alone, and waits until another one serves."""
        assert self.process is not None
        served = self.served
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        end = time.monotonic() + limit
        while self.served == served:
            if time.monotonic() > end or self.process.poll() is not None:
                raise Failure(f"no other worker came up:\n{self.last_words()}")
            time.sleep(0.01)

    @property
    def served(self) -> int:
        """How often another worker has begun to serve."""
        return self.log.read_text(errors="replace").count("another worker has taken over")

    def ask_to_end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def stop(self, limit: float = 60) -> int:
        """Asks the daemon to end, and gives its status."""
        if self.process is None:
            return 0
        self.ask_to_end()
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.abort("the daemon did not end when it was asked to")
            raise Failure(f"the daemon did not end in {limit:.0f} s") from None

    def command(self, *arguments: str, limit: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs `cloudfs`."""
        return run(str(self.programs / "cloudfs"), *arguments, limit=limit, env=self.environment)

    def require_way(self) -> str:
        """Tells how the kernel gets the bytes of local files, which must be as asked for."""
        listing = self.command("mounts", "--json")
        for row in json.loads(listing.stdout or "[]"):
            if row["mountpoint"] == str(self.mount) and "status" in row:
                mode = row["status"]["mode"]
                if self.passes_through not in (None, mode["name"] == "passthrough"):
                    wanted = "passthrough" if self.passes_through else "--no-passthrough"
                    raise Failure(f"the drive reads by {mode['name']}, and not as asked for "
                                  f"({wanted}): {mode['reason'] or 'it does not say why'}")
                return mode["name"]
        raise Failure(f"`cloudfs mounts` does not tell of the drive: {listing.stdout}"
                      f"{listing.stderr}")

    def require_sound(self, *options: str) -> None:
        """`cloudfs check` finds nothing."""
        done = self.command("check", *options, str(self.mount), limit=90)
        if done.returncode != 0:
            raise Failure(f"cloudfs check {' '.join(options)}, {done.returncode}:\n"
                          f"{done.stdout[-2000:]}{done.stderr[-600:]}")

    def look_there(self) -> None:
        """Brings `cloud` up to date."""
        self.source.show(self.cloud)

    def evict(self, path: Path) -> None:
        """Evicts a file, or is refused while it is in use: that is an answer too."""
        self.command("evict", str(path))

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-25:])

    # The mount

    def mounts(self) -> list[str]:
        """The numbers of the connections that are mounted here."""
        found = []
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields = line.split()
            if fields[4] == str(self.mount):
                found.append(fields[2].split(":")[1])
        return found

    def abort(self, reason: str) -> None:
        """Frees everybody who waits for a daemon that does not answer, which none should."""
        self.aborts += 1
        print(f"aborting the connection: {reason}", flush=True)
        self.free()

    def free(self) -> None:
        """Has every call on the mount fail, also those that have begun.

        Without another program: what is started closes files of the drive first, and waits as well.
        """
        library = ctypes.CDLL(None, use_errno=True)
        is_mounted_here = not any(CONTROL.iterdir())
        if is_mounted_here and library.mount(b"none", bytes(CONTROL), b"fusectl", 0, None) != 0:
            raise Failure(f"no control of FUSE: {os.strerror(ctypes.get_errno())}")
        try:
            for number in self.mounts():
                switch = CONTROL / number / "abort"
                if switch.exists():
                    switch.write_text("1")
        finally:
            if is_mounted_here:
                library.umount2(bytes(CONTROL), 0)

    def detach(self) -> None:
        """Takes the mount away, in whatever state it is."""
        library = ctypes.CDLL(None, use_errno=True)
        for _ in self.mounts():
            library.umount2(os.fsencode(self.mount), DETACH)

    def dispose(self) -> None:
        """Leaves nothing behind."""
        self.kill()
        if self.lingers:
            self.abort("a daemon that was killed still holds its mount")
        self.detach()
        end = time.monotonic() + 10
        while self.lingers and time.monotonic() < end:
            time.sleep(0.05)
        if self.lingers:
            print("a daemon cannot be ended", flush=True)
        run("chattr", "-i", str(self.mount))


class Watchdog:
    """Aborts the connection if what it watches takes too long; a call into it then fails."""

    def __init__(self, drive: Drive, seconds: float, what: str):
        self.timer = threading.Timer(seconds, drive.abort, [f"{what} took {seconds:.0f} s"])
        self.timer.daemon = True

    def __enter__(self) -> None:
        self.timer.start()

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()


class Disk:
    """A file system in a file, whose power can be cut."""

    SHUTDOWN = 0x8004587D
    WITH_LOG = 1
    WITHOUT_LOG = 2
    # Of sync_file_range: begins to write, and waits for nothing.
    BEGIN_WRITING = 2

    def __init__(self, kind: str, folder: Path):
        self.kind = kind
        self.image = folder / "disk.image"
        self.path = folder / "disk"
        self.path.mkdir()
        size = 512 << 20
        with self.image.open("wb") as file:
            file.truncate(size)
        quiet = ["-q"]
        done = run(f"mkfs.{kind}", *quiet, str(self.image))
        if done.returncode != 0:
            raise Failure(f"mkfs.{kind}: {done.stderr}")
        self.attach()

    def attach(self) -> None:
        done = run("mount", "-o", "loop", str(self.image), str(self.path))
        if done.returncode != 0:
            raise Failure(f"the disk cannot be mounted: {done.stderr}")

    def cut(self, late: bool = False) -> None:
        """Nothing that is not on the disk yet will ever be.

        A cut that comes `late` finds the log on it, and the writing of bytes begun: some files have
        their length then, and zeros where their bytes belong.
        """
        if late:
            self.begin_writing()
        folder = os.open(self.path, os.O_RDONLY)
        try:
            how = self.WITH_LOG if late else self.WITHOUT_LOG
            fcntl.ioctl(folder, self.SHUTDOWN, how.to_bytes(4, "little"))
        finally:
            os.close(folder)

    def begin_writing(self) -> None:
        """Has the system write what content it has in memory, and waits for none of it."""
        library = ctypes.CDLL(None, use_errno=True)
        for path in (self.path / "state" / "content").glob("*/*"):
            file = os.open(path, os.O_RDONLY)
            try:
                if library.sync_file_range(file, ctypes.c_int64(0), ctypes.c_int64(0),
                                           self.BEGIN_WRITING) != 0:
                    raise Failure(f"{path}: {os.strerror(ctypes.get_errno())}")
            finally:
                os.close(file)

    def detach(self, limit: float = 20) -> None:
        end = time.monotonic() + limit
        while run("umount", str(self.path)).returncode != 0:
            if not os.path.ismount(self.path):
                return
            if time.monotonic() > end:
                run("umount", "-l", str(self.path))
                users = ", ".join(users_of_detached()) or "nobody that can be seen"
                raise Failure(f"the disk is in use after the daemon's end, by {users}")
            time.sleep(0.1)

    def cycle(self) -> None:
        """Takes it away and brings it back, as after a power failure."""
        self.detach()
        self.attach()
