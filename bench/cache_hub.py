"""A model hub that a benchmark brings along: the layout of repositories and the requests of the real one, with made-up weights.

It stands at a public address of a network of its own, because containers reach no other: run inside `unshare --net`, with the
cable put in by `hub_outside`.
"""

import contextlib
import hashlib
import http.server
import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

HERE, OUTSIDE = "192.31.196.1", "192.31.196.2"
"""Public, of a service that any network may run for itself (AS112); both ends are devices of the benchmark's own."""
URL = f"http://{OUTSIDE}"
MODEL = "acme/big"
REVISION = "0123456789abcdef0123456789abcdef01234567"
SHARDS = 4
_BLOCK = bytes(range(256)) * 4096


class Repository:
    def __init__(self, weights_bytes: int) -> None:
        shard_bytes = weights_bytes // SHARDS
        self.small = {
            "config.json": json.dumps({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}).encode(),
            "tokenizer.json": b"{}",
        }
        self.sizes = {name: len(body) for name, body in self.small.items()}
        for number in range(1, SHARDS + 1):
            self.sizes[f"model-{number:05d}-of-{SHARDS:05d}.safetensors"] = shard_bytes
        self.served_bytes = 0
        self.lock = threading.Lock()

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes.values())

    def etag(self, name: str) -> str:
        return hashlib.sha256(f"{name} {self.sizes[name]}".encode()).hexdigest()

    def parts(self, name: str, first: int) -> Iterator[bytes]:
        if name in self.small:
            yield self.small[name][first:]
            return
        left, start = self.sizes[name] - first, first % len(_BLOCK)
        while left > 0:
            part = _BLOCK[start : start + left]
            yield part
            left, start = left - len(part), 0

    def count(self, served: int) -> None:
        with self.lock:
            self.served_bytes += served


def serve(weights_bytes: int, address: tuple[str, int]) -> http.server.ThreadingHTTPServer:
    repository = Repository(weights_bytes)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._file(with_body=False)

        def do_GET(self) -> None:
            if self.path == f"/api/models/{MODEL}/revision/main":
                siblings = [{"rfilename": name} for name in repository.sizes]
                self._json({"id": MODEL, "sha": REVISION, "siblings": siblings})
            elif self.path == "/served":
                self._json({"bytes": repository.served_bytes, "total": repository.total_bytes})
            else:
                self._file(with_body=True)

        def do_POST(self) -> None:
            repository.served_bytes = 0
            self._json({})

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as it is called there
            pass

        def _json(self, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _file(self, *, with_body: bool) -> None:
            found = re.fullmatch(rf"/{MODEL}/resolve/{REVISION}/(.+)", self.path)
            if found is None or found[1] not in repository.sizes:
                self.send_error(404)
                return
            name = found[1]
            asked = re.fullmatch(r"bytes=([0-9]+)-", self.headers.get("Range", ""))
            first = int(asked[1]) if asked else 0
            self.send_response(206 if asked else 200)
            self.send_header("ETag", f'"{repository.etag(name)}"')
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("Content-Length", str(repository.sizes[name] - first))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                for part in repository.parts(name, first) if with_body else ():
                    self.wfile.write(part)
                    repository.count(len(part))

    return http.server.ThreadingHTTPServer(address, Handler)


@contextlib.contextmanager
def hub_outside(weights_bytes: int) -> Iterator[None]:
    """Another machine, as far as packets can tell."""
    command = ("unshare", "--net", sys.executable, __file__, str(weights_bytes))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "inside\n"
            cable = f"moorhub{process.pid % 10_000}"
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
            _ip("addr", "add", f"{HERE}/24", "dev", cable)
            _ip("link", "set", cable, "up")
            print("the cable is in", file=process.stdin, flush=True)
            assert process.stdout.readline() == "serving\n"
            yield
        finally:
            process.kill()  # the cable goes with its other end


def served_bytes() -> int:
    with urllib.request.urlopen(f"{URL}/served", timeout=10) as answer:
        return int(json.load(answer)["bytes"])


def forget_served() -> None:
    urllib.request.urlopen(urllib.request.Request(f"{URL}/served", method="POST"), timeout=10).close()


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True)


def main() -> None:
    print("inside", flush=True)
    sys.stdin.readline()
    _ip("link", "set", "lo", "up")
    _ip("addr", "add", f"{OUTSIDE}/24", "dev", "eth0")
    _ip("link", "set", "eth0", "up")
    _ip("route", "add", "default", "via", HERE)
    server = serve(int(sys.argv[1]), ("0.0.0.0", 80))
    print("serving", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
