"""Caches of containers on this machine: volumes of the Docker engine, found by their labels.

Volumes, because the engine keeps them apart, removes none that a container has, and puts them on the disk whose free space is
watched. How large they are is looked up in their folders, which needs those to be on this machine, as for `disk.py`.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import HeldCache
from moorage.engines.docker.cache_folder import Held, contents_of, delete_what_is_deep, trim
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import CACHE_PREFIX, LABEL_CONTAINER, LABEL_INSTALLATION, LABEL_REPLICA
from moorage.engines.docker.disk import opened_inodes
from moorage.engines.docker.observe import moment_of
from moorage.kit.ids import ContainerId, InstallationId, ReplicaId

_REMOVAL_TIMEOUT_S = 600.0
"""Deleting hundreds of gigabytes in small files takes a while."""
_RUNS = ("running", "paused", "restarting", "created")
_OPEN_TO_ALL = 0o777
"""Whoever the image runs as. The way to it is the engine's data folder, which is root's."""


@dataclass(frozen=True)
class _Key:
    container_id: str
    replica_id: str | None


@dataclass
class _Volumes:
    """Of one cache: as many as users that its images ran as."""

    names: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    """Engine ids of containers that have one of them and run, or are about to."""


class Caches:
    def __init__(self, connection: DockerConnection, installation_id: InstallationId) -> None:
        self._connection = connection
        self._installation_id = installation_id
        self._image_users: dict[str, str] = {}

    async def held(self) -> list[HeldCache]:
        found = await self._found()
        return [
            _shown(key, await asyncio.to_thread(_measured, one.folders), in_use=bool(one.users))
            for key, one in found.items()
        ]

    async def trim(self, container_id: str, replica_id: str | None, to_bytes: int) -> HeldCache | None:
        key = _Key(container_id, replica_id)
        one = (await self._found()).get(key)
        if one is None:
            return None
        users = [await self._process_of(user) for user in one.users]
        since = min((started.timestamp() for *_, started in users if started is not None), default=None)
        processes = [(pid, engine_id) for pid, engine_id, _ in users]
        held = await asyncio.to_thread(_trimmed, one.folders, to_bytes, processes, since)
        return _shown(key, held, in_use=bool(users))

    async def remove(self, container_id: str, replica_id: str | None) -> bool:
        one = (await self._found()).get(_Key(container_id, replica_id))
        if one is None:
            return True
        # All of them are tried: one may be of a user that nothing runs as any more.
        return all(
            [await self._remove_volume(*volume) for volume in zip(one.names, one.folders, strict=True)]
        )

    async def wipe(self, inspected: Mapping[str, Any]) -> None:
        """The cache of a replica that was removed, unless it is kept."""
        for mount in _cache_mounts(inspected):
            volume = await self._volume(mount["Name"])
            if volume is not None and LABEL_REPLICA in (volume.get("Labels") or {}):
                await self._remove_volume(mount["Name"], Path(mount["Source"]))

    async def image_user(self, image: str) -> str:
        """Asked once for each: a reference pins the content."""
        if image in self._image_users:
            return self._image_users[image]
        async with self._connection.call("ask whom an image runs as") as docker:
            try:
                # Null in an image that was put together by hand.
                config = (await docker.images.inspect(image)).get("Config") or {}
            except DockerError as exc:
                if exc.status == 404:
                    return ""  # The create says what is wrong.
                raise
        self._image_users[image] = str(config.get("User") or "")
        return self._image_users[image]

    async def _found(self) -> dict[_Key, _Volumes]:
        ours = {"label": [f"{LABEL_INSTALLATION}={self._installation_id}"]}
        async with self._connection.call("list caches") as docker:
            listed = await docker._query_json("volumes", params={"filters": json.dumps(ours)})
        volumes = listed.get("Volumes") or []
        found: dict[_Key, _Volumes] = {}
        by_name: dict[str, _Volumes] = {}
        for volume in volumes:
            labels, name = volume.get("Labels") or {}, volume["Name"]
            if not name.startswith(CACHE_PREFIX) or LABEL_CONTAINER not in labels:
                continue
            one = found.setdefault(_Key(labels[LABEL_CONTAINER], labels.get(LABEL_REPLICA)), _Volumes())
            by_name[name] = one
            one.names.append(name)
            one.folders.append(Path(volume["Mountpoint"]))
        if found:
            for engine_id, mounts in await self._connection.listed(
                "list who has a cache",
                "containers/json",
                {"all": "1", "filters": json.dumps(ours)},
                lambda one: (str(one["Id"]), (one["Mounts"] or []) if one["State"] in _RUNS else []),
            ):
                for mount in mounts:
                    if mount.get("Name") in by_name:
                        by_name[mount["Name"]].users.append(engine_id)
        return found

    async def _process_of(self, engine_id: str) -> tuple[int, str, datetime | None]:
        async with self._connection.call(f"look at {engine_id[:12]}") as docker:
            try:
                state = (await docker.containers.container(engine_id).show())["State"]
            except DockerError as exc:
                if exc.status == 404:
                    return 0, engine_id, None
                raise
        return int(state["Pid"]), engine_id, moment_of(state["StartedAt"])

    async def _volume(self, name: str) -> Mapping[str, Any] | None:
        async with self._connection.call(f"look at the cache {name}") as docker:
            try:
                return dict(await docker._query_json(f"volumes/{name}"))
            except DockerError as exc:
                if exc.status == 404:
                    return None
                raise

    async def _remove_volume(self, name: str, folder: Path) -> bool:
        await asyncio.to_thread(delete_what_is_deep, folder)
        async with self._connection.call(f"remove the cache {name}", _REMOVAL_TIMEOUT_S) as docker:
            try:
                async with docker._query(f"volumes/{name}", method="DELETE"):
                    pass
            except DockerError as exc:
                if exc.status == 409:
                    return False
                if exc.status != 404:
                    raise
        return True


def _cache_mounts(inspected: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        mount
        for mount in inspected.get("Mounts") or []
        if mount["Type"] == "volume" and str(mount.get("Name")).startswith(CACHE_PREFIX)
    ]


def open_up(inspected: Mapping[str, Any]) -> None:
    """Before its process begins: a new volume is root's, and an image may run as anybody."""
    for mount in _cache_mounts(inspected):
        if os.access(mount["Source"], os.W_OK):
            os.chmod(mount["Source"], _OPEN_TO_ALL)


def _measured(folders: Sequence[Path]) -> Held:
    return sum((contents_of(folder).held for folder in folders), Held())


def _trimmed(
    folders: Sequence[Path], to_bytes: int, processes: Sequence[tuple[int, str]], since: float | None
) -> Held:
    """One after the other: what the others hold is taken off what this one may."""
    total = _measured(folders)
    busy = {inode for pid, engine_id in processes for inode in opened_inodes(pid, engine_id)}
    for folder in folders:
        if total.size_bytes <= to_bytes:
            break
        before = contents_of(folder).held
        after = trim(folder, before.size_bytes - (total.size_bytes - to_bytes), busy, since)
        total += after - before
    return total


def _shown(key: _Key, held: Held, *, in_use: bool) -> HeldCache:
    replica_id = ReplicaId(key.replica_id) if key.replica_id is not None else None
    return HeldCache(ContainerId(key.container_id), replica_id, held.size_bytes, held.compiled_bytes, in_use)
