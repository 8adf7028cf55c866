"""Which addresses may be connected to where a user chose the host: a registry, its token realm, its redirects, a webhook.

A user chooses the registry, and the registry chooses where it sends us next. Neither may make Moorage knock
at the operator's own network or at a cloud's metadata service. So every host is looked up once for each
pre-flight, pull or delivery, all its addresses are judged, and connections go to exactly those: a name that answers with a
public address first and with a private one later (DNS rebinding) gains nothing.

Only what the operator lists in `allowed_registries` may be private, and only for images that come from a
listed registry: a public registry cannot send us to the operator's private one.
"""

import asyncio
import functools
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from yarl import URL

from moorage.outbound.networks import GLOBAL_IPV6, NOT_PUBLIC, NOT_PUBLIC_IPV6

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str, int], Awaitable[tuple[str, ...]]]
"""From a host name and a port to its addresses; raises `OSError` where there are none."""

_LOOKUP_THREADS = ThreadPoolExecutor(64, thread_name_prefix="names")
"""A name whose server never answers keeps a thread for as long as the resolver waits, whoever has given up meanwhile. The
loop's own for names are four, or those that everything else of the process uses."""
_MAX_ADDRESSES = 32
_MAX_HOSTS = 64
"""Of one image. A registry keeps its layers at one or two other hosts."""
_MAX_URL_CHARACTERS = 4096
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_CANONICAL_IPV4 = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_URL_CHARACTERS = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without space and backslash, which programs read in different ways."""
_PRIVATE_TOP_LABELS = ("local", "internal", "localhost", "localdomain", "lan", "home", "corp", "arpa")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Beside `is_global`, whose idea of some networks changed between patch releases of Python.
_REFUSED_IPV4 = tuple(ipaddress.IPv4Network(network) for network in NOT_PUBLIC)
_REFUSED_IPV6 = tuple(ipaddress.IPv6Network(network) for network in NOT_PUBLIC_IPV6)
_GLOBAL_IPV6 = ipaddress.IPv6Network(GLOBAL_IPV6)
_ISATAP_MARKS = (0x00005EFE, 0x02005EFE)


class AddressRefusedError(ValueError):
    """The message is a clause about the host: `registry.example is at a private address`."""


@dataclass(frozen=True)
class Origin:
    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _default_port(self.scheme) else f"{host}:{self.port}"

    @property
    def authority(self) -> tuple[str, int]:
        return self.host, self.port


class Reach:
    """What may be reached for one image; remembers the addresses it has judged.

    Every connection passes here twice: `vet` before a request, and `is_vetted` for the address that is about
    to be connected to.
    """

    def __init__(self, registry: Origin, allowed: tuple[str, ...], lookup: Lookup) -> None:
        listed = frozenset(registry_origin(entry).authority for entry in allowed)
        self._listed = listed if registry.authority in listed else frozenset()
        self._lookup = lookup
        self._addresses: dict[tuple[str, int], tuple[str, ...]] = {}

    async def vet(self, url: URL) -> None:
        """Raises `AddressRefusedError` if nothing may be sent there, `OSError` if its name is unknown."""
        origin = origin_of(url)
        listed = origin.authority in self._listed
        if origin.scheme != "https" and not (listed and is_loopback_name(origin.host)):
            raise AddressRefusedError(f"{origin} is not reached by HTTPS")
        if origin.authority in self._addresses:
            return
        literal = _literal(origin.host)
        if literal is None and not listed and not _may_be_public(origin.host):
            raise AddressRefusedError(f"{origin} is a name of a private network")
        found = (str(literal),) if literal else await self._lookup(origin.host, origin.port)
        addresses = tuple(ipaddress.ip_address(address) for address in found[:_MAX_ADDRESSES])
        if not addresses:
            raise OSError(f"{origin.host} has no address")
        # All of them must be public, not one: the connection may take any.
        if not listed and not all(is_public_address(address) for address in addresses):
            raise AddressRefusedError(f"{origin} is at a private address")
        if origin.scheme != "https" and not all(address.is_loopback for address in addresses):
            raise AddressRefusedError(f"{origin} is not reached by HTTPS")
        if len(self._addresses) >= _MAX_HOSTS:
            raise AddressRefusedError(f"{origin} is one host too many")
        self._addresses[origin.authority] = tuple(str(address) for address in addresses)

    def vetted(self, host: str, port: int) -> tuple[str, ...]:
        return self._addresses.get((host.lower(), port), ())

    def is_vetted(self, address: str, port: int) -> bool:
        canonical = str(ipaddress.ip_address(address))
        return any(
            port == vetted_port and canonical in addresses
            for (_, vetted_port), addresses in self._addresses.items()
        )


def is_allowed_by_name(registry: str, allowed: tuple[str, ...]) -> bool:
    """What can be said of `host` or `host:port` before any lookup, so that a form can say it at once."""
    origin = registry_origin(registry)
    if any(origin.authority == registry_origin(entry).authority for entry in allowed):
        return True
    literal = _literal(origin.host)
    if literal is not None:
        return is_public_address(literal)
    return _is_spelled_well(origin.host) and _may_be_public(origin.host)


def registry_origin(registry: str) -> Origin:
    """`ghcr.io` → HTTPS at port 443; `127.0.0.1:5000` → plain HTTP, as Docker has it for loopback."""
    name, colon, port = registry.lower().rpartition(":")
    host = (name if colon else registry.lower()).strip("[]")
    if host in ("docker.io", "index.docker.io"):
        host = "registry-1.docker.io"  # the name that users write serves a web site, not the registry
    scheme = "http" if is_loopback_name(host) else "https"
    try:
        return Origin(scheme, host, int(port) if colon else _default_port(scheme))
    except ValueError as exc:
        raise AddressRefusedError(f"{registry[:100]!r} is not a host name with an optional port") from exc


def origin_of(url: URL) -> Origin:
    if url.scheme not in ("https", "http") or url.raw_host is None:
        raise AddressRefusedError("the address does not begin with https:// and a host name")
    if url.raw_user is not None or url.raw_password is not None:
        raise AddressRefusedError("the address holds a user name or password")
    host = url.raw_host.lower()
    if not _is_spelled_well(host):
        raise AddressRefusedError("the address has a host that is neither a name nor a plain IP address")
    if url.port is None or not 0 < url.port < 65536:
        raise AddressRefusedError("the address has a port that does not exist")
    return Origin(url.scheme, host, url.port)


def strict_url(text: str, *, base: URL | None = None) -> URL:
    """The address in a header, where its spelling leaves no room for two readings."""
    if len(text) > _MAX_URL_CHARACTERS or not _URL_CHARACTERS.fullmatch(text):
        raise AddressRefusedError("the address holds characters that no web address has")
    try:
        url = URL(text, encoded=True)
        url = base.join(url) if base is not None else url
        # The same text once more, by eye: what stands between // and the next / is the host that we judge.
        authority = str(url).partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0]
        origin = origin_of(url)
    except AddressRefusedError:
        raise
    # yarl stumbles over an empty pair of brackets.
    except (ValueError, IndexError) as exc:
        raise AddressRefusedError("the address cannot be read") from exc
    if authority.lower() not in _spellings(origin):
        raise AddressRefusedError("the address can be read in more than one way")
    return url


def is_loopback_name(host: str) -> bool:
    literal = _literal(host)
    return host == "localhost" if literal is None else literal.is_loopback


def is_public_address(address: Address) -> bool:
    """Where IPv6 carries an IPv4 address inside, both must be public."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _REFUSED_IPV4)
    embedded = _embedded_ipv4(address)
    if address.ipv4_mapped is not None or address in _NAT64:
        return embedded is not None and is_public_address(embedded)
    if address not in _GLOBAL_IPV6 or any(address in network for network in _REFUSED_IPV6):
        return False
    return embedded is None or is_public_address(embedded)


async def system_lookup(host: str, port: int) -> tuple[str, ...]:
    loop = asyncio.get_running_loop()
    question = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await loop.run_in_executor(_LOOKUP_THREADS, question)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64 or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP_MARKS:
        return last
    return None


def _is_spelled_well(host: str) -> bool:
    if _literal(host) is not None:
        return True
    labels = host.split(".")
    # 2130706433, 0x7f.1 and 127.1 are addresses to some programs; no top-level domain begins with a digit.
    return (
        len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels) and not labels[-1][:1].isdigit()
    )


def _literal(host: str) -> Address | None:
    try:
        if ":" in host:
            address = ipaddress.IPv6Address(host)
            return None if address.scope_id else address
        return ipaddress.IPv4Address(host) if _CANONICAL_IPV4.fullmatch(host) else None
    except ValueError:
        return None


def _may_be_public(host: str) -> bool:
    labels = host.split(".")
    return len(labels) > 1 and labels[-1] not in _PRIVATE_TOP_LABELS


def _spellings(origin: Origin) -> tuple[str, str]:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    without_port = host if origin.port == _default_port(origin.scheme) else f"{host}:{origin.port}"
    return without_port, f"{host}:{origin.port}"


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
