"""Who may do what: every route of the application × every kind of asker × own, foreign and absent ids.

The table below is the whole promise. A route without a row fails `test_every_route_has_a_row` by its name.
"""

import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from api_support import (
    ANONYMOUS,
    KEYRING,
    Api,
    Asker,
    assert_problem,
    bearer,
    container_body,
    join_body,
    route_table,
)
from api_support import api_fixture as api_fixture

from moorage.containers.rollout import Rollout
from moorage.containers.secrets import seal_draft
from moorage.containers.states import Strategy
from moorage.entrypoints.description.routes import Who, written_routes
from moorage.identity.tokens import INVITATION_PREFIX, new_token
from moorage.kit.crypto import sha256
from moorage.kit.ids import (
    new_api_key_id,
    new_cache_id,
    new_container_id,
    new_gateway_id,
    new_invitation_id,
    new_machine_id,
    new_organization_id,
    new_payout_id,
    new_project_id,
    new_replica_limit_request_id,
    new_request_id,
    new_session_id,
    new_top_up_id,
    new_transaction_id,
    new_user_id,
    new_webhook_id,
)
from moorage.machines.tokens import new_join_token
from moorage.organizations.permissions import Permission, Role, allows
from moorage.tunnel.keys import new_private_key, public_key_of

OK = 200
"""Stands for any 2xx."""

ASKERS = (
    "anonymous", "dead credentials", "inference key", "other admin", "other manage key",
    "not joined", "manage key of another project", "joined", "admin", "manage key", "operator",
)  # fmt: skip

EXPECTED = {
    "anybody":  (OK,  OK,  OK,  OK,  OK,  OK,  OK,  OK,  OK,  OK,  OK),
    "actor":    (401, 401, 401, OK,  OK,  OK,  OK,  OK,  OK,  OK,  OK),
    "person":   (401, 401, 401, OK,  403, OK,  403, OK,  OK,  403, OK),
    "member":   (401, 401, 401, 404, 403, OK,  403, OK,  OK,  403, 404),
    "joined":   (401, 401, 401, 404, 403, 404, 403, OK,  OK,  403, 404),
    "admin":    (401, 401, 401, 404, 403, 403, 403, 403, OK,  403, 404),
    "owner":    (401, 401, 401, 404, 403, 404, 403, 404, OK,  403, 404),
    "invited":  (401, 401, 401, 404, 403, 404, 403, 404, 404, 403, 404),
    "project":  (401, 401, 401, 404, 404, 404, 404, OK,  OK,  OK,  404),
    "project admin": (401, 401, 401, 404, 404, 404, 404, 403, OK, 403, 404),
    "operator": (401, 401, 401, 403, 403, 403, 403, 403, 403, 403, OK),
    "lender":   (401, 401, 401, 404, 403, OK,  403, OK,  OK,  403, OK),
    "lender admin": (401, 401, 401, 404, 403, 403, 403, 403, OK, 403, OK),
}  # fmt: skip
"""Rule → the answer to each of ASKERS, in that order, when the ids in the path are those of "acme"."""

