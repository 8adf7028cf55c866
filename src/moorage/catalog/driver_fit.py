"""Which machines have a driver that runs what is in an image. Pure."""

from collections.abc import Mapping, Sequence

from moorage.catalog.capacity import InstanceType
from moorage.engines.base import NodeCapacity
from moorage.engines.nvidia import GpuMachine, driver_mismatch, parsed_version


def too_old_for(node: NodeCapacity, image_environment: Mapping[str, str]) -> str | None:
    """What the image asks for, where this machine's driver certainly does not have it. A machine that says nothing of its
    driver is taken at its word when the replica starts."""
    cuda = parsed_version(node.cuda_version or "")
    if node.gpu_driver is None or cuda is None:
        return None
    return driver_mismatch(GpuMachine(node.gpu_driver, cuda, ()), image_environment)


def why_no_driver(
    instance_type: InstanceType, nodes: Sequence[NodeCapacity], image_environment: Mapping[str, str]
) -> str | None:
    """A sentence, where there are machines with the GPU and the driver of each is too old for the image."""
    having = [
        node
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
        and any(gpu.model == instance_type.gpu_model for gpu in node.gpus)
    ]
    wanted = [too_old_for(node, image_environment) for node in having]
    if not having or not all(wanted):
        return None
    newest = max(having, key=lambda node: parsed_version(node.cuda_version or "") or ())
    return (
        f"The image asks for {wanted[0]}, but the newest driver of a machine with {instance_type.gpu_model} is "
        f"{newest.gpu_driver}, which runs CUDA {newest.cuda_version} at most. Use an image built for an older CUDA, or "
        "ask the operator for a newer driver."
    )
