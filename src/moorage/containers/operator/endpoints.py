"""The operator's machines and catalogue. Here, and not in `catalog`, because what is free is known from the replicas."""

from typing import Literal

from fastapi import APIRouter
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog import instance_types
from moorage.catalog.capacity import Used
from moorage.catalog.handover_words import handover_sentence
from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.proposals import propose
from moorage.catalog.repository import (
    intake_of,
    list_instance_types,
    list_nodes,
    nodes_seen_s_ago,
    set_intake,
)
from moorage.containers.capacity_repository import load_room, replicas_by_machine, used_capacity
from moorage.containers.instance_type_endpoints import InstanceTypeRead, instance_type_json
from moorage.containers.operator.schemas import (
    Amounts,
    DoubtRead,
    GpuRead,
    HostFindingRead,
    InstanceTypePatch,
    InstanceTypeProposal,
    InstanceTypeWrite,
    NodeIntake,
    NodeRead,
)
from moorage.containers.reconciler.doubt_repository import say_gone
from moorage.engines.base import LOCAL_ENGINE, GpuHandover, NodeCapacity
from moorage.identity.authentication import TheOperator
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.kit.pagination import Page
from moorage.kit.settings import Settings
from moorage.kit.web import TheSession, TheSettings
from moorage.organizations.audit.repository import record_audit

router = APIRouter(tags=["operator"])

SILENT_AFTER_S = 45.0
"""Three sweeps of the reconciler that describes them."""


@router.get("/operator/nodes", summary="List machines and what is free")
async def list_nodes_with_room(_: TheOperator, session: TheSession, settings: TheSettings) -> Page[NodeRead]:
    """Lists the machines with what they have, what is promised to replicas and what is free."""
    used, ages_s = await used_capacity(session), await nodes_seen_s_ago(session)
    replicas = await replicas_by_machine(session)
    return Page(
        items=[
            _node(
                node,
                used.get(node.key, Used()),
                replicas.get(node.key, 0),
                ages_s[node.key],
                settings.cpu_overcommit,
            )
            for node in await list_nodes(session)
        ]
    )


@router.post("/operator/nodes/{node}/replicas-gone", summary="Give missing replicas up")
async def say_replicas_gone(node: str, operator: TheOperator, session: TheSession) -> DoubtRead:
    """Confirms that the replicas missing on a machine will not come back. Moorage replaces them at once instead of
    waiting `missing_replicas_wait_s`."""
    doubt = await say_gone(session, node)
    if doubt is None:
        if node not in {known.name for known in await list_nodes(session)}:
            raise NotFoundError(f"There is no machine {node}.")
        raise ConflictError(
            f"No replicas of the machine {node} are in doubt. Missing ones are already being replaced.",
            code="not_in_doubt",
        )
    record_audit(
        session,
        None,
        actor=operator.id,
        action="node.replicas_gone",
        target=node,
        missing=doubt.missing,
        expected=doubt.expected,
    )
    return DoubtRead.model_validate(doubt, from_attributes=True)


@router.put("/operator/nodes/{node}/intake", summary="Close or empty the main machine")
async def set_node_intake(
    node: str, body: NodeIntake, operator: TheOperator, session: TheSession
) -> NodeIntake:
    """Closes the machine that Moorage runs on for new replicas, empties it, or opens it again. For machines that
    joined, use pause and drain."""
    before = await set_intake(session, LOCAL_ENGINE, node, body.intake)
    if before is None:
        if any(one.name == node for one in await list_nodes(session)):
            raise ConflictError(
                f"{node} is a machine that joined. Use `moor machines pause`, `drain` or `resume`.",
                code="machine_joined",
            )
        raise NotFoundError(f"There is no machine {node}.")
    if before is not body.intake:
        record_audit(session, None, actor=operator.id, action="node.intake", target=node, intake=body.intake)
    return body


@router.get("/operator/instance-types", summary="List the whole catalogue")
async def list_catalogue(
    _: TheOperator, session: TheSession, settings: TheSettings
) -> Page[InstanceTypeRead]:
    """Lists every instance type, including those no longer offered."""
    room, catalogue = await load_room(session), await list_instance_types(session)
    return Page(
        items=[instance_type_json(entry, catalogue, room, settings, for_operator=True) for entry in catalogue]
    )


