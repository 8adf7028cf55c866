"""The rules that a request to an endpoint meets, as HAProxy's configuration spells them. Pure.

They run for every request, so each is here at the lowest price that was found for it: a header is looked for once, a
condition is asked once, and what the limits of most containers are is known without a lookup.
"""

from pathlib import Path

from moorage.gateway.answers import endpoint_error
from moorage.gateway.canary_rules import canary_table, pick_for_canary
from moorage.gateway.config import GatewayConfig
from moorage.gateway.connection_shares import (
    RUNNING_COUNTER,
    limit_connections,
    limit_requests,
    share_tables,
)
from moorage.gateway.console_access import console_access
from moorage.gateway.known_paths import KNOWN_MAP, note_known
from moorage.gateway.map_values import (
    KEY_EXPIRY,
    NO_SLOT,
    PATH_PREFIX,
    PROJECT,
    RETRY,
    ROUTE_LIMITS,
    ROUTE_SERVES_V1,
    ROUTE_SLOT,
)
from moorage.gateway.rate_rules import limit_rates, rate_tables
from moorage.gateway.request_log import log_format
from moorage.gateway.table import ID_LENGTH, USUAL_LIMITS

KEYS_MAP = "keys.map"
ROUTES_MAP = "routes.map"
HEALTH_MAP = "health.map"
MESSAGES_MAP = "messages.map"
CANARIES_MAP = "canaries.map"
ENDPOINT_FRONTEND = "endpoints"
RUNNING_TABLE = "running_requests"
HASH_START_LENGTH = 16
"""Of a key's hash, in hex. 64 bits: that two of a million keys begin alike has a chance of 1 in 10⁷."""

_PREFIX_LENGTH = len(PATH_PREFIX) + ID_LENGTH
_SCHEME_LENGTH = len("Bearer ")
_HASH_LENGTH = 64
"""In hex. A fixed length is what keeps a remembered hash and its header apart."""
_RANDOM = "%[rand,bytes(4,4),hex]"
_REQUEST_ID = f"req_%Ts-{_RANDOM}{_RANDOM}"
"""A second and 64 random bits: among 10,000 requests of one second no two are alike (1 in 10¹¹). A UUID, which HAProxy
prints by way of printf, costs eight times as much as a header."""
_PROMISED, _STOCK = "/api/v1/", "/v1/"


def endpoint_frontend(config: GatewayConfig) -> str:
    per_source, speaks_http2 = config.endpoint_connections_per_source, config.endpoint_certificate is not None
    return "\n".join(
        [
            f"frontend {ENDPOINT_FRONTEND} from base",
            f"    {bind(config.endpoint_listen, config.endpoint_certificate)}",
            limit_connections(ENDPOINT_FRONTEND, config.endpoint_connections, per_source),
            f"    unique-id-format {_REQUEST_ID}",
            f"    unique-id-header X-Request-ID{_log_requests(config)}",
            f"    http-error status 400 {endpoint_error('bad_request')}",
            f"    http-error status 408 {endpoint_error('request_timeout')}",
            f"    http-error status 500 {endpoint_error('internal_error')}",
            "    http-after-response set-header X-Request-ID %[unique-id]",
            console_access(config.console_origin),
            # What comes without a key is nobody's and not logged.
            "    http-request set-log-level silent",
            limit_requests(
                config.endpoint_connections,
                per_source,
                endpoint_error("too_many_at_once"),
                frontend=ENDPOINT_FRONTEND,
                speaks_http2=speaks_http2,
            ),
            _key(config),
            _container(config),
            limit_rates(config),
            _note_as_running(),
            _what_the_container_sees(config),
            f"    use_backend slot_%[var(txn.route),{ROUTE_SLOT}]",
            "    default_backend nowhere",
            "",
            "backend nowhere from base",
            f"    http-request return status 503 {endpoint_error('container_not_running')} hdr Retry-After 5",
            "",
            share_tables(ENDPOINT_FRONTEND, per_source, speaks_http2=speaks_http2)
            + rate_tables()
            + _running_table(config)
            + canary_table(),
        ]
    )


