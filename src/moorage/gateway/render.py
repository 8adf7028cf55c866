"""HAProxy's configuration and maps as text. Pure: the same input gives the same bytes.

Four files make a state that a cold start or a reload begins with, complete even with Postgres down:
`haproxy.cfg` (rules, slots and their servers) and the maps of keys, routes and health paths. A fifth,
`servers.list`, says the servers again in a form that is easy to read back.

The rules never normalise a path: what was checked is, byte for byte, what is forwarded, less its prefix.
"""

import hashlib
from collections.abc import Iterable, Mapping

from moorage.engines.doors import door_name
from moorage.gateway.acme.frontend import ACME_CONNECTIONS, acme_frontend
from moorage.gateway.answers import management_error, status_503_by_cause
from moorage.gateway.api_upstreams import api_servers, resolvers
from moorage.gateway.canary_rules import USE_PICKED_SERVER
from moorage.gateway.config import GatewayConfig
from moorage.gateway.connection_shares import (
    DESCRIPTORS_MAX,
    STICK_COUNTERS,
    limit_connections,
    limit_requests,
    share_tables,
)
from moorage.gateway.endpoint_rules import (
    CANARIES_MAP,
    HEALTH_MAP,
    KEYS_MAP,
    MESSAGES_MAP,
    ROUTES_MAP,
    bind,
    endpoint_frontend,
    forwarded_headers,
    slot_defaults,
)
from moorage.gateway.held_rules import RELEASED_CONNECTIONS, held_requests
from moorage.gateway.known_paths import KNOWN, KNOWN_MAP
from moorage.gateway.layout import Layout, PlacedServer
from moorage.gateway.management_pace import limit_pace, pace_tables
from moorage.gateway.map_values import canary_entries, key_value, map_key_of, route_key, route_value
from moorage.gateway.rate_rules import DIVISOR_KEY, LIMITS_MAP
from moorage.gateway.table import KeyEntry

CONFIG_FILE = "haproxy.cfg"
MANAGEMENT_FRONTEND = "management"
SERVERS_LIST = "servers.list"
AUTHORITIES_FILE = "doors.pem"
_NO_AUTHORITIES = "none"
NEVER_DOWN = 1_000_000
"""Failed checks in a row until HAProxy itself would take a server out: who rests is decided in `liveness`."""

_RING_BYTES = 8 * 2**20
"""About 30,000 requests."""


def render_files(config: GatewayConfig, layout: Layout, *, keys_text: str | None = None) -> dict[str, str]:
    """Every file of the state by its name. `keys_text` is that of the keys, where it is known from before."""
    return {
        CONFIG_FILE: render_config(config, layout),
        KEYS_MAP: _keys(layout.keys) if keys_text is None else keys_text,
        ROUTES_MAP: _map(
            f"{route_key(name)} {route_value(name, placed)}" for name, placed in sorted(layout.routes.items())
        ),
        HEALTH_MAP: _map(f"{slot_name(slot)} {path}" for slot, path in sorted(layout.health_paths.items())),
        CANARIES_MAP: _map(
            f"{key} {name}"
            for _, placed in sorted(layout.routes.items())
            for key, name in canary_entries(placed).items()
        ),
        MESSAGES_MAP: _map(f"{code} {message}" for code, message in status_503_by_cause().items()),
        LIMITS_MAP: _map(f"{key} {value}" for key, value in limit_entries(layout).items()),
        KNOWN_MAP: _map(f"{word} {word}" for word in KNOWN),
        SERVERS_LIST: _map(server_record(placed) for _, placed in sorted(layout.servers.items())),
        AUTHORITIES_FILE: layout.door_authorities,
    }


def render_config(config: GatewayConfig, layout: Layout) -> str:
    rules = _rules(config)
    description = f"    description {fingerprint(config)} {digest_of(layout.door_authorities)}\n"
    return "\n".join([_global(config) + description, rules, _doors(config, layout) + _slots(config, layout)])


def fingerprint(config: GatewayConfig) -> str:
    """Names the fixed part of the configuration. `show info` repeats it, so that whoever adopts a running
    HAProxy sees whether it has these rules or those of an earlier version."""
    return "moorage-" + hashlib.sha256((_global(config) + _rules(config)).encode()).hexdigest()[:16]


