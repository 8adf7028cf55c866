"""One page for the operator: every part, how it is, since when, and what to do about it."""

import asyncio
import shutil
from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import images_of_nodes, list_nodes, nodes_seen_s_ago
from moorage.containers.caches.repository import caches_by_machine
from moorage.containers.reconciler.doubt_repository import list_doubts
from moorage.containers.repository import list_gateways
from moorage.entrypoints import health_parts as parts
from moorage.entrypoints.backup import last_backup_at
from moorage.entrypoints.health_parts import Disk, Part, State
from moorage.entrypoints.reconcilers import RECONCILERS
from moorage.entrypoints.served_certificates import served_certificates
from moorage.identity.authentication import TheOperator
from moorage.kit.database import database_now
from moorage.kit.log_files import measured
from moorage.kit.settings import Settings
from moorage.kit.web import TheDatabase, TheSettings
from moorage.machines.repository import lost_machines
from moorage.machines.service import tunnel
from moorage.reconcile.status import reconciler_statuses
from moorage.telemetry import operator_repository as watched

router = APIRouter(tags=["operator"])


class PartRead(BaseModel):
    name: str
    state: State
    message: str
    since: datetime | None
    """Where it is not well: when it last was."""
    what_to_do: str | None


class Health(BaseModel):
    state: State
    """That of the worst part; what is not known does not count."""
    parts: list[PartRead]


@router.get("/operator/health", summary="Get the health of every part")
async def operator_health(_: TheOperator, database: TheDatabase, settings: TheSettings) -> Health:
    """Returns how Postgres, engines, the tunnel, gateways, reconcilers, queues, disk, log files, certificates
    and backups are doing."""
    async with database.reading() as session:
        found = await _of_the_database(session, settings)
        now = await database_now(session)
        backed_up_at = await last_backup_at(session, settings)
    found += await asyncio.to_thread(_of_this_machine, settings, now)
    found.append(parts.backup_part(backed_up_at, now))
    shown = [PartRead.model_validate(part, from_attributes=True) for part in found]
    return Health(state=parts.worst(found), parts=shown)


async def _of_the_database(session: AsyncSession, settings: Settings) -> list[Part]:
    now = await database_now(session)
    size = (await watched.sizes_bytes(session))["database"]
    mails = (
        "Check MOORAGE_SMTP_*. Moorage tries to send mails for three days."
        if settings.smtp_host is not None
        else "No mail server is set up (MOORAGE_SMTP_HOST). Read the mails with `GET /operator/outbox`."
    )
    webhooks = "The receivers do not answer. Moorage tries them for three days. Nothing is wrong here."
    mail_queue = await watched.mail_queue(session) if settings.smtp_host is not None else watched.Queue(0)
    return [
        Part("database", State.OK, f"Answers; {size / 2**30:.2f} GiB."),
        parts.history_part(await watched.estimated_rows(session, *parts.HISTORY_TABLES), settings),
        *parts.machine_parts(await nodes_seen_s_ago(session), now, await lost_machines(session)),
        *parts.tunnel_parts(await tunnel(session)),
        *parts.doubt_parts(await list_doubts(session), settings.missing_replicas_wait_s),
        *parts.isolation_parts(await list_nodes(session)),
        *parts.host_parts(await list_nodes(session)),
        *parts.image_parts(await images_of_nodes(session), settings.unused_images_kept_s),
        *parts.cache_parts(await caches_by_machine(session), settings.unused_caches_kept_s),
        *parts.gateway_parts(await list_gateways(session)),
        *parts.reconciler_parts(tuple(RECONCILERS), await reconciler_statuses(session), now),
        parts.queue_part("mail", mail_queue, now, mails),
        parts.queue_part("webhook", await watched.webhook_queue(session), now, webhooks),
    ]


def _of_this_machine(settings: Settings, now: datetime) -> list[Part]:
    usage = shutil.disk_usage(settings.home)
    return [
        parts.disk_part(Disk(str(settings.home), usage.free, usage.total)),
        parts.log_files_part(measured(settings.log_dir), settings.log_file_bytes),
        *(parts.certificate_part(one, now) for one in served_certificates(settings, now)),
    ]
