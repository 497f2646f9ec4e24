"""A bucket as the cloud, and what another tool does there."""

import base64
import http.client
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import threading
import urllib.parse
from email.utils import parsedate_to_datetime
from pathlib import Path
from xml.etree import ElementTree

from crash.tree import Failure, Node, Nodes

SERVER = Path(__file__).parents[3] / "scripts/servers/moto"
KEYS = {"AWS_ACCESS_KEY_ID": "cloudfs", "AWS_SECRET_ACCESS_KEY": "cloudfs-secret-key"}


class Absent(Failure):
    """There is no such object."""


class Bucket:
    """A bucket of a server of its own (Moto)."""

    # Other tools leave no word of what they did: only a comparison finds it.
    options = ["--poll-interval", "100ms", "--listing-age", "100ms", "--region", "us-east-1"]
    PREFIX = "drive/"
    numbers = itertools.count(1)
    address: tuple[str, int] | None = None

    def __init__(self) -> None:
        self.place = self.server()
        self.name = f"crash{next(self.numbers)}"
        self.connections = threading.local()
        self.request("PUT", "")

    @classmethod
    def server(cls) -> tuple[str, int]:
        """Where the server is, which is started once and ends with the script."""
        if not cls.address:
            folder = Path(os.environ["TMPDIR"]) / "moto"
            done = subprocess.run([str(SERVER), "start", str(folder)], text=True, timeout=300,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True,
                                  env=os.environ | {"TMPDIR": f"{folder}/"})
            found = re.search(r"^AWS_ENDPOINT_URL=http://(.*):(\d+)$", done.stdout, re.MULTILINE)
            if not found:
                raise Failure(f"{SERVER} says: {done.stdout}")
            cls.address = found[1], int(found[2])
        return cls.address

    @property
    def container(self) -> str:
        return f"s3://{self.name}/{self.PREFIX.rstrip('/')}"

    @property
    def environment(self) -> dict[str, str]:
        return KEYS

    @property
    def url(self) -> str:
        return "http://%s:%d" % self.place

    @property
    def connection(self) -> http.client.HTTPConnection:
        """One of each thread."""
        if not hasattr(self.connections, "own"):
            self.connections.own = http.client.HTTPConnection(*self.place, timeout=30)
        return self.connections.own

    # Other tools

    def request(self, method: str, key: str, data: bytes = b"", query: str = "",
                **headers: str) -> http.client.HTTPResponse:
        """One request beside the gate; the answer was read, and is in `data`."""
        path = urllib.parse.quote(f"/{self.name}/{key}" if key else f"/{self.name}")
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        # The server does not check who signed, only that somebody did.
        fields["Authorization"] = "AWS4-HMAC-SHA256 Credential=cloudfs/20260101/us-east-1/s3/" \
            "aws4_request, SignedHeaders=host, Signature=0"
        # Moto fails where an object goes while it lists its folder: asked again, it does not.
        for _ in range(5 if method == "GET" else 1):
            self.connection.request(method, path + query, data, fields)
            answer = self.connection.getresponse()
            answer.data = answer.read()  # type: ignore[attr-defined]
            if answer.status != 500:
                break
        if answer.status == 404:
            raise Absent(f"the server says 404 to {method} {key}")
        if answer.status >= 300:
            raise Failure(f"the server says {answer.status} to {method} {key}")
        return answer

    def has_folder(self, name: str) -> bool:
        return any(key.startswith(name + "/") for key in self.keys())

    def put(self, name: str, data: bytes) -> None:
        self.request("PUT", self.PREFIX + name, data)

    def move(self, old: str, new: str, node: Node) -> Node:
        """Copies an object and deletes the old one: nobody says that it is the same document."""
        source = urllib.parse.quote(f"/{self.name}/{self.PREFIX}{old}")
        self.request("PUT", self.PREFIX + new, x_amz_copy_source=source)
        self.remove(old)
        return node._replace(inode=None)

    def remove(self, name: str) -> None:
        self.request("DELETE", self.PREFIX + name)

    def remove_folder(self, name: str) -> None:
        """One is there as long as there is something in it."""

    def keys(self) -> list[str]:
        """The keys of all that devices share, without the prefix."""
        found, token = [], ""
        while True:
            query = "?list-type=2&prefix=" + urllib.parse.quote(self.PREFIX) + token
            answer = self.request("GET", "", query=query)
            root = ElementTree.fromstring(answer.data)  # type: ignore[attr-defined]
            space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
            for element in root.iter(space + "Key"):
                key = (element.text or "").removeprefix(self.PREFIX)
                if key and not key.startswith(".cloudfs/"):
                    found.append(key)
            more = root.findtext(space + "NextContinuationToken")
            if not more:
                return found
            token = "&continuation-token=" + urllib.parse.quote(more)

    def walk(self) -> Nodes:
        # What a daemon had asked for before it was killed, a server may carry out only now.
        for _ in range(10):
            try:
                return self.walk_once()
            except Absent:
                continue
        return self.walk_once()

    def walk_once(self) -> Nodes:
        nodes: Nodes = {}
        for key in self.keys():
            for folder in list(Path(key).parents)[:-1]:
                nodes.setdefault(str(folder), Node("folder", mode=0o755))
            nodes[key.rstrip("/")] = self.look(key)
        return nodes

    def look(self, key: str) -> Node:
        """An object as the drive shows it."""
        answer = self.request("GET", self.PREFIX + key)
        data = answer.data  # type: ignore[attr-defined]
        known = {name.lower().removeprefix("x-amz-meta-"): value
                 for name, value in answer.getheaders()}
        mode = int(known.get("mode", "0"), 8)
        if stat.S_ISLNK(mode):
            return Node("link", data)
        pairs = json.loads(urllib.parse.unquote(known.get("xattr", "%7B%7D")))
        attributes = tuple(sorted((urllib.parse.unquote(name), base64.b64decode(value))
                                  for name, value in pairs.items()))
        if key.endswith("/"):
            return Node("folder", b"", stat.S_IMODE(mode) or 0o755, attributes)
        upload = parsedate_to_datetime(known["last-modified"]).timestamp()
        seconds, _, rest = known.get("mtime", str(int(upload))).partition(".")
        moment = int(seconds) * 10 ** 9 + int(rest.ljust(9, "0"))
        return Node("file", data, stat.S_IMODE(mode) or 0o644, attributes, None, moment)

    def show(self, folder: Path) -> None:
        """Makes a folder what the bucket has."""
        shutil.rmtree(folder)
        folder.mkdir()
        for name, node in sorted(self.walk().items()):
            path = folder / name
            if node.kind == "folder":
                path.mkdir()
            elif node.kind == "link":
                path.symlink_to(os.fsdecode(node.data))
                continue
            else:
                path.write_bytes(node.data)
            path.chmod(node.mode)
            for attribute, value in node.attributes:
                os.setxattr(path, attribute, value)
            if node.modified is not None:
                os.utime(path, ns=(node.modified, node.modified))

    def dispose(self) -> None:
        self.connection.close()
