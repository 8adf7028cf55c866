"""From settings to a container that runs: what `moor deploy` and `moor run` do alike."""

import shlex
from typing import TYPE_CHECKING, cast

from moorage_cli.amounts import shown_price
from moorage_cli.client import Record
from moorage_cli.commands.outcome import Example, report_deployment, wait_for_deployment
from moorage_cli.container_file import DeployOptions, deploy_body
from moorage_cli.errors import ApiError, CliError, ExitCode
from moorage_cli.model_names import usual_name
from moorage_cli.other_tools.asked import Asked
from moorage_cli.other_tools.sizes import cheapest_with
from moorage_cli.project_choice import NoProjectError, create_project
from moorage_cli.proposals import with_proposal
from moorage_cli.session import Session

if TYPE_CHECKING:
    from moorage_cli.api.types import Container, PreflightRequest, Project


def deploy_asked(session: Session, asked: Asked, options: DeployOptions) -> "Container":
    """What was written for another tool; what the options say wins."""
    for what, sentence in asked.notes:
        session.output.note(f"{what}: {sentence}")
    body = deploy_body(asked.body, options, session.environment)
    if asked.sizes.is_something:
        body["resources"] = _sized(session, asked, body, options)
    project = project_to_deploy_to(session)
    if options.start_command is None:
        body.update(_start_command(session, project, body, asked))
    return deploy_image(session, project, body, options)


def deploy_image(session: Session, project: "Project", body: Record, options: DeployOptions) -> "Container":
    body = with_proposal(session, project, body, as_proposed=options.as_proposed)
    return create(session, f"/projects/{project['id']}/containers", body)


def create(session: Session, path: str, body: Record) -> "Container":
    try:
        created: Container = session.client.post(path, body)
    except ApiError as exc:
        if exc.code == "name_taken":
            name = body.get("name") or usual_name(body["model"])
            exc.hint = f"Choose another with --name, or remove it with `moor delete {shlex.quote(name)}`."
        raise
    return created


def project_to_deploy_to(session: Session) -> "Project":
    try:
        return session.project
    except NoProjectError:
        # `--project NAME` of one that does not exist is a mistake; no project at all is a beginning.
        project = create_project(session.client, "default", session.organization)
        session.output.note(
            f"You had no project, so this created {project['name']!r} in the organization {project['organization_name']}."
        )
        return project


def finish(session: Session, container: "Container", example: Example, *, wait: bool) -> None:
    """Announce it, and see it through unless nobody wants to wait."""
    resources, price = container["resources"], container["price_per_hour_microusd"]
    most = resources["max_replicas"] if resources["mode"] == "autoscaling" else 1
    replicas = f" × up to {most} replicas" if most > 1 else ""
    session.output.note(
        f"Deploying {container['name']} ({container['id']}): {container['image']} on "
        f"{resources['instance_type']}, {shown_price(price)} USD per hour{replicas}."
    )
    if wait:
        report_deployment(session, wait_for_deployment(session, container), example)
    elif session.output.as_json:
        session.output.result(container)
    else:
        name, state = container["name"], container["state"]
        session.output.line(f"{name} is {state}. Follow it with `moor describe {shlex.quote(name)}`.")


def _sized(session: Session, asked: Asked, body: Record, options: DeployOptions) -> Record:
    """With the cheapest type that has what was asked for; one that was named stays, and what it lacks is said."""
    resources, types = body["resources"], list(session.api.get_instance_types())
    if options.instance_type is None:
        infrastructure = body.get("infrastructure", "operator")
        return {**resources, "instance_type": cheapest_with(asked.sizes, types, infrastructure)["name"]}
    named = next((one for one in types if one["name"] == options.instance_type), None)
    missing = asked.sizes.missing_in(named) if named is not None else []
    if missing:
        session.output.note(
            f"{options.instance_type} has {', '.join(missing)} that {asked.subject} asks for."
        )
    return dict(resources)


def _start_command(session: Session, project: "Project", body: Record, asked: Asked) -> Record:
    command = asked.program.command(_entrypoint(session, project, body) if asked.program.needs_image else ())
    if command is None:
        return {}
    if not command:
        raise CliError(
            f"{asked.subject} removes the image's entry point and names nothing to start instead.",
            ExitCode.USAGE,
            code="usage",
        )
    return {"start_command": shlex.join(command)}


def _entrypoint(session: Session, project: "Project", body: Record) -> list[str]:
    """Of the image. A start command replaces it too, so it has to be said again before other arguments."""
    request = {"image": body["image"], "registry": body["registry"], "port": body.get("port")}
    found = session.api.preflight(project["id"], cast("PreflightRequest", request))
    if not found["ok"]:
        raise CliError(found["message"], code=found["reason"] or "image_not_usable")
    # A server of an older version says nothing of it.
    entrypoint = found.get("entrypoint")
    if entrypoint is None:
        raise CliError(
            f"The arguments are for the entry point of {body['image']}, which Moorage cannot see.",
            ExitCode.USAGE,
            code="entrypoint_unknown",
            hint="Name the program: `--entrypoint PROGRAM`, `entrypoint:` in a compose service, or --command for the whole command.",
        )
    return entrypoint
