"""What the source of functions says: which errors are made, permissions asked for and statuses set in them, and in whatever
they call.

Names are looked up as Python does: functions of modules, and methods where an annotation says of which class. An error that a
caller catches and does not raise again is not counted. What depends on a row or a setting is: this says what can happen.
"""

import ast
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import EnumType
from functools import cache, partial
from typing import Any

from moorage.containers.states import Reason
from moorage.entrypoints.errors import status_of
from moorage.identity.providers.base import Provider
from moorage.identity.providers.github import GitHubProvider
from moorage.identity.providers.oidc import OpenIdProvider
from moorage.kit.clock import Clock
from moorage.kit.errors import ConflictError, ModelError, MoorageError
from moorage.machines.states import Refusal as MachineRefusal
from moorage.models.facts import NotUsableError
from moorage.organizations.caps import Cap
from moorage.organizations.permissions import Permission

_BECOMES: dict[type, type[MoorageError]] = {NotUsableError: ModelError, MachineRefusal: ConflictError}
"""What carries a code, as its first argument, to where it becomes an error."""

_CODES_OF_DATA: dict[str, tuple[str, ...]] = {
    "moorage.containers.access.refuse_start": (Reason.START_LIMIT,),
    "moorage.containers.admission.refuse_spent_allowance": (Reason.START_LIMIT,),
    "moorage.containers.versions.update._refuse_other_paths": ("rolling_not_possible", "canary_not_possible"),
    "moorage.billing.top_ups.service._pending": ("transfer_confirmed", "transfer_expired"),
    "moorage.billing.payouts.service._locked": ("payout_confirmed", "payout_refused"),
    # Found where they are named, or where what carries them is made.
    "moorage.organizations.caps.refuse_beyond": (),
    "moorage.models.choosing.choose": (),
    "moorage.models.hub_words.HubWords.unusable": (),
    "moorage.machines.service.say": (),
}
"""A function whose error has a `code` that no reader of its source can know, and which there are."""

_IMPLEMENTED_BY: dict[type, tuple[type, ...]] = {
    Clock: (),  # It refuses nobody.
    Provider: (GitHubProvider, OpenIdProvider),
}
"""The classes behind a protocol that routes use."""

_NEVER = {
    # They add money, so none can be missing.
    "moorage.billing.top_ups.service.confirm_transfer": ("insufficient_credit",),
    "moorage.billing.top_ups.service.give_credit": ("insufficient_credit",),
    "moorage.ledger.initial_credit_repository._give": ("insufficient_credit",),
    # Out of what was earned, which may fall below zero.
    "moorage.billing.payouts.service.confirm_payout": ("insufficient_credit",),
    # The operator's own, which nobody lends.
    "moorage.machines.endpoints.add_machine": (
        "community_machines_closed",
        "machine_banned",
        "too_many_machines",
        "too_many_machines_removed",
    ),
}
"""What a function cannot meet of what it calls, for a reason that its source does not show."""


@dataclass
class Findings:
    errors: set[tuple[type[MoorageError], str]] = field(default_factory=set)
    """That are made, each with its code."""
    permissions: set[Permission] = field(default_factory=set)
    """That are named, by those who ask for them."""
    statuses: set[int] = field(default_factory=set)
    """That an answer is given instead of its route's own."""

    def add(self, others: "Findings") -> None:
        self.errors |= others.errors
        self.permissions |= others.permissions
        self.statuses |= others.statuses


def findings_in(*functions: Callable[..., Any]) -> Findings:
    found = Findings()
    for function in functions:
        found.add(_found_in(function))
    return found


_known: dict[types.FunctionType, Findings] = {}


def _found_in(function: object) -> Findings:
    if not isinstance(function, types.FunctionType) or not _is_written_here(function):
        return Findings()
    if function not in _known:
        _known[function] = Findings()  # For a function that comes back to itself.
        found = _read(function).found
        never = _NEVER.get(f"{function.__module__}.{function.__qualname__}", ())
        found.errors = {(kind, code) for kind, code in found.errors if code not in never}
        _known[function] = found
    return _known[function]


