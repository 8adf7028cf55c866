"""The firewall rules of our bridge: a container talks to public addresses and to nobody else, and of this machine's
users only those of Moorage talk to a container.

Traffic to the machine itself passes INPUT, not DOCKER-USER, so there is a chain for each. Both are filled
and put in front in one `iptables-restore` transaction: at no moment is there half a firewall. Docker keeps
DOCKER-USER over its restarts; whatever else reloads the firewall is noticed by the next check.

What users of this machine send passes OUTPUT. Replicas listen on loopback ports and on the bridge, and loopback
belongs to everybody who has an account here: without the third chain they would reach every replica without a key.
"""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from moorage.kit.errors import EngineError
from moorage.outbound.networks import NOT_PUBLIC

_SEARCH_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_TIMEOUT_S = 20.0
_LOCK_WAIT_S = "10"

_DOCKER_USER_JUMP = "-A FORWARD -j DOCKER-USER"
_HARMLESS_BEFORE = (" -j MOOR-", " -j DOCKER-ISOLATION-STAGE-1")
"""The second drops or returns, and comes first once Docker was restarted."""
_REPLIES = "-m conntrack --ctstate RELATED,ESTABLISHED"


class FirewallUnusableError(EngineError):
    """The rules cannot be set on this machine; the message says why."""

    code = "firewall_unusable"


@dataclass(frozen=True)
class Chain:
    """A chain of ours, entered from one of the firewall's own for the packets that `condition` names."""

    name: str
    entered_from: str
    condition: str
    rules: tuple[str, ...]

    @property
    def jump(self) -> str:
        return f"-A {self.entered_from} {self.condition} -j {self.name}"


@dataclass(frozen=True)
class LocalUse:
    """Who on this machine may connect to replicas: the gateway and our own probes."""

    ports: tuple[int, int]
    """On loopback, first and last."""
    user_ids: tuple[int, ...]


def chains(bridge: str, suffix: str) -> tuple[Chain, ...]:
    to_host, forwarded = f"MOOR-HOST-{suffix}", f"MOOR-OUT-{suffix}"
    return (
        Chain(
            to_host, "INPUT", f"-i {bridge}", (f"-A {to_host} {_REPLIES} -j ACCEPT", f"-A {to_host} -j DROP")
        ),
        Chain(
            forwarded,
            "DOCKER-USER",
            f"-i {bridge}",
            (
                f"-A {forwarded} {_REPLIES} -j RETURN",
                *(f"-A {forwarded} -d {network} -j DROP" for network in NOT_PUBLIC),
            ),
        ),
    )


def chains_v6(bridge: str, suffix: str) -> tuple[Chain, ...]:
    """Our network has no IPv6, so nothing is let through; for the day that somebody switches it on."""
    names = ((f"MOOR-HOST-{suffix}", "INPUT"), (f"MOOR-OUT-{suffix}", "FORWARD"))
    return tuple(Chain(name, origin, f"-i {bridge}", (f"-A {name} -j DROP",)) for name, origin in names)


def local_chain(bridge: str, suffix: str, use: LocalUse) -> Chain:
    """New connections alone: an answer may have no socket any more, and then no owner to ask for."""
    name = f"MOOR-USE-{suffix}"
    first, last = use.ports
    return Chain(
        name,
        "OUTPUT",
        "-p tcp -m conntrack --ctstate NEW",
        (
            *(f"-A {name} -m owner --uid-owner {user_id} -j RETURN" for user_id in sorted(use.user_ids)),
            # Where the sender meant it to go: the engine may have sent it on to the bridge by now, which `-o` does not see.
            f"-A {name} -p tcp -m conntrack --ctorigdst 127.0.0.1 --ctorigdstport {first}:{last} -j REJECT --reject-with tcp-reset",
            f"-A {name} -o {bridge} -p tcp -j REJECT --reject-with tcp-reset",
        ),
    )


async def enforce(bridge: str, suffix: str) -> None:
    """Set the rules where they are missing, changed or not in front. Raises `FirewallUnusableError`."""
    await _enforce("iptables", chains(bridge, suffix))
    if _machine_has_ipv6():
        await _enforce("ip6tables", chains_v6(bridge, suffix))


async def enforce_local_use(bridge: str, suffix: str, use: LocalUse) -> None:
    """By itself, because not every kernel can tell whose a packet is: that must not cost the other rules."""
    await _enforce("iptables", (local_chain(bridge, suffix, use),))


