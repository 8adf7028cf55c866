"""The API processes that the management address leads to: the socket of this machine's, or several at addresses. Pure.

Of several, those serve that say they are ready (`/readyz`). When none says so, because the database is away perhaps, they
are asked all the same: what they answer then says more than HAProxy could. A request that one did not take goes to another; one
that it took and left unanswered does so only if it asks and changes nothing. What changes something is for the client to
repeat, with its `Idempotency-Key`: only it knows whether it may.
"""

import ipaddress

from moorage.gateway.config import GatewayConfig

MOST_BEHIND_A_NAME = 16
_CHECK = "check inter 1s fastinter 500ms fall 2 rise 1"
_HANDLING = "pool-purge-delay 2s"


def api_servers(config: GatewayConfig) -> str:
    if not config.api_upstreams:
        return f"    server api unix@{config.api_socket} {_HANDLING}"
    lines = [
        "option httpchk",
        "http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host api",
        "http-check expect status 200",
        # Readiness itself gives the database three seconds.
        "timeout check 4s",
        "balance leastconn",
        "option redispatch 1",
        "option allbackups",
        "retry-on conn-failure empty-response",
        "http-request disable-l7-retry unless { method GET HEAD OPTIONS }",
    ]
    for kind, options in (("api", _CHECK), ("unready", "backup")):
        lines += [
            f"{_server(kind, at, address, alone=len(config.api_upstreams) == 1)} {options} {_HANDLING}"
            for at, address in enumerate(config.api_upstreams, 1)
        ]
    return "\n".join(f"    {line}" for line in lines)


def resolvers(config: GatewayConfig) -> str:
    if not any(_is_name(address) for address in config.api_upstreams):
        return ""
    asked = f"nameserver given {config.nameserver}" if config.nameserver else "parse-resolv-conf"
    return f"""\
resolvers names
    {asked}
    accepted_payload_size 8192
    timeout resolve 1s
    timeout retry 1s
    hold valid 1s
    # An address that is no longer named goes, and one outage of the name server takes none away.
    hold obsolete 5s
    hold nx 1h
    hold timeout 1h
    hold refused 1h
    hold other 1h

"""


def _server(kind: str, at: int, address: str, *, alone: bool) -> str:
    if not _is_name(address):
        return f"server {kind}{at} {address}"
    # HAProxy starts although nobody answers for the name yet.
    options = "resolvers names resolve-prefer ipv4 init-addr none"
    if alone:
        return f"server-template {kind} {MOST_BEHIND_A_NAME} {address} {options}"
    return f"server {kind}{at} {address} {options}"


def _is_name(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False
