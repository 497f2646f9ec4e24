"""What is measured: cases, each of which brings the mount into a state and runs workloads.

*Cold*: unmounted, the peer's cache removed, all kernel caches dropped, mounted again.
*Remounted*: the same, but the peer's cache is kept. *Dropped*: only the kernel's pages are.
"""

import re
import subprocess
import time
from collections.abc import Callable

from mountbench import machine, report, settings, workloads
from mountbench.targets import Native, Peer

Target = Native | Peer
Results = dict[str, dict]

_LIMIT = 240
_COUNTED = ("get", "head", "put", "copy", "delete", "list", "multipart", "part")


class Bench:
    """One target in one run, with what the cloud and the daemon are asked around a workload."""

    def __init__(self, target: Target, is_slow: bool) -> None:
        self.target = target
        self.is_slow = is_slow

    def path(self, relative: str) -> str:
        return str(self.target.data / relative)

    def run(self, name: str, *arguments, limit: float = _LIMIT) -> dict:
        return self.observe(lambda: workloads.run(name, *arguments, limit=limit))

    def observe(self, work: Callable[[], dict]) -> dict:
        """Adds the requests, the processor time and the memory that the work took."""
        if not isinstance(self.target, Peer):
            return work()
        cloud, process = self.target.cloud, self.target.process_id
        asked, used = cloud.statistics(), machine.usage(process)
        machine.forget_peaks(process)
        result = work()
        asked_then, used_then = cloud.statistics(), machine.usage(process)
        result["cpu_s"] = used_then["cpu_s"] - used["cpu_s"]
        result["resident_mb"] = used_then["resident_mb"]
        result["peak_mb"] = used_then["peak_mb"]
        if not asked_then:
            return result
        result["requests"] = {
            name: asked_then[name] - asked[name]
            for name in _COUNTED
            if asked_then.get(name, 0) > asked.get(name, 0)
        }
        result["sent_bytes"] = asked_then["bytes_in"] - asked["bytes_in"]
        result["fetched_bytes"] = asked_then["bytes_out"] - asked["bytes_out"]
        return result

    def until_arrived(self, prefix: str, objects: int, size: int, result: dict) -> dict:
        """Adds how long it took, from the beginning, until all was in the cloud."""
        if isinstance(self.target, Peer) and "end" in result:
            arrived = self.target.cloud.wait_for(prefix, objects, size, limit=120)
            if arrived is None:
                result["error"] = f"after 120 s not all was in the cloud: {prefix}"
            else:
                result["arrived_s"] = result["s"] + max(0, arrived - result["end"])
        return result


def idle(bench: Bench) -> Results:
    bench.target.make_cold()
    bench.target.settle()
    return {"idle": machine.usage(bench.target.process_id)}


def rest(bench: Bench) -> Results:
    """A minute in which nobody uses the drive, after a first one."""
    if not bench.target.is_cloud:
        return {}
    bench.target.make_cold()
    bench.target.settle()
    # What a use leaves to be told to other devices may take a minute until it is told.
    time.sleep(60)
    return {"rest": bench.observe(lambda: machine.watch(bench.target.process_id, 60))}


def first(bench: Bench) -> Results:
    bench.target.make_cold()
    return {"first": bench.run("first_page", bench.path(settings.BIG_FILE))}


def sequential(bench: Bench) -> Results:
    path = bench.path(settings.BIG_FILE)
    bench.target.make_cold()
    results = {"cold": bench.run("sequential", path)}
    if bench.is_slow:
        return results
    _read_from_disk(bench, path)
    machine.drop_caches(1)
    results["dropped"] = bench.run("sequential", path)
    results["hot"] = bench.run("sequential", path)
    machine.drop_caches(1)
    results["mapped"] = bench.run("mapped", path)
    return results


def _read_from_disk(bench: Bench, path: str) -> None:
    """Lets all disks be alike: a virtual one is slow where nobody has read before."""
    bench.target.settle()
    machine.drop_caches(1)
    workloads.run("sequential", path, limit=_LIMIT)


def random(bench: Bench) -> Results:
    bench.target.make_cold()
    count = 300 if bench.is_slow else 1000
    return {"random": bench.run("random_pages", bench.path(settings.BIG_FILE), count, 30)}


def small(bench: Bench) -> Results:
    bench.target.make_cold()
    count = 300 if bench.is_slow else 1000
    return {"small": bench.run("small_files", bench.path("flat"), count, 30)}


def listing(bench: Bench) -> Results:
    folder = bench.path("flat")
    bench.target.make_cold()
    results = {"cold": bench.run("list_long", folder)}
    bench.target.settle()
    results["warm"] = bench.run("list_long", folder)
    if not bench.is_slow:
        results["stat"] = bench.run("stat_each", folder)
    bench.target.remount()
    results["remounted"] = bench.run("list_long", folder)
    return results


def attributes(bench: Bench) -> Results:
    if bench.target.attribute is None:
        return {}
    folder = bench.path("flat")
    bench.target.make_cold()
    workloads.run("list_long", folder, limit=_LIMIT)
    bench.target.settle()
    return {"attributes": bench.run("read_attributes", folder, bench.target.attribute)}


