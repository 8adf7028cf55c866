"""Makes local/torch:latest from the PyTorch that is installed on this machine, with no registry in reach.

    python3 examples/torch/build.py [--docker-host unix:///path] [--python /opt/venv/bin/python3]

The image holds that Python, its standard library, PyTorch with the libraries it links to, and the example; nothing else of
the machine. It is streamed into the engine (`docker import`), so nothing is written twice.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = (
    *(HERE / name for name in ("server.py", "model.py", "text.py", "tries.py")),
    HERE.parent / "chat/wire.py",
)
IMAGE = "local/torch:latest"
LARGE_BYTES = 30 * 2**20
"""A package that is larger and not of PyTorch is another model library; PyTorch does without it."""
WANTED = re.compile(r"(torch|cuda|nvidia|triton|functorch|torchgen|numpy|numpy\.libs)$")
LEFT_OUT = re.compile(r"(^|/)(__pycache__|include|share/cmake)(/|$)|\.(a|pyi|h|cuh|hpp|lib)$")
_FACTS = """
import json, os, sys, sysconfig, torch
paths = sysconfig.get_paths()
loaded = [one.__file__ for one in list(sys.modules.values()) if getattr(one, "__file__", None)]
loaded += [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line and "/" in line.split()[-1]]
print(json.dumps({
    "executable": os.path.realpath(sys.executable), "stdlib": paths["stdlib"],
    "platstdlib": paths["platstdlib"], "packages": os.path.dirname(os.path.dirname(torch.__file__)),
    "loaded": sorted({one for one in loaded if os.path.isfile(one)}), "version": torch.__version__, "dynload": os.path.join(paths["platstdlib"], "lib-dynload"),
}))
"""


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--docker-host", default=engine(), help="where the engine listens (default: %(default)s)"
    )
    options.add_argument("--python", default=sys.executable)
    chosen = options.parse_args()
    asked = subprocess.run([chosen.python, "-c", _FACTS], capture_output=True, text=True)
    if asked.returncode:
        sys.exit(
            f"{chosen.python} cannot import torch; name one that can with --python.\n{asked.stderr.strip()}"
        )
    facts = json.loads(asked.stdout)
    docker = ["docker", "--host", chosen.docker_host]
    if subprocess.run([*docker, "version"], capture_output=True).returncode:
        sys.exit(
            f"No engine answers at {chosen.docker_host}. Start Moorage first, or name the engine with --docker-host."
        )
    files = sorted({os.path.normpath(file) for file in image_files(facts)})
    total = sum(os.stat(file).st_size for file in files if os.path.isfile(file))
    print(f"torch {facts['version']}: {len(files)} files, {total / 2**30:.2f} GiB", flush=True)
    changes = [
        "WORKDIR /app",
        "USER 65534:65534",
        "EXPOSE 8000",
        f"ENV PYTHONPATH={facts['packages']} PYTHONUNBUFFERED=1 HOME=/tmp USER=nobody",
        f'CMD ["{facts["executable"]}", "/app/server.py"]',
    ]
    command = [*docker, "import"]
    command += [word for change in changes for word in ("--change", change)]
    importing = subprocess.Popen([*command, "-", IMAGE], stdin=subprocess.PIPE)
    with tarfile.open(fileobj=importing.stdin, mode="w|", bufsize=4 * 2**20) as archive:
        write(archive, files)
    importing.stdin.close()
    if importing.wait() != 0:
        sys.exit("the engine did not take the image")
    print(f"{IMAGE} is there.")


def engine():
    """What DOCKER_HOST names; else Moorage's own, where it has one; else the system's."""
    usual = "/var/lib/moorage" if os.geteuid() == 0 else os.path.expanduser("~/.local/share/moorage")
    own = os.path.join(os.environ.get("MOORAGE_HOME", usual), "run/docker.sock")
    at = own if os.path.exists(own) else "/var/run/docker.sock"
    return os.environ.get("DOCKER_HOST", f"unix://{at}")


def image_files(facts):
    """Python, its library, PyTorch, and every shared library that any of these links to."""
    yield facts["executable"]
    # Whatever `import torch` loads here, it loads there; the driver's own library comes with the GPU.
    yield from (file for file in facts["loaded"] if "libcuda.so" not in file and "/nvidia/lib64/" not in file)
    own = [facts["executable"]]
    for folder in {facts["stdlib"], facts["platstdlib"]}:
        for file in below(folder):
            if "/site-packages/" not in file and "/dist-packages/" not in file:
                yield file
                own.append(file)
    for entry in sorted(Path(facts["packages"]).iterdir()):
        name = entry.name
        if WANTED.match(name) or (
            size_below(entry) < LARGE_BYTES and not name.endswith((".dist-info", ".pth"))
        ):
            for file in below(entry):
                yield file
                own.append(file)
    yield from linked([file for file in own if re.search(r"\.so(\.|$)", file) or file == facts["executable"]])


def below(path):
    path = str(path)
    if not os.path.isdir(path):
        if not LEFT_OUT.search(path):
            yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not LEFT_OUT.search(f"{folder}/{name}")]
        for name in names:
            file = f"{folder}/{name}"
            if not LEFT_OUT.search(file) and os.path.exists(file):
                yield file


def size_below(path):
    return sum(os.path.getsize(file) for file in below(path))


def linked(libraries):
    """What the loader finds for them on this machine. The driver's own library comes with the GPU."""
    for at in range(0, len(libraries), 200):
        said = subprocess.run(["ldd", *libraries[at : at + 200]], capture_output=True, text=True).stdout
        for line in said.splitlines():
            found = re.search(r"(?:=> )?(/\S+) \(0x", line)
            if found and "libcuda.so" not in line and "/nvidia/lib64/" not in line:
                yield found[1]


def write(archive, files):
    for name in ("tmp", "app", "proc", "dev", "sys", "etc", "run"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        archive.addfile(entry)
    for file in files:
        # Each by its own name and as a whole: a link could lead out of the image.
        entry = tarfile.TarInfo(file.lstrip("/"))
        status = os.stat(file)
        entry.size, entry.mode, entry.mtime = status.st_size, status.st_mode & 0o755, int(status.st_mtime)
        with open(file, "rb") as opened:
            archive.addfile(entry, opened)
    for source in SOURCES:
        archive.add(source, f"app/{source.name}")


if __name__ == "__main__":
    main()
