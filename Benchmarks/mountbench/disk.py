"""The disk that everything local is measured on: ext4 with a journal, in a file.

What holds the benchmarks may be anything. In ext4 without a journal, for one, a file takes
long to create for minutes after others were removed, which happens between all measurements.
"""

import subprocess

from mountbench import machine, settings

_IMAGE = settings.ROOT / "disk.img"
_SIZE = 64 << 30
# Never twice: two file systems would write into one image.
_ATTACH = ("losetup", "--find", "--show", "--nooverlap", "--direct-io=on")


class Disk:
    """Is there while it is entered; its files stay."""

    def __init__(self) -> None:
        self._device: str | None = None

    def __enter__(self) -> "Disk":
        settings.DISK.mkdir(parents=True, exist_ok=True)
        # By an interrupted run; its device goes with it when this one is over.
        if machine.is_mounted(settings.DISK):
            return self
        if not _IMAGE.exists():
            _make_image()
        # Without a second copy of everything in memory.
        self._device = _run(*_ATTACH, _IMAGE).strip()
        try:
            _run("mount", "-o", "discard", self._device, settings.DISK)
        except RuntimeError:
            self._detach()
            raise
        return self

    def __exit__(self, *_) -> None:
        # Lazily: a peer that was given up may have files open still.
        subprocess.run(["umount", "--lazy", settings.DISK], check=False)
        if self._device:
            self._detach()

    def _detach(self) -> None:
        # Takes effect when the last one has closed it.
        subprocess.run(["losetup", "--detach", self._device], check=False)


def _make_image() -> None:
    """It takes the room of what is in it, not more."""
    unfinished = _IMAGE.with_suffix(".new")
    with open(unfinished, "wb") as file:
        file.truncate(_SIZE)
    # All at once: nothing is written behind the back of a measurement.
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", unfinished)
    unfinished.rename(_IMAGE)


def _run(*command) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()
        raise RuntimeError(f"{command[0]} failed, the disk is not there: {reason}")
    return done.stdout