def _read(function: types.FunctionType) -> "_Reader":
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    reader = _Reader(function)
    for statement in getattr(definition, "body", ()):
        reader.visit(statement)
    return reader


@cache
def _attributes(of: type | None) -> dict[str, type | None]:
    """As they are declared, or as the initializer assigns them."""
    initializer = None if of is None else of.__dict__.get("__init__")
    assigned: dict[str, type | None] = {}
    if isinstance(initializer, types.FunctionType) and _is_written_here(initializer):
        assigned = _read(initializer).attributes
    return {**assigned, **{name: _class_of(hint) for name, hint in _hints(of).items()}}


def _is_written_here(function: types.FunctionType) -> bool:
    # A dataclass's initializer has no source, and a lambda holds no statement.
    has_source = function.__code__.co_filename[0] != "<" and function.__name__ != "<lambda>"
    return has_source and function.__module__.startswith("moorage.")


class _Reader(ast.NodeVisitor):
    """Reads one function's body and collects the errors that are made in it or in what it names."""

    def __init__(self, function: types.FunctionType) -> None:
        self.found = Findings()
        self.attributes: dict[str, type | None] = {}
        """Of `self`, as far as this function assigns them."""
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        self._types = {name: _class_of(hint) for name, hint in _hints(function).items() if name != "return"}
        if function.__code__.co_varnames[:1] == ("self",):
            self._types["self"] = _owner(function)

    def visit_Call(self, call: ast.Call) -> None:
        called = self._value(call.func)
        if isinstance(called, type) and issubclass(called, MoorageError):
            # What a client is told nothing of is caught on the way, or answered as a bug.
            if status_of(called) is not None:
                self.found.errors |= {(called, code) for code in self._codes(called, call)}
        elif isinstance(called, type) and called in _BECOMES:
            self.found.errors |= {(_BECOMES[called], code) for code in self._codes_in(call.args[0])}
        else:
            self.visit(call.func)
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            self.visit(argument)

    def visit_Name(self, name: ast.Name) -> None:
        self._use(self._value(name))

    def visit_Attribute(self, attribute: ast.Attribute) -> None:
        value = self._value(attribute)
        if value is None:
            self.visit(attribute.value)
        self._use(value)
        owner = self._type(attribute.value)
        if isinstance(value, types.FunctionType) and getattr(owner, "_is_protocol", False):
            assert owner is not None, "whose attribute it is"
            for implementation in _implementations(owner):
                self._use(inspect.getattr_static(implementation, attribute.attr, None))

    def visit_Assign(self, assignment: ast.Assign) -> None:
        self.generic_visit(assignment)
        for target in assignment.targets:
            if isinstance(target, ast.Name):
                self._types[target.id] = self._type(assignment.value)
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                self.attributes[target.attr] = self._type(assignment.value)
            if isinstance(target, ast.Attribute) and target.attr == "status_code":
                values = (node.value for node in ast.walk(assignment.value) if isinstance(node, ast.Constant))
                self.found.statuses |= {value for value in values if isinstance(value, int)}

    def visit_AnnAssign(self, assignment: ast.AnnAssign) -> None:
        if assignment.value is not None:
            self.visit(assignment.value)
        if isinstance(assignment.target, ast.Name):
            self._types[assignment.target.id] = _class_of(self._value(assignment.annotation))

    def visit_FunctionDef(self, inner: ast.FunctionDef) -> None:
        for statement in inner.body:
            self.visit(statement)

    def visit_AsyncFunctionDef(self, inner: ast.AsyncFunctionDef) -> None:
        for statement in inner.body:
            self.visit(statement)

    def visit_Try(self, attempt: ast.Try) -> None:
        outside, self.found = self.found, Findings()
        for statement in attempt.body:
            self.visit(statement)
        inside, self.found = self.found, outside
        for handler in attempt.handlers:
            if not _raises_again(handler):
                caught = self._caught(handler)
                inside.errors = {(kind, code) for kind, code in inside.errors if not issubclass(kind, caught)}
            self.generic_visit(handler)
        self.found.add(inside)
        for statement in (*attempt.orelse, *attempt.finalbody):
            self.visit(statement)

    def _codes(self, kind: type[MoorageError], call: ast.Call) -> tuple[str, ...]:
        given = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
        return (kind.code,) if given is None else self._codes_in(given)

    def _codes_in(self, expression: ast.expr) -> tuple[str, ...]:
        value = expression.value if isinstance(expression, ast.Constant) else self._value(expression)
        if isinstance(value, str):
            return (value,)
        if self._name not in _CODES_OF_DATA:
            raise ValueError(
                f"{self._name}: which codes can `{ast.unparse(expression)}` be? Say so in _CODES_OF_DATA."
            )
        return _CODES_OF_DATA[self._name]

    def _use(self, value: object) -> None:
        """Whatever is named may be called, here or by whoever it is handed to."""
        if isinstance(value, Cap):
            self.found.errors.add((ConflictError, value.code))
        if isinstance(value, Permission):
            self.found.permissions.add(value)
        if isinstance(value, partial):
            value = value.func
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, type):
            value = value.__dict__.get("__init__")
        self.found.add(_found_in(inspect.unwrap(value) if callable(value) else value))

    def _value(self, expression: ast.expr) -> Any:
        """What a name stands for; None where only a run could tell."""
        if isinstance(expression, ast.Name):
            return None if expression.id in self._types else self._names.get(expression.id)
        if isinstance(expression, ast.Attribute):
            owner = self._value(expression.value)
            if owner is None:
                owner = self._type(expression.value)
            if isinstance(owner, EnumType):
                return owner.__members__.get(expression.attr)
            if isinstance(owner, types.ModuleType | type):
                return inspect.getattr_static(owner, expression.attr, None)
        return None

    def _type(self, expression: ast.expr) -> type | None:
        if isinstance(expression, ast.Await):
            return self._type(expression.value)
        if isinstance(expression, ast.Name):
            return self._types.get(expression.id)
        if isinstance(expression, ast.Call):
            called = self._value(expression.func)
            return called if isinstance(called, type) else _class_of(_hints(called).get("return"))
        if isinstance(expression, ast.Attribute):
            return _attributes(self._type(expression.value)).get(expression.attr)
        return None

    def _caught(self, handler: ast.ExceptHandler) -> tuple[type, ...]:
        if handler.type is None:
            return (Exception,)
        named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        return tuple(kind for kind in map(self._value, named) if isinstance(kind, type))


