"""How a machine's GPUs get into containers, in a sentence. Pure."""

from moorage.engines.base import GpuHandover, NodeCapacity

_WAYS = {
    GpuHandover.RUNTIME: "by NVIDIA's container runtime",
    GpuHandover.CDI: "by CDI",
    GpuHandover.DIRECT: "directly, as device nodes and the driver's files",
}


def handover_sentence(node: NodeCapacity) -> str | None:
    """None for a machine that has no GPU and shows no trace of one."""
    way = GpuHandover(node.gpu_handover)
    if way is not GpuHandover.NONE:
        return f"GPUs are handed over {_WAYS[way]}: {node.gpu_handover_reason}."
    if node.gpu_handover_reason is None:
        return None
    return (
        f"GPUs are not offered: {node.gpu_handover_reason}. Run `moor doctor host` on that machine for a fix."
    )
