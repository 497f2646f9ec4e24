# One day of a drive: many changes of all kinds by programs here and by another device, and in the
# evening the same files as every evening. Prints what the drive keeps then.
import collections, glob, json, random, shutil, subprocess

draw = random.Random(DAY)
folders = ["", "one", "two", "two/deep"]
# What is there in the evening.
evening = {os.path.join(folder, f"file{n}"): 200 + 1900 * n for folder in folders
           for n in range(8)} | {"steady": 29}
counts = collections.Counter()

def path():
    name = draw.choice(["file", "other"]) + str(draw.randrange(12))
    return os.path.join(draw.choice(folders), name)

def data():
    return draw.randbytes(draw.choice([0, 10, 5_000, 70_000]))

def create():
    with open(path(), "wb") as file:
        file.write(data())

def edit():
    file = os.open(path(), os.O_RDWR)
    try:
        os.pwrite(file, b"edited", draw.randrange(3_000))
        if draw.random() < 0.2: os.fsync(file)
        if draw.random() < 0.2: os.ftruncate(file, draw.randrange(2_000))
    finally:
        os.close(file)

def save():
    place = path()
    with open(place + "~", "wb") as file:
        file.write(data())
        file.flush()
        if draw.random() < 0.3: os.fsync(file.fileno())
    if draw.random() < 0.3 and os.path.exists(place):
        os.rename(place, place + ".bak")
        os.rename(place + "~", place)
        os.unlink(place + ".bak")
    else:
        os.rename(place + "~", place)

def move(): os.rename(path(), path())
def exchange(): renameat2(path(), path(), 2)
def remove(): os.unlink(path())

def nameless():
    place = path()
    file = os.open(place, os.O_RDWR | os.O_CREAT)
    os.unlink(place)
    os.pwrite(file, b"nameless", 0)
    os.close(file)

def folder():
    os.makedirs("passing/deep")
    open("passing/deep/file", "w").write("passing")
    os.symlink("nowhere", "passing/link")
    os.rename("passing", "passed")
    shutil.rmtree("passed")

def tag():
    place = path()
    os.setxattr(place, "user.tag", draw.randbytes(20))
    os.setxattr(place, f"user.tag{draw.randrange(5)}", b"more")
    if draw.random() < 0.7: os.removexattr(place, "user.tag")

def metadata():
    place = path()
    os.chmod(place, draw.choice([0o600, 0o644]))
    os.utime(place, (0, draw.randrange(10 ** 9)))

def read():
    with open(path(), "rb") as file:
        file.read()

