"""What is remembered of hubs' answers: for whom, for how long, and how much of it."""

from dataclasses import replace
from typing import Any

import pytest

from moorage.kit.clock import Clock, VirtualClock
from moorage.kit.errors import TooManyRequestsError
from moorage.models import lookups
from moorage.models.facts import ModelFacts, facts_from
from moorage.models.hub_words import HubBusyError, HubWords
from moorage.models.lookups import ModelLookups
from moorage.models.reference import ModelReference, parse_reference

HUB = "https://hub.example"


class Asked:
    """A hub that has every model, and what it was asked."""

    def __init__(self, files: list[str], config_bytes: int = 1000) -> None:
        self.times = 0
        self.has_enough = False
        self.lookups = ModelLookups()
        self.clock = VirtualClock()
        self._description = {"siblings": [{"rfilename": name, "size": 5} for name in files]}
        self._config_bytes = config_bytes

    async def answer(
        self, hub: str, reference: ModelReference, token: str | None, *, gguf: str | None, clock: Clock
    ) -> ModelFacts:
        self.times += 1
        if self.has_enough and token is None:
            raise HubWords(hub, reference, has_token=False).busy("120")
        described = {**self._description, "pipeline_tag": "text-generation"}
        return replace(facts_from(reference, described, gguf), config_bytes=self._config_bytes)

    async def __call__(
        self, asker: str, model: str = "hf:acme/thing", token: str | None = None, file: str | None = None
    ) -> ModelFacts:
        return await self.lookups.facts(asker, HUB, parse_reference(model), token, file, self.clock)

    @property
    def kept(self) -> int:
        return len(self.lookups._kept)


def asked_of(monkeypatch: pytest.MonkeyPatch, files: list[str], **more: Any) -> Asked:
    asked = Asked(files, **more)
    monkeypatch.setattr(lookups, "look_up_model", asked.answer)
    return asked


async def test_a_made_up_file_or_token_fills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["model.safetensors"])
    for number in range(20):
        await asked("eve", file=f"Q{number}")
    assert (asked.times, asked.kept) == (1, 1), "which file is wanted says nothing about safetensors"
    for number in range(20):
        await asked("eve", token=f"hf_{number}")
    assert asked.kept == 4
    await asked("ada")
    await asked("eve", token="hf_20")
    before = asked.times
    await asked("ada")
    assert asked.times == before, "nobody is driven out by somebody else"


async def test_each_gguf_file_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["m-Q4_K_M.gguf", "m-Q8_0.gguf"])
    for file in ("Q4_K_M", "Q8_0", None, "Q4_K_M", "Q8_0", None):
        await asked("ada", file=file)
    assert asked.times == 3


async def test_gguf_files_beside_other_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["model.safetensors", "m-Q4_K_M.gguf"])
    for file, expected in ((None, "safetensors"), ("Q4_K_M", "gguf"), (None, "safetensors")):
        assert (await asked("ada", file=file)).format == expected
    assert asked.times == 2


async def test_what_is_old_is_dropped_and_not_only_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["model.safetensors"])
    for asker in ("ada", "ben", "eve"):
        await asked(asker)
    assert asked.kept == 3
    await asked.clock.advance(60)
    await asked("ada")
    assert (asked.times, asked.kept) == (4, 1)


@pytest.mark.parametrize(
    ("files", "config_bytes"),
    [(["model.safetensors"], 1 << 20), ([f"part-{number:05}.gguf" for number in range(5000)], 0)],
)
@pytest.mark.long
async def test_what_is_large_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, files: list[str], config_bytes: int
) -> None:
    asked = asked_of(monkeypatch, files, config_bytes=config_bytes)
    await asked("eve")
    await asked("eve")
    assert (asked.times, asked.kept) == (2, 0)


async def test_all_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["model.safetensors"], config_bytes=100_000)
    for number in range(100):
        await asked(f"asker {number}")
    assert 20 < asked.kept <= (4 << 20) // 100_000


async def test_one_person_does_not_use_up_the_hubs_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["model.safetensors"])
    for number in range(30):
        await asked("eve", f"hf:made/up-{number}")
    with pytest.raises(TooManyRequestsError, match="30 models within a minute") as refused:
        await asked("eve", "hf:made/up-30")
    assert (asked.times, refused.value.retry_after_s) == (30, 2)
    await asked("eve", "hf:made/up-29")
    assert asked.times == 30, "what is remembered is had all the same"
    await asked("ada")
    await asked.clock.advance(2)
    await asked("eve", "hf:made/up-30")
    assert asked.times == 32


async def test_a_hub_that_has_had_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch, ["model.safetensors"])
    asked.has_enough = True
    for asker, clause in (("eve", "in 120 s"), ("eve", "in 120 s"), ("ada", "in 120 s, or give a token")):
        with pytest.raises(HubBusyError, match=clause):
            await asked(asker)
    assert asked.times == 1
    await asked("ada", token="hf_own")
    assert asked.times == 2, "with a token the hub counts for its owner"
    await asked.clock.advance(119)
    with pytest.raises(HubBusyError, match="in 1 s"):
        await asked("ada")
    await asked.clock.advance(1)
    asked.has_enough = False
    await asked("ada")
    assert asked.times == 3
