"""Which variables of a container could ask NVIDIA's tools for devices. Pure.

NVIDIA's container toolkit takes its orders from the environment of the container's process, where the image and the user
write too: `NVIDIA_MOFED=enabled` brings the network's devices, `NVIDIA_NVSWITCH` the switches that all GPUs share,
`NVIDIA_IMEX_CHANNELS` memory of other machines, and its next version may know more. So of all that is named like an order only
what is known to concern nobody but the programs inside gets there. What Moorage itself orders is set last (`profile.py`).
"""

import re
from collections.abc import Iterable

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
DRIVER_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
ORDERS = (
    "DOCKER_RESOURCE_GPU",
    DRIVER_CAPABILITIES,
    "NVIDIA_GDRCOPY",
    "NVIDIA_GDS",
    "NVIDIA_IMEX_CHANNELS",
    "NVIDIA_MIG_CONFIG_DEVICES",
    "NVIDIA_MIG_MONITOR_DEVICES",
    "NVIDIA_MOFED",
    "NVIDIA_NVSWITCH",
    "NVIDIA_REQUIRE_JETPACK",
)
"""Those that today's toolkit obeys: withheld also where nobody looked into the image."""
_NAMED_LIKE_AN_ORDER = ("NVIDIA_", "DOCKER_RESOURCE_")
"""The second is what the toolkit's settings propose for a swarm, where it goes before NVIDIA_VISIBLE_DEVICES."""
_OF_PROGRAMS = re.compile(
    r"NVIDIA_("
    # What the image needs of the driver: it can only keep itself from starting. JETPACK brings files along.
    r"DISABLE_REQUIRE|REQUIRE_(?!JETPACK)\w+"
    # How CUDA computes, and what NVIDIA's images say of themselves.
    r"|\w+_OVERRIDE|\w+_VERSION|BUILD_\w+|PRODUCT_NAME"
    # For NVIDIA's services.
    r"|\w*API_\w+"
    r")"
)


def may_order_devices(name: str) -> bool:
    return name.startswith(_NAMED_LIKE_AN_ORDER) and _OF_PROGRAMS.fullmatch(name) is None


def orders_in(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if may_order_devices(name)))
