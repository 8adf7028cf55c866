"""The API's operations, each as a method. Generated from the API's description by `python -m moorage.entrypoints.description.write`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from moorage_cli.api import types
    from moorage_cli.client import ApiClient


class Api:
    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def start_email(self, body: types.EmailStart) -> types.CodeSent:
        """Mail a sign-in code."""
        return cast("types.CodeSent", self._client.request("POST", "/auth/email/start", body=cast(Any, body)).body)

    def verify_email(self, body: types.EmailVerify) -> types.SignedIn:
        """Sign in with a mailed code."""
        return cast("types.SignedIn", self._client.request("POST", "/auth/email/verify", body=cast(Any, body)).body)

    def verify_link(self, body: types.LinkVerify) -> types.SignedIn:
        """Sign in with a one-time link."""
        return cast("types.SignedIn", self._client.request("POST", "/auth/link/verify", body=cast(Any, body)).body)

    def logout(self) -> None:
        """Sign out."""
        self._client.request("POST", "/auth/logout")

    def me(self) -> types.Me:
        """Show who you are."""
        return cast("types.Me", self._client.request("GET", "/me").body)

    def list_providers(self) -> types.Providers:
        """List ways to sign in."""
        return cast("types.Providers", self._client.request("GET", "/auth/providers").body)

    def list_identities(self) -> types.Identities:
        """List your linked accounts."""
        return cast("types.Identities", self._client.request("GET", "/me/identities").body)

    def start_device(self, body: types.DeviceStart | None = None) -> types.DeviceStarted:
        """Begin sign-in on a command line."""
        return cast("types.DeviceStarted", self._client.request("POST", "/auth/device", body=cast(Any, body)).body)

    def collect_device(self, body: types.DeviceToken) -> types.DeviceAnswer:
        """Collect a command line's session."""
        return cast("types.DeviceAnswer", self._client.request("POST", "/auth/device/token", body=cast(Any, body)).body)

    def show_device(self, user_code: str) -> types.DeviceWaiting:
        """Show a waiting command line."""
        return cast("types.DeviceWaiting", self._client.request("GET", f"/auth/device/{_part(user_code)}").body)

    def decide_device(self, user_code: str, body: types.DeviceDecision) -> None:
        """Approve or refuse a command line."""
        self._client.request("POST", f"/auth/device/{_part(user_code)}", body=cast(Any, body))

    def list_sessions(self) -> types.SessionList:
        """List your sessions."""
        return cast("types.SessionList", self._client.request("GET", "/me/sessions").body)

    def end_other_sessions(self) -> None:
        """Sign out everywhere else."""
        self._client.request("DELETE", "/me/sessions")

    def end_session(self, session_id: str) -> None:
        """End one of your sessions."""
        self._client.request("DELETE", f"/me/sessions/{_part(session_id)}")

    def list_organizations(self, *, limit: int | None = None) -> Iterator[types.Organization]:
        """List your organizations."""
        return cast("Iterator[types.Organization]", self._client.pages("/organizations", params={"limit": limit}))

    def create_organization(self, body: types.OrganizationName) -> types.Organization:
        """Create an organization."""
        return cast("types.Organization", self._client.request("POST", "/organizations", body=cast(Any, body)).body)

    def get_organization(self, organization_id: str) -> types.Organization:
        """Get an organization."""
        return cast("types.Organization", self._client.request("GET", f"/organizations/{_part(organization_id)}").body)

    def rename_organization(self, organization_id: str, body: types.OrganizationName) -> types.Organization:
        """Rename an organization."""
        return cast("types.Organization", self._client.request("PATCH", f"/organizations/{_part(organization_id)}", body=cast(Any, body)).body)

    def delete_organization(self, organization_id: str, *, name: str | None = None, gives_up_microusd: int | None = None) -> None:
        """Delete an organization."""
        self._client.request("DELETE", f"/organizations/{_part(organization_id)}", params={"name": name, "gives_up_microusd": gives_up_microusd})

    def list_projects(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Project]:
        """List projects."""
        return cast("Iterator[types.Project]", self._client.pages(f"/organizations/{_part(organization_id)}/projects", params={"limit": limit}))

    def create_project(self, organization_id: str, body: types.ProjectName) -> types.Project:
        """Create a project."""
        return cast("types.Project", self._client.request("POST", f"/organizations/{_part(organization_id)}/projects", body=cast(Any, body)).body)

    def get_project(self, project_id: str) -> types.Project:
        """Get a project."""
        return cast("types.Project", self._client.request("GET", f"/projects/{_part(project_id)}").body)

    def rename_project(self, project_id: str, body: types.ProjectName) -> types.Project:
        """Rename a project."""
        return cast("types.Project", self._client.request("PATCH", f"/projects/{_part(project_id)}", body=cast(Any, body)).body)

    def remove_project(self, project_id: str, *, name: str | None = None) -> None:
        """Delete a project."""
        self._client.request("DELETE", f"/projects/{_part(project_id)}", params={"name": name})

    def preview_deletion(self, organization_id: str) -> types.OrganizationDeletion:
        """Preview the deletion of an organization."""
        return cast("types.OrganizationDeletion", self._client.request("GET", f"/organizations/{_part(organization_id)}/deletion").body)

    def list_members(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Member]:
        """List members."""
        return cast("Iterator[types.Member]", self._client.pages(f"/organizations/{_part(organization_id)}/members", params={"limit": limit}))

    def change_member(self, organization_id: str, user_id: str, body: types.MemberPatch) -> types.Member:
        """Change a member."""
        return cast("types.Member", self._client.request("PATCH", f"/organizations/{_part(organization_id)}/members/{_part(user_id)}", body=cast(Any, body)).body)

    def remove_member(self, organization_id: str, user_id: str, *, revoke_keys: bool | None = None) -> types.MemberRemoved:
        """Remove a member."""
        return cast("types.MemberRemoved", self._client.request("DELETE", f"/organizations/{_part(organization_id)}/members/{_part(user_id)}", params={"revoke_keys": revoke_keys}).body)

    def list_invitations(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Invitation]:
        """List open invitations."""
        return cast("Iterator[types.Invitation]", self._client.pages(f"/organizations/{_part(organization_id)}/invitations", params={"limit": limit}))

    def invite(self, organization_id: str, body: types.InvitationCreate) -> types.Invitation:
        """Invite somebody."""
        return cast("types.Invitation", self._client.request("POST", f"/organizations/{_part(organization_id)}/invitations", body=cast(Any, body)).body)

    def resend_invitation(self, organization_id: str, invitation_id: str) -> types.Invitation:
        """Resend an invitation."""
        return cast("types.Invitation", self._client.request("POST", f"/organizations/{_part(organization_id)}/invitations/{_part(invitation_id)}/resend").body)

    def withdraw_invitation(self, organization_id: str, invitation_id: str) -> None:
        """Withdraw an invitation."""
        self._client.request("DELETE", f"/organizations/{_part(organization_id)}/invitations/{_part(invitation_id)}")

    def show_invitation(self, token: str) -> types.InvitationForMe:
        """Show an invitation."""
        return cast("types.InvitationForMe", self._client.request("GET", f"/invitations/{_part(token)}").body)

    def accept_invitation(self, token: str) -> types.InvitationAccepted:
        """Accept an invitation."""
        return cast("types.InvitationAccepted", self._client.request("POST", f"/invitations/{_part(token)}/accept").body)

    def list_audit(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.AuditRecord]:
        """List audit records."""
        return cast("Iterator[types.AuditRecord]", self._client.pages(f"/organizations/{_part(organization_id)}/audit", params={"limit": limit}))

    def list_installation_audit(self, *, limit: int | None = None) -> Iterator[types.AuditRecord]:
        """List the installation's audit records."""
        return cast("Iterator[types.AuditRecord]", self._client.pages("/operator/audit", params={"limit": limit}))

    def list_audit_of_anybody(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.AuditRecord]:
        """List an organization's audit records."""
        return cast("Iterator[types.AuditRecord]", self._client.pages(f"/operator/organizations/{_part(organization_id)}/audit", params={"limit": limit}))

    def list_notifications(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Notification]:
        """List notifications."""
        return cast("Iterator[types.Notification]", self._client.pages(f"/organizations/{_part(organization_id)}/notifications", params={"limit": limit}))

    def read_notifications(self, organization_id: str, body: types.NotificationsRead) -> None:
        """Mark notifications as read."""
        self._client.request("PUT", f"/organizations/{_part(organization_id)}/notifications/read", body=cast(Any, body))

    def list_webhooks(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Webhook]:
        """List webhooks."""
        return cast("Iterator[types.Webhook]", self._client.pages(f"/organizations/{_part(organization_id)}/webhooks", params={"limit": limit}))

    def create_webhook(self, organization_id: str, body: types.WebhookCreate) -> types.NewWebhook:
        """Create a webhook."""
        return cast("types.NewWebhook", self._client.request("POST", f"/organizations/{_part(organization_id)}/webhooks", body=cast(Any, body)).body)

    def edit_webhook(self, organization_id: str, webhook_id: str, body: types.WebhookPatch) -> types.Webhook:
        """Change a webhook."""
        return cast("types.Webhook", self._client.request("PATCH", f"/organizations/{_part(organization_id)}/webhooks/{_part(webhook_id)}", body=cast(Any, body)).body)

    def remove_webhook(self, organization_id: str, webhook_id: str) -> None:
        """Delete a webhook."""
        self._client.request("DELETE", f"/organizations/{_part(organization_id)}/webhooks/{_part(webhook_id)}")

    def test_webhook(self, organization_id: str, webhook_id: str) -> types.Delivery:
        """Test a webhook."""
        return cast("types.Delivery", self._client.request("POST", f"/organizations/{_part(organization_id)}/webhooks/{_part(webhook_id)}/test").body)

    def list_deliveries(self, organization_id: str, webhook_id: str, *, limit: int | None = None) -> Iterator[types.Delivery]:
        """List deliveries."""
        return cast("Iterator[types.Delivery]", self._client.pages(f"/organizations/{_part(organization_id)}/webhooks/{_part(webhook_id)}/deliveries", params={"limit": limit}))

    def list_api_keys(self, project_id: str, *, limit: int | None = None) -> Iterator[types.ApiKey]:
        """List API keys."""
        return cast("Iterator[types.ApiKey]", self._client.pages(f"/projects/{_part(project_id)}/api-keys", params={"limit": limit}))

    def create_api_key(self, project_id: str, body: types.ApiKeyCreate) -> types.ApiKeyCreated:
        """Create an API key."""
        return cast("types.ApiKeyCreated", self._client.request("POST", f"/projects/{_part(project_id)}/api-keys", body=cast(Any, body)).body)

    def get_api_key(self, key_id: str) -> types.ApiKey:
        """Get an API key."""
        return cast("types.ApiKey", self._client.request("GET", f"/api-keys/{_part(key_id)}").body)

    def change_api_key(self, key_id: str, body: types.ApiKeyPatch) -> types.ApiKey:
        """Change an API key."""
        return cast("types.ApiKey", self._client.request("PATCH", f"/api-keys/{_part(key_id)}", body=cast(Any, body)).body)

    def revoke_api_key(self, key_id: str) -> None:
        """Revoke an API key."""
        self._client.request("DELETE", f"/api-keys/{_part(key_id)}")

    def rotate_api_key(self, key_id: str, body: types.ApiKeyRotate | None = None) -> types.ApiKeyCreated:
        """Rotate an API key."""
        return cast("types.ApiKeyCreated", self._client.request("POST", f"/api-keys/{_part(key_id)}/rotate", body=cast(Any, body)).body)

    def get_instance_types(self) -> Iterator[types.InstanceTypeRead]:
        """List instance types."""
        return cast("Iterator[types.InstanceTypeRead]", self._client.pages("/instance-types"))

    def create_container(self, project_id: str, body: types.ContainerCreate) -> types.Container:
        """Create a container."""
        return cast("types.Container", self._client.request("POST", f"/projects/{_part(project_id)}/containers", body=cast(Any, body)).body)

    def list_containers(self, project_id: str, *, limit: int | None = None) -> Iterator[types.Container]:
        """List containers."""
        return cast("Iterator[types.Container]", self._client.pages(f"/projects/{_part(project_id)}/containers", params={"limit": limit}))

    def preflight(self, project_id: str, body: types.PreflightRequest) -> types.PreflightResult:
        """Check an image."""
        return cast("types.PreflightResult", self._client.request("POST", f"/projects/{_part(project_id)}/containers/preflight", body=cast(Any, body)).body)

    def propose_settings(self, project_id: str, *, image: str | None = None, provider: types.RegistryProvider | None = None) -> types.ProposalResult:
        """Propose settings for an image."""
        return cast("types.ProposalResult", self._client.request("GET", f"/projects/{_part(project_id)}/containers/proposal", params={"image": image, "provider": provider}).body)

    def get_container(self, container_id: str) -> types.Container:
        """Get a container."""
        return cast("types.Container", self._client.request("GET", f"/containers/{_part(container_id)}").body)

    def edit_container(self, container_id: str, body: types.ContainerPatch) -> types.Container:
        """Edit a stopped container."""
        return cast("types.Container", self._client.request("PATCH", f"/containers/{_part(container_id)}", body=cast(Any, body)).body)

    def delete_container(self, container_id: str) -> types.Container:
        """Delete a container."""
        return cast("types.Container", self._client.request("DELETE", f"/containers/{_part(container_id)}").body)

    def start_container(self, container_id: str) -> types.Container:
        """Start a container."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/start").body)

    def stop_container(self, container_id: str) -> types.Container:
        """Stop a container."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/stop").body)

    def restart_container(self, container_id: str, body: types.RestartRequest | None = None) -> types.Container:
        """Restart a container."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/restart", body=cast(Any, body)).body)

    def apply_fix(self, container_id: str, body: types.FixRead | None = None) -> types.Container:
        """Apply the proposed fix."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/fix", body=cast(Any, body)).body)

    def list_replicas(self, container_id: str, *, limit: int | None = None) -> Iterator[types.Replica]:
        """List replicas."""
        return cast("Iterator[types.Replica]", self._client.pages(f"/containers/{_part(container_id)}/replicas", params={"limit": limit}))

    def list_activity(self, container_id: str, *, limit: int | None = None) -> Iterator[types.Activity]:
        """List activity."""
        return cast("Iterator[types.Activity]", self._client.pages(f"/containers/{_part(container_id)}/activity", params={"limit": limit}))

    def list_templates(self) -> Iterator[types.TemplateRead]:
        """List model servers."""
        return cast("Iterator[types.TemplateRead]", self._client.pages("/templates"))

    def resolve_model(self, project_id: str, body: types.ModelWish) -> types.ModelPlanRead:
        """Look up a model."""
        return cast("types.ModelPlanRead", self._client.request("POST", f"/projects/{_part(project_id)}/models/resolve", body=cast(Any, body)).body)

    def deploy_model(self, project_id: str, body: types.ModelDeploy) -> types.Container:
        """Deploy a model."""
        return cast("types.Container", self._client.request("POST", f"/projects/{_part(project_id)}/models/deploy", body=cast(Any, body)).body)

    def get_draft(self, container_id: str) -> types.Draft:
        """Get the draft."""
        return cast("types.Draft", self._client.request("GET", f"/containers/{_part(container_id)}/draft").body)

    def save_draft(self, container_id: str, body: types.SettingsPatch) -> types.Draft:
        """Save a draft."""
        return cast("types.Draft", self._client.request("PUT", f"/containers/{_part(container_id)}/draft", body=cast(Any, body)).body)

    def discard_draft(self, container_id: str) -> None:
        """Discard the draft."""
        self._client.request("DELETE", f"/containers/{_part(container_id)}/draft")

    def apply_draft(self, container_id: str, body: types.ApplyRequest | None = None) -> types.Container:
        """Apply the draft."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/draft/apply", body=cast(Any, body)).body)

    def change_canary(self, container_id: str, body: types.CanaryRequest) -> types.Container:
        """Change the canary's share."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/canary", body=cast(Any, body)).body)

    def promote_canary(self, container_id: str) -> types.Container:
        """Promote the canary."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/canary/promote").body)

    def abort_canary(self, container_id: str) -> types.Container:
        """Abort the canary."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/canary/abort").body)

    def list_versions(self, container_id: str, *, limit: int | None = None) -> Iterator[types.Version]:
        """List versions."""
        return cast("Iterator[types.Version]", self._client.pages(f"/containers/{_part(container_id)}/versions", params={"limit": limit}))

    def roll_back(self, container_id: str, body: types.RollbackRequest) -> types.Container:
        """Roll back to a version."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/rollback", body=cast(Any, body)).body)

    def wake_container(self, container_id: str) -> types.Container:
        """Wake a sleeping container."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/wake").body)

    def list_sleeps(self, container_id: str, *, limit: int | None = None) -> Iterator[types.Sleep]:
        """List sleeps."""
        return cast("Iterator[types.Sleep]", self._client.pages(f"/containers/{_part(container_id)}/sleeps", params={"limit": limit}))

    def get_savings(self, container_id: str) -> types.Savings:
        """Get savings from sleep."""
        return cast("types.Savings", self._client.request("GET", f"/containers/{_part(container_id)}/savings").body)

    def list_caches(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Cache]:
        """List caches."""
        return cast("Iterator[types.Cache]", self._client.pages(f"/organizations/{_part(organization_id)}/caches", params={"limit": limit}))

    def delete_cache(self, organization_id: str, cache_id: str) -> types.Cache:
        """Delete a cache."""
        return cast("types.Cache", self._client.request("DELETE", f"/organizations/{_part(organization_id)}/caches/{_part(cache_id)}").body)

    def diagnose_container(self, container_id: str) -> types.Diagnosis:
        """Diagnose a container's network."""
        return cast("types.Diagnosis", self._client.request("POST", f"/containers/{_part(container_id)}/doctor").body)

    def get_diagnosis(self, container_id: str) -> types.Diagnosis:
        """Get the last diagnosis."""
        return cast("types.Diagnosis", self._client.request("GET", f"/containers/{_part(container_id)}/doctor").body)

    def list_capsules(self, container_id: str, *, limit: int | None = None) -> Iterator[types.Capsule]:
        """List crash capsules."""
        return cast("Iterator[types.Capsule]", self._client.pages(f"/containers/{_part(container_id)}/capsules", params={"limit": limit}))

    def list_limit_requests(self, project_id: str, *, limit: int | None = None) -> Iterator[types.ReplicaLimitRequest]:
        """List replica limit requests."""
        return cast("Iterator[types.ReplicaLimitRequest]", self._client.pages(f"/projects/{_part(project_id)}/replica-limit-requests", params={"limit": limit}))

    def request_limit(self, project_id: str, body: types.ReplicaLimitRequestWrite) -> types.ReplicaLimitRequest:
        """Request a higher replica limit."""
        return cast("types.ReplicaLimitRequest", self._client.request("POST", f"/projects/{_part(project_id)}/replica-limit-requests", body=cast(Any, body)).body)

    def list_all_limit_requests(self, *, state: Literal["pending", "approved", "refused", "withdrawn"] | None = None, limit: int | None = None) -> Iterator[types.OperatorReplicaLimitRequest]:
        """List all replica limit requests."""
        return cast("Iterator[types.OperatorReplicaLimitRequest]", self._client.pages("/operator/replica-limit-requests", params={"state": state, "limit": limit}))

    def approve_limit_request(self, approval_id: str, body: types.Decision | None = None) -> types.OperatorReplicaLimitRequest:
        """Approve a replica limit request."""
        return cast("types.OperatorReplicaLimitRequest", self._client.request("POST", f"/operator/replica-limit-requests/{_part(approval_id)}/approve", body=cast(Any, body)).body)

    def refuse_limit_request(self, approval_id: str, body: types.Decision | None = None) -> types.OperatorReplicaLimitRequest:
        """Refuse a replica limit request."""
        return cast("types.OperatorReplicaLimitRequest", self._client.request("POST", f"/operator/replica-limit-requests/{_part(approval_id)}/refuse", body=cast(Any, body)).body)

    def get_autoscaling(self, container_id: str, *, limit: int | None = None) -> types.Autoscaling:
        """Get autoscaling."""
        return cast("types.Autoscaling", self._client.request("GET", f"/containers/{_part(container_id)}/autoscaling", params={"limit": limit}).body)

    def scale_container(self, container_id: str, body: types.ScaleRequest) -> types.Container:
        """Change how a container scales."""
        return cast("types.Container", self._client.request("POST", f"/containers/{_part(container_id)}/scale", body=cast(Any, body)).body)

    def replay_autoscaling(self, container_id: str, body: types.ReplayRequest) -> types.Replay:
        """Replay autoscaling."""
        return cast("types.Replay", self._client.request("POST", f"/containers/{_part(container_id)}/autoscaling/replay", body=cast(Any, body)).body)

    def list_logs_containers(self, container_id: str, *, limit: int | None = None, from_: str | None = None, to: str | None = None, instance: str | None = None, stream: types.LineStream | None = None, text: str | None = None, exclude: str | None = None) -> Iterator[types.LogLine]:
        """List log lines of a container."""
        return cast("Iterator[types.LogLine]", self._client.pages(f"/containers/{_part(container_id)}/logs", params={"limit": limit, "from": from_, "to": to, "instance": instance, "stream": stream, "text": text, "exclude": exclude}))

    def count_logs_containers(self, container_id: str, *, steps: int | None = None, from_: str | None = None, to: str | None = None, instance: str | None = None, stream: types.LineStream | None = None, text: str | None = None, exclude: str | None = None) -> types.LogHistogram:
        """Count log lines of a container."""
        return cast("types.LogHistogram", self._client.request("GET", f"/containers/{_part(container_id)}/logs/histogram", params={"steps": steps, "from": from_, "to": to, "instance": instance, "stream": stream, "text": text, "exclude": exclude}).body)

    def list_logs_projects(self, project_id: str, *, limit: int | None = None, from_: str | None = None, to: str | None = None, instance: str | None = None, stream: types.LineStream | None = None, text: str | None = None, exclude: str | None = None, container: str | None = None) -> Iterator[types.LogLine]:
        """List log lines of a project."""
        return cast("Iterator[types.LogLine]", self._client.pages(f"/projects/{_part(project_id)}/logs", params={"limit": limit, "from": from_, "to": to, "instance": instance, "stream": stream, "text": text, "exclude": exclude, "container": container}))

    def count_logs_projects(self, project_id: str, *, steps: int | None = None, from_: str | None = None, to: str | None = None, instance: str | None = None, stream: types.LineStream | None = None, text: str | None = None, exclude: str | None = None, container: str | None = None) -> types.LogHistogram:
        """Count log lines of a project."""
        return cast("types.LogHistogram", self._client.request("GET", f"/projects/{_part(project_id)}/logs/histogram", params={"steps": steps, "from": from_, "to": to, "instance": instance, "stream": stream, "text": text, "exclude": exclude, "container": container}).body)

    def stored_logs(self, *, limit: int | None = None) -> types.StoredLogs:
        """Show how much log is stored."""
        return cast("types.StoredLogs", self._client.request("GET", "/operator/logs", params={"limit": limit}).body)

    def get_metrics(self, container_id: str, *, from_: str | None = None, to: str | None = None, step: int | None = None) -> types.Metrics:
        """Get metrics."""
        return cast("types.Metrics", self._client.request("GET", f"/containers/{_part(container_id)}/metrics", params={"from": from_, "to": to, "step": step}).body)

    def get_request(self, request_id: str) -> types.Request:
        """Get a request."""
        return cast("types.Request", self._client.request("GET", f"/requests/{_part(request_id)}").body)

    def list_container_requests(self, container_id: str, *, instance: str | None = None, failed: bool | None = None, from_: str | None = None, to: str | None = None, at: str | None = None, limit: int | None = None) -> Iterator[types.RequestSummary]:
        """List requests."""
        return cast("Iterator[types.RequestSummary]", self._client.pages(f"/containers/{_part(container_id)}/requests", params={"instance": instance, "failed": failed, "from": from_, "to": to, "at": at, "limit": limit}))

    def get_cost(self, container_id: str, *, from_: str | None = None, to: str | None = None) -> types.Cost:
        """Get what requests cost."""
        return cast("types.Cost", self._client.request("GET", f"/containers/{_part(container_id)}/cost", params={"from": from_, "to": to}).body)

    def outbox(self, *, limit: int | None = None) -> Iterator[types.MailRead]:
        """List mails."""
        return cast("Iterator[types.MailRead]", self._client.pages("/operator/outbox", params={"limit": limit}))

    def search_installation(self, *, q: str | None = None) -> types.SearchResult:
        """Search the installation."""
        return cast("types.SearchResult", self._client.request("GET", "/operator/search", params={"q": q}).body)

    def operator_setup(self) -> types.Setup:
        """Get the set-up checklist."""
        return cast("types.Setup", self._client.request("GET", "/operator/setup").body)

    def get_billing(self, organization_id: str) -> types.Billing:
        """Get the credit."""
        return cast("types.Billing", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing").body)

    def list_entries(self, organization_id: str, *, only: Literal["usage", "other"] | None = None, limit: int | None = None) -> Iterator[types.LedgerEntry]:
        """List ledger entries."""
        return cast("Iterator[types.LedgerEntry]", self._client.pages(f"/organizations/{_part(organization_id)}/billing/entries", params={"only": only, "limit": limit}))

    def get_balance_history(self, organization_id: str, *, from_: str | None = None, to: str | None = None) -> types.BalanceHistory:
        """Get the balance of each day."""
        return cast("types.BalanceHistory", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/balance", params={"from": from_, "to": to}).body)

    def get_usage(self, organization_id: str, *, from_: str | None = None, to: str | None = None) -> types.UsageList:
        """Get usage."""
        return cast("types.UsageList", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/usage", params={"from": from_, "to": to}).body)

    def get_limits(self, organization_id: str) -> types.SpendingLimits:
        """Get spending limits."""
        return cast("types.SpendingLimits", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/limits").body)

    def put_organization_limit(self, organization_id: str, body: types.LimitChange) -> types.SpendingLimits:
        """Set the organization's spending limit."""
        return cast("types.SpendingLimits", self._client.request("PUT", f"/organizations/{_part(organization_id)}/billing/limits", body=cast(Any, body)).body)

    def put_project_limit(self, organization_id: str, project_id: str, body: types.LimitChange) -> types.SpendingLimits:
        """Set a project's spending limit."""
        return cast("types.SpendingLimits", self._client.request("PUT", f"/organizations/{_part(organization_id)}/billing/limits/{_part(project_id)}", body=cast(Any, body)).body)

    def get_card(self, organization_id: str) -> types.SavedCard:
        """Get the saved card."""
        return cast("types.SavedCard", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/card").body)

    def save_card(self, organization_id: str) -> types.CardPage:
        """Save a card."""
        return cast("types.CardPage", self._client.request("POST", f"/organizations/{_part(organization_id)}/billing/card").body)

    def remove_card(self, organization_id: str) -> None:
        """Remove the saved card."""
        self._client.request("DELETE", f"/organizations/{_part(organization_id)}/billing/card")

    def get_auto_top_up(self, organization_id: str) -> types.AutoTopUp:
        """Get automatic top-ups."""
        return cast("types.AutoTopUp", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/auto-top-up").body)

    def put_auto_top_up(self, organization_id: str, body: types.AutoTopUpChange) -> types.AutoTopUp:
        """Set automatic top-ups."""
        return cast("types.AutoTopUp", self._client.request("PUT", f"/organizations/{_part(organization_id)}/billing/auto-top-up", body=cast(Any, body)).body)

    def delete_auto_top_up(self, organization_id: str) -> None:
        """Switch automatic top-ups off."""
        self._client.request("DELETE", f"/organizations/{_part(organization_id)}/billing/auto-top-up")

    def get_details(self, organization_id: str) -> types.BillingDetails:
        """Get billing details."""
        return cast("types.BillingDetails", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/details").body)

    def change_details(self, organization_id: str, body: types.BillingDetailsPatch) -> types.BillingDetails:
        """Change billing details."""
        return cast("types.BillingDetails", self._client.request("PATCH", f"/organizations/{_part(organization_id)}/billing/details", body=cast(Any, body)).body)

    def list_invoices(self, organization_id: str) -> types.InvoiceList:
        """List invoices."""
        return cast("types.InvoiceList", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/invoices").body)

    def get_invoice(self, organization_id: str, month: str) -> types.BillingDocument:
        """Get an invoice."""
        return cast("types.BillingDocument", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/invoices/{_part(month)}").body)

    def list_receipts(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.ReceiptSummary]:
        """List receipts."""
        return cast("Iterator[types.ReceiptSummary]", self._client.pages(f"/organizations/{_part(organization_id)}/billing/receipts", params={"limit": limit}))

    def get_receipt(self, organization_id: str, transaction_id: str) -> types.BillingDocument:
        """Get a receipt."""
        return cast("types.BillingDocument", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/receipts/{_part(transaction_id)}").body)

    def create_top_up(self, organization_id: str, body: types.TopUpCreate) -> types.TopUp:
        """Add credit."""
        return cast("types.TopUp", self._client.request("POST", f"/organizations/{_part(organization_id)}/billing/top-ups", body=cast(Any, body)).body)

    def list_top_ups(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.TopUp]:
        """List top-ups."""
        return cast("Iterator[types.TopUp]", self._client.pages(f"/organizations/{_part(organization_id)}/billing/top-ups", params={"limit": limit}))

    def get_top_up(self, organization_id: str, top_up_id: str) -> types.TopUp:
        """Get a top-up."""
        return cast("types.TopUp", self._client.request("GET", f"/organizations/{_part(organization_id)}/billing/top-ups/{_part(top_up_id)}").body)

    def get_earnings(self, organization_id: str, *, limit: int | None = None) -> types.Earnings:
        """Get earnings."""
        return cast("types.Earnings", self._client.request("GET", f"/organizations/{_part(organization_id)}/earnings", params={"limit": limit}).body)

    def list_machine_earnings(self, organization_id: str, *, month: str | None = None) -> types.MonthEarnings:
        """List what machines earned."""
        return cast("types.MonthEarnings", self._client.request("GET", f"/organizations/{_part(organization_id)}/earnings/machines", params={"month": month}).body)

    def list_statements(self, organization_id: str) -> types.StatementList:
        """List statements."""
        return cast("types.StatementList", self._client.request("GET", f"/organizations/{_part(organization_id)}/earnings/statements").body)

    def get_statement(self, organization_id: str, month: str) -> types.BillingDocument:
        """Get a statement."""
        return cast("types.BillingDocument", self._client.request("GET", f"/organizations/{_part(organization_id)}/earnings/statements/{_part(month)}").body)

    def get_payout_account(self, organization_id: str) -> types.PayoutAccount:
        """Get the payout account."""
        return cast("types.PayoutAccount", self._client.request("GET", f"/organizations/{_part(organization_id)}/payout-account").body)

    def change_payout_account(self, organization_id: str, body: types.PayoutAccountWrite) -> types.PayoutAccount:
        """Change the payout account."""
        return cast("types.PayoutAccount", self._client.request("PUT", f"/organizations/{_part(organization_id)}/payout-account", body=cast(Any, body)).body)

    def list_payouts(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.Payout]:
        """List payouts."""
        return cast("Iterator[types.Payout]", self._client.pages(f"/organizations/{_part(organization_id)}/payouts", params={"limit": limit}))

    def request_payout(self, organization_id: str) -> types.Payout:
        """Ask for a payout."""
        return cast("types.Payout", self._client.request("POST", f"/organizations/{_part(organization_id)}/payouts").body)

    def list_bank_transfers(self, *, state: Literal["pending", "confirmed", "expired"] | None = None, limit: int | None = None) -> Iterator[types.TopUp]:
        """List bank transfers."""
        return cast("Iterator[types.TopUp]", self._client.pages("/operator/bank-transfers", params={"state": state, "limit": limit}))

    def confirm_bank_transfer(self, transfer_id: str, body: types.TransferConfirm) -> types.TopUp:
        """Confirm a bank transfer."""
        return cast("types.TopUp", self._client.request("POST", f"/operator/bank-transfers/{_part(transfer_id)}/confirm", body=cast(Any, body)).body)

    def expire_bank_transfer(self, transfer_id: str) -> types.TopUp:
        """Expire a bank transfer."""
        return cast("types.TopUp", self._client.request("POST", f"/operator/bank-transfers/{_part(transfer_id)}/expire").body)

    def list_credits(self, *, limit: int | None = None) -> Iterator[types.Credit]:
        """List given credits."""
        return cast("Iterator[types.Credit]", self._client.pages("/operator/credits", params={"limit": limit}))

    def give_credit(self, body: types.CreditCreate) -> types.Credit:
        """Give credit."""
        return cast("types.Credit", self._client.request("POST", "/operator/credits", body=cast(Any, body)).body)

    def approve_initial_credit(self, organization_id: str) -> types.Credit:
        """Approve the initial credit."""
        return cast("types.Credit", self._client.request("POST", f"/operator/organizations/{_part(organization_id)}/initial-credit").body)

    def get_revenue(self, *, from_: str | None = None, to: str | None = None) -> types.Revenue:
        """Get revenue."""
        return cast("types.Revenue", self._client.request("GET", "/operator/revenue", params={"from": from_, "to": to}).body)

    def list_all_payouts(self, *, state: Literal["requested", "confirmed", "refused"] | None = None, limit: int | None = None) -> Iterator[types.OperatorPayout]:
        """List all payouts."""
        return cast("Iterator[types.OperatorPayout]", self._client.pages("/operator/payouts", params={"state": state, "limit": limit}))

    def confirm_payout(self, payout_id: str, body: types.PayoutConfirm) -> types.Payout:
        """Confirm a payout."""
        return cast("types.Payout", self._client.request("POST", f"/operator/payouts/{_part(payout_id)}/confirm", body=cast(Any, body)).body)

    def refuse_payout(self, payout_id: str, body: types.PayoutRefuse) -> types.Payout:
        """Refuse a payout."""
        return cast("types.Payout", self._client.request("POST", f"/operator/payouts/{_part(payout_id)}/refuse", body=cast(Any, body)).body)

    def void_machine_earnings(self, machine_id: str, body: types.EarningsVoid) -> None:
        """Void a machine's earnings."""
        self._client.request("POST", f"/operator/machines/{_part(machine_id)}/void-earnings", body=cast(Any, body))

    def list_all_organizations(self, *, limit: int | None = None) -> Iterator[types.OrganizationSummary]:
        """List all organizations."""
        return cast("Iterator[types.OrganizationSummary]", self._client.pages("/operator/organizations", params={"limit": limit}))

    def list_people(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.OrganizationMember]:
        """List an organization's people."""
        return cast("Iterator[types.OrganizationMember]", self._client.pages(f"/operator/organizations/{_part(organization_id)}/members", params={"limit": limit}))

    def sign_out_everywhere(self, user_id: str) -> None:
        """Sign a person out everywhere."""
        self._client.request("POST", f"/operator/users/{_part(user_id)}/sign-out")

    def list_all_users(self, *, limit: int | None = None) -> Iterator[types.UserSummary]:
        """List all users."""
        return cast("Iterator[types.UserSummary]", self._client.pages("/operator/users", params={"limit": limit}))

    def get_organization_detail(self, organization_id: str) -> types.OrganizationDetail:
        """Get an organization in numbers."""
        return cast("types.OrganizationDetail", self._client.request("GET", f"/operator/organizations/{_part(organization_id)}").body)

    def list_organization_containers(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.OperatorContainer]:
        """List an organization's containers."""
        return cast("Iterator[types.OperatorContainer]", self._client.pages(f"/operator/organizations/{_part(organization_id)}/containers", params={"limit": limit}))

    def list_nodes_with_room(self) -> Iterator[types.NodeRead]:
        """List machines and what is free."""
        return cast("Iterator[types.NodeRead]", self._client.pages("/operator/nodes"))

    def say_replicas_gone(self, node: str) -> types.DoubtRead:
        """Give missing replicas up."""
        return cast("types.DoubtRead", self._client.request("POST", f"/operator/nodes/{_part(node)}/replicas-gone").body)

    def set_node_intake(self, node: str, body: types.NodeIntake) -> types.NodeIntake:
        """Close or empty the main machine."""
        return cast("types.NodeIntake", self._client.request("PUT", f"/operator/nodes/{_part(node)}/intake", body=cast(Any, body)).body)

    def list_catalogue(self) -> Iterator[types.InstanceTypeRead]:
        """List the whole catalogue."""
        return cast("Iterator[types.InstanceTypeRead]", self._client.pages("/operator/instance-types"))

    def create_instance_type(self, body: types.InstanceTypeWrite) -> types.InstanceTypeRead:
        """Create an instance type."""
        return cast("types.InstanceTypeRead", self._client.request("POST", "/operator/instance-types", body=cast(Any, body)).body)

    def propose_instance_types(self) -> Iterator[types.InstanceTypeProposal]:
        """Propose instance types."""
        return cast("Iterator[types.InstanceTypeProposal]", self._client.pages("/operator/instance-types/proposals"))

    def change_instance_type(self, instance_type: str, body: types.InstanceTypePatch) -> types.InstanceTypeRead:
        """Change an instance type."""
        return cast("types.InstanceTypeRead", self._client.request("PATCH", f"/operator/instance-types/{_part(instance_type)}", body=cast(Any, body)).body)

    def delete_instance_type(self, instance_type: str) -> None:
        """Delete an instance type."""
        self._client.request("DELETE", f"/operator/instance-types/{_part(instance_type)}")

    def list_machines(self, *, limit: int | None = None) -> Iterator[types.MachineRead]:
        """List joined machines."""
        return cast("Iterator[types.MachineRead]", self._client.pages("/operator/machines", params={"limit": limit}))

    def add_machine(self, body: types.MachineWish) -> types.MachineAdded:
        """Add a machine."""
        return cast("types.MachineAdded", self._client.request("POST", "/operator/machines", body=cast(Any, body)).body)

    def renew_join_command(self, machine_id: str) -> types.MachineAdded:
        """Get another join command."""
        return cast("types.MachineAdded", self._client.request("POST", f"/machines/{_part(machine_id)}/command").body)

    def read_tunnel(self) -> types.TunnelRead:
        """Show whether machines can join."""
        return cast("types.TunnelRead", self._client.request("GET", "/operator/tunnel").body)

    def join_machine(self, body: types.Join) -> types.Membership:
        """Join a machine."""
        return cast("types.Membership", self._client.request("POST", "/machines/join", body=cast(Any, body)).body)

    def read_membership(self, machine_id: str) -> types.Membership:
        """Read a machine's membership."""
        return cast("types.Membership", self._client.request("GET", f"/machines/{_part(machine_id)}/membership").body)

    def renew_key(self, machine_id: str, body: types.NewKey) -> None:
        """Renew a machine's key."""
        self._client.request("PUT", f"/machines/{_part(machine_id)}/key", body=cast(Any, body))

    def leave_installation(self, machine_id: str) -> None:
        """Leave the installation."""
        self._client.request("POST", f"/machines/{_part(machine_id)}/leave")

    def read_machine(self, machine_id: str) -> types.MachineRead:
        """Get a machine."""
        return cast("types.MachineRead", self._client.request("GET", f"/machines/{_part(machine_id)}").body)

    def remove_machine(self, machine_id: str, *, force: bool | None = None) -> None:
        """Remove a machine."""
        self._client.request("DELETE", f"/machines/{_part(machine_id)}", params={"force": force})

    def pause_machine(self, machine_id: str, body: types.Pause | None = None) -> types.MachineRead:
        """Pause a machine."""
        return cast("types.MachineRead", self._client.request("POST", f"/machines/{_part(machine_id)}/pause", body=cast(Any, body)).body)

    def resume_machine(self, machine_id: str) -> types.MachineRead:
        """Resume a machine."""
        return cast("types.MachineRead", self._client.request("POST", f"/machines/{_part(machine_id)}/resume").body)

    def drain_machine(self, machine_id: str) -> types.MachineRead:
        """Drain a machine."""
        return cast("types.MachineRead", self._client.request("POST", f"/machines/{_part(machine_id)}/drain").body)

    def list_lent_machines(self, organization_id: str, *, limit: int | None = None) -> Iterator[types.MachineRead]:
        """List lent machines."""
        return cast("Iterator[types.MachineRead]", self._client.pages(f"/organizations/{_part(organization_id)}/machines", params={"limit": limit}))

    def lend_machine(self, organization_id: str, body: types.LentMachineWish) -> types.MachineAdded:
        """Lend a machine."""
        return cast("types.MachineAdded", self._client.request("POST", f"/organizations/{_part(organization_id)}/machines", body=cast(Any, body)).body)

    def reclaim_machine(self, machine_id: str) -> types.MachineRead:
        """Reclaim a machine."""
        return cast("types.MachineRead", self._client.request("POST", f"/machines/{_part(machine_id)}/reclaim").body)

    def ban_machine(self, machine_id: str, body: types.Ban | None = None) -> types.MachineRead:
        """Ban a machine."""
        return cast("types.MachineRead", self._client.request("POST", f"/operator/machines/{_part(machine_id)}/ban", body=cast(Any, body)).body)

    def unban_machine(self, machine_id: str) -> types.MachineRead:
        """Unban a machine."""
        return cast("types.MachineRead", self._client.request("POST", f"/operator/machines/{_part(machine_id)}/unban").body)

    def delete_gateway(self, gateway_id: str) -> None:
        """Forget a gateway."""
        self._client.request("DELETE", f"/operator/gateways/{_part(gateway_id)}")

    def suspend_organization(self, organization_id: str, body: types.Suspension) -> types.SuspensionState:
        """Suspend an organization."""
        return cast("types.SuspensionState", self._client.request("POST", f"/operator/organizations/{_part(organization_id)}/suspend", body=cast(Any, body)).body)

    def resume_organization(self, organization_id: str) -> types.SuspensionState:
        """Resume an organization."""
        return cast("types.SuspensionState", self._client.request("POST", f"/operator/organizations/{_part(organization_id)}/resume").body)

    def operator_status(self) -> types.InstallationStatus:
        """Get the status of the installation."""
        return cast("types.InstallationStatus", self._client.request("GET", "/operator/status").body)

    def operator_health(self) -> types.Health:
        """Get the health of every part."""
        return cast("types.Health", self._client.request("GET", "/operator/health").body)


def _part(text: str) -> str:
    """An id as typed, kept from becoming another path."""
    return quote(text, safe="")
