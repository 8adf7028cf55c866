"""A hub and one machine with the tunnel between them, where both already reach each other."""

import contextlib
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from moorage.tunnel.addresses import NODE_PORT
from moorage.tunnel.interface import TunnelEnd, TunnelInterface
from moorage.tunnel.keys import new_private_key, public_key_of
from moorage.tunnel.peers import HubEnd, MachineEnd, hub_peers, machine_peers
from moorage.tunnel.rules import NodePorts, door_chain, hub_chains, machine_chains, user_chain

HUB_ADDRESS, MACHINE_ADDRESS = "198.19.0.200", "198.19.200.1"
Do = Callable[[Coroutine[Any, Any, None]], object]
"""Runs something where an end is."""


@contextlib.contextmanager
def tunnel_between(
    at_hub: Do, at_machine: Do, folder: Path, endpoint: tuple[str, int], replica_ports: tuple[int, int]
) -> Iterator[None]:
    """`endpoint` is where the machine dials the hub."""
    hub_key, machine_key = new_private_key(), new_private_key()
    near, far = (_interface(folder) for _ in range(2))
    machine = MachineEnd("far", MACHINE_ADDRESS, public_key_of(machine_key))
    host, port = endpoint
    hub = HubEnd("near", HUB_ADDRESS, public_key_of(hub_key), f"{host}:{port}")
    near_end = TunnelEnd(
        hub_key,
        HUB_ADDRESS,
        (f"{MACHINE_ADDRESS}/32",),
        hub_peers([machine]).peers,
        port,
        hub_chains(near.name, HUB_ADDRESS),
        (user_chain(near.name, (0,)), door_chain(near.name)),
    )
    far_end = TunnelEnd(
        machine_key,
        MACHINE_ADDRESS,
        (f"{HUB_ADDRESS}/32",),
        machine_peers([hub]),
        None,
        machine_chains(far.name, MACHINE_ADDRESS, [HUB_ADDRESS], NodePorts(NODE_PORT, replica_ports)),
    )
    try:
        at_hub(near.ensure(near_end))
        at_machine(far.ensure(far_end))
        yield
    finally:
        at_machine(far.take_down())
        at_hub(near.take_down())


def _interface(folder: Path) -> TunnelInterface:
    name = f"mwg-{uuid.uuid4().hex[:8]}"
    run_dir, log_dir = folder / name / "run", folder / name / "log"
    for made in (run_dir, log_dir):
        made.mkdir(parents=True)
    return TunnelInterface(name, run_dir, log_dir)
