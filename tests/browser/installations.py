"""An API of the world's database at another address: at a name, or behind a proxy that ends TLS."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from playwright.sync_api import Browser

from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import operator_sign_in_link
from moorage.gateway.process import find_haproxy
from moorage.kit.settings import Settings
from tests.acceptance.stack import until
from tests.browser.conftest import NAMED, Visitor, visit
from tests.browser.world import World
from tests.certificates import write_certificate
from tests.database.api_support import KEYRING
from tests.servers import serving

_PROXY = """\
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend outside
    bind 127.0.0.1:{port} ssl crt {certificate}
    # As proxies do that are not told otherwise: what is behind them hears its own name.
    http-request set-header Host 127.0.0.1:{behind}
    default_backend inside
backend inside
    server api 127.0.0.1:{behind}
"""


@dataclass
class Installation:
    """An API of the world's database, as people reach it."""

    world: World
    settings: Settings
    visitor: Visitor

    def sign_in_link(self) -> str:
        async def make() -> str:
            async with self.world.api.database.transaction() as session:
                return await operator_sign_in_link(session, self.settings)

        return self.world.do(make())


@contextmanager
def installed(
    browser: Browser, world: World, port: int, url: str, *others: str, **settings: Any
) -> Iterator[Installation]:
    changed = world.api.settings.model_copy(update={"public_url": url, **settings})
    with served(world, create_app(changed, world.api.database, KEYRING), port):
        visits = visit(browser, url, changed.operator_key_file, *others)
        visitor = next(visits)
        visitor.api_url = f"http://127.0.0.1:{port}"
        yield Installation(world, changed, visitor)
        next(visits, None)


@contextmanager
def served(world: World, app: FastAPI, port: int) -> Iterator[str]:
    server = serving(app, port)
    yield world.do(server.__aenter__())
    world.do(server.__aexit__(None, None, None))


@contextmanager
def proxy(folder: Path, port: int, behind: int) -> Iterator[None]:
    certificate = folder / "proxy.pem"
    write_certificate(certificate, NAMED)
    config = folder / "proxy.cfg"
    config.write_text(_PROXY.format(port=port, certificate=certificate, behind=behind))
    process = subprocess.Popen([find_haproxy(), "-q", "-db", "-f", config])
    try:
        with httpx.Client(verify=False, trust_env=False) as client:
            until(lambda: answers(client, f"https://127.0.0.1:{port}/healthz"), "the proxy answers", 20)
        yield
    finally:
        process.kill()
        process.wait()


def answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == 200
    except httpx.TransportError:
        return False
