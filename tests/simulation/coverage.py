"""Who uses what: every route of the API that changes something, and every reconciler, with the simulated person or fault that uses
it, or the reason why nobody does. `test_coverage.py` fails when a new one is in neither list."""

USED_BY: dict[str, str] = {
    # Containers, by `actors.Users` and `races.Races`; on GPUs by `gpus.Gpus`.
    "POST /projects/{project_id}/containers": "create",
    "PATCH /containers/{container_id}": "edit",
    "DELETE /containers/{container_id}": "delete",
    "POST /containers/{container_id}/start": "start",
    "POST /containers/{container_id}/stop": "stop",
    "POST /containers/{container_id}/restart": "restart",
    "POST /containers/{container_id}/scale": "scale",
    "PUT /containers/{container_id}/draft": "save a draft",
    "POST /containers/{container_id}/draft/apply": "apply a draft",
    "POST /containers/{container_id}/rollback": "roll back",
    "POST /containers/{container_id}/canary": "decide about a canary",
    "POST /containers/{container_id}/canary/promote": "decide about a canary",
    "POST /containers/{container_id}/canary/abort": "decide about a canary",
    # The operator, by `actors.Users`.
    "POST /operator/organizations/{organization_id}/suspend": "suspend",
    "POST /operator/organizations/{organization_id}/resume": "resume",
    "PATCH /operator/instance-types/{instance_type}": "raise the price",
    "POST /operator/credits": "give credit",
    # Money, by `actors.Users` and `payers.Payers`.
    "PUT /organizations/{organization_id}/billing/limits": "limit spending",
    "POST /organizations/{organization_id}/billing/top-ups": "pay by card",
    "POST /organizations/{organization_id}/billing/card": "save a card",
    "DELETE /organizations/{organization_id}/billing/card": "remove the card",
    "PUT /organizations/{organization_id}/billing/auto-top-up": "agree to automatic payments",
    # Webhooks, by `listeners.Listeners` and `people.People`.
    "POST /organizations/{organization_id}/webhooks": "make a webhook",
    "PATCH /organizations/{organization_id}/webhooks/{webhook_id}": "switch a webhook off",
    "DELETE /organizations/{organization_id}/webhooks/{webhook_id}": "remove a webhook",
    "POST /organizations/{organization_id}/webhooks/{webhook_id}/test": "test a webhook",
    # An afternoon, by `team.Team` and `people.People`.
    "POST /organizations": "somebody founds the team",
    "PATCH /organizations/{organization_id}": "names change",
    "POST /organizations/{organization_id}/projects": "a project comes or goes",
    "PATCH /projects/{project_id}": "names change",
    "DELETE /projects/{project_id}": "a project comes or goes",
    "PATCH /organizations/{organization_id}/members/{user_id}": "change a role",
    "DELETE /organizations/{organization_id}/members/{user_id}": "remove a member",
    "POST /organizations/{organization_id}/invitations": "invite",
    "POST /organizations/{organization_id}/invitations/{invitation_id}/resend": "an invitation is sent again or withdrawn",
    "DELETE /organizations/{organization_id}/invitations/{invitation_id}": "an invitation is sent again or withdrawn",
    "POST /invitations/{token}/accept": "somebody joins",
    "POST /projects/{project_id}/api-keys": "make a key",
    "PATCH /api-keys/{key_id}": "change a key",
    "POST /api-keys/{key_id}/rotate": "rotate a key",
    "DELETE /api-keys/{key_id}": "revoke a key",
    # A night, by `sleepers.Sleepers`.
    "POST /containers/{container_id}/wake": "wake by hand",
    # An evening, by `fleet.FleetActs`.
    "POST /operator/machines": "a machine joins",
    "POST /machines/join": "a machine joins",
    "POST /machines/{machine_id}/pause": "pause a machine",
    "POST /machines/{machine_id}/resume": "resume a machine",
    "POST /machines/{machine_id}/drain": "drain a machine",
    "POST /machines/{machine_id}/leave": "a machine leaves",
    "PUT /machines/{machine_id}/key": "a machine renews its key",
    "DELETE /machines/{machine_id}": "remove a machine",
}
_SIGN_IN = "people are signed in by the simulation itself; tests/database/test_api_sign_in*.py"
_READS = "changes nothing that lasts"
_OPERATOR = "an operator's act on its own, without anything at once; tests/database"
UNUSED: dict[str, str] = {
    "POST /auth/email/start": _SIGN_IN,
    "POST /auth/email/verify": _SIGN_IN,
    "POST /auth/link/verify": _SIGN_IN,
    "POST /auth/logout": _SIGN_IN,
    "POST /auth/device": _SIGN_IN,
    "POST /auth/device/token": _SIGN_IN,
    "POST /auth/device/{user_code}": _SIGN_IN,
    "POST /sign-in": _SIGN_IN,
    "POST /device": _SIGN_IN,
    "DELETE /me/sessions": _SIGN_IN,
    "DELETE /me/sessions/{session_id}": _SIGN_IN,
    "POST /projects/{project_id}/containers/preflight": _READS,
    "POST /projects/{project_id}/models/resolve": _READS,
    "POST /projects/{project_id}/models/deploy": "as `create`, with what a hub says; tests/database/test_api_models.py",
    "POST /containers/{container_id}/autoscaling/replay": _READS,
    "POST /containers/{container_id}/fix": "an edit with the values of a proposal: as `edit`",
    "DELETE /containers/{container_id}/draft": "what is dropped was never applied, so nothing runs by it",
    "DELETE /organizations/{organization_id}/caches/{cache_id}": "nobody has a cache here; tests/database/test_reconciler_caches.py",
    "POST /containers/{container_id}/doctor": "the doctor does not run: it asks the engine only for what the engine's tests cover",
    "POST /projects/{project_id}/replica-limit-requests": _OPERATOR,
    "POST /operator/replica-limit-requests/{approval_id}/approve": _OPERATOR,
    "POST /operator/replica-limit-requests/{approval_id}/refuse": _OPERATOR,
    "PUT /organizations/{organization_id}/billing/limits/{project_id}": "as the limit of an organization, `limit spending`",
    "DELETE /organizations/{organization_id}/billing/auto-top-up": "removing the card ends it too, `remove the card`",
    "PATCH /organizations/{organization_id}/billing/details": "a name on a document",
    "POST /operator/bank-transfers/{transfer_id}/confirm": "nobody pays by bank transfer here; the ledger's state machine does",
    "POST /operator/bank-transfers/{transfer_id}/expire": "nobody pays by bank transfer here; the ledger's state machine does",
    "POST /operator/organizations/{organization_id}/initial-credit": _OPERATOR,
    "POST /operator/nodes/{node}/replicas-gone": "machines come back or are removed here",
    "PUT /operator/nodes/{node}/intake": "as `drain a machine`, for nodes that are no machines of ours",
    "POST /machines/{machine_id}/command": "another token, as `a machine joins`",
    "POST /operator/instance-types": _OPERATOR,
    "DELETE /operator/instance-types/{instance_type}": _OPERATOR,
    "DELETE /operator/gateways/{gateway_id}": "there is one gateway, and it comes back",
    "POST /webhooks/stripe": "the provider's events, sent by `payments.Events`",
}

RECONCILERS_UNUSED: dict[str, str] = {
    "doctor": "asks the engine only for what the engine's tests cover, and changes nothing but its own answer",
    "logs": "makes partitions under a limit of real time (`World.parts`); the world does its work",
    "metrics": "makes steps of seconds, of which sleep has enough here, and keeps figures that nothing here decides by",
}
"""All others run, always or by `parts.py`."""
