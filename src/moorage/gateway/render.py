"""HAProxy's configuration and maps as text. Pure: the same input gives the same bytes.

Four files make a state that a cold start or a reload begins with, complete even with Postgres down:
`haproxy.cfg` (rules, slots and their servers) and the maps of keys, routes and health paths. A fifth,
`servers.list`, says the servers again in a form that is easy to read back.

The rules never normalise a path: what was checked is, byte for byte, what is forwarded, less its prefix.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from moorage.gateway.answers import endpoint_error, management_error, status_503_by_cause
from moorage.gateway.config import GatewayConfig
from moorage.gateway.layout import Layout, PlacedServer, Placement
from moorage.gateway.request_log import LOG_FORMAT
from moorage.gateway.table import CONTAINER_ID_LENGTH, KeyEntry

CONFIG_FILE = "haproxy.cfg"
KEYS_MAP = "keys.map"
ROUTES_MAP = "routes.map"
HEALTH_MAP = "health.map"
MESSAGES_MAP = "messages.map"
SERVERS_LIST = "servers.list"
ENDPOINT_FRONTEND = "endpoints"
NEVER_DOWN = 1_000_000
"""Failed checks in a row until HAProxy itself would take a server out: who rests is decided in `liveness`."""

_SCHEME_LENGTH = len("Bearer ")
_HASH_LENGTH = 64
"""In hex. A fixed length is what keeps a remembered hash and its header apart."""
_RING_BYTES = 8 * 2**20
"""About 30,000 requests."""
_NEVER_EPOCH_S = 2**53
"""How the map says that a key does not expire, so that the rules need no exception; no KeyEntry can expire then."""


def render_files(config: GatewayConfig, layout: Layout) -> dict[str, str]:
    """Every file of the state by its name."""
    return {
        CONFIG_FILE: render_config(config, layout),
        KEYS_MAP: _map(key_line(entry) for _, entry in sorted(layout.keys.items())),
        ROUTES_MAP: _map(
            f"{name} {route_value(name, placed)}" for name, placed in sorted(layout.routes.items())
        ),
        HEALTH_MAP: _map(f"{slot_name(slot)} {path}" for slot, path in sorted(layout.health_paths.items())),
        MESSAGES_MAP: _map(f"{code} {message}" for code, message in status_503_by_cause().items()),
        SERVERS_LIST: _map(server_record(placed) for _, placed in sorted(layout.servers.items())),
    }


def render_config(config: GatewayConfig, layout: Layout) -> str:
    rules = _rules(config)
    description = f"    description {fingerprint(config)}\n"
    return "\n".join([_global(config) + description, rules, _slots(config, layout)])


def fingerprint(config: GatewayConfig) -> str:
    """Names the fixed part of the configuration. `show info` repeats it, so that whoever adopts a running
    HAProxy sees whether it has these rules or those of an earlier version."""
    return "moorage-" + hashlib.sha256((_global(config) + _rules(config)).encode()).hexdigest()[:16]


def slot_name(slot: int) -> str:
    return f"slot_{slot}"


def slot_number(name: str) -> int | None:
    prefix, _, number = name.partition("_")
    return int(number) if prefix == "slot" and number.isdigit() else None


def map_key_of(key_hash_hex: str) -> str:
    # HAProxy's `hex` converter writes capitals; storing them saves a conversion on every request.
    return key_hash_hex.upper()


def key_line(entry: KeyEntry) -> str:
    return f"{map_key_of(entry.key_hash_hex)} {key_value(entry)}"


def key_value(entry: KeyEntry) -> str:
    return f"{entry.project_id}:{entry.expires_at_epoch_s or _NEVER_EPOCH_S}:{entry.key_id}"


def expiry_from(text: str) -> int:
    """As `KeyEntry` has it: 0 for never."""
    expires_at_epoch_s = int(text)
    return 0 if expires_at_epoch_s == _NEVER_EPOCH_S else expires_at_epoch_s


def route_value(container_id: str, placement: Placement) -> str:
    """The id again, because the log takes it from here: what stands in the path is the client's."""
    return f"{placement.project_id}:{container_id}:{'-' if placement.slot is None else placement.slot}"


