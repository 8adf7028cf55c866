"""Who may hold how many of the gateway's connections, so that nobody can take those of others. Pure.

One HAProxy serves the console's address and the endpoints. Each has connections of its own: whatever happens at one
of them, the other goes on accepting. The two together never need more descriptors than the process may open. Within
each, one source (an IPv4 address, or an IPv6 network of 64 bits, which one host can have all of) holds a part at most.
"""

from dataclasses import dataclass

DESCRIPTORS_MAX = 200_000
_DESCRIPTORS_PER_CONNECTION = 2
"""A client's, and the one to the container or the API."""
_DESCRIPTORS_ASIDE = 200
"""Listeners, sockets of the runtime API, the log."""
_SHARE_OF_CLIENTS = 0.9
"""Of the rest; what is left is for health checks and for idle connections to containers."""
_MANAGEMENT_SHARE_MAX = 0.25

SOURCE = "src,ipmask(32,64)"
SOURCE_COUNTER = 3
"""The stick counters before it belong to requests (`endpoint_rules`), this one to the connection."""
STICK_COUNTERS = SOURCE_COUNTER + 1


@dataclass(frozen=True)
class ConnectionShares:
    endpoints: int
    management: int


def share_connections(descriptors: int, management_wanted: int) -> ConnectionShares:
    """`descriptors`: how many the process may open. Endpoints get at least three quarters, whatever management wants."""
    usable = min(descriptors, DESCRIPTORS_MAX) - _DESCRIPTORS_ASIDE
    connections = max(8, int(usable * _SHARE_OF_CLIENTS) // _DESCRIPTORS_PER_CONNECTION)
    management = min(management_wanted, int(connections * _MANAGEMENT_SHARE_MAX))
    return ConnectionShares(connections - management, management)


def limit_connections(frontend: str, at_once: int, per_source: int | None) -> str:
    """The lines of a frontend. A connection beyond its source's part is closed before it costs anything."""
    if per_source is None:
        return f"    maxconn {at_once}"
    return f"""\
    maxconn {at_once}
    tcp-request connection track-sc{SOURCE_COUNTER} {SOURCE} table {_table(frontend)}
    tcp-request connection reject if {{ sc_conn_cur({SOURCE_COUNTER}) gt {per_source} }}"""


def source_table(frontend: str, per_source: int | None) -> str:
    if per_source is None:
        return ""
    return f"""\
backend {_table(frontend)} from base
    stick-table type ipv6 size 100k expire 1m store conn_cur

"""


def _table(frontend: str) -> str:
    return f"{frontend}_sources"