def lock():
    with open(path(), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

def evict(): os.setxattr(path(), "user.cloudfs.evict", b"1")
def hydrate(): os.setxattr(path(), "user.cloudfs.hydrate", b"1")
def listing(): os.listdir(draw.choice(folders) or ".")

def elsewhere():
    place = os.path.join(cloud, path())
    if draw.random() < 0.3:
        os.unlink(place)
    elif draw.random() < 0.3:
        os.rename(place, os.path.join(cloud, path()))
    else:
        draft = os.environ["SCRATCH"] + "/draft"
        open(draft, "wb").write(data())
        os.rename(draft, place)

def query():
    subprocess.run(["cloudfs", draw.choice(["status", "queue", "conflicts", "claims"])],
                   capture_output=True, check=True)

def coordinate():
    # The same document every day: of each one that was ever written in turns a record stays.
    for way, script in ("--read", "cat steady"), ("--write", "date > steady"):
        done = subprocess.run(["cloudfs", "coordinate", way, "steady", "--", "sh", "-c", script],
                              capture_output=True)
        if done.returncode != 0: raise OSError(errno.EBUSY, done.stderr)

def conflict():
    # Both sides change it, and neither knows.
    subprocess.run(["cloudfs", "pause"], capture_output=True, check=True)
    open("file3", "a").write("mine")
    open(os.path.join(cloud, "file3"), "a").write("theirs")
    subprocess.run(["cloudfs", "resume"], capture_output=True, check=True)

often = [create, edit, edit, save, save, move, exchange, remove, nameless, tag, metadata, read,
         read, lock, evict, hydrate, listing, elsewhere]
rare = [folder, query, coordinate, conflict]

def attempt(what):
    """Whether it was done; what another device has changed, or is about to be sent, refuses."""
    try:
        what()
        counts[what.__name__] += 1
        return True
    except OSError as error:
        allowed = errno.ENOENT, errno.EBUSY, errno.ENODATA, errno.EEXIST, errno.ESTALE
        assert error.errno in allowed, f"{what.__name__}: {error}"
        return False

def all_files():
    return {os.path.join(root, name)[2:] for root, _, names in os.walk(".") for name in names}

def is_stuck(name):
    """Whether another device has taken away bytes that were not here."""
    try:
        return bool(os.getxattr(name, "user.cloudfs.error"))
    except OSError as error:
        assert error.errno == errno.ENODATA
        return False

def is_tidy():
    """Whether nothing was left to be done; news of other devices may still come in between."""
    changes = []
    return attempt(lambda: changes.append(tidy())) and changes == [0]

def tidy():
    """Has exactly the files of the evening, with their sizes and one attribute each."""
    changed = 0
    for name in all_files() - set(evening):
        attempt(lambda: os.unlink(name))
        changed += 1
    for name in folders[1:]:
        os.makedirs(name, exist_ok=True)
    for name, size in evening.items():
        is_there = os.path.exists(name)
        if not is_there or is_stuck(name) or os.path.getsize(name) != size:
            with open(name, "wb") as file:
                file.write(b"%d" % DAY * size)
                file.truncate(size)
            changed += 1
        tags = [key for key in os.listxattr(name) if key.startswith("user.tag")]
        if tags != ["user.tag"]:
            for key in tags: os.removexattr(name, key)
            os.setxattr(name, "user.tag", b"evening")
            changed += 1
    return changed

def is_equal():
    shared = {os.path.relpath(os.path.join(root, name), cloud)
              for root, _, names in os.walk(cloud) for name in names}
    return {name for name in shared if not name.startswith(".cloudfs/")} == set(evening)

def drain():
    subprocess.run(["cloudfs", "drain", "--wait"], capture_output=True, timeout=60)

def rows():
    # A copy: a running daemon lets nobody else open its own.
    copy = tempfile.TemporaryDirectory()
    for name in ["catalog.sqlite", "catalog.sqlite-wal"]:
        shutil.copy(f"{STATE}/{name}", copy.name)
    base = sqlite3.connect(f"{copy.name}/catalog.sqlite")
    # The index of names has no rows to count; its size is part of the catalog's.
    names = [name for name, in base.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        " AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'name_text%'")]
    found = {f"rows of {name}": base.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
             for name in names}
    base.close()
    copy.cleanup()
    return found

def count(folder):
    return sum(len(names) for _, _, names in os.walk(folder))

def process(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    return {"threads": len(os.listdir(f"/proc/{pid}/task")),
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "KiB": int(status["VmRSS"].split()[0])}

def figures():
    found = rows()
    found["bytes of the catalog"] = os.path.getsize(f"{STATE}/catalog.sqlite")
    found["bytes of the log"] = os.path.getsize(f"{STATE}/catalog.sqlite-wal")
    for name in os.listdir(STATE):
        if os.path.isdir(f"{STATE}/{name}"):
            found[f"files in {name}"] = count(f"{STATE}/{name}")
    found |= {f"in the state directory: {name}": 1 for name in os.listdir(STATE)}
    found["things of the drive in the cloud"] = count(f"{cloud}/.cloudfs")
    sums = collections.Counter()
    for pid in PROCESSES: sums.update(process(pid))
    return found | {f"process: {name}": value for name, value in sums.items()}

begun = time.monotonic()
while not is_tidy():
    assert time.monotonic() < begun + 30, "no morning"
for number in range(LENGTH):
    attempt(draw.choice(often))
    if number % 60 == 59: attempt(draw.choice(rare))
for what in often + rare:
    # What is drawn may be missing, or is refused, again and again.
    for _ in range(500):
        if counts[what.__name__] or attempt(what): break
assert all(counts[what.__name__] for what in often + rare), f"never done: {counts}"
worked = time.monotonic() - begun

end = time.monotonic() + 60
while True:
    drain()
    if is_tidy() and is_equal(): break
    assert time.monotonic() < end, f"no evening: {all_files() ^ set(evening)}"
    time.sleep(0.1)
# Everything is read once, so that as much is here every evening.
for name in evening: open(name, "rb").read()

# What was let go of is erased and unlinked beside everything else, some of it after a second.
expected = {"rows of item": len(evening) + len(folders), "rows of discard": 0,
            "files in content": len(evening)}
end = time.monotonic() + 20
while True:
    now = figures()
    if all(now[name] <= count for name, count in expected.items()): break
    if time.monotonic() > end: break
    time.sleep(0.1)
print(f"{worked:.1f} s of work, {time.monotonic() - begun - worked:.1f} s of evening", counts)
print(json.dumps(now))
