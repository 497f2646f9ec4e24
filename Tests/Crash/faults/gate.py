"""Stands between a drive and its server, and lets the n-th request of a kind fail."""

import http.client
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Callable

from crash.tree import Failure

from faults.page import EVER, Kind

REFUSAL = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>later</Message></Error>"
# Of one connection alone, or made anew.
HOPS = {"connection", "keep-alive", "expect", "transfer-encoding", "date", "server"}


class Gate:
    """Counts requests, and steers what becomes of them, as `Page` does with calls."""

    def __init__(self, server: tuple[str, int], prefix: str, kill: Callable[[], None]):
        self.server = server
        self.prefix = prefix
        # Ends the daemon, which from then on asks for nothing.
        self.kill = kill
        self.is_over = False
        self.connections = 0
        self.lock = threading.Lock()
        self.kind: Kind | None = None
        self.range = 0, 0
        self.passed = 0
        self.failed = 0
        self.first = ""
        self.ever: dict[str, int] = {}
        self.listener = Listener(("127.0.0.1", 0), Handler)
        self.listener.gate = self
        threading.Thread(target=self.listener.serve_forever, args=[0.05], daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.server_address[1]}"

    def close(self) -> None:
        self.listener.shutdown()
        self.listener.server_close()

    # What `Page` does, too

    def arm(self, kind: Kind, number: int) -> None:
        with self.lock:
            self.kind, self.range = kind, (number, EVER if kind.lasts else number)
            self.passed, self.failed, self.first = 0, 0, ""

    def disarm(self) -> None:
        with self.lock:
            self.kind = None

    def counts(self) -> dict[str, int]:
        with self.lock:
            return dict(self.ever)

    # Requests

    def fate(self, name: str, what: str) -> str:
        """Counts a request, and says how it fails; nothing if it does not."""
        with self.lock:
            if self.is_over:
                return "cut"
            for each in name, "bucket-any":
                self.ever[each] = self.ever.get(each, 0) + 1
            if not self.kind or self.kind.name not in (name, "bucket-any"):
                return ""
            self.passed += 1
            if not self.range[0] <= self.passed <= self.range[1]:
                return ""
            self.failed += 1
            self.first = self.first or what
            self.is_over = self.kind.manner == "killed"
            return self.kind.manner

    def end(self) -> None:
        """Ends the daemon."""
        with self.lock:
            self.is_over = True
        self.kill()

    def wait_for_silence(self, limit: float = 30) -> None:
        """Waits until the server has carried out what a daemon that is dead asked for."""
        end = time.monotonic() + limit
        # One connection may not be taken up yet.
        time.sleep(0.02)
        while self.connections:
            if time.monotonic() > end:
                raise Failure("the server still works for a daemon that is dead")
            time.sleep(0.005)
        self.is_over = False

    def name(self, method: str, path: str, headers: http.client.HTTPMessage) -> str:
        """The kind of a request."""
        place, _, query = path.partition("?")
        fields = urllib.parse.parse_qs(query, keep_blank_values=True)
        key = urllib.parse.unquote(place).lstrip("/").partition("/")[2]
        is_own = (fields.get("prefix", [""])[0] or key).startswith(self.prefix + ".cloudfs/")
        if is_own:
            return "bucket-news" if method in ("GET", "HEAD") else "bucket-record"
        if method == "GET" and not key:
            return "bucket-list"
        if method == "PUT":
            is_copy = "x-amz-copy-source" in headers
            return "bucket-" + ("copy" if is_copy else "part" if "partNumber" in fields else "put")
        return "bucket-" + method.lower()


class Listener(ThreadingHTTPServer):
    """Listens for the drive."""

    daemon_threads = True
    request_queue_size = 64
    gate: Gate

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that break are what this is for."""


class Handler(BaseHTTPRequestHandler):
    """One connection of the drive, and one to the server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    upstream: http.client.HTTPConnection | None = None
    server: Listener

    def setup(self) -> None:
        with self.server.gate.lock:
            self.server.gate.connections += 1
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            if self.upstream:
                self.upstream.close()
            with self.server.gate.lock:
                self.server.gate.connections -= 1

    def log_message(self, format: str, *args: object) -> None:  # pylint: disable=redefined-builtin
        """Nobody reads it."""

    def pass_on(self) -> None:
        gate = self.server.gate
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:
            # Of a daemon that is dead: nothing becomes of it.
            self.close_connection = True
            return
        fate = gate.fate(gate.name(self.command, self.path, self.headers),
                         f"{self.command} {self.path}")
        if fate == "killed":
            gate.end()
        if fate in ("cut", "killed"):
            self.close_connection = True
        elif fate == "refused":
            self.answer(503, {"Content-Type": "application/xml"}, REFUSAL, len(REFUSAL))
        else:
            self.forward(body, fate)

    def forward(self, body: bytes, fate: str) -> None:
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection(*self.server.gate.server, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOPS}
        self.upstream.request(self.command, self.path, body, headers)
        reply = self.upstream.getresponse()
        data = reply.read()
        if reply.will_close:
            self.upstream.close()
        if fate == "late-killed":
            self.server.gate.end()
        if fate in ("late", "late-killed"):
            self.close_connection = True
            return
        kept = {name: value for name, value in reply.getheaders()
                if name.lower() not in HOPS | {"content-length"}}
        length = reply.getheader("Content-Length") if self.command == "HEAD" else None
        count = int(length) if length else len(data)
        if fate == "short":
            data = data[:len(data) // 2]
            self.close_connection = True
        self.answer(reply.status, kept, data, count)

    def answer(self, status: int, headers: dict[str, str], data: bytes, count: int) -> None:
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string(time.time()))
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(count))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on
