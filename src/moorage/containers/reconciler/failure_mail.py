"""The mail about a container that failed, in the transaction in which it does: a failure has one, whatever crashes."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.reconciler.audience_repository import address_of_last_actor
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.states import ContainerState
from moorage.containers.views import Plan
from moorage.kit.crypto import Keyring
from moorage.kit.settings import Settings
from moorage.notifications.repository import queue_mail
from moorage.organizations.members.repository import admin_addresses


async def tell_of_failure(
    session: AsyncSession, keyring: Keyring, settings: Settings, loaded: Loaded, plan: Plan
) -> None:
    """To the member who dealt with the container last; where there is none any more, to the admins."""
    container = loaded.container
    if plan.state is not ContainerState.FAILED or container.state == ContainerState.FAILED:
        return
    last = await address_of_last_actor(session, container.id, loaded.organization_id)
    addresses = [last] if last is not None else await admin_addresses(session, loaded.organization_id)
    why = plan.verdict.message if plan.verdict is not None else "Its replicas did not become ready."
    text = (
        f"The container {container.name} failed and was stopped.\n\n"
        f"{why}\n\n"
        "See its logs and start it again at:\n"
        f"{settings.api_base_url}/projects/{container.project_id}/containers/{container.id}\n\n"
        "It costs nothing until you start it again.\n"
    )
    for address in addresses:
        await queue_mail(
            session, keyring, to=address, subject=f"{container.name} failed on Moorage", text=text
        )
