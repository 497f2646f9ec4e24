"""What is done to a mount. Each workload runs in a process of its own and prints JSON.

A workload times itself, so that starting Python does not count, and gives up after a limit,
so that a mount that hangs takes the measurement with it and nothing else.
"""

import errno
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from mountbench import settings

_now = time.perf_counter
_PAGE = 4096
_CHUNK = 1 << 20
# What a video player reads at once, how many of these it plays, and how many bytes a second.
_PIECE = 1 << 18
_PLAYED = 32
_FILM_RATE = 4e6


def run(name: str, *arguments, limit: float) -> dict:
    """Runs a workload in a child; what went wrong is in the result, never raised."""
    command = [sys.executable, "-B", "-m", "mountbench", "work", name, *map(str, arguments)]
    child = subprocess.Popen(
        command,
        cwd=settings.BENCHMARKS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        try:
            child.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            return {"timeout": limit, "error": "does not die: it hangs in the kernel"}
        return {"timeout": limit}
    if child.returncode:
        lines = errors.strip().splitlines()
        return {"error": lines[-1][:200] if lines else f"status {child.returncode}"}
    return json.loads(output)


def main(name: str, arguments: list[str]) -> None:
    """The child's side of `run`."""
    print(json.dumps(WORKLOADS[name](*arguments)))


# Reading


def sequential(path: str) -> dict:
    buffer = bytearray(_CHUNK)
    total, first = 0, None
    begin = _now()
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            first = first or _now() - begin
            total += count
    elapsed = _now() - begin
    return {
        "mb_per_s": total / elapsed / 1e6,
        "s": elapsed,
        "bytes": total,
        "first_ms": (first or elapsed) * 1e3,
    }


def first_page(path: str) -> dict:
    begin = _now()
    descriptor = os.open(path, os.O_RDONLY)
    count = len(os.pread(descriptor, _PAGE, 0))
    elapsed = _now() - begin
    if count != _PAGE:
        raise OSError(f"read {count} bytes instead of {_PAGE}")
    begin = _now()
    os.close(descriptor)
    return {"ms": elapsed * 1e3, "close_ms": (_now() - begin) * 1e3}


def random_pages(path: str, count: str, limit: str) -> dict:
    source = random.Random(3)
    pages = os.path.getsize(path) // _PAGE
    times = []
    start = _now()
    descriptor = os.open(path, os.O_RDONLY)
    open_ms = (_now() - start) * 1e3
    while len(times) < int(count) and _now() - start < float(limit):
        offset = source.randrange(pages) * _PAGE
        begin = _now()
        os.pread(descriptor, _PAGE, offset)
        times.append(_now() - begin)
    os.close(descriptor)
    times.sort()
    return {
        "n": len(times),
        "open_ms": open_ms,
        "mean_ms": sum(times) / len(times) * 1e3,
        "median_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[int(len(times) * 0.99)] * 1e3,
    }


def play(path: str) -> dict:
    """Opens a film, looks at its head and its tail, jumps into its middle, and plays on there."""
    size = os.path.getsize(path)
    result = {}
    begin = _now()
    descriptor = os.open(path, os.O_RDONLY)
    for what, offset in (("head", 0), ("tail", size - _PIECE), ("seek", size // 2)):
        got = len(os.pread(descriptor, _PIECE, offset))
        if got != _PIECE:
            raise OSError(f"read {got} bytes instead of {_PIECE} at {offset}")
        result[f"{what}_ms"] = (_now() - begin) * 1e3
        begin = _now()
    # What it needs next is due at the film's own pace; how late the latest of it comes counts.
    late = 0.0
    for number in range(1, _PLAYED):
        due = begin + number * _PIECE / _FILM_RATE
        time.sleep(max(0, due - _now()))
        os.pread(descriptor, _PIECE, size // 2 + number * _PIECE)
        late = max(late, _now() - due)
    os.close(descriptor)
    return result | {"late_ms": late * 1e3}


def mapped(path: str) -> dict:
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin = _now()
        checksum = 0
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as memory:
            for offset in range(0, size, _PAGE):
                checksum ^= memory[offset]
        elapsed = _now() - begin
    return {"mb_per_s": size / elapsed / 1e6, "s": elapsed, "checksum": checksum}


def small_files(folder: str, count: str, limit: str) -> dict:
    """Reads the files of a folder one after another, in the order of their names."""
    done = total = 0
    begin = _now()
    while done < int(count) and _now() - begin < float(limit):
        with open(f"{folder}/f{done:05d}.txt", "rb") as file:
            total += len(file.read())
        done += 1
    elapsed = _now() - begin
    return {"n": done, "bytes": total, "s": elapsed, "files_per_s": done / elapsed}


def fio(path: str, engine: str, depth: str, direct: str, seconds: str, invalidate: str) -> dict:
    command = [
        *("fio", "--name=random", f"--filename={path}", "--readonly", "--rw=randread"),
        *("--bs=4k", "--size=1g", f"--ioengine={engine}", f"--iodepth={depth}", "--numjobs=2"),
        *(f"--direct={direct}", f"--invalidate={invalidate}", "--time_based"),
        *(f"--runtime={seconds}", "--group_reporting", "--output-format=json"),
        *("--randrepeat=1", "--thread"),
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    job = json.loads(output[output.index("{") :])["jobs"][0]
    return {"iops": job["read"]["iops"], "errors": job["error"]}


# Names


def list_long(folder: str) -> dict:
    return _count_lines(["ls", "-l", folder], without=1)


def find_sizes(folder: str) -> dict:
    return _count_lines(["find", folder, "-type", "f", "-printf", "%s\n"], without=0)


def _count_lines(command: list[str], without: int) -> dict:
    begin = _now()
    done = subprocess.run(command, capture_output=True, check=False)
    elapsed = _now() - begin
    result = {"s": elapsed, "n": done.stdout.count(b"\n") - without}
    if done.returncode:
        result["error"] = done.stderr.decode(errors="replace").strip()[-200:]
    return result


def list_names(folder: str) -> dict:
    """Lists names as they come; the first are there when anything is written."""
    begin = _now()
    # What it complains of becomes the last line of this process's own complaints.
    with subprocess.Popen(["ls", "-f", folder], stdout=subprocess.PIPE, bufsize=0) as child:
        count, first = 0, None
        while part := child.stdout.read(1 << 16):
            first = first or _now() - begin
            count += part.count(b"\n")
    elapsed = _now() - begin
    if child.returncode:
        raise SystemExit(child.returncode)
    # Without the folder itself and the one above.
    return {"first_ms": (first or elapsed) * 1e3, "s": elapsed, "n": count - 2}


def stat_each(folder: str) -> dict:
    paths = [entry.path for entry in os.scandir(folder)]
    begin = _now()
    for path in paths:
        os.stat(path)
    return {"n": len(paths), "per_s": len(paths) / (_now() - begin)}


def read_attributes(folder: str, name: str) -> dict:
    """Asks each file of a folder for an attribute; where the first has none, all get it before."""
    paths = [entry.path for entry in os.scandir(folder)]
    try:
        os.getxattr(paths[0], name)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        for path in paths:
            os.setxattr(path, name, b"benchmark")
    begin = _now()
    for path in paths:
        os.getxattr(path, name)
    return {"n": len(paths), "per_s": len(paths) / (_now() - begin)}


# Writing


def create(folder: str, count: str, limit: str) -> dict:
    os.makedirs(folder, exist_ok=True)
    content = os.urandom(_PAGE)
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    done = 0
    begin = _now()
    while done < int(count) and _now() - begin < float(limit):
        descriptor = os.open(f"{folder}/f{done:05d}", flags, 0o644)
        os.write(descriptor, content)
        os.close(descriptor)
        done += 1
    elapsed = _now() - begin
    return {"n": done, "s": elapsed, "files_per_s": done / elapsed, "end": time.time()}


def rename_each(folder: str, old: str, new: str) -> dict:
    """Gives names that begin otherwise, one after another."""
    names = sorted(os.listdir(folder))
    begin = _now()
    for name in names:
        os.rename(f"{folder}/{name}", f"{folder}/{new}{name.removeprefix(old)}")
    elapsed = _now() - begin
    return {"n": len(names), "s": elapsed, "per_s": len(names) / elapsed, "end": time.time()}


def remove_tree(folder: str) -> dict:
    count = sum(len(files) for _, _, files in os.walk(folder))
    begin = _now()
    subprocess.run(["rm", "-r", folder], check=True)
    return {"n": count, "s": _now() - begin}


def build(program: str, folder: str) -> dict:
    """Copies a program's source, compiles each of its files as make would, and runs it."""
    shutil.copytree(program, folder)
    units = sorted(name for name in os.listdir(folder) if name.endswith(".c"))

    def compile_one(name: str) -> None:
        command = ["cc", "-O1", "-c", name, "-o", name.removesuffix(".c") + ".o"]
        subprocess.run(command, cwd=folder, check=True)

    begin = _now()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, units))
    compiled = _now()
    objects = [name.removesuffix(".c") + ".o" for name in units]
    subprocess.run(["cc", *objects, "-o", "program"], cwd=folder, check=True)
    done = subprocess.run([f"{folder}/program"], capture_output=True, text=True, check=True)
    linked = _now()
    # It prints how many files took part.
    return {"s": linked - begin, "compile_s": compiled - begin, "n": int(done.stdout)}


def write_big(path: str) -> dict:
    content = os.urandom(_CHUNK)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    begin = _now()
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    for _ in range(settings.GIB // _CHUNK):
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    written = _now() - begin
    os.close(descriptor)
    elapsed = _now() - begin
    return {
        "mb_per_s": settings.GIB / elapsed / 1e6,
        "s": elapsed,
        "close_s": elapsed - written,
        "end": time.time(),
    }


def untar(archive: str, folder: str) -> dict:
    os.makedirs(folder, exist_ok=True)
    begin = _now()
    subprocess.run(["tar", "xf", archive, "-C", folder], check=True)
    elapsed = _now() - begin
    return {"s": elapsed, "end": time.time()}


def git(repository: str, folder: str) -> dict:
    shutil.rmtree(folder, ignore_errors=True)
    begin = _now()
    clone = ["git", "-c", "gc.auto=0", "clone", "-q", f"file://{repository}", folder]
    subprocess.run(clone, check=True)
    cloned = _now()
    status = ["git", "-C", folder, "status", "--porcelain"]
    changed = subprocess.run(status, capture_output=True, check=True).stdout
    first = _now()
    subprocess.run(status, capture_output=True, check=True)
    return {
        "clone_s": cloned - begin,
        "status_s": first - cloned,
        "second_status_s": _now() - first,
        "n": changed.count(b"\n"),
    }


WORKLOADS = {
    function.__name__: function
    for function in (
        *(sequential, first_page, random_pages, play, mapped, small_files, fio),
        *(list_long, list_names, find_sizes, stat_each, read_attributes),
        *(create, rename_each, remove_tree, build, write_big, untar, git),
    )
}
