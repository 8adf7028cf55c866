"""The real application on a real database, and the people and keys that ask it for things."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from sqlalchemy import func, select, text

from moorage.catalog.defaults import default_catalogue
from moorage.catalog.models import InstanceTypeRow
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.secrets import seal
from moorage.containers.spec import ContainerSecrets, ContainerSettings, RegistryProvider, ResourceMode
from moorage.entrypoints.api import create_app
from moorage.entrypoints.bootstrap import bootstrap
from moorage.entrypoints.description.document import PROBLEM
from moorage.entrypoints.tables import metadata
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.sessions.repository import create_session
from moorage.identity.tokens import API_KEY_PREFIX, INVITATION_PREFIX, SESSION_PREFIX, csrf_token, new_token
from moorage.identity.users.repository import create_user
from moorage.kit.clock import SystemClock
from moorage.kit.crypto import Keyring, sha256
from moorage.kit.database import Database
from moorage.kit.ids import (
    UserId,
    new_api_key_id,
    new_cache_id,
    new_container_id,
    new_gateway_id,
    new_invitation_id,
    new_machine_id,
    new_organization_id,
    new_payout_id,
    new_project_id,
    new_replica_id,
    new_request_id,
    new_top_up_id,
    new_webhook_id,
)
from moorage.kit.settings import Settings
from moorage.ledger.repository import grant_initial_credit
from moorage.machines.models import MachineRow
from moorage.machines.repository import credential_context, save_hub
from moorage.machines.tokens import CREDENTIAL_PREFIX, MACHINE_PREFIX
from moorage.organizations.invitations.models import InvitationRow
from moorage.organizations.models import MemberRow, OrganizationRow, ProjectMemberRow, ProjectRow
from moorage.telemetry.requests.record import Ending, RequestRecord
from moorage.telemetry.requests.repository import store
from moorage.tunnel.keys import new_private_key, public_key_of
from moorage.tunnel.peers import HubEnd
from moorage.webhooks.models import WebhookRow
from moorage.webhooks.service import secret_context
from tests.description import operation

KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
BASE_URL = "http://127.0.0.1:8080"
COOKIE = "moorage_session"
SUPPORT_CONTACT = "help@moorage.example"
SMALL = default_catalogue()[0].name
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
PORTS = itertools.count(20_000)


class HurriedClock(SystemClock):
    """Every sleep takes an hour, at once: a stream of logs reaches its limit in one turn."""

    def __init__(self) -> None:
        self._slept_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._slept_s

    async def sleep(self, seconds: float) -> None:
        self._slept_s += 3600.0


@dataclass(frozen=True)
class Asker:
    """Whoever sends a request: its headers, and the words it may never see in an answer."""

    name: str
    headers: dict[str, str] = field(default_factory=dict)
    must_not_see: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    """Where the request comes from."""


ANONYMOUS = Asker("anonymous")


@dataclass
class Api:
    app: FastAPI
    database: Database
    settings: Settings
    answers: list[str] = field(default_factory=list)
    """The text of everything that was answered, for scans."""

    @property
    def operator(self) -> Asker:
        return bearer("operator", self.settings.operator_key_file.read_text().strip())

    async def ask(self, asker: Asker, method: str, path: str, **how: Any) -> httpx.Response:
        """One request by a client that remembers nothing. A crash shows as the 500 that users would get."""
        headers = {**asker.headers, **how.pop("headers", {})}
        path = path if path.startswith("http") else BASE_URL + path
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(asker.address, 40000))
        async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
            answer = await client.request(method, path, headers=headers, **how)
        assert answer.headers["x-request-id"], f"{method} {path} has no request id"
        self.answers.append(answer.text)
        _assert_described(answer)
        return answer

    async def post(self, asker: Asker, path: str, body: Any = None, **how: Any) -> httpx.Response:
        return await self.ask(asker, "POST", f"/api/v1{path}", json=body, **how)

    async def get(self, asker: Asker, path: str, **how: Any) -> httpx.Response:
        return await self.ask(asker, "GET", f"/api/v1{path}", **how)

    async def mails(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get(self.operator, "/operator/outbox?limit=200")).json()[
            "items"
        ]
        return found

    async def execute(self, statement: str, **values: Any) -> None:
        async with self.database.transaction() as session:
            await session.execute(text(statement), values)

    async def rows(self, query: str, **values: Any) -> list[Any]:
        async with self.database.transaction() as session:
            return list((await session.execute(text(query), values)).all())

    async def dump(self) -> str:
        """Every row of every table, as text; binary columns as hexadecimal digits."""
        parts = []
        for table in metadata.tables:
            rows = await self.rows(f'SELECT t::text FROM "{table}" t')
            parts += [f"{table}: {row[0]}" for row in rows]
        return "\n".join(parts)

    # What follows writes rows directly, so that a test of one route does not depend on all the others.

    async def new_person(self, email: str) -> tuple[str, str]:
        """Their id and a session's token."""
        token = new_token(SESSION_PREFIX)
        async with self.database.transaction() as session:
            user, _ = await create_user(session, email)
            await create_session(session, UserId(user.id), sha256(token))
        return user.id, token

    async def new_organization(self, name: str, members: dict[str, str]) -> str:
        organization_id = new_organization_id()
        async with self.database.transaction() as session:
            session.add(OrganizationRow(id=organization_id, name=name))
            await session.flush()
            for user_id, role in members.items():
                session.add(MemberRow(organization_id=organization_id, user_id=user_id, role=role))
            # Signing up would have given it to them.
            await grant_initial_credit(session, organization_id, organization_id)
        return organization_id

    async def new_project(self, organization_id: str, name: str, *members: str) -> str:
        project_id = new_project_id()
        async with self.database.transaction() as session:
            session.add(ProjectRow(id=project_id, organization_id=organization_id, name=name))
            await session.flush()
            for user_id in members:
                session.add(ProjectMemberRow(project_id=project_id, user_id=user_id))
        return project_id

    async def join(self, organization_id: str, user_id: str, role: str = "user") -> None:
        async with self.database.transaction() as session:
            session.add(MemberRow(organization_id=organization_id, user_id=user_id, role=role))

    async def new_invitation(self, organization_id: str, email: str) -> tuple[str, str]:
        """Its id and the token of its link."""
        token = new_token(INVITATION_PREFIX)
        invitation_id = new_invitation_id()
        async with self.database.transaction() as session:
            admins = select(MemberRow.user_id).where(
                MemberRow.organization_id == organization_id, MemberRow.role == "admin"
            )
            row = InvitationRow(
                id=invitation_id,
                organization_id=organization_id,
                email=email,
                role="user",
                token_hash=sha256(token),
                invited_by=(await session.execute(admins)).scalars().first(),
                expires_at=func.now() + timedelta(days=7),
            )
            session.add(row)
        return invitation_id, token

    async def new_webhook(self, organization_id: str, url: str) -> str:
        webhook_id = new_webhook_id()
        async with self.database.transaction() as session:
            row = WebhookRow(
                id=webhook_id,
                organization_id=organization_id,
                url=url,
                events=["*"],
                sealed_secret=KEYRING.encrypt(b"whsec_AAAA", secret_context(webhook_id)),
                created_by="system",
            )
            session.add(row)
        return webhook_id

    async def new_cache(
        self, container_id: str, node: str = "machine-1", *, engine: str = "local", size_bytes: int = 15
    ) -> str:
        cache_id = new_cache_id()
        await self.execute(
            "INSERT INTO container_caches (id, container_id, engine, node, size_bytes, measured_at)"
            " VALUES (:id, :container_id, :engine, :node, :size_bytes, now())",
            id=cache_id,
            container_id=container_id,
            engine=engine,
            node=node,
            size_bytes=size_bytes,
        )
        return cache_id

    async def new_bank_transfer(self, organization_id: str) -> str:
        transfer_id = new_top_up_id()
        await self.execute(
            "INSERT INTO bank_transfers (id, organization_id, reference, transfer, amount_microusd, state, requested_by) "
            "VALUES (:id, :organization_id, :id, 'local', 5000000, 'pending', 'usr_test')",
            id=transfer_id,
            organization_id=organization_id,
        )
        return transfer_id

    async def new_saved_card(self, organization_id: str) -> None:
        """And what may be charged to it."""
        await self.execute(
            "INSERT INTO saved_cards (organization_id, customer_id, payment_method_id, brand, last4)"
            " VALUES (:id, :customer_id, 'pm_1', 'visa', '4242') ON CONFLICT DO NOTHING",
            id=organization_id,
            customer_id=f"cus_{organization_id}",
        )
        await self.execute(
            "INSERT INTO auto_top_ups (organization_id, threshold_microusd, amount_microusd,"
            " monthly_cap_microusd, agreed_by)"
            " VALUES (:id, 5000000, 5000000, 50000000, 'usr_somebody') ON CONFLICT DO NOTHING",
            id=organization_id,
        )

    async def new_payout(self, organization_id: str) -> str:
        """That waits for the operator."""
        payout_id = new_payout_id()
        details = {"holder": "Acme", "account": "DE021203", "bank": ""}
        sealed = KEYRING.encrypt(
            json.dumps(details).encode(), f"payout_accounts.sealed_details:{organization_id}"
        )
        about = {"organization_id": organization_id, "sealed": sealed}
        await self.execute(
            "INSERT INTO payout_accounts (organization_id, sealed_details, shown_account, changed_at, changed_by) "
            "VALUES (:organization_id, :sealed, '1203', now(), 'usr') ON CONFLICT DO NOTHING",
            **about,
        )
        # Only one waits at a time.
        await self.execute(
            "UPDATE payouts SET state = 'refused', decided_at = now() WHERE state = 'requested'"
        )
        await self.execute(
            "INSERT INTO payouts (id, organization_id, amount_microusd, state, sealed_details, shown_account, requested_by) "
            "VALUES (:id, :organization_id, 10000, 'requested', :sealed, '1203', 'usr')",
            id=payout_id,
            **about,
        )
        return payout_id

    async def book(
        self,
        organization_id: str,
        kind: str,
        amount_microusd: int,
        at: datetime,
        *,
        times: int = 1,
        **details: Any,
    ) -> list[str]:
        """As the ledger would have booked it at that time; the transactions' ids."""
        credit = f"credit:{organization_id}"
        source, target = (credit, "usage") if kind == "usage" else ("bank", credit)
        if kind == "earning":
            source, target = "usage", f"earnings:{organization_id}"
        found = await self.rows(
            "WITH booked AS (INSERT INTO ledger_transactions (id, key, kind, organization_id, at, details) "
            "SELECT 'txn_' || k, k, :kind, :organization_id, :at, CAST(:details AS jsonb) "
            "FROM (SELECT gen_random_uuid()::text AS k FROM generate_series(1, :times)) AS keys RETURNING id), "
            "entries AS (INSERT INTO ledger_entries (transaction_id, account, amount_microusd) "
            "SELECT id, account, amount FROM booked, (VALUES (CAST(:source AS text), -CAST(:amount AS bigint)), "
            "(CAST(:target AS text), CAST(:amount AS bigint))) AS leg (account, amount)) SELECT id FROM booked",
            kind=kind,
            organization_id=organization_id,
            at=at,
            details=json.dumps(details),
            source=source,
            target=target,
            amount=amount_microusd,
            times=times,
        )
        return [row[0] for row in found]

    async def new_container(self, project_id: str, name: str) -> str:
        container_id = new_container_id()
        settings = ContainerSettings(
            "docker.io/acme/chat:1", RegistryProvider.DOCKER_HUB, None, ResourceMode.GENERAL, SMALL
        )
        row = ContainerRow(
            id=container_id,
            project_id=project_id,
            name=name,
            instance_type=SMALL,
            settings=settings.to_json(),
            secrets=seal(KEYRING, container_id, ContainerSecrets()),
            desired_state="stopped",
            desired_replicas=1,
            generation=1,
            state="STOPPED",
            state_since=func.now(),
        )
        async with self.database.transaction() as session:
            session.add(row)
        return container_id

    async def new_replica(self, container_id: str, state: str = "routed", node: str = "here") -> str:
        replica_id = new_replica_id()
        row = ReplicaRow(
            id=replica_id,
            container_id=container_id,
            slot=0,
            generation=1,
            instance_type=SMALL,
            state=state,
            node=node,
            host="127.0.0.1",
            host_port=next(PORTS),
            engine_id=f"engine-{replica_id}",
        )
        async with self.database.transaction() as session:
            session.add(row)
        return replica_id

    async def new_instance_type(self, name: str) -> str:
        entry = InstanceTypeRow(
            name=name,
            position=100,
            vcpu_millis=500,
            memory_bytes=2**29,
            disk_bytes=2**30,
            price_per_hour_microusd=10_000,
        )
        async with self.database.transaction() as session:
            session.add(entry)
        return name

    async def new_doubt(self, node: str) -> str:
        """Most replicas of this machine are missing."""
        await self.execute(
            "INSERT INTO nodes (name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) "
            "VALUES (:node, 'operator', 'amd64', 0, 0, '[]', now()) ON CONFLICT DO NOTHING",
            node=node,
        )
        await self.execute(
            "INSERT INTO machine_doubts (node, missing, expected) VALUES (:node, 3, 4)", node=node
        )
        return node

    async def new_machine(self, state: str = "active", **changes: Any) -> str:
        """One that joined."""
        machine_id = new_machine_id()
        values: dict[str, Any] = {
            "name": machine_id.replace("_", "-"),
            "infrastructure": "operator",
            "address": f"198.19.{next(PORTS) // 250 - 79}.{next(PORTS) % 250}",
            "port": 7420,
            "public_key": public_key_of(new_private_key()),
            "sealed_credential": KEYRING.encrypt(b"moor_node_test", credential_context(machine_id)),
            "secret_hash": sha256(machine_id),
            "created_by": "usr_somebody",
            "joined_at": func.now(),
            **changes,
        }
        async with self.database.transaction() as session:
            session.add(MachineRow(id=machine_id, state=state, **values))
        return machine_id

    async def new_hub(self) -> HubEnd:
        hub = HubEnd("gtw_hub", "198.19.0.1", public_key_of(new_private_key()), "hub.example:51820")
        async with self.database.transaction() as session:
            await save_hub(session, hub)
        return hub

    async def new_silent_gateway(self) -> str:
        gateway_id = new_gateway_id()
        await self.execute(
            "INSERT INTO gateways (id, started_at, seen_at) VALUES (:id, now(), now() - interval '1 hour')",
            id=gateway_id,
        )
        return gateway_id

    async def new_request(self, project_id: str, key_id: str, **changes: Any) -> str:
        request_id = new_request_id()
        values = {
            "request_id": request_id,
            "project_id": project_id,
            "container_id": None,
            "key_id": key_id,
            "replica_id": None,
            "started_at": datetime(2026, 1, 31, 12, tzinfo=UTC),
            "queue_ms": None,
            "connect_ms": None,
            "first_byte_ms": None,
            "total_ms": 0,
            "status": 404,
            "request_bytes": 100,
            "response_bytes": 200,
            "ended": Ending.REFUSED,
        }
        async with self.database.transaction() as session:
            record = RequestRecord(**(values | changes))
            await store(session, "gtw_test", datetime.now(UTC), [record], {})
        return request_id

    async def new_key(
        self,
        project_id: str,
        scope: str,
        *,
        name: str = "test",
        expires_at: datetime | None = None,
        revoked_at: datetime | None = None,
    ) -> tuple[str, str]:
        """Its id and the key itself."""
        key = new_token(API_KEY_PREFIX)
        row = ApiKeyRow(
            id=new_api_key_id(),
            project_id=project_id,
            name=name,
            scope=scope,
            key_hash=sha256(key),
            hint=key[-4:],
            expires_at=expires_at,
            revoked_at=revoked_at,
        )
        async with self.database.transaction() as session:
            session.add(row)
        return row.id, key


