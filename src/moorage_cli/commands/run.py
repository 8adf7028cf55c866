"""`moor run`, in the words of `docker run`."""

from pathlib import Path
from typing import Annotated

import typer

from moorage_cli.client import Record
from moorage_cli.command import command
from moorage_cli.commands.deployment import deploy_asked, finish
from moorage_cli.commands.docker_words import with_words
from moorage_cli.commands.outcome import any_example
from moorage_cli.compose.env_files import raw_variables_of, read_text
from moorage_cli.container_file import DeployOptions, name_of_image
from moorage_cli.errors import UsageError
from moorage_cli.other_tools.asked import Asked, Findings, Program
from moorage_cli.other_tools.http_checks import NO_HTTP, USUAL_RETRIES, of_command, ready_within_s
from moorage_cli.other_tools.ports import published, single
from moorage_cli.other_tools.sizes import Sizes, bytes_of, gpus_of, vcpu_millis_of
from moorage_cli.secret_values import environment_option
from moorage_cli.session import Session


def register(app: typer.Typer) -> None:
    # What stands behind the image is the container's, as with Docker.
    command(app, context_settings={"allow_interspersed_args": False})(with_words(run))


def run(
    session: Session,
    findings: Findings,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="The image, e.g. ghcr.io/acme/chat:1.2.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND...]",
            help="Replaces the image's CMD; its entry point stays.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            "--env",
            metavar="KEY=VALUE",
            help="A variable; repeatable. KEY alone takes the value from your shell.",
        ),
    ] = None,
    env_file: Annotated[
        list[Path] | None, typer.Option(help="A file of variables, in lines of KEY=VALUE; repeatable.")
    ] = None,
    publish: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--publish",
            "--port",
            metavar="PORT",
            help="The port that its server listens on; 8080:80 means 80.",
        ),
    ] = None,
    expose: Annotated[
        list[str] | None,
        typer.Option(metavar="PORT", help="The port that its server listens on, unless one is published."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The container's name.", show_default="the image's")
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="all|N", help="Use the cheapest instance type with this many GPUs."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option("-m", "--memory", metavar="4g", help="Use an instance type with this much memory."),
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(metavar="N", help="Use an instance type with this many CPUs.")
    ] = None,
    entrypoint: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="Replaces the image's entry point; '' removes it.")
    ] = None,
    health_cmd: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="A curl or wget request to itself, whose path Moorage checks. Or use --health-path.",
        ),
    ] = None,
    health_start_period: Annotated[
        str | None, typer.Option(metavar="2m", help="How long it may take to get ready.")
    ] = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Do not wait until it runs.")] = False,
    instance_type: Annotated[
        str | None, typer.Option(help="See `moor instance-types`.", show_default="by --gpus, -m and --cpus")
    ] = None,
    health_path: Annotated[
        str | None, typer.Option(help="Path that answers 200 once it is ready, e.g. /health.")
    ] = None,
    api_path: Annotated[
        str | None,
        typer.Option(
            help="The path that its server serves: /api/v1, or /v1 as vLLM does.", show_default="/api/v1"
        ),
    ] = None,
    as_proposed: Annotated[
        bool,
        typer.Option(
            "--as-proposed", help="Use the settings known for its image: API path, port, health path."
        ),
    ] = False,
    cache: Annotated[
        int | None,
        typer.Option(metavar="GIB", help="Space on its machines for weights, instead of a volume."),
    ] = None,
    username: Annotated[str | None, typer.Option(help="The user name at a private registry.")] = None,
    password_file: Annotated[
        Path | None, typer.Option(help="File with the registry's password; - is stdin.")
    ] = None,
) -> None:
    """Deploy an image with the options of `docker run`, and wait until its endpoint answers. An option without a
    meaning here is reported."""
    options = DeployOptions(
        name=name,
        username=username,
        password_file=password_file,
        instance_type=instance_type,
        health_path=health_path,
        api_path=api_path,
        cache_gib=cache,
        as_proposed=as_proposed,
    )
    port = _port(publish or [], expose or [], findings)
    health: Record = {}
    if health_cmd is not None:
        health = _health_check(health_cmd, port, findings)
    if health_start_period is not None:
        health["timeout_s"] = ready_within_s(
            health_start_period, None, USUAL_RETRIES, "--health-start-period"
        )
    body: Record = {
        "image": image,
        "name": name or name_of_image(image),
        "health_check": health,
        "port": port,
    }
    variables: dict[str, str] = {}
    for path in env_file or ():
        variables |= raw_variables_of(read_text(path), str(path), session.environment)
    variables.update(environment_option(text, session.environment) for text in env or ())
    body["env"] = variables
    sizes = Sizes(
        gpus=_gpus(gpus, findings),
        vcpu_millis=vcpu_millis_of(cpus, "--cpus") if cpus is not None else 0,
        memory_bytes=bytes_of(memory, "--memory") if memory is not None else 0,
    )
    findings.check("This", "Run it again without these options.")
    asked = Asked(
        "`moor run`",
        {key: value for key, value in body.items() if value not in (None, {})},
        _program(entrypoint, tuple(arguments or ())),
        sizes,
        tuple(dict.fromkeys(findings.notes)),
    )
    finish(session, deploy_asked(session, asked, options), any_example, wait=not detach)


def _program(entrypoint: str | None, arguments: tuple[str, ...]) -> Program:
    if entrypoint is None:
        return Program(None, arguments or None)
    if not entrypoint and not arguments:
        raise UsageError(
            "--entrypoint '' removes the image's entry point. Name the command to start after the image."
        )
    return Program((entrypoint,) if entrypoint else (), arguments)


def _port(publish: list[str], expose: list[str], findings: Findings) -> int | None:
    ports = []
    for text in publish:
        inside, said = published(text, "-p")
        findings.note(f"-p {text}", said)
        ports.append(inside)
    return single(ports or [published(text, "--expose")[0] for text in expose], "moor run", "a single -p")


def _health_check(command_text: str, port: int | None, findings: Findings) -> Record:
    http = of_command(command_text)
    if http is None:
        findings.note("--health-cmd", NO_HTTP)
        return {}
    if port is not None and http.port != port:
        findings.note("--health-cmd", f"It asks port {http.port}. {NO_HTTP}")
        return {}
    return {"path": http.path}


def _gpus(text: str | None, findings: Findings) -> int:
    if text is None:
        return 0
    count, said = gpus_of(text)
    findings.note(f"--gpus {text}", said)
    return count
