"""The sandbox in which containers of others run on a machine that is lent: gVisor's `runsc`, as a runtime of this machine's Docker
that has a name of its own, and a trial of it. The owner's other runtimes, and their default, stay as they are.

`--network=host` is the container's own network namespace and not the machine's: Docker makes one for each container, on our bridge,
whose firewall holds there. With a network stack of its own a sandbox would not reach Docker's resolver, and runsc of 2022
refuses to have one on newer kernels. `--oci-seccomp` keeps our list of system calls inside the sandbox as well.
"""

import asyncio
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import ReplicaPhase, ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.sandboxes import SANDBOX_RUNTIME
from moorage.kit.clock import system_clock
from moorage.kit.errors import EngineError, SetupError
from moorage.kit.ids import ContainerId, InstallationId, OrganizationId, ProjectId, ReplicaId

DAEMON_FILE = Path("/etc/docker/daemon.json")
PID_FILES = (Path("/var/run/docker.pid"), Path("/run/docker.pid"))
_KNOWN_WITHIN_S = 20.0
_TRIAL_WITHIN_S = 90.0
_LOOK_EVERY_S = 0.2
_TRIAL_IMAGE = "moorage-trial:latest"
_TRIAL = InstallationId("ins_sandboxtrialaaaaaaaa")
"""An installation of its own, so that nothing of any other is in its way."""
_TRIAL_PORT = 19999
_TRIAL_COMMAND = (
    'read -r version < /proc/version; echo "$version"; '
    'while read -r name value; do [ "$name" != CapEff: ] || echo "$name $value"; done < /proc/self/status'
)


def runtime_entry(program: str, *, hands_gpus_over: bool) -> dict[str, Any]:
    arguments = ["--network=host", "--oci-seccomp", *(["--nvproxy"] if hands_gpus_over else [])]
    return {"path": program, "runtimeArgs": arguments}


def with_runtime(text: str, entry: dict[str, Any] | None) -> str:
    """Docker's settings with our runtime in them, or without; all else as it was. Raises `ValueError` for what is no JSON object."""
    settings = json.loads(text) if text.strip() else {}
    if not isinstance(settings, dict) or not isinstance(settings.get("runtimes", {}), dict):
        raise ValueError("it is no object")
    others = {name: one for name, one in settings.get("runtimes", {}).items() if name != SANDBOX_RUNTIME}
    runtimes = {**others, SANDBOX_RUNTIME: entry} if entry is not None else others
    kept = {name: value for name, value in settings.items() if name != "runtimes"}
    return json.dumps({**kept, **({"runtimes": runtimes} if runtimes else {})}, indent=4) + "\n"


async def set_up_sandbox(
    docker_host: str,
    *,
    with_gpus: bool,
    file: Path = DAEMON_FILE,
    pid_files: Sequence[Path] = PID_FILES,
    program: str = "runsc",
) -> None:
    """Raises `SetupError` where containers cannot run in it. Safe to repeat."""
    path = shutil.which(program)
    if path is None:
        raise SetupError("There is no runsc on this machine. Run `apt-get install runsc`.")
    hands_over = with_gpus and await asyncio.to_thread(_knows_nvproxy, path)
    _change(file, pid_files, runtime_entry(path, hands_gpus_over=hands_over))
    await _until_known(docker_host)
    await try_sandbox(docker_host)


def take_sandbox_away(file: Path = DAEMON_FILE, pid_files: Sequence[Path] = PID_FILES) -> None:
    """Safe to repeat, and where there is none."""
    if file.exists() and SANDBOX_RUNTIME in file.read_text():
        _change(file, pid_files, None)


async def try_sandbox(docker_host: str, runtime: str = SANDBOX_RUNTIME) -> str:
    """Start a container as tenants' are started, and look whether it really is in the sandbox: the kernel that it sees is another.
    That one's version. Raises `SetupError`."""
    connection = DockerConnection(docker_host)
    engine = DockerEngine(docker_host, _TRIAL, system_clock, runtime=runtime)
    try:
        async with connection.call("build the image of a trial", _TRIAL_WITHIN_S) as docker:
            await docker.images.build(
                fileobj=await asyncio.to_thread(_image_context), encoding="identity", tag=_TRIAL_IMAGE
            )
        await engine.prepare()
        said = await _run_trial(engine)
    except EngineError as exc:
        raise SetupError(
            f"No container could be started in the sandbox: {exc.message.rstrip('.')}. Without it this machine cannot be lent."
        ) from exc
    finally:
        for replica in await engine.list_replicas():
            await engine.remove(replica.engine_id)
        await _remove_trial_image(connection)
        await engine.dismantle()
        await engine.close()
        await connection.close()
    return _judged(said)


