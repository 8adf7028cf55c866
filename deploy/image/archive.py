"""An image as one archive that every engine reads: the OCI layout, with Docker's own list beside it."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_OCI = "application/vnd.oci.image"
_EPOCH_S = 0
"""Every file's time, so that the same content is the same layer."""
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Layer:
    file: Path
    """Packed."""
    digest: str
    size: int
    plain_digest: str
    """Of what is in it, unpacked."""


def pack_layer(root: Path, file: Path) -> None:
    """All of the folder, owned by root and readable by everybody, no set-uid bits, in the same order each time."""
    with tempfile.TemporaryFile(dir=file.parent) as plain:  # larger than /tmp may be
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(root.rglob("*")):
                tar.add(path, str(path.relative_to(root)), recursive=False, filter=_normalized)
        plain.seek(0)
        with file.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=_EPOCH_S) as packed:
            shutil.copyfileobj(plain, packed, _PIECE_BYTES)


def layer_from(file: Path) -> Layer:
    with file.open("rb") as packed:
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
    with gzip.open(file) as plain:
        plain_digest = hashlib.sha256()
        while piece := plain.read(_PIECE_BYTES):
            plain_digest.update(piece)
    return Layer(file, f"sha256:{digest}", file.stat().st_size, f"sha256:{plain_digest.hexdigest()}")


def write_archive(
    archive: Path, name: str, architecture: str, settings: Mapping[str, object], layers: Sequence[Layer]
) -> None:
    small: dict[str, bytes] = {}

    def keep(content: object, kind: str) -> dict[str, Any]:
        data = json.dumps(content, sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        small[digest] = data
        return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    config = keep(
        {
            "architecture": architecture,
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer.plain_digest for layer in layers]},
        },
        "config.v1+json",
    )
    manifest = keep(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": config,
            "layers": [
                {"mediaType": f"{_OCI}.layer.v1.tar+gzip", "digest": layer.digest, "size": layer.size}
                for layer in layers
            ],
        },
        "manifest.v1+json",
    )
    named = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    platform = {"architecture": architecture, "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [{**manifest, "annotations": named, "platform": platform}],
    }
    docker = [
        {
            "Config": _blob(config["digest"]),
            "RepoTags": [name],
            "Layers": [_blob(layer.digest) for layer in layers],
        }
    ]
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, "manifest.json", json.dumps(docker).encode())
        for digest, data in small.items():
            _add(tar, _blob(f"sha256:{digest}"), data)
        for layer in layers:
            with layer.file.open("rb") as content:
                entry = tarfile.TarInfo(_blob(layer.digest))
                entry.size = layer.size
                tar.addfile(entry, content)


def _normalized(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = _EPOCH_S
    executable = 0o111 if member.isdir() or member.mode & 0o100 else 0
    member.mode = 0o1777 if member.name == "tmp" else 0o644 | executable
    return member


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _add(tar: tarfile.TarFile, path: str, data: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
