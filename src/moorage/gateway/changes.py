"""The runtime changes that turn the live layout into the wanted one, in the one safe order.

Server before route; route away before servers; drain before delete. Each method leaves HAProxy in a state
that is safe to stop in, and raises when HAProxy refuses: the caller then reads the state back.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from moorage.gateway import commands, render
from moorage.gateway.config import GatewayConfig
from moorage.gateway.endpoint_rules import CANARIES_MAP, HEALTH_MAP, KEYS_MAP, ROUTES_MAP
from moorage.gateway.haproxy import Worker, Workers
from moorage.gateway.layout import Layout, PlacedServer, Placement, ServerKey, ServerState
from moorage.gateway.map_values import (
    canary_entries,
    key_value,
    leads_nowhere,
    map_key_of,
    route_key,
    route_value,
)
from moorage.gateway.rate_rules import LIMITS_MAP
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.table import KeyEntry
from moorage.gateway.workers import AllWorkers, TotalLoad
from moorage.kit.clock import Clock
from moorage.kit.ids import ContainerId

# Deleting one of 100,000 entries costs HAProxy 6 ms; from here on replacing the whole map is cheaper.
_REPLACE_MAP_FROM = 100
_DELETE_PATIENCE_S = 1.0

_Servers = dict[ServerKey, PlacedServer]
NameT = TypeVar("NameT")
ValueT = TypeVar("ValueT")


class Changes:
    """One pass of changes; `count` says how many commands it took."""

    def __init__(
        self, config: GatewayConfig, worker: Worker, all_workers: AllWorkers, workers: Workers, clock: Clock
    ) -> None:
        self._config = config
        self._worker = worker
        self._all_workers = all_workers
        self._workers = workers
        self._clock = clock
        self.count = 0

    async def keys(self, live: Layout, target: Layout) -> Layout:
        if live.keys == target.keys:
            return live  # A hundred thousand of them are not spelled out because a route changed.
        before, after = _entries_that_differ(live.keys, target.keys, _spelled_key)
        path = self._config.map_path(KEYS_MAP)
        revoked = [commands.delete_from_map(path, key) for key in before if key not in after]
        altered = [
            commands.set_map(path, key, after[key])
            for key in before
            if after.get(key, before[key]) != before[key]
        ]
        # The old workers first: once the current one has it, nobody would see that they still lack it.
        await self._all_workers.change_map(revoked + altered, self._workers)
        await self._map(KEYS_MAP, before, after)
        return replace(live, keys=target.keys)

    async def limit_divisor(self, live: Layout, divisor: int) -> Layout:
        """In old workers too: on connections that are kept open they let in requests for a while."""
        target = replace(live, limit_divisor=divisor)
        before, after = render.limit_entries(live), render.limit_entries(target)
        path = self._config.map_path(LIMITS_MAP)
        changed = [commands.set_map(path, key, value) for key, value in after.items() if key in before]
        await self._all_workers.change_map(changed, self._workers)
        await self._map(LIMITS_MAP, before, after)
        return target

    async def servers_and_routes(self, live: Layout, target: Layout) -> Layout:
        """Returns what HAProxy holds afterwards."""
        health_before = {render.slot_name(slot): path for slot, path in live.health_paths.items()}
        health_after = {render.slot_name(slot): path for slot, path in target.health_paths.items()}
        await self._map(HEALTH_MAP, health_before, health_before | health_after)

        canaries_before, canaries_after = _canaries(live), _canaries(target)
        routes_before, routes_after = _entries_that_differ(live.routes, target.routes, _spelled_route)
        # A route that ends or leads nowhere is changed before the servers, any other one after them.
        unchanged = {name: value for name, value in routes_before.items() if name in routes_after}
        nowhere = {name: value for name, value in routes_after.items() if leads_nowhere(value)}
        await self._map(ROUTES_MAP, routes_before, unchanged | nowhere)

        servers = await self._remove(live, target)
        await self._bring(servers, target)
        # Who is picked from comes before the route that says of how many; those who went, after it.
        await self._map(CANARIES_MAP, canaries_before, canaries_before | canaries_after)
        await self._map(ROUTES_MAP, unchanged | nowhere, routes_after)
        await self._map(CANARIES_MAP, canaries_before | canaries_after, canaries_after)
        await self._map(HEALTH_MAP, health_before | health_after, health_after)
        return replace(target, slots=live.slots, servers=servers)

    async def finish_drains(self, live: Layout, load: TotalLoad) -> Layout:
        """Delete the draining servers that have nothing left to finish."""
        servers = dict(live.servers)
        for key, placed in sorted(live.servers.items()):
            if placed.state is ServerState.READY or load.current.get(key, 0) > 0:
                continue
            if placed.state is ServerState.DRAIN:
                await self._send([commands.put_into_maintenance(key)])
            await self._delete(servers, key)
        return replace(live, servers=servers)

    async def _remove(self, live: Layout, target: Layout) -> _Servers:
        """Those that left the table, or whose replica has another address now: at once, requests and all."""
        servers = dict(live.servers)
        leaving = [
            key
            for key, placed in live.servers.items()
            if key not in target.servers or not placed.same_address(target.servers[key])
        ]
        await self._send([command for key in leaving for command in commands.stop_server(key)])
        for key in leaving:
            await self._delete(servers, key)
        return servers

    async def _bring(self, servers: _Servers, target: Layout) -> None:
        """First those that take requests, then the drains: between two commands HAProxy serves, and a container
        must not be without a server even for that moment."""
        additions: list[str] = []
        drains: list[str] = []
        for key, wanted in target.servers.items():
            present = servers.get(key)
            if wanted.state is ServerState.DRAIN:
                if present is not None and present.state is ServerState.READY:
                    drains.append(commands.drain(key))
                    servers[key] = wanted
                continue
            if present is not None and not present.same_address(wanted):
                continue  # Its predecessor could not be deleted yet; the next pass tries again.
            if present is None:
                additions.append(commands.add_server(self._config, wanted))
            elif present.max_concurrency != wanted.max_concurrency:
                additions.append(commands.limit_server(wanted))
            if present is not None and present.server.on_trial != wanted.server.on_trial:
                weigh = commands.let_rest if wanted.server.on_trial else commands.let_in
                additions.append(weigh(key))
            if present is None or present.state is not ServerState.READY:
                additions += commands.make_ready(wanted)
            servers[key] = wanted
        await self._send(additions)
        await self._send(drains)

    async def _delete(self, servers: _Servers, key: ServerKey) -> None:
        """HAProxy refuses while it finds a connection on the server, an idle one included. Then it stays, in
        maintenance, and the next pass tries again."""
        servers[key] = replace(servers[key], state=ServerState.MAINTENANCE)
        deadline = self._clock.monotonic() + _DELETE_PATIENCE_S
        while True:
            answer = await self._worker.ask(commands.delete_server(key))
            if "Server deleted." in answer:
                self.count += 1
                del servers[key]
                return
            if "still has" not in answer:
                raise HaproxyError(f"del server {key}: {answer.strip()}")
            if self._clock.monotonic() > deadline:
                return
            await asyncio.sleep(0.02)

    async def _map(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        path = self._config.map_path(name)
        removed = [key for key in before if key not in after]
        if len(removed) >= _REPLACE_MAP_FROM:
            await self._worker.replace_map(path, after)
            self.count += 1
            return
        await self._send([commands.delete_from_map(path, key) for key in removed])
        changed = {key: value for key, value in after.items() if before.get(key, value) != value}
        await self._send([commands.set_map(path, key, value) for key, value in changed.items()])
        added = {key: value for key, value in after.items() if key not in before}
        await self._worker.add_map_entries(path, added)
        self.count += len(added)

    async def _send(self, commands: list[str]) -> None:
        await self._worker.change(commands)
        self.count += len(commands)


def _entries_that_differ(
    before: Mapping[NameT, ValueT],
    after: Mapping[NameT, ValueT],
    spelled: Callable[[NameT, ValueT], tuple[str, str]],
) -> tuple[dict[str, str], dict[str, str]]:
    """Of a map, as HAProxy has it and is to have it. All of them where many differ, because then the map may be replaced
    as a whole."""
    # Nearly all are the same objects, which is seen at once.
    differing = {
        name for name, value in after.items() if (known := before.get(name)) is not value and known != value
    }
    differing |= before.keys() - after.keys()
    if len(differing) >= _REPLACE_MAP_FROM:
        differing = before.keys() | after.keys()
    return (
        dict(spelled(name, before[name]) for name in differing if name in before),
        dict(spelled(name, after[name]) for name in differing if name in after),
    )


def _canaries(layout: Layout) -> dict[str, str]:
    found: dict[str, str] = {}
    for placement in layout.routes.values():
        if placement.canary is not None:
            found |= canary_entries(placement)
    return found


def _spelled_key(key_hash: str, entry: KeyEntry) -> tuple[str, str]:
    return map_key_of(key_hash), key_value(entry)


def _spelled_route(container_id: ContainerId, placement: Placement) -> tuple[str, str]:
    return route_key(container_id), route_value(container_id, placement)
