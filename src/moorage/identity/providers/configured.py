"""Which providers this installation has: those that the operator gave a client id and a secret for."""

from moorage.identity.providers.base import Client, Provider
from moorage.identity.providers.github import GitHubProvider
from moorage.identity.providers.oidc import OpenIdProvider
from moorage.kit.clock import Clock
from moorage.kit.settings import Settings


def configured_providers(settings: Settings, clock: Clock) -> dict[str, Provider]:
    found: dict[str, Provider] = {}
    if settings.google_client_id and settings.google_client_secret:
        secret = settings.google_client_secret.get_secret_value()
        client = Client(settings.google_client_id, secret, _redirect_uri(settings, "google"))
        issuer = settings.google_issuer.rstrip("/")
        found["google"] = OpenIdProvider("google", "Google", issuer, client, clock)
    if settings.github_client_id and settings.github_client_secret:
        secret = settings.github_client_secret.get_secret_value()
        client = Client(settings.github_client_id, secret, _redirect_uri(settings, "github"))
        url, api_url = settings.github_url.rstrip("/"), settings.github_api_url.rstrip("/")
        found["github"] = GitHubProvider("github", "GitHub", url, api_url, client)
    return found


def _redirect_uri(settings: Settings, name: str) -> str:
    return f"{settings.api_base_url}/api/v1/auth/{name}/callback"