def _implementations(protocol: type) -> tuple[type, ...]:
    if protocol not in _IMPLEMENTED_BY and protocol.__module__.startswith("moorage."):
        raise ValueError(f"Which classes are a {protocol.__qualname__}? Say so in _IMPLEMENTED_BY.")
    return _IMPLEMENTED_BY.get(protocol, ())


def _raises_again(handler: ast.ExceptHandler) -> bool:
    raised = [node.exc for node in ast.walk(handler) if isinstance(node, ast.Raise)]
    return any(one is None or (isinstance(one, ast.Name) and one.id == handler.name) for one in raised)


def _hints(of: object) -> dict[str, Any]:
    try:
        return typing.get_type_hints(of) if isinstance(of, types.FunctionType | type) else {}
    except NameError:
        return {}  # Of something that is imported for the checker alone.


def _class_of(hint: Any) -> type | None:
    """The class that an annotation speaks of, if it is one: `X`, `X | None`, `Annotated[X, …]`."""
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        return hint
    named = [one for one in typing.get_args(hint) if one is not types.NoneType]
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return _class_of(named[0]) if len(named) == 1 else None
    if typing.get_origin(hint) is typing.Annotated:
        return _class_of(named[0])
    return None


def _owner(method: types.FunctionType) -> type | None:
    found: Any = sys.modules[method.__module__]
    for name in method.__qualname__.split(".")[:-1]:
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None
