"""`moor install` and `moor uninstall`: say what will be done, ask, do it."""

import asyncio
from collections.abc import Callable, Sequence

from moorage.entrypoints.announcement import announce
from moorage.entrypoints.foundation import new_sign_in_link
from moorage.entrypoints.service.facts import firewalls, look
from moorage.entrypoints.service.firewall_note import firewall_note
from moorage.entrypoints.service.places import BACKUPS, CONFIG, CONFIG_IN_HOME, HOME, RECOVERY_KEY
from moorage.entrypoints.service.plan import Call, Machine, Step, installation, removal, unit_files
from moorage.entrypoints.service.steps import do
from moorage.entrypoints.service.units import units
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings, as_a_service_has_them, load_settings

Say = Callable[[str], None]
Confirm = Callable[[str], None]
"""Ends the program where the answer is no."""

_READY_WITHIN_S = 300.0
_LAST_WORDS = (
    "It starts with this machine. `systemctl status moorage` shows its state, `journalctl -u 'moorage*'` "
    "its log. Settings: /etc/moorage/moorage.toml."
)


async def install(say: Say, confirm: Confirm) -> None:
    machine = await look(_settings())
    steps = installation(machine, units())
    if steps:
        _tell(steps, say)
        confirm("Do this?")
        await _do_all(steps, say)
    else:
        say("Nothing needs to change.")
    settings = _settings()
    if machine.runs_systemd:
        await _until_ready(settings, say)
    else:
        say("systemd does not run here, so Moorage starts at the next boot.")
    _say_what_else(settings, say)


async def write_units(say: Say) -> None:
    """For an upgrade: what the roles are started with from their next start on. Nothing is restarted."""
    machine = await look(_settings())
    await _do_all(unit_files(machine, units()), say)
    await do(Call("Let systemd read its units again.", ("daemon-reload",)), _settings(), say)


async def uninstall(say: Say, confirm: Confirm, *, with_data: bool) -> None:
    machine = await look(_settings())
    steps = removal(machine, units(), with_data=with_data)
    if not steps:
        say("There is nothing to remove.")
        return
    _tell(steps, say)
    if not with_data:
        say(f"{HOME}, {BACKUPS} and {CONFIG.parent} stay.")
    confirm("Remove all of this, including the data?" if with_data else "Do this?")
    await _do_all(steps, say)
    say("Removed.")
    _say_what_stays(machine, say, with_data=with_data)


def _settings() -> Settings:
    """The service's own, whatever is set where this is typed."""
    config = next((path for path in (CONFIG, CONFIG_IN_HOME) if path.is_file()), CONFIG)
    with as_a_service_has_them(config, HOME):
        return load_settings(config)


def _tell(steps: Sequence[Step], say: Say) -> None:
    say("This will be done:")
    for step in steps:
        say(f"  - {step.says}")


async def _do_all(steps: Sequence[Step], say: Say) -> None:
    for step in steps:
        say(step.says)
        await do(step, _settings(), say)


async def _until_ready(settings: Settings, say: Say) -> None:
    try:
        async with asyncio.timeout(_READY_WITHIN_S):
            await announce(settings, await new_sign_in_link(settings), say, last_words=_LAST_WORDS)
    except TimeoutError as exc:
        raise SetupError(
            f"Moorage is installed but not ready after {_READY_WITHIN_S:.0f} s. See its log: journalctl -u 'moorage*' -n 100"
        ) from exc


def _say_what_else(settings: Settings, say: Say) -> None:
    note = firewall_note(
        settings.api_listen,
        settings.gateway_listen,
        settings.acme_listen if settings.certified_names else None,
        settings.tunnel_port,
        settings.replica_ports,
        firewalls(),
    )
    say("\nFirewall:\n" + "\n".join(f"  {line}" for line in note))
    if settings.backup_recipient is None:
        say(f"\nThere is no daily backup: backup_recipient is not set in {CONFIG}.")
    elif RECOVERY_KEY.exists():
        say(
            "\n"
            f"Backups: every day into {settings.backups_dir}, encrypted. Copy {RECOVERY_KEY} to a safe place "
            "off this machine, then delete it here. Nothing else opens a backup, and a key kept here is "
            "lost with the machine."
        )


def _say_what_stays(machine: Machine, say: Say, *, with_data: bool) -> None:
    if not with_data:
        say(f"`moor install` sets Moorage up again on the same data: {HOME}, {BACKUPS}.")
    say(f"The program itself is still in {machine.environment}. Remove it the way you installed it.")
