"""What gateways say of limits, in Postgres."""

from moorage.gateway import limit_shares_repository as repository
from moorage.gateway.limit_sharing import Part
from moorage.gateway.rate_rules import Scope
from moorage.gateway.rate_tables import LimitName
from moorage.gateway.repository import register_gateway
from moorage.kit.database import Database
from moorage.kit.ids import GatewayId

GATEWAY = GatewayId("gtw_test")


async def test_thousands_of_shares_end_at_once(database: Database) -> None:
    """As when HAProxy starts anew. One that could not be taken back would be tried again for ever, and nothing agreed on."""
    parts = {LimitName(Scope.OWN_LIMIT, f"key_{number}"): Part(1, 1, hungry=True) for number in range(10_000)}
    kept = {LimitName(Scope.KEY, "key_1"): Part(2, 1, hungry=False)}
    async with database.transaction() as session:
        await register_gateway(session, GATEWAY)
        assert await repository.say(session, GATEWAY, 2, {}, {**parts, **kept})
    async with database.transaction() as session:
        standing = await repository.read_standing(session, GATEWAY)
        assert len(standing.own) == 10_001
        assert await repository.say(session, GATEWAY, 2, standing.own, kept)
    async with database.transaction() as session:
        assert (await repository.read_standing(session, GATEWAY)).own == kept