def slot_defaults(config: GatewayConfig) -> str:
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
    retry-on conn-failure empty-response
    http-request return status 503 {endpoint_error("queue_full")} hdr Retry-After 1 if {{ queue ge {config.queue_limit} }}
    # The container's own limits stand behind its slot in the map, where they are not the usual ones. Whether a request
    # that got no answer may be sent again, only its owner can say.
    acl retries var(txn.route) -m end :{RETRY}
    http-request disable-l7-retry unless retries
{body_limit()}
    http-request set-timeout server var(txn.limits),field(2,:)
    http-request set-timeout tunnel var(txn.limits),field(3,:)
{pick_for_canary(config.map_path(CANARIES_MAP))}
    http-error status 500 {endpoint_error("internal_error")}
    http-error status 502 {endpoint_error("container_closed_connection")}
    http-error status 503 {endpoint_error(None, messages_map=config.map_path(MESSAGES_MAP))} hdr Retry-After %[nbsrv,bool,iif(1,5)]
    http-error status 504 {endpoint_error("container_timeout")}
    http-after-response set-status 502 reason "Bad Gateway" if {{ var(txn.code) -m str container_unreachable }}
"""


def body_limit() -> str:
    """Ends with the rules that only limits of its own need."""
    too_large = f"return status 413 {endpoint_error('body_too_large')}"
    return f"""\
    http-request set-var(txn.limits) var(txn.route),{ROUTE_LIMITS}
    acl own_limits var(txn.limits) -m found
    http-request {too_large} if {{ req.body_size gt {USUAL_LIMITS.max_body_bytes} }} !own_limits
    http-request allow unless own_limits
    http-request set-var(txn.body) req.body_size
    http-request {too_large} if {{ var(txn.limits),field(1,:),sub(txn.body) lt 0 }}"""


def forwarded_headers(certificate: Path | None, source: str = "%[src]") -> str:
    """Ours, and not the client's version of them. What was deleted need not be looked for again when it is added.

    `Connection` names headers that the next one on the way has to take out. That is for us to say, not for a client: it
    could name ours. So nothing is left of it but a wish to change the protocol."""
    return f"""\
    acl upgrades req.hdr(connection) -m str -i upgrade
    http-request del-header connection unless upgrades
    http-request set-header Connection upgrade if upgrades
    http-request del-header x-forwarded- -m beg
    http-request del-header forwarded
    http-request del-header x-real-ip
    http-request add-header X-Forwarded-For {source}
    http-request add-header X-Forwarded-Proto {"https" if certificate else "http"}
    http-request add-header X-Forwarded-Host %[req.fhdr(host)]"""


def bind(listen: str, certificate: Path | None) -> str:
    return f"bind {listen}" + (f" ssl crt {certificate} alpn h2,http/1.1" if certificate else "")


def _log_requests(config: GatewayConfig) -> str:
    if config.request_log_socket is None:
        return ""
    return f"""
    log ring@requests format raw local0
    log-format "{log_format(config.map_path(KNOWN_MAP))}\""""


def _key(config: GatewayConfig) -> str:
    unauthorized = f"return status 401 {endpoint_error('authentication_failed')} hdr WWW-Authenticate Bearer"
    keys_map = config.map_path(KEYS_MAP)
    return f"""\
    # 1. The key. The whole rest of the only Authorization header is hashed, so nothing can hide behind it.
    http-request set-var(txn.header) req.fhdr(authorization)
    http-request {unauthorized} unless {{ req.fhdr_cnt(authorization) eq 1 }}
    # A hash costs a quarter of a request, and a client repeats its key: its connection remembers the last valid header
    # and the hash of it, in one variable so that they can never belong to different requests. Only the hash is
    # remembered; whether that key is valid is looked up every time.
    acl hashed_before var(sess.hash_and_header),bytes({_HASH_LENGTH}),secure_memcmp(txn.header)
    http-request set-var(txn.key) var(sess.hash_and_header),bytes(0,{_HASH_LENGTH}),map_str({keys_map}) if hashed_before
    http-request set-var(txn.new_hash) var(txn.header),bytes({_SCHEME_LENGTH}),sha2(256),hex if !{{ var(txn.key) -m found }} {{ var(txn.header) -m beg -i "bearer " }}
    http-request set-var(txn.key) var(txn.new_hash),map_str({keys_map})
    http-request set-var(txn.now) date
    http-request {unauthorized} unless {{ var(txn.key),{KEY_EXPIRY},sub(txn.now) gt 0 }}
    http-request set-log-level info
    http-request set-var(sess.hash_and_header) var(txn.new_hash),concat(,txn.header)"""


