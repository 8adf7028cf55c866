"""Where what replicas printed becomes what is stored: beside the loop, within a share for each organization.

Looking for secrets and making text harmless costs processor time that a user decides about. So it is done on one thread
of its own: whatever a line and an environment contain, the loop that runs everybody's reconcilers goes on, and never
more than one core is taken. An organization that uses more than its share of that core waits, and its floods wait with
it in the engine's files; the others' lines come through.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from moorage.containers.secrets import unseal
from moorage.kit.clock import Clock, processor_time_s
from moorage.kit.crypto import Keyring
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import RawLine
from moorage.telemetry.logs.masking import Masker, masker_of
from moorage.telemetry.logs.text import harmless_texts

ResultT = TypeVar("ResultT")

SHARE = 0.1
"""Of a core, for one organization's logs. An ordinary flood of 5,000 lines a second needs a hundredth."""
AT_ONCE_S = 1.0
"""Processor time that an organization which used none for a while has to spare."""
BESIDE_THE_LOOP_BYTES = 16 * 1024
"""Less than this costs about a millisecond at worst, and a change of threads would cost more than most of them."""


class Preparer:
    """One for all followers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-text")
        self._shares = Shares()
        self._maskers: WeakValueDictionary[bytes, Masker] = WeakValueDictionary()
        """Of the versions of containers whose output is being read."""
        self._building = asyncio.Lock()

    async def masker(self, source: Source, sealed: Sequence[bytes], keyring: Keyring) -> Masker:
        """For the secrets in `sealed`; built once for all replicas of a container's version."""
        version = hashlib.sha256(b"".join([source.container_id.encode(), *sealed])).digest()
        while True:
            await self._wait_for_share(source)
            async with self._building:
                masker = self._maskers.get(version)
                if masker is not None:
                    return masker
                # Others of its organization may have used up the share while it stood in line.
                if self._shares.wait_s(source.organization_id, self._clock.monotonic()) > 0:
                    continue
                masker = await self._beside_the_loop(source, lambda: _built(source, sealed, keyring))
                self._maskers[version] = masker
                return masker

    async def texts(self, source: Source, lines: Sequence[RawLine], masker: Masker) -> list[str]:
        """What is shown of each line."""
        if sum([len(line.head) for line in lines]) < BESIDE_THE_LOOP_BYTES:
            return harmless_texts(lines, masker)
        await self._wait_for_share(source)
        return await self._beside_the_loop(source, lambda: harmless_texts(lines, masker))

    async def _beside_the_loop(self, source: Source, work: Callable[[], ResultT]) -> ResultT:
        result, took_s = await asyncio.get_running_loop().run_in_executor(self._thread, _timed, work)
        self._shares.take(source.organization_id, took_s, self._clock.monotonic())
        return result

    async def _wait_for_share(self, source: Source) -> None:
        wait_s = self._shares.wait_s(source.organization_id, self._clock.monotonic())
        if wait_s > 0:
            await self._clock.sleep(wait_s)


class Shares:
    """Until when each organization has paid for what it used, at its share's rate."""

    def __init__(self, share: float = SHARE, at_once_s: float = AT_ONCE_S) -> None:
        self._share = share
        self._spare_s = at_once_s / share
        self._paid_until_s: dict[str, float] = {}

    def take(self, organization_id: str, processor_s: float, now_s: float) -> None:
        since_s = max(self._paid_until_s.get(organization_id, float("-inf")), now_s - self._spare_s)
        self._paid_until_s = {
            name: until_s for name, until_s in self._paid_until_s.items() if until_s > now_s - self._spare_s
        }
        self._paid_until_s[organization_id] = since_s + processor_s / self._share

    def wait_s(self, organization_id: str, now_s: float) -> float:
        return max(0.0, self._paid_until_s.get(organization_id, now_s) - now_s)


def _built(source: Source, sealed: Sequence[bytes], keyring: Keyring) -> Masker:
    values: list[str] = []
    for one in sealed:
        secrets = unseal(keyring, source.container_id, one)
        values += [*secrets.environment.values(), secrets.registry_password or ""]
    return masker_of(values)


def _timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    began_s = processor_time_s()
    result = work()
    return result, processor_time_s() - began_s