def _machine_has_ipv6() -> bool:
    return Path("/proc/net/if_inet6").exists()


async def withdraw(bridge: str, suffix: str) -> None:
    names = {chain.name for chain in (*chains(bridge, suffix), *chains_v6(bridge, suffix))}
    names.add(local_chain(bridge, suffix, LocalUse((0, 0), ())).name)
    for program in ("iptables", "ip6tables"):
        if shutil.which(program, path=_SEARCH_PATH) is None:
            continue
        present = (await _run(program, "-w", _LOCK_WAIT_S, "-S")).splitlines()
        jumps = [line for line in present if line.rpartition(" -j ")[2] in names]
        changes = [f"-D{line.removeprefix('-A')}" for line in jumps]
        for name in sorted(names):
            if f"-N {name}" in present:
                changes += [f"-F {name}", f"-X {name}"]
        if changes:
            await _restore(program, changes)


async def _enforce(program: str, wanted: tuple[Chain, ...]) -> None:
    present = (await _run(program, "-w", _LOCK_WAIT_S, "-S")).splitlines()
    if program == "iptables" and _DOCKER_USER_JUMP not in present:
        raise FirewallUnusableError(
            "the Docker engine does not manage this machine's firewall (there is no DOCKER-USER chain)"
        )
    changes: list[str] = []
    if program == "iptables" and not _docker_user_is_in_front(present):
        # Where Docker itself puts it at each start; a firewall program that was reloaded since got before it.
        changes += [f"-D{_DOCKER_USER_JUMP.removeprefix('-A')}"] * present.count(_DOCKER_USER_JUMP)
        changes.append("-I FORWARD 1 -j DOCKER-USER")
    for chain in wanted:
        if is_enforced(chain, present):
            continue
        # Naming a chain empties it, or makes it.
        changes += [f":{chain.name} - [0:0]", *chain.rules]
        changes += [f"-D{chain.jump.removeprefix('-A')}"] * present.count(chain.jump)
        changes.append(f"-I {chain.entered_from} 1 {chain.condition} -j {chain.name}")
    if changes:
        await _restore(program, changes)


def is_enforced(chain: Chain, present: list[str]) -> bool:
    """Whether `iptables -S` shows exactly these rules, entered before anything could let a packet pass."""
    rules = tuple(line for line in present if line.startswith(f"-A {chain.name} "))
    origin = [line for line in present if line.startswith(f"-A {chain.entered_from} ")]
    # Other installations of Moorage put theirs in front as well; each concerns its own bridge and ports only.
    foreign = [line for line in origin if " -j MOOR-" not in line or line == chain.jump]
    in_front = chain.entered_from != "DOCKER-USER" or _docker_user_is_in_front(present)
    return in_front and rules == chain.rules and foreign[:1] == [chain.jump] and origin.count(chain.jump) == 1


def _docker_user_is_in_front(present: list[str]) -> bool:
    forward = [line for line in present if line.startswith("-A FORWARD ")]
    for line in forward:
        if line == _DOCKER_USER_JUMP:
            return True
        if not any(harmless in line for harmless in _HARMLESS_BEFORE):
            return False
    return False


async def _restore(program: str, changes: list[str]) -> None:
    # Chains must be declared before rules that jump to them.
    ordered = sorted(changes, key=lambda line: not line.startswith(":"))
    text = "\n".join(["*filter", *ordered, "COMMIT", ""])
    await _run(f"{program}-restore", "--noflush", "-w", _LOCK_WAIT_S, standard_input=text)


async def _run(program: str, *arguments: str, standard_input: str = "") -> str:
    path = shutil.which(program, path=_SEARCH_PATH)
    if path is None:
        raise FirewallUnusableError(f"{program} is not installed")
    process = await asyncio.create_subprocess_exec(
        path,
        *arguments,
        # A program that reads nothing may be gone before its empty input is closed, which uvloop takes ill.
        stdin=asyncio.subprocess.PIPE if standard_input else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, errors = await process.communicate(standard_input.encode() if standard_input else None)
    except TimeoutError as exc:
        process.kill()
        await process.wait()
        raise FirewallUnusableError(f"{program} did not answer within {_TIMEOUT_S:g} s") from exc
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise FirewallUnusableError(f"{program} failed: {lines[0] if lines else process.returncode}")
    return output.decode()
