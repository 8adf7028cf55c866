"""How a connection is made, for the API and for the gateway alike."""

import ssl

import httpx

from moorage_cli.config import is_this_machine


def http_client(url: str, token: str | None, timeout: httpx.Timeout) -> httpx.Client:
    """A client for this address. The token is its Bearer token."""
    headers = {"User-Agent": "moor"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    # Reading the machine's certificates takes longer than most commands; plain HTTP needs none, and this context
    # trusts nobody.
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http://") else True
    return httpx.Client(
        base_url=url,
        headers=headers,
        timeout=timeout,
        follow_redirects=False,
        verify=verify,
        # A proxy that the environment names cannot reach this machine's own loopback.
        trust_env=not is_this_machine(url),
    )