def tree(bench: Bench) -> Results:
    folder = bench.path("tree")
    bench.target.make_cold()
    results = {"cold": bench.run("find_sizes", folder)}
    bench.target.settle()
    results["warm"] = bench.run("find_sizes", folder)
    return results


def create(bench: Bench) -> Results:
    count = 200 if bench.is_slow else 1000
    bench.target.wipe("w/c")

    def work() -> dict:
        result = workloads.run("create", bench.path("w/c"), count, 60, limit=_LIMIT)
        done = result.get("n", 0)
        return bench.until_arrived("w/c/f", done, done * 4096, result)

    results = {"create": bench.observe(work)}
    bench.target.wipe("w/c")
    return results


def rename(bench: Bench) -> Results:
    count, folder = settings.RENAMED_FILES, bench.path("w/r")
    bench.target.wipe("w/r")
    made = workloads.run("create", folder, count, 60, limit=_LIMIT)
    bench.until_arrived("w/r/f", count, count * 4096, made)
    if error := report.failure(made):
        return {"rename": {"error": f"there is nothing to rename: {error}"}}
    bench.target.settle()

    def work() -> dict:
        result = workloads.run("rename_each", folder, "f", "g", limit=_LIMIT)
        return bench.until_arrived("w/r/g", count, count * 4096, result)

    results = {"rename": bench.observe(work)}
    bench.target.wipe("w/r")
    return results


def wide(bench: Bench) -> Results:
    """One folder of many names: as long as they come from the cloud, and when they are known."""
    bench.target.wipe("w/l")
    bench.target.fill("w/l", settings.WIDE_FILES)
    bench.target.make_cold()
    results = {"cold": bench.run("list_names", bench.path("w/l"))}
    bench.target.settle()
    bench.target.remount()
    results["remounted"] = bench.run("list_names", bench.path("w/l"))
    bench.target.wipe("w/l")
    return results


def player(bench: Bench) -> Results:
    """What a video player does until it plays."""
    bench.target.make_cold()
    return {"player": bench.run("play", bench.path(settings.BIG_FILE))}


def build(bench: Bench) -> Results:
    bench.target.wipe("w/p")
    results = {"build": bench.run("build", settings.ROOT / "program", bench.path("w/p"))}
    bench.target.wipe("w/p")
    return results


def write(bench: Bench) -> Results:
    bench.target.wipe("w/b")

    def work() -> dict:
        result = workloads.run("write_big", bench.path("w/b/big"), limit=_LIMIT)
        return bench.until_arrived("w/b/big", 1, settings.GIB, result)

    results = {"write": bench.observe(work)}
    bench.target.wipe("w/b")
    return results


def source(bench: Bench) -> Results:
    files = settings.ROOT / "source"
    bench.target.wipe("w/s")

    def work() -> dict:
        result = workloads.run("untar", files / "src.tar", bench.path("w/s"), limit=_LIMIT)
        return bench.until_arrived("w/s/src/m", settings.SOURCE_FILES, 1, result)

    results = {"untar": bench.observe(work)}
    results["removed"] = bench.run("remove_tree", bench.path("w/s/src"))
    bench.target.wipe("w/s")
    results["git"] = bench.run("git", files / "src.git", bench.path("w/g/src"))
    bench.target.wipe("w/g")
    return results


def million(bench: Bench) -> Results:
    """The first listing of a million objects, which a cloud of its own makes up."""
    if bench.target.name != "cloudfs":
        return {}
    command = [settings.BENCHMARKS / "scale"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^(\d+) objects/s, at most (\d+) MB$", done.stdout, re.MULTILINE)
    if found is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        return {"first": {"error": said[-1] if said else f"status {done.returncode}"}}
    return {"first": {"objects_per_s": int(found[1]), "peak_mb": int(found[2])}}


def pages(bench: Bench) -> Results:
    path = bench.path(settings.BIG_FILE)
    bench.target.make_cold()
    workloads.run("sequential", path, limit=_LIMIT)
    _read_from_disk(bench, path)
    machine.drop_caches(1)
    results = {"dropped": bench.run("fio", path, "psync", 1, 0, 2, 1)}
    machine.drop_caches(1)
    results["direct"] = bench.run("fio", path, "libaio", 16, 1, 2, 1)
    workloads.run("sequential", path, limit=_LIMIT)
    results["hot"] = bench.run("fio", path, "psync", 1, 0, 2, 0)
    return results


WITHOUT_LINK = (
    *(idle, rest, first, sequential, random, small, listing, attributes, tree, create, write),
)
WITH_LINK = (first, sequential, random, small, listing, tree, create, player)
# What few changes touch: run when named.
WHEN_NAMED = (pages, source, million, rename, wide, build)

CASES: dict[str, tuple[Callable[[Bench], Results], bool]] = {
    **{case.__name__: (case, False) for case in (*WITHOUT_LINK, *WHEN_NAMED)},
    **{f"link.{case.__name__}": (case, True) for case in WITH_LINK},
}
USUAL = [
    *(case.__name__ for case in WITHOUT_LINK),
    *(f"link.{case.__name__}" for case in WITH_LINK),
]
