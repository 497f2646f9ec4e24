"""The simulated cloud: starting s3sim, and asking it what it was asked."""

import json
import resource
import subprocess
import time
import urllib.parse
import urllib.request

from mountbench import settings
from mountbench.clouds import Cloud

# What one connection to a cloud looks like: one round trip, and a share of its bandwidth.
LINK = {"latency_ms": 20, "bandwidth": 50e6}
NO_LINK = {"latency_ms": 0, "bandwidth": 0}


class Simulator(Cloud):
    """s3sim with the data set as its bucket; it forgets everything when it ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> "Simulator":
        # Every connection is a descriptor, and s3fs opens many.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, most), most))
        log = open(settings.ROOT / "s3sim.log", "ab")  # noqa: SIM115 - the child's
        self._process = subprocess.Popen(
            [
                *(str(settings.ROOT / "s3sim"), "--port", str(settings.PORT)),
                *("--blobs", str(settings.CLOUD / "blobs")),
                *("--import", str(settings.CLOUD / "data")),
            ],
            stdout=log,
            stderr=log,
        )
        log.close()
        deadline = time.monotonic() + 60
        while not self.statistics():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"s3sim does not answer, see {settings.ROOT}/s3sim.log")
            time.sleep(0.05)
        return self

    def __exit__(self, *_) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()

    def set_link(self, is_slow: bool) -> None:
        self._control("set", **(LINK if is_slow else NO_LINK))

    def statistics(self) -> dict:
        try:
            return json.loads(self._control("statistics"))
        except OSError:
            return {}

    def reset(self) -> None:
        self.remove("w/")
        self.remove(".cloudfs/")
        self._control("reset")

    def count(self, prefix: str) -> tuple[int, int]:
        counted = json.loads(self._control("count", bucket=settings.BUCKET, prefix=prefix))
        return counted["objects"], counted["bytes"]

    def remove(self, prefix: str) -> None:
        self._control("remove", bucket=settings.BUCKET, prefix=prefix)

    def fill(self, folder: str, objects: int) -> None:
        self._control("fill", bucket=settings.BUCKET, prefix=f"{folder}/", objects=objects)

    def _control(self, command: str, **query) -> str:
        address = f"{settings.ENDPOINT}/_sim/{command}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.read().decode()
