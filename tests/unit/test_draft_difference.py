"""The difference that a draft makes: exact, and with no secret in it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.drafts.difference import MASK, Change, difference
from moorage.containers.spec import ContainerSecrets, ContainerSettings, RegistryProvider, ResourceMode

SETTINGS = ContainerSettings(
    "docker.io/acme/chat:1", RegistryProvider.DOCKER_HUB, None, ResourceMode.GENERAL, "cpu-small"
)
NO_SECRETS = ContainerSecrets()


def test_nothing_changes() -> None:
    secrets = ContainerSecrets("password", {"TOKEN": "one"})
    assert difference((SETTINGS, secrets), (SETTINGS, secrets)) == []


def test_plain_fields() -> None:
    after = replace(SETTINGS, image="docker.io/acme/chat:2", port=9000, health_path="/ready")
    assert difference((SETTINGS, NO_SECRETS), (after, NO_SECRETS)) == [
        Change("image", "docker.io/acme/chat:1", "docker.io/acme/chat:2"),
        Change("port", None, 9000),
        Change("health_check.path", None, "/ready"),
    ]


def test_scaling_shows_only_where_there_is_any() -> None:
    after = replace(SETTINGS, resource_mode=ResourceMode.AUTOSCALING, min_replicas=1, max_replicas=3)
    changes = difference((SETTINGS, NO_SECRETS), (after, NO_SECRETS))
    assert Change("resources.mode", "general", "autoscaling") in changes
    assert Change("resources.max_replicas", None, 3) in changes


def test_secrets_are_masked() -> None:
    before = ContainerSecrets("old-password", {"SAME": "same", "CHANGED": "one", "GONE": "gone"})
    after = ContainerSecrets("new-password", {"SAME": "same", "CHANGED": "two", "NEW": "new"})
    assert difference((SETTINGS, before), (SETTINGS, after)) == [
        Change("registry.password", MASK, MASK),
        Change("env.CHANGED", MASK, MASK),
        Change("env.NEW", None, MASK),
        Change("env.GONE", MASK, None),
    ]


def test_plain_variables_are_shown_and_a_secret_that_becomes_plain_is_not_read_out() -> None:
    before = (
        replace(SETTINGS, plain_environment={"LEVEL": "info"}),
        ContainerSecrets(None, {"TOKEN": "old"}),
    )
    plain = {"LEVEL": "debug", "TOKEN": "new"}
    after = (replace(SETTINGS, plain_environment=plain), ContainerSecrets(None, {}))
    assert difference(before, after) == [
        Change("plain_env.LEVEL", "info", "debug"),
        Change("plain_env.TOKEN", None, "new"),
        Change("env.TOKEN", MASK, None),
    ]


values = st.text(alphabet="0123456789abcdef", min_size=8, max_size=12).map(lambda text: f"secret-{text}")
environments = st.dictionaries(st.sampled_from(["A", "B", "C", "D"]), values)


@given(environments, environments, st.none() | values, st.none() | values)
def test_no_value_of_a_secret_is_ever_shown(
    old: dict[str, str], new: dict[str, str], old_password: str | None, new_password: str | None
) -> None:
    before, after = ContainerSecrets(old_password, old), ContainerSecrets(new_password, new)
    changes = difference((SETTINGS, before), (SETTINGS, after))
    assert "secret-" not in repr(changes)
    changed = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    assert {one.field for one in changes if one.field.startswith("env.")} == {f"env.{one}" for one in changed}
