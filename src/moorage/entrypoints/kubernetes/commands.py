"""`moor kubernetes`: what an operator applies to a cluster, and what the cluster lacks."""

import asyncio
import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from moorage.entrypoints.kubernetes.chart import chart_files
from moorage.entrypoints.kubernetes.installation import installation_objects
from moorage.entrypoints.kubernetes.tree import Given, resolved
from moorage.entrypoints.kubernetes.values import checked
from moorage.kit.errors import SettingsError
from moorage.kit.settings import load_settings

EXIT_LACKING = 1
app = typer.Typer(help="Moorage in a cluster.", no_args_is_help=True)


@app.command()
def values() -> None:
    """Print every value with its default, as a file to edit."""
    typer.echo(chart_files()["values.yaml"], nl=False)


@app.command()
def manifests(
    file: Annotated[
        Path | None,
        typer.Option("--values", "-f", help="A YAML file of values, as for the chart.", exists=True),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Of Moorage's own Pods.")] = "moorage",
    name: Annotated[str, typer.Option(help="The name of the release, as in Helm.")] = "moorage",
) -> None:
    """Print the objects that the chart would create, for kubectl apply."""
    given = _read(file) if file is not None else {}
    for body in objects_for(given, namespace, name):
        typer.echo("---")
        typer.echo(yaml.safe_dump(body, sort_keys=False, width=1000), nl=False)


@app.command()
def check(
    kubeconfig: Annotated[
        str | None, typer.Option(help="Path of a kubeconfig. Default: MOORAGE_KUBERNETES.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="The namespace of Moorage's own Pods. Default: this one's, or moorage.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Say what a cluster lacks for Moorage and how to fix it."""
    from moorage.entrypoints.kubernetes.check import look_at_cluster

    settings = load_settings()
    where = kubeconfig or settings.kubernetes
    if where is None:
        raise SettingsError("Name a kubeconfig with --kubeconfig, or set MOORAGE_KUBERNETES.")
    own = (settings.kubernetes_account or "moorage/").partition("/")[0]
    findings = asyncio.run(look_at_cluster(where, namespace or own, settings))
    if as_json:
        typer.echo(json.dumps([finding.shown() for finding in findings], indent=2))
    else:
        for finding in findings:
            typer.echo(finding.line())
    if any(finding.stops for finding in findings):
        raise typer.Exit(EXIT_LACKING)


def objects_for(given: dict[str, Any], namespace: str, release: str) -> list[dict[str, Any]]:
    source = Given(checked(given), release, namespace, version("moorage"))
    return [resolved(body) for bodies in installation_objects(source).values() for body in bodies]


def _read(file: Path) -> dict[str, Any]:
    try:
        given = yaml.safe_load(file.read_text()) or {}
    except (OSError, yaml.YAMLError) as exc:
        raise SettingsError(f"{file} cannot be read: {exc}") from exc
    if not isinstance(given, dict):
        raise SettingsError(f"{file} must hold a mapping of values.")
    return given
