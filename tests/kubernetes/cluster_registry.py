"""A registry that a test cluster's nodes and Pods reach, with TLS: Moorage's own image, and the example."""

import asyncio
import base64
import gzip
import json
import ssl
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from moorage.entrypoints.debian_rootfs import ensure_packages
from moorage.entrypoints.example_image import SOURCE_NAMES, example_sources_dir
from moorage.entrypoints.example_rootfs import build_archive
from tests.engine.registry import Registry, digest_of
from tests.kubernetes.real_cluster import ADDRESS, ARCHITECTURE, RealCluster
from tests.ports import free_port

BUILD = Path(__file__).parents[2] / "build"


class ClusterRegistry(Registry):
    def __init__(self, certificate: Path, key: Path) -> None:
        super().__init__(ARCHITECTURE)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificate, key)

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/v2/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        port = free_port()
        await web.TCPSite(self._runner, ADDRESS, port, ssl_context=self._tls).start()
        self.host = f"{ADDRESS}:{port}"
        return self

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._answer(request)
        if isinstance(answer, web.Response) and "/manifests/" in request.path and answer.status == 200:
            assert isinstance(answer.body, bytes)
            answer.headers["Content-Type"] = json.loads(answer.body)["mediaType"]
        return answer

    def take_archive(self, name: str, archive: Path) -> None:
        """An image as `make image` writes it."""
        with tarfile.open(archive) as tar:
            files = {one.name: tar.extractfile(one) for one in tar}
            index = json.loads(_read(files["index.json"]))
            manifest = _read(files[_blob(index["manifests"][0]["digest"])])
            parsed = json.loads(manifest)
            for part in (parsed["config"], *parsed["layers"]):
                self.blobs[part["digest"]] = _read(files[_blob(part["digest"])])
        self.manifests[name] = manifest
        self.contents[digest_of(manifest)] = manifest

    async def take_example(self) -> None:
        sources = example_sources_dir()
        assert sources is not None
        BUILD.mkdir(exist_ok=True)
        packages = await ensure_packages(BUILD, print)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            archive, command = await build_archive(
                packages, [sources / one for one in SOURCE_NAMES], Path(folder), print
            )
            layer = await asyncio.to_thread(archive.read_bytes)
        config = {
            "architecture": ARCHITECTURE,
            "os": "linux",
            "config": {
                "Cmd": command,
                "Env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"],
                "User": "65534:65534",
                "WorkingDir": "/app",
                "ExposedPorts": {"8000/tcp": {}},
            },
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
        }
        docker = "application/vnd.docker"
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{docker}.distribution.manifest.v2+json",
            "config": self._blob(json.dumps(config).encode(), f"{docker}.container.image.v1+json"),
            "layers": [self._blob(gzip.compress(layer, 1, mtime=0), f"{docker}.image.rootfs.diff.tar.gzip")],
        }
        self.manifests["chat"] = json.dumps(manifest).encode()
        self.contents[self.digest("chat")] = self.manifests["chat"]


def trust_registry(cluster: RealCluster, host: str) -> None:
    folder = cluster.registry_hosts / host
    folder.mkdir(exist_ok=True)
    authority = cluster.server.folder / "ca.crt"
    text = f'server = "https://{host}"\n[host."https://{host}"]\n  capabilities = ["pull", "resolve"]\n  ca = "{authority}"\n'
    (folder / "hosts.toml").write_text(text)


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def _read(file: Any) -> bytes:
    assert file is not None
    content: bytes = file.read()
    return content


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"
