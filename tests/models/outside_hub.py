"""The stand-in of a hub at a public address behind a cable, where replicas reach it as they would reach the real one: over HTTPS, past
the firewall. As root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from tests.certificates import write_certificate
from tests.models.hub_stand_in import Hub

HERE, OUTSIDE = "192.175.48.1", "192.175.48.42"
"""Public, of a service that any network may run for itself (AS112); both ends are devices of the test's own."""
REPOSITORY = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class OutsideHub:
    url: str
    certificate: Path
    """Whoever is to believe it trusts this."""


@contextmanager
def outside_hub(folder: Path) -> Iterator[OutsideHub]:
    """Another machine, as far as packets can tell: a process in a network namespace."""
    certificate = folder / "hub.pem"
    write_certificate(certificate, OUTSIDE)
    command = ("unshare", "--net", sys.executable, "-m", "tests.models.outside_hub", str(certificate))
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{os.environ.get('PYTHONPATH', '')}"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, cwd=REPOSITORY, env=environment, **pipes) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "inside\n"
            cable = f"moorhub{process.pid % 10_000}"
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
            _ip("addr", "add", f"{HERE}/24", "dev", cable)
            _ip("link", "set", cable, "up")
            process.stdin.write("the cable is in\n")
            process.stdin.flush()
            assert process.stdout.readline() == "serving\n"
            yield OutsideHub(f"https://{OUTSIDE}", certificate)
        finally:
            process.kill()  # the cable goes with its other end


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, timeout=20)


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[object] | None = None) -> None:
        await super().startup()
        print("serving", flush=True)


def main(certificate: str) -> None:
    """Outside."""
    print("inside", flush=True)
    sys.stdin.readline()
    for device in (("lo",), ("eth0",)):
        _ip("link", "set", *device, "up")
    _ip("addr", "add", f"{OUTSIDE}/24", "dev", "eth0")
    _ip("route", "add", "default", "via", HERE)
    hub = Hub()
    hub.add_examples()
    config = uvicorn.Config(
        hub.app, host=OUTSIDE, port=443, ssl_certfile=certificate, log_level="warning", lifespan="off"
    )
    _Server(config).run()


if __name__ == "__main__":
    main(sys.argv[1])
