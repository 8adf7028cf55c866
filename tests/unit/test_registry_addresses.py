import asyncio
import ipaddress
import socket
import threading
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from moorage.outbound.addresses import (
    AddressRefusedError,
    Origin,
    Reach,
    is_allowed_by_name,
    is_public_address,
    origin_of,
    registry_origin,
    strict_url,
    system_lookup,
)

_REFUSED_NETWORKS = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
)
_refused_ipv4 = st.sampled_from(_REFUSED_NETWORKS).flatmap(lambda network: st.ip_addresses(network=network))


@pytest.mark.parametrize(
    "address", ["8.8.4.4", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_public(address: str) -> None:
    assert is_public_address(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["::ffff:8.8.4.4", "64:ff9b::8.8.4.4", "2002:808:404::1"])
def test_public_inside_ipv6(address: str) -> None:
    assert is_public_address(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("::", "::1", "::8.8.4.4", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1"),
        *(
            "2001:db8::1",
            "2001::1",
            "2001:10::1",
            "3fff::1",
            "4000::1",
            "64:ff9b:1::808:404",
            "168.63.129.16",
        ),
        *("192.0.0.192", "192.0.2.1", "198.51.100.7", "203.0.113.7", "192.88.99.1"),
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public_address(ipaddress.ip_address(address))


@given(_refused_ipv4)
def test_no_embedding_makes_a_private_address_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    embeddings = (
        number | 0xFFFF << 32,
        number,
        number | 0x0064_FF9B << 96,
        number << 80 | 0x2002 << 112 | 1,
        number | 0x5EFE << 32 | 0x2606_4700 << 96,
        number | 0x0200_5EFE << 32 | 0x2606_4700 << 96,
    )
    assert not is_public_address(address)
    assert not any(is_public_address(ipaddress.IPv6Address(embedding)) for embedding in embeddings)


@pytest.mark.parametrize(
    ("registry", "origin"),
    [
        ("ghcr.io", Origin("https", "ghcr.io", 443)),
        ("Registry.Example.com:5000", Origin("https", "registry.example.com", 5000)),
        ("docker.io", Origin("https", "registry-1.docker.io", 443)),
        ("index.docker.io", Origin("https", "registry-1.docker.io", 443)),
        ("127.0.0.1:5000", Origin("http", "127.0.0.1", 5000)),
        ("localhost", Origin("http", "localhost", 80)),
        ("[::1]:5000", Origin("http", "::1", 5000)),
        ("10.0.0.5:5000", Origin("https", "10.0.0.5", 5000)),
    ],
)
def test_registry_origin(registry: str, origin: Origin) -> None:
    assert registry_origin(registry) == origin


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://auth.example.com/token?service=a%20b", "https://auth.example.com/token?service=a%20b"),
        ("https://cdn.example.com:443/x", "https://cdn.example.com/x"),
        ("/v2/x", "https://registry.example.com/v2/x"),
        ("../y", "https://registry.example.com/y"),
        ("//cdn.example.com/z", "https://cdn.example.com/z"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
    ],
)
def test_strict_url(text: str, expected: str) -> None:
    assert str(strict_url(text, base=URL("https://registry.example.com/v2/"))) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "https://",
            "https:///x",
            "ftp://a.example/",
            "file:///etc/passwd",
            "https://a.example\\@b.example/",
        ),
        *("https://user@a.example/", "https://user:word@a.example/", "https://127.1/", "https://0x7f000001/"),
        *("https://2130706433/", "https://0177.0.0.1/", "https://a.example./", "https://a..example/"),
        *("https://a.example:0/", "https://a.example:65536/", "https://a.example:x/", "https://ä.example/"),
        *("https://a%2eexample/", "https://a.example /", "https://a.example/\n", "https://[fe80::1%25lo]/"),
        *("https://[::1/", "https://-a.example/", "https://" + "a" * 5000),
    ],
)
def test_strict_url_refuses(text: str) -> None:
    with pytest.raises(AddressRefusedError):
        strict_url(text)


