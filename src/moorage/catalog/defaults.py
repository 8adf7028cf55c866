"""The catalogue a new installation begins with; the operator edits it afterwards.

CPU sizes make a laptop useful. A GPU's model is the name that NVIDIA's driver gives it, because that is what
a machine reports about itself.
"""

from moorage.catalog.capacity import InstanceType
from moorage.kit.money import microusd_from_usd

_GIB = 2**30


def default_catalogue() -> list[InstanceType]:
    return [
        _cpu("cpu-nano", 250, 0.25, "0.005"),
        _cpu("cpu-small", 500, 0.5, "0.01"),
        _cpu("cpu-medium", 1000, 2, "0.04"),
        _cpu("cpu-large", 4000, 8, "0.16"),
        _gpu("l4-24gb", "NVIDIA L4", 8, 32, "0.80"),
        _gpu("a10g-24gb", "NVIDIA A10G", 8, 32, "1.00"),
        _gpu("rtx-4090-24gb", "NVIDIA GeForce RTX 4090", 8, 48, "0.70"),
        _gpu("l40s-48gb", "NVIDIA L40S", 8, 64, "1.55"),
        _gpu("a100-80gb", "NVIDIA A100-SXM4-80GB", 12, 120, "2.50"),
        _gpu("h100-80gb", "NVIDIA H100 80GB HBM3", 16, 160, "3.99"),
        _gpu("h200-141gb", "NVIDIA H200", 16, 180, "4.99"),
    ]


def _cpu(name: str, vcpu_millis: int, memory_gib: float, price_usd: str) -> InstanceType:
    memory_bytes = int(memory_gib * _GIB)
    return InstanceType(
        name, None, 0, vcpu_millis, memory_bytes, 10 * _GIB, microusd_from_usd(price_usd), "operator"
    )


def _gpu(name: str, model: str, vcpu: int, memory_gib: int, price_usd: str) -> InstanceType:
    price_microusd = microusd_from_usd(price_usd)
    return InstanceType(
        name, model, 1, vcpu * 1000, memory_gib * _GIB, 200 * _GIB, price_microusd, "operator"
    )