@dataclass(frozen=True)
class Home:
    """A person who is the admin of an organization with one project."""

    admin: Asker
    token: str
    user_id: str
    organization_id: str
    project_id: str


async def new_home(api: Api, email: str = "ada@example.com") -> Home:
    user_id, token = await api.new_person(email)
    organization_id = await api.new_organization("acme", {user_id: "admin"})
    project_id = await api.new_project(organization_id, "default")
    return Home(bearer("admin", token), token, user_id, organization_id, project_id)


def bearer(name: str, token: str, *must_not_see: str) -> Asker:
    return Asker(name, {"Authorization": f"Bearer {token}"}, must_not_see)


def cookie(token: str, csrf: str | None = None) -> Asker:
    headers = {"Cookie": f"{COOKIE}={token}"}
    return Asker("browser", headers | ({"X-CSRF-Token": csrf} if csrf is not None else {}))


def right_csrf(token: str) -> str:
    return csrf_token(token)


def join_body(token: str, **changes: Any) -> dict[str, Any]:
    return {
        "token": token,
        "hostname": "rack-7",
        "public_key": public_key_of(new_private_key()),
        "credential": new_token(CREDENTIAL_PREFIX),
        "secret": new_token(MACHINE_PREFIX),
        "facts": {
            "architecture": "x86_64",
            "kernel": "6.1",
            "system": "Debian 12",
            "cpus": 8,
            "memory_bytes": 2**35,
            "disk_free_bytes": 2**38,
            "gpus": ["NVIDIA L4"],
        },
        **changes,
    }


