"""Whether a client is still there, of whom more bytes wait to be read than may be."""

import select

from moorage.gateway.holding.relay import Streams


def has_hung_up(client: Streams) -> bool:
    """The end of what it sent is read behind all else that it sent; the kernel knows of it at once."""
    reader, writer = client
    if reader.exception() is not None or writer.is_closing():
        return True
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))