def server_arguments(config: GatewayConfig, placed: PlacedServer) -> str:
    """What follows the server's name, in the configuration and in `add server` alike."""
    host = f"[{placed.server.host}]" if ":" in placed.server.host else placed.server.host
    # uvicorn closes an idle connection after 5 s: ours are gone before that, so none is used while it dies.
    arguments = f"{host}:{placed.server.port} maxconn {placed.max_concurrency} pool-purge-delay 2s"
    if placed.checked:
        arguments += f" check inter {config.health_interval_s}s fall {NEVER_DOWN} rise 1"
    return arguments


def server_record(placed: PlacedServer) -> str:
    server = placed.server
    return (
        f"{placed.slot} {server.replica_id} {server.host} {server.port} "
        f"{placed.max_concurrency} {'checked' if placed.checked else 'unchecked'}"
    )


def _rules(config: GatewayConfig) -> str:
    sections = [_request_ring(config) + _base(config), _slot_defaults(config), _endpoint_frontend(config)]
    if config.management_listen is not None:
        sections.append(_management(config, config.management_listen))
    return "\n".join(sections)


def _global(config: GatewayConfig) -> str:
    # noreuseport: without it a second HAProxy would share the port in silence. A reload does not need
    # SO_REUSEPORT: the new worker gets the listening sockets themselves (expose-fd listeners).
    identity = f"\n    user {config.user}" if config.user else ""
    identity += f"\n    group {config.group}" if config.group else ""
    return f"""\
global
    stats socket {config.stats_socket} mode 600 level admin expose-fd listeners
    stats timeout 60s
    noreuseport
    nbthread {config.threads}
    fd-hard-limit 200000{identity}
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


def _log_requests(config: GatewayConfig) -> str:
    if config.request_log_socket is None:
        return ""
    return f"""
    log ring@requests format raw local0
    log-format "{LOG_FORMAT}\""""


def _base(config: GatewayConfig) -> str:
    return f"""\
defaults base
    mode http
    timeout connect {config.connect_timeout_s}s
    timeout client {config.server_idle_timeout_s}s
    timeout server {config.server_idle_timeout_s}s
    timeout tunnel {config.tunnel_idle_timeout_s}s
    timeout http-request 15s
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


def _slot_defaults(config: GatewayConfig) -> str:
    # HAProxy answers 503 both when no replica could be connected to and when the queue timed out. A chosen
    # server (srv_id) tells the first case. txn.code exists only once the gateway writes its own 503 (`answers`), so
    # a container's 503 is never renamed.
    return f"""\
defaults slots from base
    balance leastconn
    option redispatch 1
    option httpchk
    http-check send meth GET uri-lf "%[be_name,map_str({config.map_path(HEALTH_MAP)},/)]" ver HTTP/1.1 hdr Host container
    http-check expect status 200
    timeout check {config.health_timeout_s}s
    http-request return status 503 {endpoint_error("container_not_running")} hdr Retry-After 5 unless {{ nbsrv gt 0 }}
    http-request return status 503 {endpoint_error("queue_full")} hdr Retry-After 1 if {{ queue ge {config.queue_limit} }}
    http-error status 500 {endpoint_error("internal_error")}
    http-error status 502 {endpoint_error("container_closed_connection")}
    http-error status 503 {endpoint_error(None, messages_map=config.map_path(MESSAGES_MAP))}
    http-error status 504 {endpoint_error("container_timeout")}
    http-after-response set-status 502 reason "Bad Gateway" if {{ var(txn.code) -m str container_unreachable }}
"""


def _endpoint_frontend(config: GatewayConfig) -> str:
    prefix_length = len("/c/") + CONTAINER_ID_LENGTH
    keys_map = config.map_path(KEYS_MAP)
    unauthorized = f"return status 401 {endpoint_error('authentication_failed')} hdr WWW-Authenticate Bearer"
    return f"""\
