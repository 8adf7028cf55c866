"""`moor deploy`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from moorage_cli.amounts import shown_price
from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.commands.outcome import report_deployment, wait_for_deployment
from moorage_cli.container_file import (
    DEFAULT_INSTANCE_TYPE,
    DeployOptions,
    deploy_body,
    load_container_file,
)
from moorage_cli.errors import ApiError, UsageError
from moorage_cli.model_deployment import ModelOptions, model_body, resolved, show_plan, with_resources
from moorage_cli.project_choice import NoProjectError, create_project
from moorage_cli.proposals import with_proposal
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app)(deploy)


def deploy(
    session: Session,
    model: Annotated[
        str | None,
        typer.Argument(metavar="[hf:ORG/NAME[@REVISION]]", help="A model to serve, instead of an image."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Settings in TOML; keys as in the API.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="The image, e.g. ghcr.io/acme/chat:1.2.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The container's name.", show_default="the image's")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="The registry's provider.", show_default="by image")
    ] = None,
    username: Annotated[str | None, typer.Option(help="For a private registry.")] = None,
    password_file: Annotated[Path | None, typer.Option(help="File with its password; - is stdin.")] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="See `moor instance-types`.", show_default=DEFAULT_INSTANCE_TYPE)
    ] = None,
    min_replicas: Annotated[
        int | None, typer.Option("--min", help="Least replicas; turns autoscaling on.")
    ] = None,
    max_replicas: Annotated[
        int | None, typer.Option("--max", help="Most replicas; turns autoscaling on.")
    ] = None,
    start_command: Annotated[
        str | None, typer.Option("--command", help="Replaces the image's entry point and command.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Where it listens.", show_default="the image's, else 8000")
    ] = None,
    health_path: Annotated[
        str | None, typer.Option(help="Answers 200 once it is ready, e.g. /health.")
    ] = None,
    health_timeout: Annotated[int | None, typer.Option(help="Seconds it may take to get ready.")] = None,
    api_path: Annotated[
        str | None,
        typer.Option(help="What its server serves: /api/v1, or /v1 as vLLM does.", show_default="/api/v1"),
    ] = None,
    sleep_after: Annotated[
        int | None,
        typer.Option(
            help="Seconds without a request after which it sleeps and costs nothing; the next request wakes it.",
            show_default="never",
        ),
    ] = None,
    cache: Annotated[
        int | None,
        typer.Option(
            metavar="GIB",
            help="Room on its machines for weights and kernels, so that later starts find them; 0 for none.",
            show_default="none; with a model, what it needs",
        ),
    ] = None,
    infrastructure: Annotated[
        str | None,
        typer.Option(
            help="Whose machines: operator, community (whose owners can read what runs there) or any.",
            show_default="operator",
        ),
    ] = None,
    as_proposed: Annotated[
        bool,
        typer.Option("--as-proposed", help="Take what is known of its image: API path, port, health path."),
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option("-e", "--env", metavar="KEY=VALUE", help="Repeatable; KEY alone takes yours."),
    ] = None,
    env_file: Annotated[Path | None, typer.Option(help="Lines of KEY=VALUE.")] = None,
    template: Annotated[
        str | None, typer.Option(help="Serves the model; see `moor templates`.", show_default="by model")
    ] = None,
    context_tokens: Annotated[
        int | None,
        typer.Option("--context", help="Tokens that a request may have.", show_default="16384, or the most"),
    ] = None,
    requests: Annotated[
        int | None, typer.Option(help="Requests at once with that context.", show_default="by template")
    ] = None,
    gguf: Annotated[
        str | None, typer.Option(metavar="FILE|QUANTISATION", help="Which GGUF file, e.g. Q4_K_M.")
    ] = None,
    hub_token_file: Annotated[
        Path | None, typer.Option(help="File with a token for a private or gated model; - is stdin.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what the model needs and where it fits.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until it runs.")] = False,
) -> None:
    """Deploy a container from a model's id, an image or a settings file, and wait until its endpoint answers."""
    options = DeployOptions(
        name=name,
        image=image,
        provider=provider,
        username=username,
        password_file=password_file,
        instance_type=instance_type,
        min_replicas=min_replicas,
        max_replicas=max_replicas,
        start_command=start_command,
        port=port,
        health_path=health_path,
        health_timeout_s=health_timeout,
        api_path=api_path,
        sleep_after_s=sleep_after,
        cache_gib=cache,
        infrastructure=infrastructure,
        as_proposed=as_proposed,
        environment=tuple(env or ()),
        environment_file=env_file,
    )
    of_model = (template, context_tokens, requests, gguf, hub_token_file)
    if model is not None:
        if file is not None:
            raise UsageError("Deploy a model or a settings file, not both.")
        wanted = ModelOptions(model, *of_model)
        body = model_body(wanted, options, session.environment)
        project = session.project if dry_run else _project(session)
        found = resolved(session, project, body)
        if dry_run:
            show_plan(session, found)
            return
        session.output.note(found["message"])
        body = with_resources(body, options, found)
        container = _create(session, f"/projects/{project['id']}/models/deploy", body)
    else:
        if dry_run or any(one is not None for one in of_model):
            raise UsageError(
                "--template, --context, --requests, --gguf, --hub-token-file and --dry-run are for a model: moor deploy hf:ORG/NAME."
            )
        from_file = load_container_file(file, session.environment) if file is not None else {}
        body = deploy_body(from_file, options, session.environment)
        project = _project(session)
        body = with_proposal(session, project, body, as_proposed=options.as_proposed)
        container = _create(session, f"/projects/{project['id']}/containers", body)
    _announce(session, container)
    if no_wait:
        if session.output.as_json:
            session.output.result(container)
        else:
            name, state = container["name"], container["state"]
            session.output.line(f"{name} is {state}. Follow it with `moor describe {shlex.quote(name)}`.")
        return
    report_deployment(session, wait_for_deployment(session, container))


def _create(session: Session, path: str, body: Record) -> Record:
    try:
        created: Record = session.client.post(path, body)
    except ApiError as exc:
        if exc.code == "name_taken":
            name = body.get("name") or body["model"].rpartition("/")[2].partition("@")[0]
            exc.hint = f"Choose another with --name, or remove it with `moor delete {shlex.quote(name)}`."
        raise
    return created


def _project(session: Session) -> Record:
    try:
        return session.project
    except NoProjectError:
        # `--project NAME` of one that does not exist is a mistake; no project at all is a beginning.
        project = create_project(session.client, "default", session.organization)
        session.output.note(
            f"You had no project: created {project['name']!r} in the organization {project['organization_name']}."
        )
        return project


def _announce(session: Session, container: Record) -> None:
    resources, price = container["resources"], container["price_per_hour_microusd"]
    most = resources.get("max_replicas", 1)
    replicas = f" × up to {most} replicas" if most > 1 else ""
    session.output.note(
        f"Deploying {container['name']} ({container['id']}): {container['image']} on "
        f"{resources['instance_type']}, {shown_price(price)} USD per hour{replicas}."
    )
