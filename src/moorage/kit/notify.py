"""Telling systemd how a service of type `notify` is doing."""

import os
import socket


def tell_service_manager(state: str) -> None:
    """E.g. `READY=1`. Nothing where nobody asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
        told.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        told.sendall(state.encode())
