"""Where the benchmarks keep their files, and which size their data has."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
BENCHMARKS = PROJECT / "Benchmarks"

# Mountpoints, the disk of the measurements, and results.
ROOT = Path(os.environ.get("BENCH_ROOT", PROJECT / ".build" / "benchmarks")).resolve()
# What the simulated cloud serves; in memory, so that a dropped page cache leaves it warm.
CLOUD = Path(os.environ.get("BENCH_CLOUD", "/dev/shm/cloudfs-benchmarks"))
PORT = int(os.environ.get("BENCH_PORT", "9410"))
PROGRAMS = Path(os.environ.get("BENCH_PROGRAMS", PROJECT / ".build" / "release"))

BUCKET = "bench"
ENDPOINT = f"http://127.0.0.1:{PORT}"
# Where everything local is measured; see disk.py.
DISK = ROOT / "disk"
NATIVE = DISK / "native"
# The same files as a folder that plays the cloud.
LOCAL = CLOUD / "local"
RESULTS = ROOT / "results"
PEERS_FILE = Path(os.environ.get("BENCH_PEERS", BENCHMARKS / "peers.toml"))
TARGETS_FILE = BENCHMARKS / "targets.toml"
REPORTS = PROJECT / "docs" / "benchmarks"

GIB = 1 << 30
FLAT_FILES = 10_000
TREE_FILES = 100_000
SOURCE_FILES = 5_000
# Names in one folder, which the cloud makes up.
WIDE_FILES = 100_000
RENAMED_FILES = 1_000
# Of a program that is compiled.
UNITS = 100
BIG_FILE = "big/big0.bin"