async def _remove_trial_image(connection: DockerConnection) -> None:
    async with connection.call("remove the image of a trial") as docker:
        try:
            await docker.images.delete(_TRIAL_IMAGE, force=True)
        except DockerError as exc:
            if exc.status != HTTPStatus.NOT_FOUND:
                raise


def _judged(said: str) -> str:
    lines = said.splitlines()
    outside = Path("/proc/version").read_text().strip()
    if len(lines) < 2 or lines[0].strip() == outside or os.uname().release in lines[0]:
        raise SetupError("A trial container saw this machine's own kernel, so it was not in the sandbox.")
    if not re.fullmatch(r"CapEff: *0+", lines[1]):
        raise SetupError("A trial container had rights that no container should have.")
    return lines[0].strip()


async def _run_trial(engine: DockerEngine) -> str:
    replica_id = ReplicaId(f"rep_trial{os.getpid()}")
    started = await engine.start(
        ReplicaSpec(
            replica_id=replica_id,
            container_id=ContainerId("ctr_trial"),
            project_id=ProjectId("prj_trial"),
            organization_id=OrganizationId("org_trial"),
            slot=0,
            generation=1,
            image=_TRIAL_IMAGE,
            command=("/bin/sh", "-c", _TRIAL_COMMAND),
            environment={},
            port=8000,
            host_port=_TRIAL_PORT,
            vcpu_millis=1000,
            memory_bytes=256 * 2**20,
            disk_bytes=2**30,
            gpu_device_ids=(),
        )
    )
    deadline_s = system_clock.monotonic() + _TRIAL_WITHIN_S
    while system_clock.monotonic() < deadline_s:
        found = await engine.inspect(replica_id)
        if found is None or found.phase is ReplicaPhase.EXITED:
            break
        await system_clock.sleep(_LOOK_EVERY_S)
    # Ends with the container.
    said = [chunk.data async for chunks in engine.logs(started.engine_id, 0) for chunk in chunks]
    return b"\n".join(said).decode(errors="replace")


def _image_context() -> io.BytesIO:
    """This machine's own shell with the libraries that it needs: a machine that joins has no image, and fetches none for this."""
    shell = os.path.realpath(shutil.which("dash") or "/bin/sh")
    listed = subprocess.run(["ldd", shell], capture_output=True, text=True, timeout=20, check=False)
    libraries = re.findall(r"(/[^\s()]+)", listed.stdout) if listed.returncode == 0 else []
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        dockerfile = b"FROM scratch\nCOPY root /\n"
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
        for source, target in [(shell, "/bin/sh"), *((one, one) for one in dict.fromkeys(libraries))]:
            content = Path(source).read_bytes()
            entry = tarfile.TarInfo(f"root{target}")
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    return context


def _knows_nvproxy(program: str) -> bool:
    told = subprocess.run([program, "flags"], capture_output=True, text=True, timeout=20, check=False)
    return "-nvproxy" in told.stdout + told.stderr


def _change(file: Path, pid_files: Sequence[Path], entry: dict[str, Any] | None) -> None:
    before = file.read_text() if file.exists() else ""
    try:
        after = with_runtime(before, entry)
    except ValueError as exc:
        raise SetupError(f"{file} is not what Docker would read ({exc}). Fix it first.") from exc
    if entry is not None and before == after:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    new.write_text(after)
    new.replace(file)
    for pid_file in pid_files:
        if pid_file.exists():
            os.kill(
                int(pid_file.read_text()), signal.SIGHUP
            )  # Docker reads its runtimes again; nothing else changes.
            return


async def _until_known(docker_host: str) -> None:
    engine = DockerEngine(docker_host, _TRIAL, system_clock, runtime=SANDBOX_RUNTIME)
    deadline_s = system_clock.monotonic() + _KNOWN_WITHIN_S
    try:
        while not await engine.knows_runtime():
            if system_clock.monotonic() >= deadline_s:
                raise SetupError(
                    f"Docker does not know the runtime {SANDBOX_RUNTIME} although it is in {DAEMON_FILE}. "
                    "Restart Docker (systemctl restart docker) and run the same command again. If it fails, "
                    "Docker's log says why."
                )
            await system_clock.sleep(_LOOK_EVERY_S)
    except EngineError as exc:
        raise SetupError(f"Docker does not answer: {exc.message}") from exc
    finally:
        await engine.close()