@router.get("/operator/instance-types/proposals", summary="Propose instance types")
async def propose_instance_types(
    _: TheOperator, session: TheSession, settings: TheSettings
) -> Page[InstanceTypeProposal]:
    """Proposes types for GPUs that no type offers, or that types offer only in sizes that no machine has. Adds
    nothing."""
    proposals = propose(
        await list_instance_types(session), await list_nodes(session), settings.cpu_overcommit
    )
    return Page(items=[InstanceTypeProposal(**vars(one)) for one in proposals])


@router.post("/operator/instance-types", summary="Create an instance type", status_code=201)
async def create_instance_type(
    body: InstanceTypeWrite, operator: TheOperator, session: TheSession, settings: TheSettings
) -> InstanceTypeRead:
    """Creates an instance type. It is offered at this price as soon as a machine has room for it."""
    row = await instance_types.add(session, operator, InstanceTypeRow(**body.model_dump()))
    return await _shown(session, row.name, settings)


@router.patch("/operator/instance-types/{instance_type}", summary="Change an instance type")
async def change_instance_type(
    instance_type: str,
    body: InstanceTypePatch,
    operator: TheOperator,
    session: TheSession,
    settings: TheSettings,
) -> InstanceTypeRead:
    """Changes a type's price for hours bought from now on, or whether it is offered. Running containers stay."""
    await instance_types.change(session, operator, instance_type, **body.model_dump())
    return await _shown(session, instance_type, settings)


@router.delete("/operator/instance-types/{instance_type}", summary="Delete an instance type", status_code=204)
async def delete_instance_type(instance_type: str, operator: TheOperator, session: TheSession) -> None:
    """Deletes a type that nobody ever used. Disable a type that was used."""
    await instance_types.delete(session, operator, instance_type)


async def _shown(session: AsyncSession, name: str, settings: Settings) -> InstanceTypeRead:
    catalogue = await list_instance_types(session)
    [entry] = [one for one in catalogue if one.name == name]
    return instance_type_json(entry, catalogue, await load_room(session), settings, for_operator=True)


def _node(
    node: NodeCapacity, used: Used, replicas: int, seen_s_ago: float, cpu_overcommit: float
) -> NodeRead:
    gpus_in_use = [gpu for gpu in node.gpus if gpu.device_id in used.gpu_device_ids]
    return NodeRead(
        name=node.name,
        engine=node.engine,
        state=_state(node, seen_s_ago),
        intake=intake_of(node),
        replicas=replicas,
        seen_s_ago=round(seen_s_ago, 1),
        infrastructure=node.infrastructure,
        architecture=node.architecture,
        gpu_driver=node.gpu_driver,
        cuda_version=node.cuda_version,
        gpus=[GpuRead(**vars(gpu), in_use=gpu in gpus_in_use) for gpu in node.gpus],
        gpu_handover=GpuHandover(node.gpu_handover),
        message=handover_sentence(node),
        findings=[HostFindingRead(**vars(finding)) for finding in node.findings],
        total=Amounts(cpu_millis=node.cpu_millis, memory_bytes=node.memory_bytes, gpus=len(node.gpus)),
        promised=Amounts(cpu_millis=used.cpu_millis, memory_bytes=used.memory_bytes, gpus=len(gpus_in_use)),
        free=Amounts(
            cpu_millis=max(int(node.cpu_millis * cpu_overcommit) - used.cpu_millis, 0),
            memory_bytes=max(node.memory_bytes - used.memory_bytes, 0),
            gpus=sum(gpu.unusable_because is None and gpu not in gpus_in_use for gpu in node.gpus),
        ),
        cpu_overcommit=cpu_overcommit,
    )


def _state(node: NodeCapacity, seen_s_ago: float) -> Literal["ready", "silent", "cordoned", "draining"]:
    if not node.ready or seen_s_ago > SILENT_AFTER_S:
        return "silent"
    if node.draining:
        return "draining"
    return "ready" if node.takes_replicas and node.closed_because is None else "cordoned"
