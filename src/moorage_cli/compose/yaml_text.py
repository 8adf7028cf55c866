"""YAML as compose reads it: version 1.2, in which `22:22`, `yes` and `on` are texts. Nothing may stand there twice."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from moorage_cli.errors import UsageError

_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as the base has it

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            # What is merged in may well be said again.
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} appears twice", key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


def _is(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(tag, re.compile(pattern), list(first))


# Numbers with a point or a leading zero stay as they are written: they are versions and modes more often than amounts.
_is("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_is("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
_is("tag:yaml.org,2002:int", r"^-?(?:0|[1-9][0-9]*)$", "-0123456789")
_is(_MERGE, r"^<<$", "<")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])


def mapping_of(text: str, where: str) -> dict[str, Any]:
    try:
        # Safe: it is a subclass of the SafeLoader.
        value = yaml.load(text, _Loader)  # noqa: S506
    except yaml.MarkedYAMLError as exc:
        at = f", line {exc.problem_mark.line + 1}" if exc.problem_mark else ""
        raise UsageError(f"{where}{at} cannot be read: {exc.problem}.") from exc
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise UsageError(f"{where} cannot be read: {str(exc).partition(chr(10))[0]}.") from exc
    if not isinstance(value, dict):
        raise UsageError(f"{where} is not a compose file: it has no services.")
    return value
