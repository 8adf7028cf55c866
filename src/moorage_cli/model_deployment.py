"""From `moor deploy hf:ORG/NAME` and its options to what the API is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from moorage_cli.amounts import shown_price
from moorage_cli.client import Record
from moorage_cli.container_file import DeployOptions, cache_option
from moorage_cli.errors import CliError, ExitCode, UsageError
from moorage_cli.model_names import instead_of, is_model
from moorage_cli.secret_values import environment_option, read_environment_file, read_secret
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import FitRead, ModelPlanRead, ModelWish, Project

LEAST_CONTEXT = 256
"""As the API has it, too."""
HUB_TOKEN = "HF_TOKEN"  # noqa: S105 - the variable's name
_OF_THE_TEMPLATE = {
    "image": "--image",
    "provider": "--provider",
    "username": "--username",
    "password_file": "--password-file",
    "start_command": "--command",
    "port": "--port",
    "health_path": "--health-path",
    "health_timeout_s": "--health-timeout",
    "api_path": "--api-path",
    "as_proposed": "--as-proposed",
}
"""What a model's template says; `moor edit` changes it afterwards."""

_OF_THE_CONTAINER = ("name", "env", "sleep_after_s", "cache", "accept_exposure")
"""What a model's memory does not depend on."""
_HINTS = {"model_gated": "Name the file that holds the token with --hub-token-file."}


@dataclass(frozen=True)
class ModelOptions:
    model: str
    template: str | None = None
    context: int | None = None
    requests: int | None = None
    file: str | None = None
    hub_token_file: Path | None = None


def model_body(model: ModelOptions, options: DeployOptions, environment: Mapping[str, str]) -> Record:
    """Of `POST …/models/deploy`, without its resources."""
    if not is_model(model.model):
        raise UsageError(f"{model.model!r} is not a model. {instead_of(model.model)}")
    if model.context is not None and model.context < LEAST_CONTEXT:
        raise UsageError(
            f"--context {model.context} is too short: it counts the tokens of prompt and answer together. "
            f"Give it {LEAST_CONTEXT} or more."
        )
    if model.requests is not None and model.requests < 1:
        raise UsageError("--requests is how many requests a replica holds at once. Give it 1 or more.")
    given = [
        option for name, option in _OF_THE_TEMPLATE.items() if getattr(options, name) not in (None, False)
    ]
    if given:
        raise UsageError(
            f"The model's template sets {', '.join(given)}. Leave {'it' if len(given) == 1 else 'them'} out and use `moor edit` "
            "afterwards, or deploy an image with --image."
        )
    env = read_environment_file(options.environment_file) if options.environment_file else {}
    env.update(environment_option(text, environment) for text in options.environment)
    token = read_secret(model.hub_token_file) if model.hub_token_file is not None else env.get(HUB_TOKEN)
    body: Record = {
        "model": model.model,
        "template": model.template,
        "context_tokens": model.context,
        "requests_at_once": model.requests,
        "file": model.file,
        "hub_token": token,
        "name": options.name,
        "infrastructure": options.infrastructure,
        "accept_exposure": options.accept_exposure or None,
        "sleep_after_s": options.sleep_after_s,
    }
    body = {name: value for name, value in body.items() if value is not None} | cache_option(options)
    return {**body, "env": env} if env else body


def resolved(session: Session, project: "Project", body: Record) -> "ModelPlanRead":
    """What the model needs and where it fits."""
    wish = {name: value for name, value in body.items() if name not in _OF_THE_CONTAINER}
    found = session.api.resolve_model(project["id"], cast("ModelWish", wish))
    if not found["ok"]:
        reason = found["reason"] or "model_not_usable"
        raise CliError(found["message"], code=reason, hint=_HINTS.get(reason))
    return found


def with_resources(body: Record, options: DeployOptions, found: "ModelPlanRead") -> Record:
    """The API chooses the cheapest type that fits, unless something is said about it."""
    scaled = options.min_replicas is not None or options.max_replicas is not None
    name = options.instance_type or (found["instance_type"] if scaled else None)
    if name is None:
        return body
    if not scaled:
        return {**body, "resources": {"mode": "general", "instance_type": name}}
    least = options.min_replicas or 1
    most = options.max_replicas or least
    resources = {"mode": "autoscaling", "instance_type": name, "min_replicas": least, "max_replicas": most}
    return {**body, "resources": resources}


def announce(session: Session, found: "ModelPlanRead", instance_type: str | None) -> None:
    """What it needs and where it goes. Where it cannot go, that is the error, said once."""
    if found["instance_type"] is None:
        if instance_type is None:
            raise CliError(found["message"], ExitCode.USAGE, code=found["reason"] or "model_does_not_fit")
        return
    named = next((one for one in found["instance_types"] if one["instance_type"] == instance_type), None)
    if instance_type is None or (named is not None and named["fits"]):
        session.output.note(found["message"])


def show_plan(session: Session, found: "ModelPlanRead", until_it_answers: str) -> None:
    if session.output.as_json:
        session.output.result(found)
        return
    model, template = found["model"], found["template"]
    assert model is not None, "it is usable, so it is known"
    assert template is not None, "it is usable, so something serves it"
    parameters = model["parameters"]
    pairs = [
        ("model", model["id"]),
        ("parameters", f"{parameters / 1e9:.1f} B" if parameters else ""),
        ("precision", model["precision"]),
        ("licence", model["license"] or ""),
        ("download", gigabytes(model["download_bytes"])),
        ("first answer", until_it_answers),
        ("template", f"{template['name']} ({template['summary']})"),
        ("or", ", ".join(one["name"] for one in found["other_templates"])),
    ]
    session.output.pairs([(name, value) for name, value in pairs if value])
    session.output.line(found["message"])
    columns = ("INSTANCE TYPE", "MEMORY", "USABLE", "NEEDED", "USD/HOUR", "FREE", "FITS")
    session.output.table(
        columns, [_row(one) for one in found["instance_types"]], "There are no instance types yet."
    )


def gigabytes(count: int | None) -> str:
    """10⁹ bytes, as hubs count."""
    return f"{count / 1e9:.1f} GB" if count is not None else "-"


def _row(one: "FitRead") -> list[str]:
    count = f"{one['gpu_count']} × " if one["gpu_count"] > 1 else ""
    shorter = one["longest_context_tokens"]
    fits = "yes" if one["fits"] else one["reason"] or "no"
    if one["fits"] and one["infrastructure"] == "community":
        fits += ", on a community machine (--infrastructure community --accept-exposure)"
    if shorter:
        fits += f" Fits with --context {shorter}."
    return [
        one["instance_type"],
        f"{count}{gigabytes(one['total_bytes'])}",
        gigabytes(one["usable_bytes"]),
        gigabytes(one["memory"]["total_bytes"]) if one["memory"] else "-",
        shown_price(one["price_per_hour_microusd"]),
        str(one["free"]),
        fits,
    ]