def digest_of(authorities: str) -> str:
    """The second word of that description: whom a running HAProxy trusts that a replica is behind its door."""
    return hashlib.sha256(authorities.encode()).hexdigest()[:16] if authorities else _NO_AUTHORITIES


def limit_entries(layout: Layout) -> dict[str, str]:
    """Nothing where no other gateway lets in requests: then the rules have nothing to divide."""
    return {DIVISOR_KEY: str(layout.limit_divisor)} if layout.limit_divisor > 1 else {}


def limit_divisor_from(entries: Mapping[str, str]) -> int:
    return int(entries.get(DIVISOR_KEY, "1"))


def slot_name(slot: int) -> str:
    return f"slot_{slot}"


def slot_number(name: str) -> int | None:
    prefix, _, number = name.partition("_")
    return int(number) if prefix == "slot" and number.isdigit() else None


def server_arguments(config: GatewayConfig, placed: PlacedServer) -> str:
    """What follows the server's name, in the configuration and in `add server` alike."""
    host = f"[{placed.server.host}]" if ":" in placed.server.host else placed.server.host
    # uvicorn closes an idle connection after 5 s: ours are gone before that, so none is used while it dies.
    arguments = f"{host}:{placed.server.port} maxconn {placed.max_concurrency} pool-purge-delay 2s"
    if placed.server.has_door:
        # Nothing of a request leaves before the other side has proved that it is this replica. What cannot prove it counts as
        # a connection that failed, so another replica is asked. A session is taken up again only with who has its secret; 1.2 does
        # that without another key exchange, for half of what it costs in 1.3.
        name = door_name(placed.server.replica_id)
        authorities = config.state_dir / AUTHORITIES_FILE
        arguments += f" ssl ssl-min-ver TLSv1.2 ssl-max-ver TLSv1.2 verify required ca-file {authorities} verifyhost {name}"
        arguments += " check-ssl" if placed.checked else ""
    if placed.checked:
        soon_s = min(config.failed_health_interval_s, config.health_interval_s)
        arguments += f" check inter {config.health_interval_s}s fastinter {soon_s}s fall {NEVER_DOWN} rise 1"
    return arguments


def server_record(placed: PlacedServer) -> str:
    server = placed.server
    return (
        f"{placed.slot} {server.replica_id} {server.host} {server.port} "
        f"{placed.max_concurrency} {'checked' if placed.checked else 'unchecked'} {'door' if server.has_door else 'plain'} "
        f"{'canary' if server.on_trial else 'usual'}"
    )


def _rules(config: GatewayConfig) -> str:
    sections = [_request_ring(config) + _base(config), slot_defaults(config), endpoint_frontend(config)]
    sections.append(held_requests(config))
    if config.management_listen is not None:
        sections.append(_management(config, config.management_listen))
    if config.acme is not None:
        sections.append(acme_frontend(config.acme))
    return "\n".join(sections)


def _global(config: GatewayConfig) -> str:
    # noreuseport: without it a second HAProxy would share the port in silence. A reload does not need
    # SO_REUSEPORT: the new worker gets the listening sockets themselves (expose-fd listeners).
    identity = f"\n    user {config.user}" if config.user else ""
    identity += f"\n    group {config.group}" if config.group else ""
    # All that the frontends may have, so that none of them waits for another.
    connections = config.endpoint_connections
    connections += config.management_connections if config.management_listen is not None else 0
    connections += ACME_CONNECTIONS if config.acme is not None else 0
    connections += RELEASED_CONNECTIONS if config.released_socket is not None else 0
    return f"""\
global
    stats socket {config.stats_socket} mode 600 level admin expose-fd listeners
    stats timeout 60s
    noreuseport
    nbthread {config.threads}
    fd-hard-limit {DESCRIPTORS_MAX}{identity}
    maxconn {connections}
    # A worker that may open less than the one before it still serves, and says so.
    no strict-limits
    tune.stick-counters {STICK_COUNTERS}
    # Remembers what a text matched, to spare lists of patterns; ours are of one pattern, and asking costs more.
    tune.pattern.cache-size 0
    ssl-default-bind-options ssl-min-ver TLSv1.2
"""


