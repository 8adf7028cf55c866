"""Small images made by hand, and pushing them the way Docker does."""

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from typing import Any

import aiohttp

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
DOCKER_INDEX_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class BuiltImage:
    """Blobs by digest, manifests by digest with their type; `top` is what a tag points to."""

    top: str
    layer_bytes: int
    blobs: dict[str, bytes] = field(repr=False)
    manifests: dict[str, tuple[bytes, str]] = field(repr=False)


def single_image(
    architecture: str = "amd64", *, media_type: str = MANIFEST_TYPE, variant: str = "", layers: int = 2
) -> BuiltImage:
    layer = _layer(f"for {architecture}")
    config = json.dumps(
        {
            "os": "linux",
            "architecture": architecture,
            "variant": variant,
            "config": {
                "Entrypoint": ["/serve"],
                "Cmd": ["--port", "9000"],
                "ExposedPorts": {"9000/tcp": {}, "53/udp": {}},
                "User": "1000:1000",
                "Volumes": {"/data": {}},
                "Labels": {"org.example.model": "tiny"},
                "Env": ["CUDA_VERSION=12.4.1", "PATH=/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [digest_of(gzip.decompress(layer))]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
            "layers": [{"mediaType": LAYER_TYPE, "digest": digest_of(layer), "size": len(layer)}] * layers,
        }
    ).encode()
    blobs = {digest_of(config): config, digest_of(layer): layer}
    top = digest_of(manifest)
    return BuiltImage(top, layers * len(layer), blobs, {top: (manifest, media_type)})


def index_of(*images: tuple[str, BuiltImage], media_type: str = INDEX_TYPE) -> BuiltImage:
    """`index_of(("amd64", single_image("amd64")), …)`, with an attestation beside them as BuildKit writes it."""
    entries: list[dict[str, Any]] = []
    for architecture, image in images:
        body, manifest_type = image.manifests[image.top]
        platform = {"os": "linux", "architecture": architecture}
        platform |= {"variant": "v8"} if architecture == "arm64" else {}
        entries.append(
            {"mediaType": manifest_type, "digest": image.top, "size": len(body), "platform": platform}
        )
    entries.append(entries[0] | {"platform": {"os": "unknown", "architecture": "unknown"}})
    index = json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}).encode()
    top = digest_of(index)
    blobs = {name: data for _, image in images for name, data in image.blobs.items()}
    manifests = {name: entry for _, image in images for name, entry in image.manifests.items()}
    return BuiltImage(top, images[0][1].layer_bytes, blobs, {**manifests, top: (index, media_type)})


async def push(
    base_url: str, repository: str, tag: str, image: BuiltImage, authorization: str | None = None
) -> None:
    sign_in = {"Authorization": authorization} if authorization else {}
    async with aiohttp.ClientSession(headers=sign_in, raise_for_status=True) as session:
        for digest, data in image.blobs.items():
            async with session.post(f"{base_url}/v2/{repository}/blobs/uploads/") as begun:
                location = begun.headers["Location"]
            mark = "&" if "?" in location else "?"
            headers = {"Content-Type": "application/octet-stream"}
            async with session.put(f"{location}{mark}digest={digest}", data=data, headers=headers):
                pass
        # The parts of an index before the index itself, which the registry checks.
        for digest, (body, media_type) in image.manifests.items():
            for name in (digest, tag) if digest == image.top else (digest,):
                url = f"{base_url}/v2/{repository}/manifests/{name}"
                async with session.put(url, data=body, headers={"Content-Type": media_type}):
                    pass


def _layer(content: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        entry = tarfile.TarInfo("serve")
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content.encode()))
    return gzip.compress(plain.getvalue(), mtime=0)