@given(st.text(alphabet="htps:/\\@#?%[].0127xaflo \t", max_size=40))
def test_what_strict_url_accepts_is_read_in_one_way(text: str) -> None:
    try:
        url = strict_url("https://" + text)
    except AddressRefusedError:
        return
    # Another parser than ours reads the same host.
    assert urlsplit("https://" + text).hostname == origin_of(url).host


async def test_only_what_was_judged_is_vetted() -> None:
    answers = iter([("8.8.4.4", "2606:4700::1111"), ("127.0.0.1",)])

    async def lookup(host: str, port: int) -> tuple[str, ...]:
        return next(answers)

    reach = Reach(registry_origin("registry.example.com"), (), lookup)
    assert reach.vetted("registry.example.com", 443) == ()
    for _ in range(2):
        await reach.vet(URL("https://registry.example.com/v2/"))
    assert reach.vetted("Registry.example.com", 443) == ("8.8.4.4", "2606:4700::1111")
    assert reach.is_vetted("2606:4700:0::1111", 443)
    assert not reach.is_vetted("8.8.4.4", 80)
    assert not reach.is_vetted("127.0.0.1", 443)
    with pytest.raises(AddressRefusedError, match="private address"):
        await reach.vet(URL("https://other.example.com/"))


@pytest.mark.parametrize(
    ("registry", "allowed", "url", "reached"),
    [
        ("127.0.0.1:5000", ("127.0.0.1:5000",), "http://127.0.0.1:5000/", True),
        ("127.0.0.1:5000", ("127.0.0.1:5000",), "http://127.0.0.1:5001/", False),
        ("127.0.0.1:5000", (), "http://127.0.0.1:5000/", False),
        ("10.0.0.5:5000", ("10.0.0.5:5000",), "https://10.0.0.5:5000/", True),
        ("10.0.0.5:5000", ("10.0.0.5:5000",), "http://10.0.0.5:5000/", False),
        ("10.0.0.5", ("10.0.0.5", "10.0.0.6"), "https://10.0.0.6/token", True),
        ("ghcr.io", ("10.0.0.5", "10.0.0.6"), "https://10.0.0.6/token", False),
        ("ghcr.io", ("10.0.0.5",), "https://8.8.4.4/", True),
        ("ghcr.io", (), "http://8.8.4.4/", False),
        ("ghcr.io", ("localhost",), "http://localhost/", False),
    ],
)
async def test_allowed_registries(registry: str, allowed: tuple[str, ...], url: str, reached: bool) -> None:
    async def lookup(host: str, port: int) -> tuple[str, ...]:
        raise AssertionError("a literal address needs no lookup")

    reach = Reach(registry_origin(registry), allowed, lookup)
    if reached:
        await reach.vet(URL(url))
    else:
        with pytest.raises(AddressRefusedError):
            await reach.vet(URL(url))


async def test_plain_http_only_if_localhost_is_loopback() -> None:
    async def lookup(host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1", "10.0.0.5")

    reach = Reach(registry_origin("localhost:5000"), ("localhost:5000",), lookup)
    with pytest.raises(AddressRefusedError, match="HTTPS"):
        await reach.vet(URL("http://localhost:5000/"))


@pytest.mark.parametrize(
    ("registry", "is_allowed"),
    [
        *(
            ("ghcr.io", True),
            ("registry.example.com:5000", True),
            ("8.8.4.4", True),
            ("Registry.lan:443", True),
        ),
        *(("10.0.0.5", False), ("127.0.0.1:5000", False), ("localhost", False), ("registry", False)),
        *(("registry.local", False), ("127.1", False), ("2130706433", False), ("registry.lan:5000", False)),
    ],
)
def test_allowed_by_name(registry: str, is_allowed: bool) -> None:
    assert is_allowed_by_name(registry, ("registry.lan",)) is is_allowed


async def test_names_that_nobody_answers_for_keep_no_thread_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        answered.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    lookups = [asyncio.create_task(system_lookup(f"n{number}.example.com", 443)) for number in range(40)]
    await asyncio.sleep(0)  # until each of them waits
    try:
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        answered.set()
        await asyncio.gather(*lookups)
