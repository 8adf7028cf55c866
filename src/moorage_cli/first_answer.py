"""How long a model takes until its first answer, as starts that were measured took. What nobody has measured is said to be unknown."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moorage_cli.errors import CliError
from moorage_cli.session import Session
from moorage_cli.times import shown_roughly

if TYPE_CHECKING:
    from moorage_cli.api.types import ModelPlanRead, PreflightRequest, Project, ServerSettingsRead, StartRead

UNKNOWN = "not measured here yet"


def until_it_answers(
    session: Session, project: "Project", found: "ModelPlanRead", instance_type: str | None
) -> str:
    """On that type, or on the one that would be chosen; empty where it fits nowhere."""
    name = instance_type or found["instance_type"]
    fit = next((one for one in found["instance_types"] if one["instance_type"] == name), None)
    # A server of an older version says nothing of it.
    start = fit.get("start") if fit is not None else None
    if fit is None or start is None:
        return ""
    image_s = _image_s(session, project, fit["settings"], start["image_bytes_per_s"])
    return in_words(start, image_s)


def in_words(start: "StartRead", image_s: float | None) -> str:
    """Pure."""
    parts = (("image", image_s), ("weights", start["download_s"]), ("loading", start["load_s"]))
    known = [(name, seconds) for name, seconds in parts if seconds is not None]
    missing = [name for name, seconds in parts if seconds is None]
    if not known:
        text = UNKNOWN
    else:
        each = ", ".join(f"{name} {shown_roughly(seconds)}" for name, seconds in known)
        total = f"about {shown_roughly(sum(seconds for _, seconds in known))}: "
        text = f"{each}; {_listed(missing)} {UNKNOWN}" if missing else f"{total}{each}"
    again_s = start["again_s"]
    return f"{text}; a later start about {shown_roughly(again_s)}" if again_s is not None else text


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


def _image_s(
    session: Session, project: "Project", settings: "ServerSettingsRead | None", bytes_per_s: int | None
) -> float | None:
    if settings is None or not bytes_per_s:
        return None
    asked: PreflightRequest = {
        "image": settings["image"],
        "registry": {"provider": settings["provider"]},
    }
    try:
        size_bytes = session.api.preflight(project["id"], asked)["size_bytes"]
    except CliError:  # The deployment asks as well, and says what is wrong.
        return None
    return size_bytes / bytes_per_s if size_bytes else None
