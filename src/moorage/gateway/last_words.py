"""An answer that is waited for only as long as the process that owes it is there.

An old worker of HAProxy ends as soon as it has nothing left to do, perhaps while it is being asked. The master, which passes
the question on, then says neither an answer nor that there is none, and whoever asked would wait for the whole timeout.
"""

import asyncio
import os
from collections.abc import Awaitable

from moorage.gateway.runtime_socket import HaproxyError

_LAST_WORDS_S = 0.2
"""What it said before it ended may be on its way."""


async def while_it_lives(pid: int, answer: Awaitable[str]) -> str:
    loop = asyncio.get_running_loop()
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        process = None
    try:
        async with asyncio.timeout(_LAST_WORDS_S if process is None else None) as limit:
            if process is not None:

                def ended() -> None:
                    loop.remove_reader(process)
                    limit.reschedule(loop.time() + _LAST_WORDS_S)

                loop.add_reader(process, ended)
            return await answer
    except TimeoutError as exc:
        raise HaproxyError(f"HAProxy's old worker {pid} ended while it was asked") from exc
    finally:
        if process is not None:
            loop.remove_reader(process)
            os.close(process)