def _request_ring(config: GatewayConfig) -> str:
    """Where lines wait for the agent, and stay while it restarts; when the ring is full, the oldest go."""
    if config.request_log_socket is None:
        return ""
    return f"""\
ring requests
    format raw
    maxlen 1024
    size {_RING_BYTES}
    timeout connect 2s
    timeout server 10s
    server agent unix@{config.request_log_socket}

"""


def _base(config: GatewayConfig) -> str:
    return f"""\
defaults base
    mode http
    timeout connect {config.connect_timeout_s}s
    timeout client {config.client_idle_timeout_s}s
    timeout server {config.server_idle_timeout_s}s
    timeout tunnel {config.tunnel_idle_timeout_s}s
    timeout http-request {config.request_timeout_s}s
    timeout http-keep-alive {config.keep_alive_timeout_s}s
    timeout queue {config.queue_timeout_s}s
    retries 3
    retry-on conn-failure
    # A streamed token must not wait for the next one; a container must learn that its client left.
    option http-no-delay
    option abortonclose
    # safe: the first request of a client never travels on a connection that may just be closing.
    http-reuse safe
"""


def _management(config: GatewayConfig, listen: str) -> str:
    per_source, speaks_http2 = (
        config.management_connections_per_source,
        config.management_certificate is not None,
    )
    limited_requests = limit_requests(
        config.management_connections,
        per_source,
        management_error(429),
        frontend=MANAGEMENT_FRONTEND,
        speaks_http2=speaks_http2,
    )
    pace = config.management_requests_per_s_per_source, config.management_requests_at_once_per_source
    limited_pace = limit_pace(MANAGEMENT_FRONTEND, *pace, management_error(429))
    tables = share_tables(MANAGEMENT_FRONTEND, per_source, speaks_http2=speaks_http2)
    tables += pace_tables(MANAGEMENT_FRONTEND, *pace)
    return f"""\
frontend {MANAGEMENT_FRONTEND} from base
    {bind(listen, config.management_certificate)}
{limit_connections(MANAGEMENT_FRONTEND, config.management_connections, per_source)}
    http-error status 400 {management_error(400)}
    http-error status 408 {management_error(408)}
    unique-id-format req_%[uuid]
    http-after-response set-header X-Request-ID %[unique-id] unless {{ res.hdr(x-request-id) -m found }}
{limited_requests}
{limited_pace}    # What a client sends byte by byte waits here, where waiting is cheap: the API gets a request with its body, or
    # with as much of a long one as fits into a buffer. Only now: whoever is refused above is so without a wait for it.
    http-request wait-for-body time {config.request_timeout_s}s
{forwarded_headers(config.management_certificate)}
    http-request set-header X-Request-ID %[unique-id]
    default_backend management

{tables}{resolvers(config)}backend management from base
    http-error status 500 {management_error(500)}
    http-error status 502 {management_error(502)}
    http-error status 503 {management_error(503)}
    http-error status 504 {management_error(504)}
{api_servers(config)}
"""


def _doors(config: GatewayConfig, layout: Layout) -> str:
    """Servers are added at run time, when HAProxy reads no files: it takes a file then if one of its own servers named it."""
    if not layout.door_authorities:
        return ""
    return f"""\
backend doors from base
    server nobody 127.0.0.1:1 disabled ssl verify required ca-file {config.state_dir / AUTHORITIES_FILE}

"""


def _slots(config: GatewayConfig, layout: Layout) -> str:
    by_slot: dict[int, list[PlacedServer]] = {}
    for _, placed in sorted(layout.servers.items()):
        by_slot.setdefault(placed.slot, []).append(placed)
    lines = []
    for slot in range(1, layout.slots + 1):
        lines.append(f"backend {slot_name(slot)} from slots")
        lines.append(USE_PICKED_SERVER)
        for placed in by_slot.get(slot, ()):
            weight = " weight 0" if placed.server.on_trial else ""
            lines.append(f"    server {placed.server.replica_id} {server_arguments(config, placed)}{weight}")
    return "\n".join(lines) + "\n"


def _keys(keys: Mapping[str, KeyEntry]) -> str:
    return _map(f"{map_key_of(key)} {key_value(entry)}" for key, entry in sorted(keys.items()))


def _map(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
