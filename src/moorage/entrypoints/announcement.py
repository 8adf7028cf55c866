"""What `moor up` says once everything runs, and what it says while something does not.

It never gives up: the roles are supervised meanwhile, and what is missing may come. That something is wrong (a full disk, a
difference in the ledger) is said, and keeps nobody from using the rest.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from moorage.entrypoints.bootstrap import operator_key_of
from moorage.entrypoints.health_parts import SILENT_AFTER, State
from moorage.entrypoints.reconcilers import RECONCILERS
from moorage.kit.clock import system_clock
from moorage.kit.settings import Settings
from moorage.kit.shipped import shipped_root
from moorage_cli.commands.operator_types import add_command

if TYPE_CHECKING:
    from moorage_cli.api.types import InstanceTypeProposal, NodeRead

LATE_AFTER_S = 120.0
ASK_EVERY_S = 0.1
CTRL_C = "Ctrl-C stops Moorage. Users' containers keep running, and their endpoints answer again at the next start."
Say = Callable[[str], None]


async def announce(
    settings: Settings, link: str, say: Say, late_after_s: float = LATE_AFTER_S, last_words: str = CTRL_C
) -> None:
    """Returns when all parts run."""
    late_at_s: float | None = system_clock.monotonic() + late_after_s
    async with operator_client(settings) as client:
        while missing := await _missing(client):
            if late_at_s is not None and system_clock.monotonic() >= late_at_s:
                say(
                    f"Not ready after {late_after_s:.0f} s: {missing}. Moorage keeps trying. Its logs are in "
                    f"{settings.log_dir}."
                )
                late_at_s = None
            await asyncio.sleep(ASK_EVERY_S)
        wrong, gpus = await _wrong(client), await _gpus(client)
    if gpus:
        say("\n".join(("", *gpus)))
    say(_how_to_use(settings, link) + last_words)
    if wrong:
        say("\nSomething is wrong (`moor status` shows more):\n" + "\n".join(f"  {line}" for line in wrong))


def missing_parts(status: dict[str, Any]) -> list[str]:
    """Of `/operator/status`: what does not run, however well it does what it does."""
    ages_s = {one["name"]: one["age_s"] for one in status["reconcilers"]}
    missing = [
        f"the reconciler {name} does not run"
        for name in RECONCILERS
        if name not in ages_s or ages_s[name] > SILENT_AFTER.total_seconds()
    ]
    if not any(gateway["alive"] for gateway in status["gateways"]):
        missing.append("no gateway reports")
    if not status["nodes"]:
        missing.append("no machine reports")
    return missing


def operator_client(settings: Settings) -> httpx.AsyncClient:
    scheme = "https" if settings.served_api_certificate else "http"
    key = operator_key_of(settings)
    return httpx.AsyncClient(
        base_url=f"{scheme}://{settings.api_listen}",
        headers={"Authorization": f"Bearer {key}"},
        verify=False,  # noqa: S501 - our own address, possibly by another name
        trust_env=False,
        timeout=5,
    )


_NO_MAIL_SERVER = "No mail server is set up (MOORAGE_SMTP_HOST). Find codes and invitations in the console under Operator, Outbox.\n"


async def _missing(client: httpx.AsyncClient) -> str:
    """Empty when nothing is."""
    try:
        ready = await client.get("/readyz")
        if ready.status_code != httpx.codes.OK:
            return "the API does not reach the database"
        status = (await client.get("/api/v1/operator/status")).raise_for_status()
        return "; ".join(missing_parts(status.json()))
    except (httpx.HTTPError, ValueError):
        return "the API does not answer"


async def _wrong(client: httpx.AsyncClient) -> list[str]:
    try:
        health = (await client.get("/api/v1/operator/health")).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as exc:
        return [f"health: {exc!r}"]
    return [f"{one['name']}: {one['message']}" for one in health["parts"] if one["state"] == State.FAILING]


async def _gpus(client: httpx.AsyncClient) -> list[str]:
    """What becomes of the machines' GPUs: how they are handed over, or why not, and types that would offer them. What is
    wrong with a machine is among what is wrong with all."""
    try:
        nodes = (await client.get("/api/v1/operator/nodes")).raise_for_status().json()["items"]
        proposals = (
            (await client.get("/api/v1/operator/instance-types/proposals")).raise_for_status().json()["items"]
        )
    except (httpx.HTTPError, ValueError) as exc:
        return [f"GPUs: {exc!r}"]
    return gpu_lines(nodes, proposals)


def gpu_lines(nodes: "Sequence[NodeRead]", proposals: "Sequence[InstanceTypeProposal]") -> list[str]:
    lines = []
    for node in nodes:
        models = Counter(gpu["model"] for gpu in node["gpus"])
        named = ", ".join(f"{count} × {model}" for model, count in models.items())
        if named:
            lines.append(
                f"{node['name']} has {named}, driver {node['gpu_driver']}, CUDA {node['cuda_version']}."
            )
        if node["message"] is not None:
            lines.append(node["message"])
    for because in dict.fromkeys(one["because"] for one in proposals):
        lines.append(f"{because} Add one:")
        lines += [f"  {add_command(one)}" for one in proposals if one["because"] == because]
    return lines


def _example_file() -> Path:
    """As it is named from here: a checkout is where `moor up` is typed."""
    file = shipped_root() / "examples/chat/container.toml"
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def _how_to_use(settings: Settings, link: str) -> str:
    key_file = settings.operator_key_file
    return (
        f"\nMoorage is ready.\n\n"
        f"  Console           {settings.api_base_url}\n"
        f"  API               {settings.api_base_url}/api/v1\n"
        f"  Endpoints         {settings.gateway_base_url}\n"
        f"  Sign in (once)    {link}\n"
        f"  Operator's key    {key_file}\n\n"
        f'  curl -H "Authorization: Bearer $(cat {key_file})" {settings.api_base_url}/api/v1/me\n\n'
        f"Deploy the example:  moor login && moor deploy -f {_example_file()}\n"
        f"{_NO_MAIL_SERVER if settings.smtp_host is None else ''}"
    )
