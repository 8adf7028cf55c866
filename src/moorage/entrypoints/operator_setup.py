"""The operator's checklist: what is set up, and what follows from what is not."""

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel

from moorage.catalog.repository import list_nodes
from moorage.entrypoints import setup_steps as steps
from moorage.entrypoints.backup import last_backup_at
from moorage.entrypoints.served_certificates import served_certificates
from moorage.entrypoints.setup_steps import StepState
from moorage.identity.authentication import TheOperator
from moorage.kit.database import database_now
from moorage.kit.web import TheDatabase, TheSettings
from moorage.telemetry import operator_repository as watched

router = APIRouter(tags=["operator"])


class StepRead(BaseModel):
    name: str
    state: StepState
    message: str
    consequence: str | None
    """What follows while it is missing."""
    command: str | None
    """What to run on the machine."""
    settings: list[str]
    """What to set, as variables of the environment."""


class Setup(BaseModel):
    steps: list[StepRead]
    """What is missing comes first."""


@router.get("/operator/setup", summary="Get the set-up checklist")
async def operator_setup(_: TheOperator, database: TheDatabase, settings: TheSettings) -> Setup:
    """Returns what an installation needs before customers can rely on it: mail, payments, sign-in, backup, TLS,
    isolation, GPUs and machines. What Moorage cannot check is `unknown`, never `done`."""
    async with database.reading() as session:
        now = await database_now(session)
        nodes = await list_nodes(session)
        mails = await watched.mails(session)
        backed_up_at = await last_backup_at(session, settings)
    certificates = await asyncio.to_thread(served_certificates, settings, now)
    found = steps.missing_first(
        [
            steps.backup_step(settings, backed_up_at, now),
            steps.isolation_step(settings, nodes),
            steps.mail_step(settings, mails, now),
            steps.sign_in_step(settings),
            steps.payments_step(settings),
            steps.tls_step(settings, certificates, now),
            steps.gpus_step(nodes),
            steps.machines_step(nodes),
        ]
    )
    return Setup(
        steps=[
            StepRead(
                name=step.name,
                state=step.state,
                message=step.message,
                consequence=step.consequence,
                command=step.command,
                settings=list(step.settings),
            )
            for step in found
        ]
    )
