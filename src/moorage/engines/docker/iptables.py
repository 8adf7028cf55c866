"""The machine's firewall program: chains of ours, read and set in one transaction."""

import asyncio
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from moorage.kit.errors import EngineError

_SEARCH_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_TIMEOUT_S = 20.0
_LOCK_WAIT_S = "10"


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

    def is_first_in(self, present: list[str]) -> bool:
        """Whether these are exactly its rules, entered before anything but what other installations of Moorage put
        there: each of them concerns its own bridge and ports only."""
        rules = tuple(line for line in present if line.startswith(f"-A {self.name} "))
        origin = [line for line in present if line.startswith(f"-A {self.entered_from} ")]
        foreign = [line for line in origin if " -j MOOR-" not in line or line == self.jump]
        return rules == self.rules and foreign[:1] == [self.jump] and origin.count(self.jump) == 1

    def put_first(self, present: list[str]) -> list[str]:
        """As `iptables-restore` reads it."""
        return [
            # Naming a chain empties it, or makes it.
            f":{self.name} - [0:0]",
            *self.rules,
            *[f"-D{self.jump.removeprefix('-A')}"] * present.count(self.jump),
            f"-I {self.entered_from} 1 {self.condition} -j {self.name}",
        ]


def is_installed(program: str) -> bool:
    return shutil.which(program, path=_SEARCH_PATH) is not None


async def present_rules(program: str) -> list[str]:
    return (await run(program, "-w", _LOCK_WAIT_S, "-S")).splitlines()


async def restore(program: str, changes: list[str]) -> None:
    """All of them or none."""
    # Chains must be declared before rules that jump to them.
    ordered = sorted(changes, key=lambda line: not line.startswith(":"))
    text = "\n".join(["*filter", *ordered, "COMMIT", ""])
    await run(f"{program}-restore", "--noflush", "-w", _LOCK_WAIT_S, standard_input=text)


async def remove_chains(program: str, names: Iterable[str]) -> None:
    present = await present_rules(program)
    there = [name for name in sorted(names) if f"-N {name}" in present]
    jumps = [line for line in present if line.rpartition(" -j ")[2] in there]
    changes = [f"-D{line.removeprefix('-A')}" for line in jumps]
    for name in there:
        changes += [f"-F {name}", f"-X {name}"]
    if changes:
        await restore(program, changes)


async def run(program: str, *arguments: str, standard_input: str = "") -> str:
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
