"""The API role: routes, errors and nothing else."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import NoReturn

import structlog
from fastapi import APIRouter, FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.audit import endpoints as audit
from moorage.autoscaling import endpoints as autoscaling
from moorage.billing.auto_top_ups import endpoints as auto_top_ups
from moorage.billing.cards import endpoints as cards
from moorage.billing.cards import saved_endpoints as saved_cards
from moorage.billing.cards.provider import card_provider
from moorage.billing.closing import endpoints as closing
from moorage.billing.earnings import endpoints as earnings
from moorage.billing.invoices import endpoints as invoices
from moorage.billing.limits import endpoints as spending_limits
from moorage.billing.payouts import endpoints as payouts
from moorage.billing.payouts import operator_endpoints as operator_payouts
from moorage.billing.top_ups import endpoints as top_ups
from moorage.billing.top_ups import operator_endpoints as operator_money
from moorage.billing.views import endpoints as billing_views
from moorage.billing.views import operator_endpoints as organization_detail
from moorage.console.handbook import BUILT_HANDBOOK, Handbook
from moorage.console.serving import BUILT_FILES, Console
from moorage.containers import endpoints as containers
from moorage.containers import instance_type_endpoints as instance_types
from moorage.containers import project_endpoints as projects
from moorage.containers import suspension_endpoints as suspension
from moorage.containers.caches import endpoints as caches
from moorage.containers.canaries import endpoints as canaries
from moorage.containers.capacity_repository import count_replicas
from moorage.containers.doctor import endpoints as doctor
from moorage.containers.drafts import endpoints as drafts
from moorage.containers.events import endpoints as events
from moorage.containers.events.watching import Changes
from moorage.containers.operator import endpoints as machines
from moorage.containers.operator import organization_endpoints as organization_containers
from moorage.containers.replica_limits import endpoints as replica_limits
from moorage.containers.sleep import endpoints as sleep
from moorage.containers.versions import endpoints as versions
from moorage.entrypoints import (
    device_page,
    health,
    operator_endpoints,
    operator_health,
    operator_metrics,
    operator_search,
    operator_setup,
    sign_in_page,
)
from moorage.entrypoints.api_counts import ApiCounts, ApiCountsMiddleware
from moorage.entrypoints.bodies import BodyMiddleware
from moorage.entrypoints.description.serving import DescriptionRoute
from moorage.entrypoints.errors import install_error_handlers
from moorage.entrypoints.idempotency import IdempotencyMiddleware
from moorage.entrypoints.origin import OriginMiddleware
from moorage.entrypoints.shares import ShareMiddleware
from moorage.entrypoints.tracing_middleware import TracingMiddleware
from moorage.entrypoints.turns import Turns
from moorage.gateway import endpoints as gateways
from moorage.identity.device import endpoints as device
from moorage.identity.providers import endpoints as providers
from moorage.identity.sessions import endpoints as sessions
from moorage.identity.sign_in import endpoints as sign_in
from moorage.identity.sign_in.service import Newcomers
from moorage.inbox import endpoints as inbox
from moorage.kit.allowance import Allowance
from moorage.kit.clock import system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, Listener
from moorage.kit.ids import new_request_id
from moorage.kit.jobs.jobs import Jobs
from moorage.kit.lasting import run_for_good
from moorage.kit.settings import Settings
from moorage.kit.streams import OpenStreams
from moorage.machines import endpoints as joined_machines
from moorage.machines import lent_endpoints as lent_machines
from moorage.models import endpoints as models
from moorage.models.lookups import ModelLookups
from moorage.organizations import endpoints as organizations
from moorage.organizations.api_keys import endpoints as api_keys
from moorage.organizations.invitations import endpoints as invitations
from moorage.organizations.invitations.repository import has_live_invitation
from moorage.organizations.members import endpoints as members
from moorage.organizations.operator import endpoints as operator_lists
from moorage.organizations.service import create_first_organization
from moorage.telemetry.capsules import endpoints as capsules
from moorage.telemetry.logs import endpoints as logs
from moorage.telemetry.logs.budget import endpoints as log_budget
from moorage.telemetry.metrics import endpoints as metrics
from moorage.telemetry.requests import endpoints as requests
from moorage.webhooks import endpoints as webhooks

API_PREFIX = "/api/v1"

_PARTS = (
    sign_in,
    providers,
    device,
    sessions,
    organizations,
    closing,
    members,
    invitations,
    audit,
    inbox,
    webhooks,
    projects,
    api_keys,
    instance_types,
    containers,
    models,
    drafts,
    canaries,
    versions,
    sleep,
    caches,
    doctor,
    events,
    capsules,
    replica_limits,
    autoscaling,
    logs,
    log_budget,
    metrics,
    requests,
    operator_endpoints,
    operator_search,
    operator_setup,
    billing_views,
    spending_limits,
    saved_cards,
    auto_top_ups,
    invoices,
    top_ups,
    cards,
    earnings,
    payouts,
    operator_money,
    operator_payouts,
    operator_lists,
    organization_detail,
    organization_containers,
    machines,
    joined_machines,
    lent_machines,
    gateways,
    suspension,
)
log = structlog.get_logger()
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def create_app(settings: Settings, database: Database, keyring: Keyring) -> FastAPI:
    listener = Listener(database.dsn)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        lasting = asyncio.create_task(run_for_good({"listener": listener.run()}))
        lasting.add_done_callback(partial(_tell_of_end, app))
        try:
            yield
        finally:
            lasting.cancel()
            await asyncio.gather(lasting, return_exceptions=True)
        if app.state.card_provider is not None:
            await app.state.card_provider.close()
        await database.close()

    app = FastAPI(
        title="Moorage",
        version="1",
        lifespan=lifespan,
        # FastAPI's pages load scripts from other hosts, and its description says less than ours.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        routes=[DescriptionRoute("/openapi.json", described_routes()), *described_routes()],
    )
    app.state.when_broken = None
    """Called with the reason when something ended that is to go on for as long as the process (`api_role.py`)."""
    app.state.settings = settings
    app.state.database = database
    app.state.keyring = keyring
    app.state.clock = system_clock
    app.state.listener = listener
    app.state.card_provider = card_provider(settings)
    app.state.streams = OpenStreams()
    app.state.allowance = Allowance(settings.changes_per_day, system_clock)
    app.state.jobs = Jobs(settings.jobs_at_once)
    app.state.preflights = containers.preflight_slots()
    app.state.model_lookups = ModelLookups()
    app.state.count_replicas = count_replicas
    app.state.changes = Changes(listener)
    app.state.newcomers = Newcomers(
        is_invited=has_live_invitation, welcome=partial(create_first_organization, settings)
    )
    install_error_handlers(app, settings.support_contact)
    app.add_middleware(IdempotencyMiddleware)
    app.add_middleware(OriginMiddleware)
    app.add_middleware(
        ShareMiddleware,
        connections=database.most_connections,
        share_percent=settings.database_share_percent,
        turns=Turns(settings.api_share_percent, system_clock),
        clock=system_clock,
    )
    app.add_middleware(BodyMiddleware, routes=app.routes, send_within_s=settings.body_timeout_s)
    app.add_middleware(RequestIdMiddleware)
    if settings.otlp_endpoint is not None:
        app.add_middleware(TracingMiddleware)
    app.state.api_counts = ApiCounts()
    app.add_middleware(ApiCountsMiddleware, counts=app.state.api_counts, clock=system_clock)
    gateway_url, not_found = settings.gateway_base_url, app.router.default
    console = Console(BUILT_FILES, gateway_url, otherwise=not_found)
    app.router.default = Handbook(BUILT_HANDBOOK, gateway_url, otherwise=console, not_found=not_found)
    return app


def _tell_of_end(app: FastAPI, lasting: asyncio.Task[NoReturn]) -> None:
    if lasting.cancelled():
        return  # The process stops.
    error = lasting.exception()
    assert error is not None, "what never returns ends with an error"
    log.error("background_work_ended", error=repr(error))
    if app.state.when_broken is not None:
        app.state.when_broken(error)


@cache
def described_routes() -> list[BaseRoute]:
    """Shared by every app of this process: what FastAPI derives from them at the first request takes it a quarter of a
    second."""
    router = APIRouter()
    for at_the_root in (health.root_router, operator_metrics.router, sign_in_page.router, device_page.router):
        router.include_router(at_the_root)
    for part in (*(module.router for module in _PARTS), health.operator_router, operator_health.router):
        router.include_router(part, prefix=API_PREFIX)
    return router.routes


class RequestIdMiddleware:
    """HAProxy sets the id and drops what clients send; without HAProxy in front, we make one. Written on the bare
    protocol, because Starlette's convenience layer would stand between a stream and the client's hanging up."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else new_request_id()
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                # Keys and session tokens pass through here; no cache may keep an answer.
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, send_with_id)
