"""`moor deploy`."""

from pathlib import Path
from typing import Annotated

import typer

from moorage_cli.command import command
from moorage_cli.commands.deployment import (
    create,
    deploy_asked,
    deploy_image,
    finish,
    project_to_deploy_to,
)
from moorage_cli.commands.outcome import any_example, chat_example
from moorage_cli.container_file import (
    DEFAULT_INSTANCE_TYPE,
    DeployOptions,
    deploy_body,
    load_container_file,
)
from moorage_cli.errors import UsageError
from moorage_cli.first_answer import UNKNOWN, until_it_answers
from moorage_cli.model_deployment import (
    ModelOptions,
    announce,
    model_body,
    resolved,
    show_plan,
    with_resources,
)
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    command(app)(deploy)


def deploy(
    session: Session,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[hf:ORG/NAME[@REVISION]]",
            help="A model to serve instead of an image, or the address of its page.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="A file of settings in TOML. Keys are those of the API."),
    ] = None,
    compose: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Deploy a service of this compose file; see From Docker in the handbook."
        ),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The service in the compose file.", show_default="the only one"),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Leave this key of the service out, e.g. volumes; repeatable."),
    ] = None,
    image: Annotated[str | None, typer.Option(help="The image, e.g. ghcr.io/acme/chat:1.2.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The container's name.", show_default="the image's or the model's")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="The registry's provider.", show_default="by image")
    ] = None,
    username: Annotated[str | None, typer.Option(help="The user name at a private registry.")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="File with the registry's password; - is stdin.")
    ] = None,
    instance_type: Annotated[
        str | None,
        typer.Option(
            help="See `moor instance-types`.",
            show_default=f"{DEFAULT_INSTANCE_TYPE}; for a model the cheapest that it fits on",
        ),
    ] = None,
    min_replicas: Annotated[
        int | None, typer.Option("--min", help="The fewest replicas; turns autoscaling on.")
    ] = None,
    max_replicas: Annotated[
        int | None, typer.Option("--max", help="The most replicas; turns autoscaling on.")
    ] = None,
    start_command: Annotated[
        str | None, typer.Option("--command", help="Replaces the image's entry point and command.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="The port that its server listens on.", show_default="the image's, else 8000"),
    ] = None,
    health_path: Annotated[
        str | None, typer.Option(help="Path that answers 200 once it is ready, e.g. /health.")
    ] = None,
    health_timeout: Annotated[int | None, typer.Option(help="Seconds that it may take to get ready.")] = None,
    api_path: Annotated[
        str | None,
        typer.Option(
            help="The path that its server serves: /api/v1, or /v1 as vLLM does.", show_default="/api/v1"
        ),
    ] = None,
    sleep_after: Annotated[
        int | None,
        typer.Option(
            help="Seconds without a request until it sleeps and costs nothing. The next request wakes it.",
            show_default="never",
        ),
    ] = None,
    cache: Annotated[
        int | None,
        typer.Option(
            metavar="GIB",
            help="Space on its machines for weights and kernels, so that later starts find them; 0 for none.",
            show_default="none; with a model, what it needs",
        ),
    ] = None,
    infrastructure: Annotated[
        str | None,
        typer.Option(
            help="Whose machines to use: operator, community (owners can read what runs there) or any.",
            show_default="operator",
        ),
    ] = None,
    accept_exposure: Annotated[
        bool,
        typer.Option(
            "--accept-exposure",
            help="With community or any: the machine's owner can read memory, prompts, weights and environment, and may.",
        ),
    ] = False,
    as_proposed: Annotated[
        bool,
        typer.Option(
            "--as-proposed", help="Use the settings known for its image: API path, port, health path."
        ),
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            "--env",
            metavar="KEY=VALUE",
            help="A variable; repeatable. KEY alone takes the value from your shell.",
        ),
    ] = None,
    env_file: Annotated[Path | None, typer.Option(help="A file of variables, in lines of KEY=VALUE.")] = None,
    template: Annotated[
        str | None,
        typer.Option(help="The server for the model; see `moor templates`.", show_default="by model"),
    ] = None,
    context_tokens: Annotated[
        int | None,
        typer.Option(
            "--context",
            help="The longest request in tokens, prompt and answer.",
            show_default="16384, or the most",
        ),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            help="The number of such requests that a replica holds at once.", show_default="by template"
        ),
    ] = None,
    gguf: Annotated[
        str | None, typer.Option(metavar="FILE|QUANTISATION", help="The GGUF file, e.g. Q4_K_M.")
    ] = None,
    hub_token_file: Annotated[
        Path | None, typer.Option(help="File with a token for a private or gated model; - is stdin.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the model needs and where it fits; deploy nothing.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until it runs.")] = False,
) -> None:
    """Deploy a container from a model's id, an image, a settings file or a compose service, and wait until its endpoint answers."""
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
        accept_exposure=accept_exposure,
        as_proposed=as_proposed,
        environment=tuple(env or ()),
        environment_file=env_file,
    )
    if sum(one is not None for one in (model, file, compose)) > 1:
        raise UsageError("Deploy one of these: a model, a settings file or a compose service.")
    if compose is None and (service is not None or leave_out):
        raise UsageError("--service and --leave-out need a compose file: moor deploy --compose FILE.")
    of_model = (template, context_tokens, requests, gguf, hub_token_file)
    if model is not None:
        wanted = ModelOptions(model, *of_model)
        body = model_body(wanted, options, session.environment)
        project = session.project if dry_run else project_to_deploy_to(session)
        found = resolved(session, project, body)
        if dry_run:
            show_plan(session, found, until_it_answers(session, project, found, instance_type))
            return
        announce(session, found, instance_type)
        first_answer = until_it_answers(session, project, found, instance_type)
        if first_answer not in ("", UNKNOWN):
            session.output.note(f"Until the first answer: {first_answer}.")
        body = with_resources(body, options, found)
        container = create(session, f"/projects/{project['id']}/models/deploy", body)
    else:
        if dry_run or any(one is not None for one in of_model):
            raise UsageError(
                "--template, --context, --requests, --gguf, --hub-token-file and --dry-run need a model: moor deploy hf:ORG/NAME."
            )
        if compose is not None:
            # Its parser is read in only where there is a file to parse.
            from moorage_cli.compose.file import asked_of

            asked = asked_of(compose, service, tuple(leave_out or ()), options, session.environment)
            finish(session, deploy_asked(session, asked, options), any_example, wait=not no_wait)
            return
        from_file = load_container_file(file, session.environment) if file is not None else {}
        body = deploy_body(from_file, options, session.environment)
        container = deploy_image(session, project_to_deploy_to(session), body, options)
    finish(session, container, chat_example, wait=not no_wait)