ROUTES = {
    "GET /openapi.json": "anybody",
    "GET /healthz": "anybody",
    "GET /readyz": "anybody",
    "GET /metrics": "operator",
    "GET /sign-in": "anybody",
    "POST /sign-in": "anybody",
    "POST /api/v1/auth/email/start": "anybody",
    "POST /api/v1/auth/email/verify": "anybody",
    "POST /api/v1/auth/link/verify": "anybody",
    "GET /api/v1/auth/providers": "anybody",
    "GET /api/v1/auth/{provider}/login": "anybody",
    "GET /api/v1/auth/{provider}/callback": "anybody",
    "GET /device": "anybody",
    "POST /device": "anybody",
    "POST /api/v1/auth/device": "anybody",
    "POST /api/v1/auth/device/token": "anybody",
    "GET /api/v1/auth/device/{user_code}": "person",
    "POST /api/v1/auth/device/{user_code}": "person",
    "POST /api/v1/auth/logout": "person",
    "GET /api/v1/me/sessions": "person",
    "DELETE /api/v1/me/sessions": "person",
    "DELETE /api/v1/me/sessions/{session_id}": "owner",
    "GET /api/v1/me/identities": "person",
    "GET /api/v1/me": "actor",
    "GET /api/v1/instance-types": "actor",
    "GET /api/v1/templates": "actor",
    "GET /api/v1/organizations": "person",
    "POST /api/v1/organizations": "person",
    "GET /api/v1/organizations/{organization_id}": "member",
    "PATCH /api/v1/organizations/{organization_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/audit": "admin",
    "GET /api/v1/organizations/{organization_id}/audit/export": "admin",
    "GET /api/v1/organizations/{organization_id}/notifications": "member",
    "PUT /api/v1/organizations/{organization_id}/notifications/read": "member",
    "GET /api/v1/organizations/{organization_id}/caches": "member",
    "DELETE /api/v1/organizations/{organization_id}/caches/{cache_id}": "joined",
    "GET /api/v1/organizations/{organization_id}/members": "admin",
    "PATCH /api/v1/organizations/{organization_id}/members/{user_id}": "admin",
    "DELETE /api/v1/organizations/{organization_id}/members/{user_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/invitations": "admin",
    "POST /api/v1/organizations/{organization_id}/invitations": "admin",
    "POST /api/v1/organizations/{organization_id}/invitations/{invitation_id}/resend": "admin",
    "DELETE /api/v1/organizations/{organization_id}/invitations/{invitation_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/webhooks": "admin",
    "POST /api/v1/organizations/{organization_id}/webhooks": "admin",
    "PATCH /api/v1/organizations/{organization_id}/webhooks/{webhook_id}": "admin",
    "DELETE /api/v1/organizations/{organization_id}/webhooks/{webhook_id}": "admin",
    "POST /api/v1/organizations/{organization_id}/webhooks/{webhook_id}/test": "admin",
    "GET /api/v1/organizations/{organization_id}/webhooks/{webhook_id}/deliveries": "admin",
    "GET /api/v1/invitations/{token}": "invited",
    "POST /api/v1/invitations/{token}/accept": "invited",
    "GET /api/v1/organizations/{organization_id}/deletion": "admin",
    "DELETE /api/v1/organizations/{organization_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/projects": "member",
    "POST /api/v1/organizations/{organization_id}/projects": "admin",
    "GET /api/v1/projects/{project_id}": "project",
    "PATCH /api/v1/projects/{project_id}": "project admin",
    "DELETE /api/v1/projects/{project_id}": "project admin",
    "GET /api/v1/projects/{project_id}/api-keys": "project",
    "POST /api/v1/projects/{project_id}/api-keys": "project",
    "GET /api/v1/api-keys/{key_id}": "project",
    "PATCH /api/v1/api-keys/{key_id}": "project",
    "DELETE /api/v1/api-keys/{key_id}": "project",
    "POST /api/v1/api-keys/{key_id}/rotate": "project",
    "GET /api/v1/projects/{project_id}/containers": "project",
    "POST /api/v1/projects/{project_id}/containers": "project",
    "POST /api/v1/projects/{project_id}/containers/preflight": "project",
    "GET /api/v1/projects/{project_id}/containers/proposal": "project",
    "POST /api/v1/projects/{project_id}/models/resolve": "project",
    "POST /api/v1/projects/{project_id}/models/deploy": "project",
    "GET /api/v1/containers/{container_id}": "project",
    "PATCH /api/v1/containers/{container_id}": "project",
    "DELETE /api/v1/containers/{container_id}": "project",
    "POST /api/v1/containers/{container_id}/start": "project",
    "GET /api/v1/projects/{project_id}/replica-limit-requests": "project",
    "POST /api/v1/projects/{project_id}/replica-limit-requests": "project",
    "GET /api/v1/operator/replica-limit-requests": "operator",
    "POST /api/v1/operator/replica-limit-requests/{approval_id}/approve": "operator",
    "POST /api/v1/operator/replica-limit-requests/{approval_id}/refuse": "operator",
    "POST /api/v1/containers/{container_id}/fix": "project",
    "GET /api/v1/containers/{container_id}/draft": "project",
    "PUT /api/v1/containers/{container_id}/draft": "project",
    "DELETE /api/v1/containers/{container_id}/draft": "project",
    "POST /api/v1/containers/{container_id}/draft/apply": "project",
    "GET /api/v1/containers/{container_id}/versions": "project",
    "POST /api/v1/containers/{container_id}/rollback": "project",
    "POST /api/v1/containers/{container_id}/wake": "project",
    "GET /api/v1/containers/{container_id}/sleeps": "project",
    "GET /api/v1/containers/{container_id}/savings": "project",
    "POST /api/v1/containers/{container_id}/canary": "project",
    "POST /api/v1/containers/{container_id}/canary/promote": "project",
    "POST /api/v1/containers/{container_id}/canary/abort": "project",
    "GET /api/v1/containers/{container_id}/doctor": "project",
    "POST /api/v1/containers/{container_id}/doctor": "project",
    "POST /api/v1/containers/{container_id}/stop": "project",
    "POST /api/v1/containers/{container_id}/restart": "project",
    "GET /api/v1/containers/{container_id}/replicas": "project",
    "GET /api/v1/containers/{container_id}/activity": "project",
    "GET /api/v1/containers/{container_id}/metrics": "project",
    "GET /api/v1/containers/{container_id}/capsules": "project",
    "GET /api/v1/containers/{container_id}/autoscaling": "project",
    "POST /api/v1/containers/{container_id}/autoscaling/replay": "project",
    "POST /api/v1/containers/{container_id}/scale": "project",
    "GET /api/v1/containers/{container_id}/logs": "project",
    "GET /api/v1/containers/{container_id}/logs/histogram": "project",
    "GET /api/v1/containers/{container_id}/logs/download": "project",
    "GET /api/v1/containers/{container_id}/logs/stream": "project",
    "GET /api/v1/projects/{project_id}/logs": "project",
    "GET /api/v1/projects/{project_id}/logs/histogram": "project",
    "GET /api/v1/projects/{project_id}/logs/download": "project",
    "GET /api/v1/projects/{project_id}/logs/stream": "project",
    "GET /api/v1/projects/{project_id}/events": "project",
    "GET /api/v1/requests/{request_id}": "project",
    "GET /api/v1/containers/{container_id}/requests": "project",
    "GET /api/v1/containers/{container_id}/cost": "project",
    "GET /api/v1/organizations/{organization_id}/billing": "member",
    "GET /api/v1/organizations/{organization_id}/billing/entries": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/entries/export": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/balance": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/usage": "member",
    "GET /api/v1/organizations/{organization_id}/billing/usage/export": "member",
    "GET /api/v1/organizations/{organization_id}/billing/top-ups": "admin",
    "POST /api/v1/organizations/{organization_id}/billing/top-ups": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/top-ups/{top_up_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/details": "admin",
    "PATCH /api/v1/organizations/{organization_id}/billing/details": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/invoices": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/invoices/{month}": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/invoices/{month}/pdf": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/receipts": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/receipts/{transaction_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/receipts/{transaction_id}/pdf": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/limits": "admin",
    "PUT /api/v1/organizations/{organization_id}/billing/limits": "admin",
    "PUT /api/v1/organizations/{organization_id}/billing/limits/{project_id}": "admin",
    "GET /api/v1/organizations/{organization_id}/earnings": "admin",
    "GET /api/v1/organizations/{organization_id}/earnings/machines": "admin",
    "GET /api/v1/organizations/{organization_id}/earnings/statements": "admin",
    "GET /api/v1/organizations/{organization_id}/earnings/statements/{month}": "admin",
    "GET /api/v1/organizations/{organization_id}/earnings/statements/{month}/pdf": "admin",
    "GET /api/v1/organizations/{organization_id}/payout-account": "admin",
    "PUT /api/v1/organizations/{organization_id}/payout-account": "admin",
    "GET /api/v1/organizations/{organization_id}/payouts": "admin",
    "POST /api/v1/organizations/{organization_id}/payouts": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/card": "admin",
    "POST /api/v1/organizations/{organization_id}/billing/card": "admin",
    "DELETE /api/v1/organizations/{organization_id}/billing/card": "admin",
    "GET /api/v1/organizations/{organization_id}/billing/auto-top-up": "admin",
    "PUT /api/v1/organizations/{organization_id}/billing/auto-top-up": "admin",
    "DELETE /api/v1/organizations/{organization_id}/billing/auto-top-up": "admin",
    "POST /api/v1/webhooks/stripe": "anybody",
    "GET /api/v1/operator/bank-transfers": "operator",
    "POST /api/v1/operator/bank-transfers/{transfer_id}/confirm": "operator",
    "POST /api/v1/operator/bank-transfers/{transfer_id}/expire": "operator",
    "GET /api/v1/operator/payouts": "operator",
    "POST /api/v1/operator/payouts/{payout_id}/confirm": "operator",
    "POST /api/v1/operator/payouts/{payout_id}/refuse": "operator",
    "POST /api/v1/operator/machines/{machine_id}/void-earnings": "operator",
    "GET /api/v1/operator/credits": "operator",
    "POST /api/v1/operator/credits": "operator",
    "GET /api/v1/operator/revenue": "operator",
    "GET /api/v1/operator/organizations": "operator",
    "GET /api/v1/operator/organizations/{organization_id}": "operator",
    "GET /api/v1/operator/organizations/{organization_id}/containers": "operator",
    "GET /api/v1/operator/organizations/{organization_id}/members": "operator",
    "GET /api/v1/operator/organizations/{organization_id}/audit": "operator",
    "GET /api/v1/operator/search": "operator",
    "GET /api/v1/operator/setup": "operator",
    "POST /api/v1/operator/organizations/{organization_id}/suspend": "operator",
    "POST /api/v1/operator/organizations/{organization_id}/resume": "operator",
    "POST /api/v1/operator/organizations/{organization_id}/initial-credit": "operator",
    "GET /api/v1/operator/users": "operator",
    "POST /api/v1/operator/users/{user_id}/sign-out": "operator",
    "GET /api/v1/operator/outbox": "operator",
    "GET /api/v1/operator/audit": "operator",
    "DELETE /api/v1/operator/gateways/{gateway_id}": "operator",
    "GET /api/v1/operator/machines": "operator",
    "POST /api/v1/operator/machines": "operator",
    "GET /api/v1/machines/join.sh": "anybody",
    "GET /api/v1/machines/join-community.sh": "anybody",
    "GET /api/v1/machines/moorage.tar.gz": "anybody",
    "POST /api/v1/machines/join": "anybody",
    "GET /api/v1/machines/{machine_id}": "lender",
    "POST /api/v1/machines/{machine_id}/command": "lender admin",
    "GET /api/v1/operator/tunnel": "operator",
    "POST /api/v1/machines/{machine_id}/pause": "lender admin",
    "POST /api/v1/machines/{machine_id}/resume": "lender admin",
    "POST /api/v1/machines/{machine_id}/drain": "lender admin",
    "DELETE /api/v1/machines/{machine_id}": "lender admin",
    "POST /api/v1/machines/{machine_id}/reclaim": "lender admin",
    "POST /api/v1/operator/machines/{machine_id}/ban": "operator",
    "POST /api/v1/operator/machines/{machine_id}/unban": "operator",
    "GET /api/v1/organizations/{organization_id}/machines": "member",
    "POST /api/v1/organizations/{organization_id}/machines": "admin",
    "GET /api/v1/machines/{machine_id}/membership": "anybody",
    "PUT /api/v1/machines/{machine_id}/key": "anybody",
    "POST /api/v1/machines/{machine_id}/leave": "anybody",
    "GET /api/v1/operator/nodes": "operator",
    "POST /api/v1/operator/nodes/{node}/replicas-gone": "operator",
    "PUT /api/v1/operator/nodes/{node}/intake": "operator",
    "GET /api/v1/operator/instance-types": "operator",
    "GET /api/v1/operator/instance-types/proposals": "operator",
    "POST /api/v1/operator/instance-types": "operator",
    "PATCH /api/v1/operator/instance-types/{instance_type}": "operator",
    "DELETE /api/v1/operator/instance-types/{instance_type}": "operator",
    "GET /api/v1/operator/logs": "operator",
    "GET /api/v1/operator/status": "operator",
    "GET /api/v1/operator/health": "operator",
}

# Whoever asks: the credentials in the body are wrong, and nothing runs that could be ready.
FIXED_ANSWERS = {
    "POST /api/v1/webhooks/stripe": 409,
    "POST /sign-in": 401,
    "POST /api/v1/auth/email/verify": 401,
    "POST /api/v1/auth/link/verify": 401,
    "GET /api/v1/auth/{provider}/login": 404,  # none is set up
    "GET /api/v1/auth/{provider}/callback": 404,
    "GET /device": 401,  # pages know cookies only
    "POST /device": 401,
    "POST /api/v1/auth/device/token": 401,
    "POST /api/v1/machines/join": 401,  # machines have tokens and secrets of their own
    "GET /api/v1/machines/{machine_id}/membership": 401,
    "PUT /api/v1/machines/{machine_id}/key": 401,
    "POST /api/v1/machines/{machine_id}/leave": 401,
}

REMOVE_ORGANIZATION = "DELETE /api/v1/organizations/{organization_id}"

NOT_SET_UP = {
    REMOVE_ORGANIZATION: 409,
    "POST /api/v1/organizations/{organization_id}/billing/card": 409,
    "DELETE /api/v1/organizations/{organization_id}/billing/card": 409,
    "POST /api/v1/organizations/{organization_id}/payouts": 409,
    "POST /api/v1/containers/{container_id}/wake": 409,
    "POST /api/v1/operator/machines": 409,
    "POST /api/v1/organizations/{organization_id}/machines": 409,
    "POST /api/v1/machines/{machine_id}/command": 409,
    "POST /api/v1/projects/{project_id}/models/deploy": 409,
}
"""What those get who may: there are no card payments here, no https:// address and no model hub, and nothing was earned.
Acme has containers. `test_saved_cards.py`, `test_api_machines.py`, `test_api_models.py`, `test_api_earnings.py` and
`test_api_deletion.py` have them."""

FIX = {"field": "port", "from": 8000, "to": 9000}
REMOVE_PROJECT = "DELETE /api/v1/projects/{project_id}"

ACME, ACME_SIDE, OTHER = "canary-acme", "canary-side", "canary-other"
"""Words in every name of the organization acme's project, of its other project, and of the other organization."""


@dataclass(frozen=True)
class Target:
    organization_id: str
    project_id: str
    admin_email: str = ""


@dataclass
class Town:
    api: Api
    acme: Target
    other: Target
    askers: dict[str, Asker]
    made: int = 0

    async def ids(self, target: Target, word: str, route: str | None = None) -> dict[str, str]:
        """With what this route names (by default: everything) made for the occasion, touched by nobody yet."""
        self.made += 1
        name = f"{word}-{self.made}"
        ids = absent_ids() | {"organization_id": target.organization_id, "project_id": target.project_id}
        named = route if route is not None else str(ids)
        if "container_id" in named:
            ids["container_id"] = await self.container(target, name)
        if route is not None and route.endswith("/doctor"):
            await self.api.new_replica(ids["container_id"])
        if "key_id" in named:
            ids["key_id"], _ = await self.api.new_key(target.project_id, "inference", name=name)
        if "request_id" in named:
            ids["request_id"] = await self.api.new_request(target.project_id, ids["key_id"])
        if "session_id" in named:
            _, token = await self.api.new_person(target.admin_email)
            found = await self.api.rows("SELECT id FROM sessions WHERE token_hash = :it", it=sha256(token))
            ids["session_id"] = found[0][0]
        if "user_code" in named:
            ids["user_code"] = (await self.api.post(ANONYMOUS, "/auth/device")).json()["user_code"]
        if "user_id" in named:
            ids["user_id"], _ = await self.api.new_person(f"{name}@example.com")
            await self.api.join(target.organization_id, ids["user_id"])
        if "invitation_id" in named or "{token}" in named:
            made = await self.api.new_invitation(target.organization_id, f"invited-{name}@example.com")
            ids["invitation_id"], ids["token"] = made
        if "webhook_id" in named:
            ids["webhook_id"] = await self.api.new_webhook(
                target.organization_id, f"https://{name}.example/hook"
            )
        if "cache_id" in named:
            ids["cache_id"] = await self.api.new_cache(await self.container(target, f"{name}-cached"))
        if "auto-top-up" in named:
            await self.api.new_saved_card(target.organization_id)
        if route is not None and route.endswith("/initial-credit"):
            await self.api.execute(
                "INSERT INTO initial_credits (organization_id, user_id, needs) VALUES (:id, :user_id, 'approval')"
                " ON CONFLICT (organization_id) DO UPDATE SET given_at = NULL, user_id = :user_id",
                id=target.organization_id,
                user_id=f"usr_{name}",
            )
        if "transfer_id" in named:
            ids["transfer_id"] = await self.api.new_bank_transfer(target.organization_id)
        if "top_up_id" in named:
            ids["top_up_id"] = await self.api.new_bank_transfer(target.organization_id)
        if "month" in named:
            # One of its own, because a month is a path that everybody can name.
            month = datetime(2001 + self.made // 12, self.made % 12 + 1, 1, tzinfo=UTC)
            ids["month"] = f"{month:%Y-%m}"
            hour = {"container_id": name, "project_id": target.project_id, "instance_type": "cpu-nano"}
            await self.api.book(target.organization_id, "usage", 5_000, month, slot=0, **hour)
            await self.api.book(target.organization_id, "earning", 3_500, month, machine_id=name)
        if "payout_id" in named:
            ids["payout_id"] = await self.api.new_payout(target.organization_id)
        if "transaction_id" in named:
            paid = await self.api.book(
                target.organization_id, "bank_transfer", 5_000_000, datetime.now(UTC), reference=name
            )
            ids["transaction_id"] = paid[0]
        if route is not None and "{instance_type}" in route:
            ids["instance_type"] = await self.api.new_instance_type(f"size-{self.made}")
        if route is not None and "{gateway_id}" in route:
            ids["gateway_id"] = await self.api.new_silent_gateway()
        if route is not None and "{node}" in route:
            ids["node"] = await self.api.new_doubt(f"machine-{self.made}")
        if "machine_id" in named:
            ids["machine_id"] = await self.api.new_machine(
                infrastructure="community", owner_organization_id=target.organization_id
            )
        if route is not None and route.endswith("/resume") and "machine" in route:
            await self.api.execute(
                "UPDATE machines SET state = 'paused', stopped_by = 'owner' WHERE state = 'active'"
            )
        if route is not None and route.endswith("/unban"):
            await self.api.execute("UPDATE machines SET state = 'banned' WHERE state = 'active'")
        if route is not None and "/canary" in route:
            await self.canary(ids["container_id"])
        # The operator's alone: nobody else can have one that is foreign to them.
        if route is not None and "approval_id" in route:
            ids["approval_id"] = await self.limit_request(target)
        return ids

    async def canary(self, container_id: str) -> None:
        """Under way, and serving."""
        now = datetime.now(UTC)
        rollout = Rollout(Strategy.CANARY, 2, 1, now, share=20, serving_since=now)
        await self.api.execute(
            "UPDATE containers SET trial_settings = settings, trial_secrets = secrets, trial_image = '{}',"
            " rollout = CAST(:rollout AS jsonb) WHERE id = :id",
            id=container_id,
            rollout=json.dumps(rollout.to_json()),
        )

    async def limit_request(self, target: Target) -> str:
        request_id = new_replica_limit_request_id()
        await self.api.execute(
            "INSERT INTO replica_limit_requests (id, project_id, replicas, state, requested_by)"
            " VALUES (:id, :project_id, 40, 'pending', 'usr_somebody')",
            id=request_id,
            project_id=target.project_id,
        )
        return request_id

    async def container(self, target: Target, name: str) -> str:
        container_id = await self.api.new_container(target.project_id, name)
        offers_fix = "failed_generation = generation, failure_fix = CAST(:fix AS jsonb)"
        await self.api.execute(
            f"UPDATE containers SET {offers_fix}, draft = :draft, version = 2 WHERE id = :id",
            id=container_id,
            fix=json.dumps(FIX),
            draft=seal_draft(KEYRING, container_id, {"port": 9000}),
        )
        await self.api.execute(
            "INSERT INTO container_versions (container_id, version, created_by, settings, secrets, image, changes)"
            " SELECT id, number, 'usr_somebody', settings, secrets, CAST(:image AS jsonb), '[]'"
            " FROM containers, generate_series(1, 2) AS number WHERE id = :id",
            id=container_id,
            image=json.dumps({"ref": "sha256:1", "digest": "sha256:1", "port": 8000, "gpu_environment": {}}),
        )
        return container_id

    async def request(
        self, asker: Asker, route: str, ids: dict[str, str], body: dict[str, Any] | None = None
    ) -> httpx.Response:
        method, path = route.split(" ")
        self.made += 1
        how: dict[str, Any] = {}
        if method in ("POST", "PUT", "PATCH"):
            how["json"] = body if body is not None else good_body(route, f"wanted-{self.made}")
        if route.endswith("/operator/credits"):
            how.setdefault("json", {})["organization_id"] = ids["organization_id"]
        if route.endswith("/operator/search"):
            how["params"] = {"q": "acme"}
        if route.endswith("/containers/proposal"):
            how["params"] = {"image": "vllm/vllm-openai:v1"}
        if route == REMOVE_PROJECT:
            named = await self.api.rows("SELECT name FROM projects WHERE id = :id", id=ids["project_id"])
            how["params"] = {"name": named[0][0] if named else "wanted"}
        if route == REMOVE_ORGANIZATION:
            its = "SELECT name FROM organizations WHERE id = :id"
            named = await self.api.rows(its, id=ids["organization_id"])
            how["params"] = {"name": named[0][0] if named else "wanted"}
        answer = await self.api.ask(asker, method, path.format(**ids), **how)
        assert answer.status_code != 500, f"{asker.name}: {route}: {answer.text}"
        if route.endswith("/auth/logout"):
            await self.api.execute("UPDATE sessions SET ended_at = NULL")
        return answer


def good_body(route: str, name: str) -> dict[str, Any]:
    if route.endswith("/containers"):
        return container_body(name)
    if route.endswith("/machines/join"):
        return join_body(new_join_token())
    if route.endswith("/{machine_id}/key"):
        return {"public_key": public_key_of(new_private_key())}
    if route.endswith("/notifications/read"):
        return {"until": "2026-11-02T09:30:00Z"}
    if route.endswith("/intake"):
        return {"intake": "open"}
    if "/models/" in route:
        return {"model": "hf:acme/chat"}
    if route.endswith("/preflight"):
        return {"image": "local/chat", "registry": {"provider": "local"}}
    if route.endswith("/replica-limit-requests"):
        return {"replicas": 40}
    if route.endswith(("/{payout_id}/refuse", "/void-earnings")):
        return {"reason": name}
    if route.endswith("/{payout_id}/confirm"):
        return {"reference": name, "sent": True}
    if route.endswith("/payout-account"):
        return {"holder": name, "account": "DE02120300000000202051"}
    if route.endswith(("/approve", "/refuse", "/restart", "/apply", "/ban", "/machines")) or (
        "/machines/" in route and route.endswith("/pause")
    ):
        return {}
    if route.endswith("/replay"):
        return {"since": datetime.now(UTC).isoformat()}
    if route.endswith("/scale"):
        return {"min_replicas": 1, "max_replicas": 2}
    if route.endswith("/fix"):
        return FIX
    if route.endswith("/invitations"):
        return {"email": f"{name}@example.com"}
    if route.endswith("/rotate"):
        return {"overlap_s": 60}
    if "/webhooks" in route:
        return {} if route.endswith("/test") else {"url": f"https://{name}.example/hook"}
    if route.endswith("/operator/instance-types"):
        return {
            "name": name,
            "vcpu_millis": 1000,
            "memory_bytes": 2**30,
            "price_per_hour_microusd": 20_000,
        }
    if "{instance_type}" in route:
        return {"price_per_hour_microusd": 30_000}
    if route.endswith("/suspend"):
        return {"reason": "abuse"}
    if "/members/" in route:
        return {"role": "admin"}
    if route.endswith("/draft"):
        return {"port": 9001}
    if route.endswith("/rollback"):
        return {"version": 1}
    if route.endswith("/canary"):
        return {"share": 10}
    if route.endswith("/auth/email/start"):
        return {"email": f"{name}@example.com"}
    if route.endswith("/auth/device"):
        return {"client_name": name}
    if route.endswith("/{user_code}"):
        return {"approve": True}
    if route.endswith("/device/token"):
        return {"device_code": "moor_dev_wrong"}
    if route.endswith("/top-ups"):
        return {"method": "bank_transfer", "amount_microusd": 5_000_000}
    if route.endswith("/auto-top-up"):
        return {
            "threshold_microusd": 5_000_000,
            "amount_microusd": 5_000_000,
            "monthly_cap_microusd": 50_000_000,
        }
    if "/billing/limits" in route:
        return {"limit_microusd": 1_000_000_000}
    if route.endswith("/confirm"):
        return {"received_microusd": 5_000_000}
    if route.endswith("/operator/credits"):
        return {"organization_id": "", "amount_microusd": 5_000_000, "reason": name}
    if "/auth/" in route:
        return {"email": "nobody@example.com", "code": "000000", "token": "moor_link_wrong"}
    return {"name": name}


async def new_town(api: Api) -> Town:
    people = {
        name: await api.new_person(f"{name}@{word}.example.com")
        for name, word in (("admin", ACME), ("joined", ACME), ("apart", ACME_SIDE), ("stranger", OTHER))
    }
    acme_id = await api.new_organization(
        "acme", {people["admin"][0]: "admin", people["joined"][0]: "user", people["apart"][0]: "user"}
    )
    other_id = await api.new_organization(OTHER, {people["stranger"][0]: "admin"})
    acme = Target(
        acme_id, await api.new_project(acme_id, ACME, people["joined"][0]), f"admin@{ACME}.example.com"
    )
    side = Target(acme_id, await api.new_project(acme_id, ACME_SIDE, people["apart"][0]))
    other = Target(other_id, await api.new_project(other_id, OTHER), f"stranger@{OTHER}.example.com")

    async def key(target: Target, scope: str, **dates: datetime) -> str:
        return (await api.new_key(target.project_id, scope, name=scope, **dates))[1]

    past = datetime(2020, 1, 1, tzinfo=UTC)
    askers = {
        "anonymous": ANONYMOUS,
        "inference key": bearer("inference key", await key(acme, "inference"), ACME, ACME_SIDE, OTHER),
        "other admin": bearer("other admin", people["stranger"][1], ACME, ACME_SIDE),
        "other manage key": bearer("other manage key", await key(other, "manage"), ACME, ACME_SIDE),
        "not joined": bearer("not joined", people["apart"][1], ACME, OTHER),
        "manage key of another project": bearer("side key", await key(side, "manage"), ACME, OTHER),
        "joined": bearer("joined", people["joined"][1], ACME_SIDE, OTHER),
        "admin": bearer("admin", people["admin"][1], OTHER),
        "manage key": bearer("manage key", await key(acme, "manage"), ACME_SIDE, OTHER),
        "operator": Asker("operator", api.operator.headers, (ACME, ACME_SIDE, OTHER)),
        "dead credentials": bearer("revoked key", await key(acme, "manage", revoked_at=past)),
        "expired key": bearer("expired key", await key(acme, "manage", expires_at=past)),
    }
    await api.new_container(side.project_id, f"{ACME_SIDE}-1")
    await api.new_key(side.project_id, "inference", name=f"{ACME_SIDE}-1")
    return Town(api, acme, other, askers)


def absent_ids() -> dict[str, str]:
    return {
        "organization_id": new_organization_id(),
        "payout_id": new_payout_id(),
        "project_id": new_project_id(),
        "container_id": new_container_id(),
        "key_id": new_api_key_id(),
        "user_id": new_user_id(),
        "session_id": new_session_id(),
        "user_code": "BBBB-BBBB",
        "provider": "google",
        "invitation_id": new_invitation_id(),
        "webhook_id": new_webhook_id(),
        "cache_id": new_cache_id(),
        "token": new_token(INVITATION_PREFIX),
        "request_id": new_request_id(),
        "transfer_id": new_top_up_id(),
        "top_up_id": new_top_up_id(),
        "transaction_id": new_transaction_id(),
        "month": "2000-12",
        "approval_id": new_replica_limit_request_id(),
        "instance_type": "absent",
        "gateway_id": new_gateway_id(),
        "node": "absent",
        "machine_id": new_machine_id(),
    }


def check_sees(asker: Asker, route: str, answer: httpx.Response) -> None:
    for word in asker.must_not_see:
        assert word not in answer.text, f"{asker.name} sees {word} in {route}: {answer.text}"


async def test_every_route_has_a_row(api: Api) -> None:
    found = {f"{method} {path}" for method, path in route_table(api.app)}
    assert found - set(ROUTES) == set(), "routes without a row in ROUTES"
    assert set(ROUTES) - found == set(), "rows of routes that are gone"


def test_the_description_says_who_may_call() -> None:
    rules = {
        Who.ANYBODY: ("anybody",),
        Who.MACHINE: ("anybody",),  # to the askers here: what a machine has is none of theirs
        Who.OPERATOR: ("operator",),
        Who.ACTOR: ("actor",),
        Who.PERSON: ("person", "owner", "invited"),
        Who.MEMBER: ("member", "joined", "admin"),
        Who.PROJECT: ("project", "project admin"),
        Who.LENDER: ("lender", "lender admin"),
    }
    described = written_routes()
    assert {
        route: facts.who for route, facts in described.items() if ROUTES[route] not in rules[facts.who]
    } == {}
    only_admins = {
        route
        for route, facts in described.items()
        if facts.permission and not allows(Role.USER, Permission(facts.permission))
    }
    leaving = (
        "DELETE /api/v1/organizations/{organization_id}/members/{user_id}"  # oneself, or others as an admin
    )
    assert {
        route for route, rule in ROUTES.items() if rule in ("admin", "project admin", "lender admin")
    } == only_admins | {leaving}


@pytest.mark.long
async def test_own_ids(api: Api) -> None:
    """Each route as acme's project would be asked by each of ASKERS."""
    town = await new_town(api)
    statuses: Counter[int] = Counter()
    untouched = await town.ids(town.acme, ACME)
    for route, rule in ROUTES.items():
        for name, expected in zip(ASKERS, EXPECTED[rule], strict=True):
            ids = untouched
            if expected == OK and not route.startswith("GET"):
                ids = await town.ids(town.acme, ACME, route)
                if route == REMOVE_PROJECT:
                    ids["project_id"] = await api.new_project(town.acme.organization_id, "to be removed")
            asker = town.askers[name]
            answer = await town.request(asker, route, ids)
            status = FIXED_ANSWERS.get(route, expected)
            status = NOT_SET_UP.get(route, status) if status == OK else status
            allowed = (200, 201, 202, 204) if status == OK else (status,)
            assert answer.status_code in allowed, f"{name}: {route}: {answer.status_code} {answer.text}"
            if status != OK and "/api/v1" in route:
                assert_problem(answer, status)
            if rule != "operator":  # whose routes show every organization's mails
                check_sees(asker, route, answer)
            statuses[answer.status_code] += 1
    expired = [await town.request(town.askers["expired key"], route, absent_ids()) for route in ROUTES]
    refused = [one for one, rule in zip(expired, ROUTES.values(), strict=True) if rule != "anybody"]
    assert {one.status_code for one in refused} == {401}
    print(f"{sum(statuses.values())} cases on {len(ROUTES)} routes: {dict(statuses)}")


@pytest.mark.long
async def test_foreign_ids(api: Api) -> None:
    """A foreign id answers, byte for byte, as one that does not exist, and nothing of the foreigner's changes."""
    town = await new_town(api)
    foreign_to_acme = await town.ids(town.other, OTHER)
    foreign_to_other = await town.ids(town.acme, ACME)
    cases = 0
    # To the operator no organization is foreign.
    everybodys = ("anybody", "person", "operator")
    routes = [route for route, rule in ROUTES.items() if "{" in route and rule not in everybodys]
    askers = [name for name in ASKERS if name not in ("anonymous", "dead credentials")]
    before = await snapshot(api)
    for route in routes:
        for name in askers:
            if name == "operator" and ROUTES[route].startswith("lender"):
                continue  # Nor any machine.
            asker = town.askers[name]
            foreign = foreign_to_other if name.startswith("other") else foreign_to_acme
            for body in (good_body(route, "wanted"), {"nonsense": [None]})[: 1 + route.startswith("POST")]:
                answers = [await town.request(asker, route, ids, body) for ids in (foreign, absent_ids())]
                assert answers[0].status_code in (401, 403, 404), f"{name}: {route}: {answers[0].text}"
                assert comparable(answers[0]) == comparable(answers[1]), f"{name}: {route}"
                check_sees(asker, route, answers[0])
                cases += 2
    assert await snapshot(api) == before
    print(f"{cases} requests on {len(routes)} routes, 0 differences, 0 changes")


@pytest.mark.long
async def test_mixed_ids(api: Api) -> None:
    """A key or a container of a project that one cannot see, asked for by somebody of the same organization."""
    town = await new_town(api)
    ids = await town.ids(town.acme, ACME)
    for name in ("not joined", "manage key of another project"):
        for route in (route for route, rule in ROUTES.items() if rule == "project"):
            answers = [await town.request(town.askers[name], route, one) for one in (ids, absent_ids())]
            assert comparable(answers[0]) == comparable(answers[1]), f"{name}: {route}"
    foreign = await town.ids(town.other, OTHER) | {"organization_id": town.acme.organization_id}
    absent = absent_ids() | {"organization_id": town.acme.organization_id}
    before = await snapshot(api)
    for route in (route for route in ROUTES if "{organization_id}" in route and route.count("{") > 1):
        answers = [await town.request(town.askers["admin"], route, one) for one in (foreign, absent)]
        assert answers[0].status_code == 404, route
        assert comparable(answers[0]) == comparable(answers[1]), route
    assert await snapshot(api) == before


async def test_lists_hold_only_ones_own(api: Api) -> None:
    town = await new_town(api)

    async def names(asker: str, path: str) -> list[str]:
        items = (await api.get(town.askers[asker], path)).json()["items"]
        return sorted(item["name"] for item in items)

    projects = f"/organizations/{town.acme.organization_id}/projects"
    assert await names("admin", projects) == [ACME, ACME_SIDE]
    assert await names("joined", projects) == [ACME]
    assert await names("not joined", projects) == [ACME_SIDE]
    assert await names("admin", "/organizations") == ["acme"]
    assert await names("other admin", "/organizations") == [OTHER]
    assert await names("operator", "/organizations") == ["Operator"]


@pytest.mark.long
async def test_removed_member(api: Api) -> None:
    town = await new_town(api)
    ids = await town.ids(town.acme, ACME)
    await api.execute("DELETE FROM organization_members WHERE role = 'user'")
    _, token = await api.new_person("member-of-none@example.com")
    for asker in (town.askers["joined"], bearer("member of none", token)):
        for route, rule in ROUTES.items():
            if rule in ("member", "admin", "invited", "owner", "project", "project admin"):
                answers = [await town.request(asker, route, one) for one in (ids, absent_ids())]
                assert answers[0].status_code == 404, f"{asker.name}: {route}"
                assert comparable(answers[0]) == comparable(answers[1]), f"{asker.name}: {route}"


async def snapshot(api: Api) -> dict[str, list[Any]]:
    tables = (
        "organizations", "organization_members", "projects", "project_members", "invitations", "containers",
        "api_keys", "activities", "audit_records", "ledger_entries", "bank_transfers",
    )  # fmt: skip
    return {table: await api.rows(f"SELECT t::text FROM {table} t ORDER BY 1") for table in tables}


def comparable(answer: httpx.Response) -> tuple[int, dict[str, str], Any]:
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    body = json.loads(answer.text) if answer.text else None
    if isinstance(body, dict):
        body.pop("request_id", None)
    return answer.status_code, headers, body
