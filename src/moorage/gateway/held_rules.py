"""The rules for requests to containers that sleep, as HAProxy's configuration spells them. Pure.

They come here with their key, its rates and the container's own limits checked, as what the container is to see. The agent holds
them (`holding/`), and sends them back through a socket of ours: from there on their slot's queue, limits and counters are those of
any other request. Their key is not looked at again: it is what the first way through runs with, which ends when it is revoked.
"""

from moorage.gateway.answers import endpoint_error
from moorage.gateway.config import GatewayConfig
from moorage.gateway.endpoint_rules import ROUTES_MAP, body_limit
from moorage.gateway.map_values import (
    ASLEEP,
    KEY_ID,
    KEY_ORGANIZATION,
    PATH_PREFIX,
    ROUTE_CONTAINER,
    ROUTE_SLOT,
)
from moorage.gateway.table import MAX_TIMEOUT_S

CONTAINER_HEADER, KEY_HEADER = "X-Moorage-Container", "X-Moorage-Key"
ORGANIZATION_HEADER = "X-Moorage-Organization"
"""Of a request that is to be held."""
REPLICA_HEADER, ASLEEP_HEADER = "X-Moorage-Replica", "X-Moorage-Asleep"
"""Of its answer; no client sees them."""
_OURS = "x-moorage-"
RELEASED_CONNECTIONS = 2048
"""Of what was held, at a time; more wait a moment longer. They come on top of those of clients."""


def held_requests(config: GatewayConfig) -> str:
    if config.holder_socket is None:
        return f"""\
backend slot_{ASLEEP} from base
    http-request return status 503 {endpoint_error("container_asleep")} hdr Retry-After 5
"""
    # The agent ends what it holds in time. These are for one that lives and does nothing; its death is seen at once.
    usual_s = config.hold_timeout_s + config.server_idle_timeout_s
    return f"""\
backend slot_{ASLEEP} from base
    http-reuse never
    timeout server {usual_s}s
    timeout tunnel {MAX_TIMEOUT_S}s
    http-request del-header {_OURS} -m beg
    http-request set-header {CONTAINER_HEADER} %[var(txn.route),{ROUTE_CONTAINER}]
    http-request set-header {KEY_HEADER} %[var(txn.key),{KEY_ID}]
    http-request set-header {ORGANIZATION_HEADER} %[var(txn.key),{KEY_ORGANIZATION}]
{body_limit()}
    http-request set-timeout server var(txn.limits),field(2,:),add({config.hold_timeout_s * 1000})
    http-response del-header {_OURS} -m beg
    http-error status 500 {endpoint_error("internal_error")}
    http-error status 502 {endpoint_error("wake_interrupted")} hdr Retry-After 1
    http-error status 503 {endpoint_error("container_asleep")} hdr Retry-After 5
    http-error status 504 {endpoint_error("wake_timeout")} hdr Retry-After 5
    server holder unix@{config.holder_socket}

frontend released from base
    bind unix@{config.released_socket} mode 600
    maxconn {RELEASED_CONNECTIONS}
    unique-id-format %[req.fhdr(x-request-id)]
    http-request set-var(txn.container) req.fhdr({CONTAINER_HEADER})
    http-request set-var(txn.route) str({PATH_PREFIX}),concat(,txn.container),map_str({config.map_path(ROUTES_MAP)})
    http-request del-header {_OURS} -m beg
    # Asleep again: the agent has not sent anything to a container yet, and holds it once more.
    http-request return status 503 {endpoint_error("container_asleep")} hdr Retry-After 5 hdr {ASLEEP_HEADER} again if {{ var(txn.route),{ROUTE_SLOT} -m str {ASLEEP} }}
    http-response set-header {REPLICA_HEADER} %s
    use_backend slot_%[var(txn.route),{ROUTE_SLOT}]
    default_backend nowhere
"""
