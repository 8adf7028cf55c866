"""Mistakes about GPUs."""

from typing import Any

from moorage.catalog import capacity
from moorage.containers.reconciler import gpu_watch
from moorage.containers.reconciler import reconciler as containers
from tests.simulation.planted.bug import Bug, Patch, nothing


def _taken_is_free(patch: Patch) -> None:
    def free(instance_type: Any, node: Any, used: Any) -> list[str]:
        return [
            gpu.device_id
            for gpu in node.gpus
            if gpu.model == instance_type.gpu_model and gpu.unusable_because is None
        ]

    patch(capacity, "free_gpus", free)


def _broken_is_free(patch: Patch) -> None:
    def free(instance_type: Any, node: Any, used: Any) -> list[str]:
        return [
            gpu.device_id
            for gpu in node.gpus
            if gpu.model == instance_type.gpu_model and gpu.device_id not in used.gpu_device_ids
        ]

    patch(capacity, "free_gpus", free)


def _nobody_looks(patch: Patch) -> None:
    patch(gpu_watch.GpuWatch, "look", nothing)


def _outages_are_paid(patch: Patch) -> None:
    patch(containers, "record_outages", nothing)


BUGS = (
    Bug(
        "a GPU in use is free", ("no GPU twice",), _taken_is_free, needs=("deploy on a GPU", "scale on GPUs")
    ),
    Bug(
        "a broken GPU is free",
        ("no GPU of a machine that lost it",),
        _broken_is_free,
        needs=("all GPUs break", "a GPU breaks in use", "restart on a GPU"),
    ),
    Bug(
        "nobody looks at GPUs",
        ("what lost its GPU is replaced",),
        _nobody_looks,
        needs=("a GPU breaks in use", "all GPUs break"),
    ),
    Bug(
        "what is lost is paid",
        ("a lost GPU's time is not billed",),
        _outages_are_paid,
        needs=("all GPUs break", "a GPU breaks in use"),
    ),
)
