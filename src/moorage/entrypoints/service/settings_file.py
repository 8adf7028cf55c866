"""`moorage.toml` as `moor install` writes it: every setting with its reason, as a comment. Pure, but for reading `kit/settings.py`."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from moorage.entrypoints.handbook.settings_page import GROUPS, bounds_of
from moorage.entrypoints.handbook.words import sentences_of
from moorage.kit.settings import Settings

_WIDTH = 110
_HEAD = """\
# Moorage's settings. A line that begins with #name = shows the default: remove the # and change the value.
# They take effect at `systemctl restart moorage`. `moor config` prints what is in effect.
# For details see Settings in the handbook, at /docs of this installation.
"""


def settings_file(chosen: Mapping[str, object]) -> str:
    """`chosen`: what is not left at its default."""
    sentences = sentences_of(Settings)
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        if name in GROUPS:
            parts.append(f"\n\n# --- {GROUPS[name]} ---\n")
        told = " ".join([sentences[name], *bounds_of(field)]).replace("`", "")
        parts.append("\n" + textwrap.fill(told, _WIDTH, initial_indent="# ", subsequent_indent="# ") + "\n")
        if name in chosen:
            parts.append(f"{name} = {_toml(chosen[name])}\n")
        else:
            parts.append(f"#{name} = {_default(name)}".rstrip() + "\n")
    return "".join(parts)


def _default(name: str) -> str:
    """Empty where there is none, so that it cannot be taken for one."""
    if name == "home":
        return _toml("/var/lib/moorage")
    value: Any = Settings.model_fields[name].get_default(call_default_factory=True, validated_data={})
    return "" if value is None else _toml(value)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return json.dumps([str(one) for one in value], ensure_ascii=False)
    if isinstance(value, int | float):
        return str(value)
    assert not isinstance(value, SecretStr), "no secret has a default"
    return json.dumps(str(value), ensure_ascii=False)
