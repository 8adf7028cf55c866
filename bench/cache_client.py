"""A model server that a benchmark brings along, for an image with Python and nothing else: it fetches a repository as the hub's own
library does (blobs by their ETag, `.incomplete` while they come, snapshots of links), reads all weights, then answers.

It is run inside containers, from the text of this file.
"""

import http.server
import json
import os
import urllib.request
from pathlib import Path

_PART_BYTES = 2**20


def fetched(endpoint: str, model: str, cache: Path) -> list[Path]:
    with urllib.request.urlopen(f"{endpoint}/api/models/{model}/revision/main", timeout=60) as answer:
        described = json.load(answer)
    folder = cache / f"models--{model.replace('/', '--')}"
    snapshot = folder / "snapshots" / described["sha"]
    for one in (folder / "blobs", folder / "refs", snapshot):
        one.mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(described["sha"])
    return [
        _file(f"{endpoint}/{model}/resolve/{described['sha']}/{one['rfilename']}", folder / "blobs", snapshot)
        for one in described["siblings"]
    ]


def _file(url: str, blobs: Path, snapshot: Path) -> Path:
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:
        etag, size = answer.headers["ETag"].strip('"'), int(answer.headers["Content-Length"])
    blob, link = blobs / etag, snapshot / url.rpartition("/")[2]
    if not blob.exists() or blob.stat().st_size != size:
        _download(url, blob, size)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(blob, snapshot))
    return link


def _download(url: str, blob: Path, size: int) -> None:
    incomplete = blob.with_name(f"{blob.name}.incomplete")
    with incomplete.open("ab") as file:
        first = file.tell()
        if first > size:
            first = file.truncate(0)
        request = urllib.request.Request(url, headers={"Range": f"bytes={first}-"} if first else {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            while part := answer.read(_PART_BYTES):
                file.write(part)
    incomplete.rename(blob)


def loaded_bytes(files: list[Path]) -> int:
    total = 0
    for one in files:
        with one.open("rb") as file:
            while part := file.read(_PART_BYTES):
                total += len(part)
    return total


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def main() -> None:
    cache = Path(os.environ.get("HF_HUB_CACHE", "/tmp/hub"))
    files = fetched(os.environ["HF_ENDPOINT"], os.environ["MODEL"], cache)
    print(f"loaded {loaded_bytes(files)} bytes", flush=True)
    http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Health).serve_forever()


if __name__ == "__main__":
    main()
