"""Which ports to open to whom, in the words of `moor install`. Pure."""

from collections.abc import Sequence

_LOOPBACK = ("127.", "localhost", "[::1]")


def firewall_note(
    api_listen: str,
    gateway_listen: str,
    acme_listen: str | None,
    tunnel_port: int,
    replica_ports: str,
    at_work: Sequence[str],
) -> list[str]:
    """`acme_listen`: None where no authority comes to look. `at_work`: the firewalls of this machine that were found."""
    lines = [_address("The console and the API", api_listen), _address("Endpoints", gateway_listen)]
    asked = [acme_listen] if acme_listen is not None else []
    lines += [
        f"The certificate authority checks {one}: open TCP port {_port(one)} to everybody." for one in asked
    ]
    lines.append(f"Machines that join dial UDP port {tunnel_port}. Open it when you add the first one.")
    lines.append(
        f"Ports {replica_ports} belong to replicas. Moorage closes them itself, so open them to nobody. Postgres listens on no port."
    )
    if at_work:
        ports = " and ".join(
            f"TCP {_port(one)}" for one in (api_listen, gateway_listen, *asked) if not _is_local(one)
        )
        open_them = (
            f" Open {ports} in it." if ports else " While that is so, you need not open any port in it."
        )
        lines.append(f"This machine runs {', '.join(at_work)}.{open_them}")
    return lines


def _address(what: str, listen: str) -> str:
    if _is_local(listen):
        return f"{what} listen on {listen}, which only this machine can reach."
    return f"{what} listen on {listen}: open TCP port {_port(listen)} to those who use it."


def _is_local(listen: str) -> bool:
    return listen.startswith(_LOOPBACK)


def _port(listen: str) -> str:
    return listen.rpartition(":")[2]
