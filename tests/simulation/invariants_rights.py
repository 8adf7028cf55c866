"""Members, invitations and keys: whatever a right allowed ends with it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.invariants import BrokenError
from tests.simulation.passing import TimeAwake
from tests.simulation.rights import Rights
from tests.simulation.team import Team
from tests.simulation.world import World

_GATEWAY_GRACE_S = 90.0
"""Of time in which a gateway could hear of it: it compares all keys four times in a minute, unless Postgres does not answer."""

# What the database alone can tell, in one question: a row for each thing that is wrong.
_WRONG = """
WITH RECURSIVE live AS (
    SELECT * FROM api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > sim.clock_timestamp())
), made AS (
    SELECT id, project_id, created_by AS maker FROM live
    UNION SELECT made.id, made.project_id, parent.created_by FROM made JOIN api_keys parent ON parent.id = made.maker
), open AS (
    SELECT * FROM invitations WHERE closed_at IS NULL AND expires_at > sim.clock_timestamp()
)
SELECT 'no key outlives the right to make it', made.id || ' works, and ' || made.maker || ' has left its project'
FROM made JOIN projects p ON p.id = made.project_id
WHERE made.maker LIKE 'usr%' AND made.maker NOT IN ({keeps_keys}) AND NOT EXISTS (
    SELECT FROM organization_members m WHERE m.organization_id = p.organization_id AND m.user_id = made.maker AND (m.role = 'admin'
        OR EXISTS (SELECT FROM project_members j WHERE j.project_id = p.id AND j.user_id = m.user_id)))
UNION ALL
SELECT 'no key outlives the right to make it', live.id || ' works, and the key that made it was revoked'
FROM live JOIN api_keys parent ON parent.id = live.created_by WHERE parent.revoked_at IS NOT NULL
UNION ALL
SELECT 'no key outlives the right to make it', live.id || ' works, and its project was removed'
FROM live JOIN projects p ON p.id = live.project_id WHERE p.deleted_at IS NOT NULL
UNION ALL
SELECT 'an admin is always left', o.id || ' has no admin' FROM organizations o
WHERE NOT EXISTS (SELECT FROM organization_members m WHERE m.organization_id = o.id AND m.role = 'admin')
UNION ALL
SELECT 'an invitation makes what its maker may give', open.id || ' works, and ' || open.invited_by || ' may invite nobody'
FROM open WHERE NOT EXISTS (SELECT FROM organization_members m
    WHERE m.organization_id = open.organization_id AND m.user_id = open.invited_by AND m.role = 'admin')
UNION ALL
SELECT 'nobody is invited who is here', open.id || ' works for ' || u.id || ', who is a member: it would outlive their removal'
FROM open JOIN users u ON u.email = open.email
JOIN organization_members m ON m.user_id = u.id AND m.organization_id = open.organization_id
UNION ALL
SELECT 'who was removed can do nothing', j.user_id || ' is still in ' || j.project_id
FROM project_members j JOIN projects p ON p.id = j.project_id
WHERE NOT EXISTS (SELECT FROM organization_members m WHERE m.organization_id = p.organization_id AND m.user_id = j.user_id)
"""
_UNKNOWN = """
SELECT k.id FROM api_keys k JOIN projects p ON p.id = k.project_id WHERE k.revoked_at IS NULL AND k.disabled_at IS NULL
AND (k.expires_at IS NULL OR k.expires_at > sim.clock_timestamp()) AND encode(k.key_hash, 'hex') NOT IN ({known})
"""
NAMES = (
    "who was removed can do nothing",
    "a revoked key opens nothing",
    "no key outlives the right to make it",
    "an admin is always left",
    "an invitation makes what its maker may give",
    "nobody is invited who is here",
    "the gateway knows the keys",
)


@dataclass
class RightsInvariants:
    world: World
    team: Team
    rights: Rights
    watched: frozenset[str] | None = None
    known_for_s: dict[str, float] = field(default_factory=dict)
    """By id of a key that is revoked: for how long a gateway that could know has let it in."""
    _awake: TimeAwake = field(init=False)

    def __post_init__(self) -> None:
        self._awake = TimeAwake(self.world)

    def check(self) -> None:
        for name, sentence in (*self.rights.wrong, *self._in_the_database(), *self._at_the_gateway()):
            self._is_broken(name, sentence)

    def check_settled(self) -> None:
        self.check()
        known = ", ".join(f"'{one}'" for one in sorted(self.world.haproxy.keys)) or "''"
        for (key_id,) in self.world.query(_UNKNOWN.format(known=known)):
            self._is_broken("the gateway knows the keys", f"{key_id} works, and the gateway refuses it")

    def _is_broken(self, name: str, sentence: str) -> None:
        if self.watched is None or name in self.watched:
            raise BrokenError(name, sentence)

    def _in_the_database(self) -> Iterator[tuple[str, str]]:
        keeps_keys = ", ".join(f"'{one}'" for one in sorted(self.rights.keeps_keys)) or "''"
        for name, sentence in self.world.query(_WRONG.format(keeps_keys=keeps_keys)):
            yield name or "", sentence or ""

    def _at_the_gateway(self) -> Iterator[tuple[str, str]]:
        world, gateway = self.world, self.world.processes["gateway"]
        passed_s = self._awake.passed_s()
        could_know = gateway.alive and not gateway.stopped and world.now_s() > world.postgres_ill_until_s
        let_in = [one for one in sorted(self.rights.revoked) if self._is_let_in(one)]
        before = self.known_for_s if could_know else {}
        self.known_for_s = {one: before.get(one, -passed_s) + passed_s for one in let_in}
        for key_id, for_s in self.known_for_s.items():
            if for_s > _GATEWAY_GRACE_S:
                yield "a revoked key opens nothing", f"{key_id} was revoked, and the gateway lets it in"

    def _is_let_in(self, key_id: str) -> bool:
        key = self.team.keys.get(key_id)
        return key is not None and key.hash_hex in self.world.haproxy.keys
