"""The units of systemd. Pure.

`moorage.service` prepares the machine and keeps the database; each role is a unit of its own that starts after it, so each can be
restarted alone. They are the same on every machine: settings are in `moorage.toml`, and what a machine wants otherwise goes into
`systemctl edit`.

An upgrade takes the units of the new version before it restarts anything, and leaves them where it goes back: units of a version start
the version before as well.

They run as root: the controller sets firewall rules and speaks to the engine, the gateway opens ports and tunnels, and both start
what serves as a user without rights. So each unit is kept from what its role never does. The API, which reads what strangers send,
keeps of root's rights only those over Moorage's own files.
"""

from collections.abc import Mapping, Sequence

from moorage.entrypoints.service.places import (
    COMMAND,
    CONFIG,
    CONFIG_FOLDER,
    HOME,
    ROLES_ENVIRONMENT,
)

MARK = "# Made by `moor install`. Changes belong into `systemctl edit`: this file is written anew."
SERVICE = "moorage.service"
ROLE_UNITS = ("moorage-gateway.service", "moorage-api.service", "moorage-controller.service")
BACKUP, TIMER = "moorage-backup.service", "moorage-backup.timer"

Section = Sequence[tuple[str, str]]

_HARDENING: Section = (
    ("NoNewPrivileges", "yes"),
    ("ProtectSystem", "full"),
    ("ProtectHome", "read-only"),
    ("PrivateTmp", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("LockPersonality", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap"),
    ("SystemCallErrorNumber", "EPERM"),
)
_OWN_FILES_ONLY: Section = (
    ("ProtectSystem", "strict"),
    ("ReadWritePaths", str(HOME)),
    ("PrivateDevices", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("RestrictNamespaces", "yes"),
    ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
    # Over files that Moorage's other user owns, and no more.
    ("CapabilityBoundingSet", "CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER"),
    ("InaccessiblePaths", "-/run/docker.sock -/run/containerd"),
)
# What is missing may come: an engine, a server for the database, room on the disk.
_NEVER_GIVES_UP = ("StartLimitIntervalSec", "0")
_MAKES_FOLDERS: Section = (("StateDirectory", HOME.name), ("StateDirectoryMode", "0711"))


def units() -> Mapping[str, str]:
    """The text of each, by its name."""
    return {
        SERVICE: _keeper(),
        "moorage-api.service": _role(
            "api",
            "Moorage: API and console",
            # People wait for it, and inside a control group niceness counts.
            (("Nice", "-5"), *_hardened(*_OWN_FILES_ONLY)),
        ),
        "moorage-controller.service": _role("controller", "Moorage: controller", _hardened()),
        "moorage-gateway.service": _role(
            "gateway",
            "Moorage: gateway",
            # HAProxy, which it starts, serves on while it restarts, and takes what it may of open files.
            (("KillMode", "process"), ("LimitNOFILE", "1048576"), *_hardened()),
        ),
        BACKUP: _backup(),
        TIMER: _timer(),
    }


def _keeper() -> str:
    return _unit(
        (
            ("Description", "Moorage"),
            ("Documentation", "man:systemd.unit(5)"),
            ("Wants", "network-online.target"),
            ("After", "network-online.target docker.service nss-user-lookup.target"),
            ("Wants", " ".join(ROLE_UNITS)),
            _NEVER_GIVES_UP,
        ),
        (
            ("Type", "notify"),
            ("ExecStart", f"{COMMAND} keep"),
            # It goes on as the version that the link leads to; nothing that it keeps ends.
            ("ExecReload", "/bin/kill -HUP $MAINPID"),
            # Waiting for the engine, and migrations of a large database.
            ("TimeoutStartSec", "infinity"),
            ("TimeoutStopSec", "120"),
            # The database and HAProxy outlive whoever started them; on SIGTERM it ends them itself.
            ("KillMode", "process"),
            *_kept(),
            *_MAKES_FOLDERS,
            # Little, because a Docker engine that Moorage started itself, and its containers with it, would inherit the rest.
            ("Delegate", "yes"),
            ("ProtectSystem", "full"),
            ("ProtectHome", "read-only"),
        ),
        (("WantedBy", "multi-user.target"),),
    )


def _role(name: str, description: str, more: Section) -> str:
    return _unit(
        (
            ("Description", description),
            ("Requires", SERVICE),
            ("After", SERVICE),
            ("PartOf", SERVICE),
            _NEVER_GIVES_UP,
        ),
        (
            ("Type", "simple"),
            ("ExecStart", f"{COMMAND} serve --role {name}"),
            ("EnvironmentFile", f"-{ROLES_ENVIRONMENT}"),
            ("TimeoutStopSec", "30"),
            *_kept(),
            *more,
        ),
        (("WantedBy", SERVICE),),
    )


def _backup() -> str:
    return _unit(
        (("Description", "Moorage: a backup of everything"), ("After", SERVICE)),
        (
            ("Type", "oneshot"),
            ("ExecStart", f"{COMMAND} backup"),
            *_environment(),
            ("Nice", "10"),
            ("IOSchedulingClass", "idle"),
            # Not kept from other folders: backups may go to any of them.
            *_hardened(*_OWN_FILES_ONLY, ("ProtectSystem", "full")),
        ),
        (),
    )


def _timer() -> str:
    return _unit(
        (("Description", "Moorage: a backup every day"),),
        (),
        (("WantedBy", "timers.target"),),
        # A machine that was off at that time makes it up.
        timer=(("OnCalendar", "*-*-* 02:00"), ("RandomizedDelaySec", "1h"), ("Persistent", "yes")),
    )


def _kept() -> Section:
    return (
        *_environment(),
        ("Restart", "always"),
        ("RestartSec", "1"),
        # Where memory runs out, tenants' containers end first.
        ("OOMScoreAdjust", "-500"),
    )


def _environment() -> Section:
    return (
        ("WorkingDirectory", "/"),
        ("Environment", f"MOORAGE_HOME={HOME} MOORAGE_CONFIG={CONFIG} MOORAGE_INSTALL_ENGINE=false"),
        ("Environment", "LANG=C.UTF-8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1"),
        # HTTPS_PROXY, SSL_CERT_FILE and whatever else this machine's programs have to be told.
        ("EnvironmentFile", f"-{CONFIG_FOLDER}/environment"),
    )


def _hardened(*stricter: tuple[str, str]) -> Section:
    """Each once; the stricter one counts."""
    return tuple({**dict(_HARDENING), **dict(stricter)}.items())


def _unit(unit: Section, service: Section, install: Section, timer: Section = ()) -> str:
    sections = {"Unit": unit, "Service": service, "Timer": timer, "Install": install}
    written = [
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in lines)
        for name, lines in sections.items()
        if lines
    ]
    return MARK + "\n\n" + "\n".join(written)
