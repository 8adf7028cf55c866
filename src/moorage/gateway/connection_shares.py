"""Who may hold how many of the gateway's connections, so that nobody can take those of others. Pure.

One HAProxy serves the console's address and the endpoints. Each has connections of its own: whatever happens at one
of them, the other goes on accepting. The two together never need more descriptors than the process may open. Within
each, one source (an IPv4 address, or an IPv6 network of 64 bits, which one host can have all of) holds a part at most.

HTTP/2 carries a hundred requests at a time over one connection, and each has a connection of its own to the container or
the API. So where it is spoken, which is where there is a certificate, requests are limited as connections are.
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
REQUESTS_COUNTER, REQUESTS_OF_SOURCE_COUNTER = SOURCE_COUNTER + 1, SOURCE_COUNTER + 2
RUNNING_COUNTER = SOURCE_COUNTER + 3
"""Of a request that was let in (`key_streams`)."""
RATE_COUNTER, AT_ONCE_COUNTER, LASTING_COUNTER = (SOURCE_COUNTER + more for more in (4, 5, 6))
"""Of `management_pace`."""
CANARY_COUNTER = SOURCE_COUNTER + 4
"""Of `canary_rules`; the management address, which has the same number for something else, knows no canary."""
STICK_COUNTERS = LASTING_COUNTER + 1


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
    tcp-request connection track-sc{SOURCE_COUNTER} {SOURCE} table {frontend}_sources
    tcp-request connection reject if {{ sc_conn_cur({SOURCE_COUNTER}) gt {per_source} }}"""


def limit_requests(
    at_once: int, per_source: int | None, answer: str, *, frontend: str, speaks_http2: bool
) -> str:
    """The same for requests. One too many is answered: to close its connection would end the others on it."""
    if not speaks_http2:
        # Or a client could begin with it nevertheless, without having been offered it.
        return "    option disable-h2-upgrade"
    limits = [(REQUESTS_COUNTER, "int(0)", f"{frontend}_requests", at_once)]
    if per_source is not None:
        limits.append((REQUESTS_OF_SOURCE_COUNTER, SOURCE, f"{frontend}_requests_of_sources", per_source))
    return "\n".join(
        f"""\
    http-request track-sc{counter} {key} table {table}
    http-request return status 429 {answer} hdr Retry-After 1 if {{ sc_conn_cur({counter}) gt {most} }}"""
        for counter, key, table, most in limits
    )


def share_tables(frontend: str, per_source: int | None, *, speaks_http2: bool) -> str:
    """That those lines count in."""
    tables = []
    if per_source is not None:
        tables.append((f"{frontend}_sources", "type ipv6 size 100k expire 1m"))
    if speaks_http2:
        tables.append((f"{frontend}_requests", "type integer size 1k"))
    if speaks_http2 and per_source is not None:
        tables.append((f"{frontend}_requests_of_sources", "type ipv6 size 100k expire 1m"))
    return "".join(
        f"backend {name} from base\n    stick-table {what} store conn_cur\n\n" for name, what in tables
    )
