"""The disk that everything local is measured on: ext4 with a journal, in a file.

What holds the benchmarks may be anything. In ext4 without a journal, for one, a file takes
long to create for minutes after others were removed, which happens between all measurements.
"""

import subprocess

from mountbench import machine, settings

_IMAGE = settings.ROOT / "disk.img"
_SIZE = 64 << 30
# Never twice: two file systems would write into one image. Nor with a second copy of everything
# in memory.
_ATTACH = ("losetup", "--find", "--show", "--nooverlap", "--direct-io=on")


class Disk:
    """Is there while it is entered; its files stay."""

    def __enter__(self) -> "Disk":
        settings.DISK.mkdir(parents=True, exist_ok=True)
        # An interrupted run leaves it mounted.
        if machine.is_mounted(settings.DISK):
            return self
        if not _IMAGE.exists():
            _make_image()
        device = _run(*_ATTACH, _IMAGE).strip()
        try:
            _run("mount", "-o", "discard", device, settings.DISK)
        finally:
            # As soon as nothing uses it: at once, or when the last of the mount is gone.
            _run("losetup", "--detach", device)
        return self

    def __exit__(self, *_) -> None:
        # Lazily: a peer that was given up may have files open still. Failing, it says why itself.
        subprocess.run(["umount", "--lazy", settings.DISK], check=False)


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
