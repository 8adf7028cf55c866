"""Whether somebody listens at the other end."""

import asyncio


async def answers(address: str, port: int, within_s: float) -> bool:
    """To a connection; nothing is said."""
    try:
        async with asyncio.timeout(within_s):
            _, writer = await asyncio.open_connection(address, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