def _container(config: GatewayConfig) -> str:
    routes_map = config.map_path(ROUTES_MAP)
    # With the character behind it, so that an id followed by anything but a slash is another one.
    by_path = (
        f"http-request set-var(txn.route) path,bytes(0,{_PREFIX_LENGTH + 1}),rtrim(/),map_str({routes_map})"
    )
    find = f"    {by_path}"
    if config.apps_domain is not None:
        find = f"""\
    # By its host, whose first label is the id with a hyphen; then the whole path is the container's. Else by the path.
    http-request set-var(txn.host) req.fhdr(host),host_only,lower
    acl below_our_domain var(txn.host),bytes({ID_LENGTH}) -m str .{config.apps_domain}
    http-request set-var(txn.id) var(txn.host),bytes(4,{ID_LENGTH - 4}) if below_our_domain {{ var(txn.host) -m beg ctr- }}
    acl by_host var(txn.id) -m found
    http-request set-var(txn.route) str({PATH_PREFIX}ctr_),concat(,txn.id),map_str({routes_map}) if by_host
    {by_path} unless by_host"""
    return f"""\
    # 2. A container of that key's project. The client's address, for the log and the container, is spelled once for a
    # connection: to print it costs more than to add its header.
    http-request set-var(sess.client) src,ltrim(0) unless {{ var(sess.client) -m found }}
    http-request set-var(txn.project) var(txn.key),{PROJECT}
{find}
    http-request return status 404 {endpoint_error("not_found")} unless {{ var(txn.route),{PROJECT},strcmp(txn.project) eq 0 }}
    # 3. Running.
    http-request return status 503 {endpoint_error("container_not_running")} hdr Retry-After 5 if {{ var(txn.route) -m end :{NO_SLOT} }}"""


def _note_as_running() -> str:
    return f"""\
    # It is let in. Which requests run with which key: a request's number is what `show sess all` calls its id.
    http-request set-var-fmt(txn.running) %[var(sess.hash_and_header),bytes(0,{HASH_START_LENGTH})]:%rt
    http-request track-sc{RUNNING_COUNTER} var(txn.running) table {RUNNING_TABLE}"""


def _running_table(config: GatewayConfig) -> str:
    """An entry stays while its request runs, and a second more; when the table is full, those that ended go first."""
    size = 2 * config.endpoint_connections
    return f"""
backend {RUNNING_TABLE} from base
    stick-table type string len {HASH_START_LENGTH + 1 + 10} size {size} expire 1s
"""


def _what_the_container_sees(config: GatewayConfig) -> str:
    unless_by_host = " unless by_host" if config.apps_domain is not None else ""
    return f"""\
    # 5. What the container sees: our headers and not the client's version of them, no credentials, no prefix.
{forwarded_headers(config.endpoint_certificate, "%[var(sess.client)]")}
    http-request del-header authorization
    http-request del-header cookie
    http-request del-header x-request-id
    http-request set-uri %[pathq] unless {{ url -m beg / }}
    # The slash is our own, because nothing at all may follow the prefix; behind a prefix there is always one.
    http-request set-path /%[path,bytes({_PREFIX_LENGTH + 1})]{unless_by_host}
{note_known(config.map_path(KNOWN_MAP)) if config.request_log_socket is not None else ""}
    # Of a server that has its API at /v1, the promised /api/v1/… leads there. Nothing else is changed, of nobody.
    http-request set-path %[path,bytes({len(_PROMISED) - len(_STOCK)})] if {{ {ROUTE_SERVES_V1} }} {{ path -m beg {_PROMISED} }}"""
