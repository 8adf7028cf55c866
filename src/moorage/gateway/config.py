"""What the operator decides about the gateway. Pure.

Every value ends up in HAProxy's configuration, so each is checked when it is made.
"""

import re
from dataclasses import dataclass, fields
from pathlib import Path

from moorage.containers.spec import USUAL_IDLE_TIMEOUT_S, USUAL_REQUEST_TIMEOUT_S

_PATH = re.compile(r"/[A-Za-z0-9_./-]{1,150}")
_SOCKET_PATH_MAX = 88
"""sun_path holds 107 bytes, and HAProxy appends `.<pid>.tmp` while it binds."""
_LISTEN = re.compile(r"(\*|[A-Za-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\]):([0-9]{1,5})")
_HOST = r"([A-Za-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])"
_ORIGIN = re.compile(rf"https?://{_HOST}(:[0-9]{{1,5}})?")
_DOMAIN = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){0,8}")
_THUMBPRINT = re.compile(r"[A-Za-z0-9_-]{43}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True)
class AcmeAnswers:
    """What is said to an authority that certifies names, and where it asks."""

    listen: str
    thumbprint: str
    """Of our account there."""
    origins: tuple[tuple[str, str], ...]
    """By name: where those lead who ask there for something else."""

    def __post_init__(self) -> None:
        _check_listen(self.listen)
        if _THUMBPRINT.fullmatch(self.thumbprint) is None:
            raise ValueError(f"{self.thumbprint!r} is not the thumbprint of a key")
        for name, origin in self.origins:
            if re.fullmatch(_HOST, name) is None or _ORIGIN.fullmatch(origin) is None:
                raise ValueError(f"{name!r} and {origin!r} are not a name and its origin")


@dataclass(frozen=True)
class GatewayConfig:
    """What the operator decides about the gateway; the table is what the users decide."""

    endpoint_listen: str
    state_dir: Path
    """Where the files above lie; HAProxy's runtime commands name the maps by these paths."""
    stats_socket: Path
    management_listen: str | None = None
    api_socket: Path | None = None
    """Of the API process; the user that HAProxy drops to must be able to connect to it."""
    api_upstreams: tuple[str, ...] = ()
    """`host:port` of API processes, used instead of the socket. One alone may be a name with the addresses of all of them."""
    nameserver: str | None = None
    """`address:port`, asked for such names; by default those of /etc/resolv.conf."""
    console_origin: str | None = None
    """Of the web console, whose playground calls endpoints from the browser; no other origin may."""
    apps_domain: str | None = None
    """Containers are also at `{id}.{apps_domain}`, the id's underscore being a hyphen."""
    endpoint_certificate: Path | None = None
    """Of the endpoints: for `*.{apps_domain}`, and for the gateway's own name."""
    management_certificate: Path | None = None
    acme: AcmeAnswers | None = None
    """None: certificates are the operator's to bring, or there are none."""
    request_log_socket: Path | None = None
    """Of the agent, which reads there what requests came in. None: they are not logged."""
    holder_socket: Path | None = None
    """Of the agent, which holds there what is asked of containers that sleep. None: that is refused."""
    released_socket: Path | None = None
    """Where what was held comes back, to be sent to a replica; ours alone."""
    hold_timeout_s: int = 600
    """How long the agent holds a request at most."""
    user: str | None = None
    """Whom the worker becomes when it is started as root."""
    group: str | None = None
    threads: int = 1
    connect_timeout_s: int = 3
    queue_timeout_s: int = 60
    queue_limit: int = 1000
    """Requests of one container that may wait at a time."""
    client_idle_timeout_s: int = 60
    """Without a byte from a client that is sending, or that should take what it asked for."""
    server_idle_timeout_s: int = USUAL_REQUEST_TIMEOUT_S
    """Without a byte from the container, where its route does not say otherwise. A stream that keeps talking has no
    limit."""
    tunnel_idle_timeout_s: int = USUAL_IDLE_TIMEOUT_S
    request_timeout_s: int = 15
    """For a request's head; at the management address also for its body, as far as it fits into a buffer."""
    key_requests_per_s: int = 1000
    """Of one key, at all gateways together, over 10 s; beyond, 429."""
    organization_requests_per_s: int = 3000
    keep_alive_timeout_s: int = 20
    """Between two requests of a client. Longer than HTTP libraries keep a connection (5 to 15 s), and shorter than
    a drain: an idle client of an old worker holds up the drains that a reload meets."""
    endpoint_connections: int = 6000
    """Of clients, at a time. Beyond it new ones wait; those at the management address have their own."""
    management_connections: int = 2000
    endpoint_connections_per_source: int | None = 2000
    """Of one client's address. None: no limit, as behind a load balancer, from which all of them come."""
    management_connections_per_source: int | None = 500
    management_requests_per_s_per_source: int | None = None
    """Over 10 s; beyond, 429. None: no limit."""
    management_requests_at_once_per_source: int | None = None
    health_interval_s: int = 5
    failed_health_interval_s: int = 2
    """After a failed check. Three of them in a row tell that a replica is gone, and a machine that lost its power answers none: each
    takes its whole timeout. What ran there is to be replaced within half a minute."""
    health_timeout_s: int = 5

    def __post_init__(self) -> None:
        _check_listen(self.endpoint_listen)
        for path in (self.state_dir, self.endpoint_certificate, self.management_certificate):
            if path is not None:
                _check_path(path)
        for socket in (
            self.stats_socket,
            self.api_socket,
            self.request_log_socket,
            self.holder_socket,
            self.released_socket,
        ):
            if socket is not None:
                _check_path(socket)
                if len(str(socket)) > _SOCKET_PATH_MAX:
                    raise ValueError(f"{socket} is longer than a socket's path may be ({_SOCKET_PATH_MAX})")
        if self.apps_domain is not None and _DOMAIN.fullmatch(self.apps_domain) is None:
            raise ValueError(f"{self.apps_domain!r} is not a domain such as apps.example.com")
        if (self.holder_socket is None) != (self.released_socket is None):
            raise ValueError("holder_socket and released_socket come together")
        if (self.management_listen is None) != (self.api_socket is None):
            raise ValueError("management_listen and api_socket come together")
        if self.management_listen is not None:
            _check_listen(self.management_listen)
        for address in (*self.api_upstreams, *((self.nameserver,) if self.nameserver else ())):
            _check_listen(address)
            if address.startswith("*"):
                raise ValueError(f"{address!r} is not the address of a server")
        if self.console_origin is not None and _ORIGIN.fullmatch(self.console_origin) is None:
            raise ValueError(f"{self.console_origin!r} is not an origin, such as https://cloud.example.com")
        for name in (self.user, self.group):
            if name is not None and _USER.fullmatch(name) is None:
                raise ValueError(f"{name!r} is not a user or group name")
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type is int or (setting.type == int | None and value is not None):
                _check_positive(value)

    @property
    def certificates(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.endpoint_certificate, self.management_certificate) if path)

    def map_path(self, name: str) -> str:
        return str(self.state_dir / name)


def _check_listen(listen: str) -> None:
    match = _LISTEN.fullmatch(listen)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(f"{listen!r} is not an address to listen on, such as 127.0.0.1:8081 or [::1]:8081")


def _check_path(path: Path) -> None:
    if _PATH.fullmatch(str(path)) is None:
        raise ValueError(f"{str(path)!r} is not an absolute path of letters, digits and _ . / -")


def _check_positive(number: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 1_000_000:
        raise ValueError(f"{number!r} is not a number between 1 and 1,000,000")
