"""Terms of a Pod's node affinity, as Kubernetes has them: what the API server takes, and what the scheduler makes of it. Pure."""

from collections.abc import Mapping
from typing import Any

_WHERE = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def wrong_term(term: Mapping[str, Any]) -> str | None:
    """Why the API server refuses it. Of a node's fields it knows one, with one value at a time."""
    for one in term.get("matchFields") or ():
        if one["key"] != "metadata.name":
            return f'{_WHERE}.matchFields.key: Invalid value: "{one["key"]}": not a valid field selector key'
        if one["operator"] not in ("In", "NotIn"):
            return f'{_WHERE}.matchFields.operator: Invalid value: "{one["operator"]}": not a valid selector operator'
        if len(one.get("values") or ()) != 1:
            return f"{_WHERE}.matchFields.values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
    return None


def node_matches(node: Mapping[str, Any], term: Mapping[str, Any]) -> bool:
    """All that it says holds; a term that says nothing is no node's."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    labels, name = node["metadata"].get("labels") or {}, {"metadata.name": node["metadata"]["name"]}
    return (
        bool(expressions or fields)
        and all(_holds(labels, one) for one in expressions)
        and all(_holds(name, one) for one in fields)
    )


def _holds(values: Mapping[str, str], requirement: Mapping[str, Any]) -> bool:
    value = values.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
    raise AssertionError(f"{requirement['operator']} is not used")