frontend {ENDPOINT_FRONTEND} from base
    {_bind(config.endpoint_listen, config.endpoint_certificate)}
    unique-id-format req_%[uuid]{_log_requests(config)}
    http-error status 400 {endpoint_error("bad_request")}
    http-error status 408 {endpoint_error("request_timeout")}
    http-error status 500 {endpoint_error("internal_error")}
    http-after-response set-header X-Request-ID %[unique-id]
    # 1. The key. What comes without one is nobody's and not logged. The whole rest of the only Authorization header is hashed, so nothing can hide behind it.
    http-request set-log-level silent
    http-request {unauthorized} unless {{ req.fhdr_cnt(authorization) eq 1 }} {{ req.fhdr(authorization) -m beg -i "bearer " }}
    # A hash costs a quarter of a request, and a client repeats its key: its connection remembers the last valid header
    # and the hash of it, in one variable so that they can never belong to different requests. Only the hash is
    # remembered; whether that key is valid is looked up every time.
    http-request set-var(txn.header) req.fhdr(authorization)
    acl hashed_before var(sess.hash_and_header),bytes({_HASH_LENGTH}),secure_memcmp(txn.header)
    http-request set-var(txn.key) var(sess.hash_and_header),bytes(0,{_HASH_LENGTH}),map_str({keys_map}) if hashed_before
    http-request set-var(txn.new_hash) var(txn.header),bytes({_SCHEME_LENGTH}),sha2(256),hex unless hashed_before
    http-request set-var(txn.key) var(txn.new_hash),map_str({keys_map})
    http-request set-var(txn.now) date
    http-request {unauthorized} unless {{ var(txn.key),field(2,:),sub(txn.now) gt 0 }}
    http-request set-log-level info
    http-request set-var(sess.hash_and_header) var(txn.new_hash),concat(,txn.header)
    http-request set-var(txn.project) var(txn.key),field(1,:)
    # 2. A container of that key's project.
    http-request set-var(txn.route) path,field(3,/),map_str({config.map_path(ROUTES_MAP)}) if {{ path -m beg /c/ }}
    http-request return status 404 {endpoint_error("not_found")} unless {{ var(txn.route),field(1,:),strcmp(txn.project) eq 0 }}
    # 3. Running.
    http-request return status 503 {endpoint_error("container_not_running")} hdr Retry-After 5 if {{ var(txn.route) -m end :- }}
    # 4. What the container sees: our headers and not the client's version of them, no credentials, no prefix.
{_forwarded_headers(config.endpoint_certificate)}
    http-request del-header authorization
    http-request del-header cookie
    http-request set-header X-Request-ID %[unique-id]
    acl nothing_after_the_prefix path,length eq {prefix_length}
    http-request set-uri %[pathq,bytes({prefix_length})] unless nothing_after_the_prefix
    http-request set-uri /%[pathq,bytes({prefix_length})] if nothing_after_the_prefix
    use_backend slot_%[var(txn.route),field(3,:)]
    default_backend nowhere

backend nowhere from base
    http-request return status 503 {endpoint_error("container_not_running")} hdr Retry-After 5
"""


def _management(config: GatewayConfig, listen: str) -> str:
    return f"""\
frontend management from base
    {_bind(listen, config.management_certificate)}
    unique-id-format req_%[uuid]
    http-after-response set-header X-Request-ID %[unique-id] unless {{ res.hdr(x-request-id) -m found }}
{_forwarded_headers(config.management_certificate)}
    http-request set-header X-Request-ID %[unique-id]
    default_backend management

backend management from base
    http-error status 500 {management_error(500)}
    http-error status 502 {management_error(502)}
    http-error status 503 {management_error(503)}
    http-error status 504 {management_error(504)}
    server api unix@{config.api_socket} pool-purge-delay 2s
"""


def _forwarded_headers(certificate: Path | None) -> str:
    return f"""\
    http-request del-header x-forwarded- -m beg
    http-request del-header forwarded
    http-request del-header x-real-ip
    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Proto {"https" if certificate else "http"}
    http-request set-header X-Forwarded-Host %[req.hdr(host)]"""


def _slots(config: GatewayConfig, layout: Layout) -> str:
    by_slot: dict[int, list[PlacedServer]] = {}
    for _, placed in sorted(layout.servers.items()):
        by_slot.setdefault(placed.slot, []).append(placed)
    return "\n".join(_slot_lines(config, layout.slots, by_slot)) + "\n"


def _slot_lines(
    config: GatewayConfig, slots: int, by_slot: Mapping[int, list[PlacedServer]]
) -> Iterator[str]:
    for slot in range(1, slots + 1):
        yield f"backend {slot_name(slot)} from slots"
        for placed in by_slot.get(slot, []):
            yield f"    server {placed.server.replica_id} {server_arguments(config, placed)}"


def _bind(listen: str, certificate: Path | None) -> str:
    return f"bind {listen}" + (f" ssl crt {certificate} alpn h2,http/1.1" if certificate else "")


def _map(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
