"""What a cluster costs: the check that a Pod is the replica meant, and a pass over many Pods.

    python bench/kubernetes.py [--only identity|passes] [--requests 3000] [--rounds 6] [--pods 3000]

`identity`: requests through the gateway to a replica behind its door, and to the same one at its own address, in turns.
`passes`: what the engine says of so many Pods at a stand-in API server, and how much memory that takes.
"""

import argparse
import asyncio
from collections.abc import Callable

import kubernetes_identity
import kubernetes_passes

from moorage.kit.logging import configure_logging

Measurement = Callable[[argparse.Namespace], None]


def _identity(options: argparse.Namespace) -> None:
    kubernetes_identity.report(kubernetes_identity.measure(options.requests, options.rounds))


def _passes(options: argparse.Namespace) -> None:
    kubernetes_passes.report(asyncio.run(kubernetes_passes.measure(options.pods, options.rounds)))


MEASUREMENTS: dict[str, Measurement] = {"identity": _identity, "passes": _passes}
"""To add one: a module beside this one that measures and reports, and a row here."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=sorted(MEASUREMENTS))
    parser.add_argument("--requests", type=int, default=3000, help="of each kind, over all rounds")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--pods", type=int, default=3000)
    options = parser.parse_args()
    configure_logging("warning", as_json=True)
    for name, measurement in MEASUREMENTS.items():
        if options.only in (None, name):
            measurement(options)
    print(
        f"Command: python bench/kubernetes.py --requests {options.requests} --rounds {options.rounds} --pods {options.pods}"
        + (f" --only {options.only}" if options.only else "")
    )


if __name__ == "__main__":
    main()