def container_body(name: str = "chat", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "image": "acme/chat:1",
        "resources": {"mode": "general", "instance_type": SMALL},
        **changes,
    }


def _assert_described(answer: httpx.Response) -> None:
    """Clients know no other errors than those that the description names."""
    asked = answer.request
    found = operation(asked.method, asked.url.path)
    if found is None or answer.headers.get("content-type") != PROBLEM:
        return
    code = answer.json()["code"]
    assert code in found.codes(answer.status_code), (
        f"{found.method} {found.path} is not described to answer {answer.status_code} {code}"
    )


def route_table(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Every method and path that the application answers, e.g. `("GET", "/api/v1/me")`."""
    for route in iter_route_contexts(app.routes):
        assert route.path is not None, f"{route.original_route} has no path"
        for method in sorted(getattr(route.original_route, "methods", None) or ()):
            if method != "HEAD":
                yield method, route.path


def assert_problem(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "code", "detail", "request_id"} <= set(body), body
    assert (body["status"], body["request_id"]) == (status, answer.headers["x-request-id"])
    if code is not None:
        assert body["code"] == code, body
    return body


@pytest.fixture(name="api")
async def api_fixture(database: Database, short_folder: Path) -> Api:
    settings = Settings(
        api_share_percent=100,  # a test asks as fast as it can, and for several people
        home=short_folder,
        support_contact=SUPPORT_CONTACT,
        bank_details_local="IBAN XX00 TEST",
        model_hub="",  # no test asks the public one
    )
    async with database.transaction() as session:
        await bootstrap(session, settings)
    app = create_app(settings, database, KEYRING)
    app.state.clock = HurriedClock()
    return Api(app, database, settings)
