"""Asks about a replica's network from inside its network namespace, and from inside nothing else of it.

A process of ours is started with the namespace as an open file and enters it before it does anything
(`network_probe.py`). The image needs no shell and no tools, and none of its programs is run.
"""

import asyncio
import ipaddress
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moorage.engines.diagnosis import (
    Attempt,
    Destination,
    NameAnswer,
    NetworkDiagnosis,
    NetworkQuestions,
    Outcome,
)
from moorage.engines.docker.sockets import ENGINE_DNS
from moorage.kit.errors import EngineError

ANSWER_TIMEOUT_S = 4.0
"""For each question; all are asked at once. The engine's resolver gives a silent upstream up after as long."""
_PROCESS_TIMEOUT_S = 20.0
_MACHINE_PORT = 80
_MOST_RESOLVERS = 3
"""As many as a program's own resolver would read."""
_RESOLVER_FILE_BYTES = 64 * 1024


async def diagnose(inspected: Mapping[str, Any], questions: NetworkQuestions) -> NetworkDiagnosis:
    """`inspected` is the engine's word on a replica of ours."""
    namespace = _open_namespace(int(inspected["State"]["Pid"]), str(inspected["Id"]))
    try:
        forbidden = (*questions.forbidden, *_machine(inspected))
        resolvers = _resolvers(Path(inspected["ResolvConfPath"]))
        answers = await _ask(
            namespace,
            {
                "namespace": namespace,
                "timeout_s": ANSWER_TIMEOUT_S,
                "resolvers": resolvers,
                "names": questions.names,
                "destinations": [asdict(one) for one in (*questions.outbound, *forbidden)],
            },
        )
    finally:
        os.close(namespace)
    attempts = tuple(
        Attempt(one["address"], one["port"], Outcome(one["outcome"])) for one in answers["attempts"]
    )
    return NetworkDiagnosis(
        resolvers=resolvers,
        upstream_resolvers=tuple(inspected["HostConfig"]["Dns"] or ()) if ENGINE_DNS in resolvers else (),
        names=tuple(
            NameAnswer(one["name"], tuple(one["addresses"]), one["failure"]) for one in answers["names"]
        ),
        outbound=attempts[: len(questions.outbound)],
        forbidden=attempts[len(questions.outbound) :],
    )


def _open_namespace(pid: int, engine_id: str, proc: Path = Path("/proc")) -> int:
    if pid <= 0:
        raise EngineError(f"look at the network of {engine_id[:12]}: it does not run", code="replica_gone")
    try:
        namespace = os.open(proc / str(pid) / "ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as exc:
        raise EngineError(
            f"Moorage may not look into a replica's network on this machine ({exc.strerror}). It must run "
            "there as root.",
            code="namespace_closed",
        ) from exc
    try:
        # Looked at after it was opened: the number may have become somebody else's before.
        if engine_id in (proc / str(pid) / "cgroup").read_text():
            return namespace
    except OSError:
        pass  # it ended meanwhile
    os.close(namespace)
    raise EngineError(
        f"look at the network of {engine_id[:12]}: its process is not of this machine, or has ended",
        code="replica_gone",
    )


def _resolvers(file: Path) -> tuple[str, ...]:
    """From the engine's side of the replica's `/etc/resolv.conf`. Its owner may have written anything into it."""
    try:
        with file.open("rb") as opened:
            lines = opened.read(_RESOLVER_FILE_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            try:
                found.append(str(ipaddress.ip_address(words[1])))
            except ValueError:
                continue
    return tuple(found[:_MOST_RESOLVERS])


def _machine(inspected: Mapping[str, Any]) -> list[Destination]:
    networks = inspected["NetworkSettings"]["Networks"].values()
    return [Destination(str(one["Gateway"]), _MACHINE_PORT) for one in networks if one["Gateway"]]


async def _ask(namespace: int, questions: Mapping[str, Any]) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "moorage.engines.docker.network_probe"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(namespace,),
        # Nothing of ours that a hostile network could make it tell.
        env={},
    )
    try:
        async with asyncio.timeout(_PROCESS_TIMEOUT_S):
            output, errors = await process.communicate(json.dumps(questions).encode())
    except TimeoutError as exc:
        raise EngineError(
            f"The network test took longer than {_PROCESS_TIMEOUT_S:g} s.", code="engine_timeout"
        ) from exc
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise EngineError(
            f"Looking at the network failed: {lines[-1] if lines else process.returncode}.",
            code="namespace_closed",
        )
    return json.loads(output)
