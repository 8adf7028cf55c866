"""Runtime commands as HAProxy spells them. Pure.

They are built from values that validated themselves (`table`, `layout`), and looked at once more before they leave
(`runtime_socket`).
"""

from moorage.gateway.config import GatewayConfig
from moorage.gateway.layout import PlacedServer, ServerKey
from moorage.gateway.render import server_arguments, slot_name

KEY_NOT_FOUND = "Key not found."


def add_server(config: GatewayConfig, placed: PlacedServer) -> str:
    """It is born in maintenance; `make_ready` lets requests in."""
    return f"add server {_name(placed.key)} {server_arguments(config, placed)}"


def make_ready(placed: PlacedServer) -> list[str]:
    made = [f"set server {_name(placed.key)} state ready"]
    if placed.checked:
        # To become ready makes HAProxy forget what it thought of the server's health, so trust comes last.
        made = [f"enable health {_name(placed.key)}", *made, trust(placed.key)]
    # Not with `add server … weight 0`: HAProxy 2.8 balances to such a one from its first request by `use-server` on.
    return [*made, let_rest(placed.key)] if placed.server.on_trial else made


def drain(key: ServerKey) -> str:
    return f"set server {_name(key)} state drain"


def trust(key: ServerKey) -> str:
    """It passed our own probe before it came here: as if its checks had been good so far."""
    return f"set server {_name(key)} health up"


def let_rest(key: ServerKey) -> str:
    """It stays ready and is checked on, but gets no new requests."""
    return f"set weight {_name(key)} 0"


def let_in(key: ServerKey) -> str:
    # Not in percent: that would be of the weight that it was added with, and what was on trial had none.
    return f"set weight {_name(key)} 1"


def put_into_maintenance(key: ServerKey) -> str:
    return f"set server {_name(key)} state maint"


def stop_server(key: ServerKey) -> list[str]:
    """No new request, and whatever it still has is cut."""
    return [put_into_maintenance(key), f"shutdown sessions server {_name(key)}"]


def end_session(session: str) -> str:
    return f"shutdown session {session}"


def delete_server(key: ServerKey) -> str:
    return f"del server {_name(key)}"


def limit_server(placed: PlacedServer) -> str:
    return f"set maxconn server {_name(placed.key)} {placed.max_concurrency}"


def set_map(path: str, key: str, value: str) -> str:
    return f"set map {path} {key} {value}"


def delete_from_map(path: str, key: str) -> str:
    return f"del map {path} {key}"


def _name(key: ServerKey) -> str:
    slot, replica_id = key
    return f"{slot_name(slot)}/{replica_id}"
