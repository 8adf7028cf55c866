"""What many machines cost, and what the tunnel to one of them costs.

    python bench/machines.py [--machines 1000] [--replicas 10] [--sweeps 4] [--changes 20] [--requests 3000] [--only tunnel|fleet]

First a replica is asked in turns directly and through a tunnel to another network namespace, by the same client over
connections that stay open: latency, and the processor time that the whole machine spends on a request. As root: it makes
namespaces and a WireGuard tunnel, in user space where the kernel has none, and says which.
Then so many machines of the simulated engine with so many replicas each, as `scale.py` measures one: idle, and changing.
Target: a change takes effect in under 1 s.
"""

import argparse
import asyncio

import machines_tunnel
import scale
from scale_world import CHANGING

from moorage.kit.logging import configure_logging


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=10, help="on each of them")
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--requests", type=int, default=3000, help="of each kind, through the tunnel and not")
    parser.add_argument("--only", choices=["tunnel", "fleet"])
    options = parser.parse_args()
    configure_logging("warning", as_json=True)
    if options.only != "fleet":
        machines_tunnel.report(machines_tunnel.measure(options.requests))
    if options.only != "tunnel":
        size, changes = options.machines * options.replicas, min(options.changes, CHANGING)
        one, many = (
            asyncio.run(scale.measure(size, options.sweeps, changes, machines))
            for machines in (1, options.machines)
        )
        print(f"\n{size:,} replicas on one machine, and on {options.machines:,}")
        scale.report_machines([one, many], [1, options.machines])
    print(
        f"Command: python bench/machines.py --machines {options.machines} --replicas {options.replicas} "
        f"--sweeps {options.sweeps} --changes {options.changes} --requests {options.requests}"
        + (f" --only {options.only}" if options.only else "")
    )


if __name__ == "__main__":
    main()
