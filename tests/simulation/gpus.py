"""Containers on GPUs, and GPUs that break and come back."""

import asyncio
from dataclasses import dataclass, field

from moorage.engines.base import GpuDevice, ReplicaPhase
from moorage.engines.simulated_machine import SimulatedReplica
from tests.simulation.actors import Act, Users
from tests.simulation.passing import LOOK_EVERY_S
from tests.simulation.world import World

_COUNT = 3
_TYPE, _MODEL = "l4-24gb", "NVIDIA L4"
_GIB = 2**30
_LOOKS = 13
_PROBLEM = "it fell off the bus"


@dataclass
class Gpus:
    world: World
    users: Users
    containers: list[str] = field(default_factory=list)
    broken_at_s: dict[str, float] = field(default_factory=dict)
    """By device."""
    made: int = 0

    def acts(self) -> list[tuple[int, str, Act]]:
        return [
            (5, "deploy on a GPU", self.deploy),
            (4, "a GPU breaks in use", self.break_one_in_use),
            (1, "a GPU breaks", self.break_one),
            (3, "a GPU comes back", self.repair_one),
            (2, "all GPUs break", self.break_all),
            (2, "restart on a GPU", self.restart),
            (2, "scale on GPUs", self.scale),
            (1, "stop on a GPU", self.stop),
            (1, "start on a GPU", self.start),
            (1, "delete on a GPU", self.delete),
        ]

    def put_in(self) -> None:
        """A larger machine than that of the day."""
        machine = self.world.machine
        machine.cpu_millis, machine.memory_bytes = 64_000, 256 * _GIB
        machine.gpus = tuple(GpuDevice(f"GPU-{number}", _MODEL, 24 * _GIB) for number in range(_COUNT))

    async def deploy(self) -> None:
        world = self.world
        organization, least = world.organizations[0], world.acting.choice((1, 1, 2))
        if sum(one in self.users.containers for one in self.containers) >= 2:
            return await self.start()
        self.made += 1
        body = {
            "name": f"g{self.made}",
            "image": world.acting.choice(("local/chat:latest", "local/chat:latest", "local/stubborn:latest")),
            "registry": {"provider": "local"},
            "resources": {
                "mode": "autoscaling",
                "instance_type": _TYPE,
                "min_replicas": least,
                "max_replicas": least,
            },
            "health_check": {"timeout_s": 60},
        }
        path = f"/projects/{organization.project_id}/containers"
        answer = await self.users.ask_for(organization, f"deploy {body['name']} on a GPU", "POST", path, body)
        if answer.status == 201:
            container_id = answer.body["id"]
            world.story.names[container_id] = body["name"]
            self.users.containers[container_id] = organization
            world.wishes[container_id] = ("running", "created")
            self.containers.append(container_id)
        return None

    async def break_one_in_use(self) -> None:
        """Under a replica, which dies of it at once or lives on and computes nothing."""
        chance, users = self.world.acting, self._users()
        number, dies = chance.randrange(100), chance.random() < 0.5
        if not users:
            return
        one = users[number % len(users)]
        self._break(one.spec.gpu_device_ids[0])
        self.world.story.count("GPU lost in use")
        if dies:
            self.world.machine.end(one)
        await self._wait_until_seen()

    async def break_one(self) -> None:
        self._break(self.world.acting.choice([gpu.device_id for gpu in self.world.machine.gpus]))

    async def break_all(self) -> None:
        """Nothing is left to go to, until one comes back."""
        self.world.story.count("all GPUs lost")
        for gpu in self.world.machine.gpus:
            self._break(gpu.device_id)
        await self._wait_until_seen()

    async def repair_one(self) -> None:
        broken = sorted(self.world.machine.gpu_problems)
        if broken:
            self._repair(self.world.acting.choice(broken))

    def repair_all(self) -> None:
        for device in sorted(self.world.machine.gpu_problems):
            self._repair(device)

    async def restart(self) -> None:
        await self._change("restart", "running")

    async def stop(self) -> None:
        await self._change("stop", "stopped")

    async def start(self) -> None:
        await self._change("start", "running")

    async def delete(self) -> None:
        if (container_id := self._some()) is not None:
            await self.users.delete_one(container_id)

    async def scale(self) -> None:
        least = self.world.acting.choice((1, 2, 3))
        if (container_id := self._some()) is not None:
            await self.users.scale_one(container_id, least, least)

    async def _change(self, verb: str, wish: str) -> None:
        if (container_id := self._some()) is not None:
            await self.users.change_one(container_id, verb, wish)

    async def _wait_until_seen(self) -> None:
        """No time is skipped meanwhile, because somebody has to look."""
        for _ in range(_LOOKS):
            await asyncio.sleep(LOOK_EVERY_S)
            self.world.collect_logs()

    def _break(self, device: str) -> None:
        if device not in self.world.machine.gpu_problems:
            self.world.story.tell("machine", f"{device} breaks")
            self.world.story.count("GPU lost")
            self.world.machine.gpu_problems[device] = _PROBLEM
            self.broken_at_s[device] = self.world.now_s()

    def _repair(self, device: str) -> None:
        self.world.story.tell("machine", f"{device} works again")
        self.world.story.count("GPU came back")
        del self.world.machine.gpu_problems[device]
        del self.broken_at_s[device]

    def _users(self) -> list[SimulatedReplica]:
        now = self.world.machine.clock.now()
        running = (
            one for one in self.world.machine.replicas.values() if one.phase(now) is ReplicaPhase.RUNNING
        )
        return [one for one in running if one.spec.gpu_device_ids]

    def _some(self) -> str | None:
        there = [one for one in self.containers if one in self.users.containers]
        return self.world.acting.choice(there) if there else None
