"""Tool plan: decisions of a policy about the calls of one principal to one tool that are made before the pipeline.

Ordinary arguments are a flat object of plain values, each under a name that the tool lists. The gateway uses them unchanged: nothing is
repaired, renamed or dropped, and arguments that the policy binds are added. Any other call is prepared in the general way
(`call_preparation.py`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from toolgen.model.call import Call, Principal
from toolgen.model.names import META_TOOLS
from toolgen.model.result import Error
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallerConnection
from toolgen.pipeline.responses.answer_argument import may_have_options
from toolgen.policy.access import Access
from toolgen.policy.binding import BoundArguments

__all__ = ["OrdinaryArguments", "ToolPlan", "ToolPlans"]

_PLAIN = frozenset({int, bool})
_NUMBERS = frozenset({"integer", "number", "boolean"})
_SCALARS = _NUMBERS | {"string", "null"}
_SURROGATE = re.compile("[\ud800-\udfff]").search
_MAX_ARGUMENTS = 1_000
_MAX_PLANS = 20_000


class OrdinaryArguments:
    """Arguments of a tool whose plain values are used as they are sent: text where the schema declares text, numbers and booleans."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self, tool: Tool, bound: frozenset[str] = frozenset()) -> None:
        """Create the check; `bound` are the names of arguments that the gateway sets, which no caller sends."""
        properties = tool.input_schema.get("properties")
        declared = properties if isinstance(properties, Mapping) else {}
        texts, numbers = set[str](), set[str]()
        for name, schema in declared.items():
            if name in bound or not name.isascii() or name[:1] == "_" or may_have_options({name: None}):
                continue
            types = _plain_types(schema)
            if "string" in types and "contentMediaType" not in schema:
                texts.add(name)
            if not _NUMBERS.isdisjoint(types):
                numbers.add(name)
        self._texts, self._numbers = frozenset(texts), frozenset(numbers)

    def includes(self, arguments: object) -> bool:
        """Return True if these arguments are JSON, and `meant` would not change them."""
        if type(arguments) is not dict or len(arguments) > _MAX_ARGUMENTS:
            return False
        for name, value in arguments.items():
            if type(value) is str:
                if not value or name not in self._texts or not (value.isascii() or _SURROGATE(value) is None):
                    return False
            elif type(value) is float:
                if name not in self._numbers or value - value != 0:
                    return False
            elif type(value) not in _PLAIN or name not in self._numbers:
                return False
        return True


def _plain_types(schema: object) -> frozenset[str]:
    """Return the types of a scalar argument by its schema; none for any other."""
    declared = schema.get("type") if isinstance(schema, Mapping) else None
    types = frozenset(declared if isinstance(declared, list) else [declared])
    return types if types <= _SCALARS else frozenset()


class BoundValues:
    """Arguments of a tool that the policy binds, with their values for the principal that called last: they depend on nothing else.

    Each token of a principal gives another object, so that other claims have other values.
    """

    __slots__ = ("_access", "_found", "_principal", "_tool")

    def __init__(self, access: Access, tool: Tool) -> None:
        self._access, self._tool = access, tool
        self._principal: Principal | None = None
        self._found = BoundArguments(arguments={})

    def of(self, principal: Principal) -> BoundArguments:
        """Return the bound arguments of a principal's calls, or the denial of all of them."""
        if principal is not self._principal:
            self._found = self._access.bind(principal, self._tool, {})
            self._principal = principal
        return self._found


class ToolPlan(Struct, frozen=True, kw_only=True):
    """Plan for calls of a principal to a tool that it may see. `withheld` is the attribute of `Call`, and `bound` is None if no argument is
    bound."""

    tool: Tool
    ordinary: OrdinaryArguments
    withheld: Callable[[Call], Awaitable[Error | None]]
    bound: BoundValues | None = None

    def call(
        self,
        arguments: JsonObject,
        principal: Principal,
        session: str,
        client: str,
        caller_connection: CallerConnection,
    ) -> Call | None:
        """Return the call for the stages with ordinary arguments; None if an argument that the policy binds has no value."""
        names: tuple[str, ...] = ()
        if self.bound is not None:
            bound = self.bound.of(principal)
            if bound.denied is not None:
                return None
            arguments, names = {**arguments, **bound.arguments}, bound.names
        return Call(
            id=f"call_{secrets.token_hex(12)}",
            tool=self.tool,
            arguments={**arguments},
            bound=names,
            principal=principal,
            session=session,
            client=client,
            trace=caller_connection.trace,
            line=caller_connection.line or caller_connection,
            withheld=self.withheld,
        )


class ToolPlans:
    """Plans under one policy, by tool, principal and its roles. `tools` are those that may have a plan, and `under` marks the principals
    that this policy authenticated."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        access: Access,
        *,
        under: object,
        withheld: Callable[[Call], Awaitable[Error | None]],
    ) -> None:
        self._tools, self._access, self._under = tools, access, under
        self._withheld = withheld
        self._known: dict[tuple[str, str, frozenset[str]], ToolPlan] = {}
        self._ordinary: dict[tuple[str, frozenset[str]], OrdinaryArguments] = {}

    def of(self, principal: Principal, name: str) -> ToolPlan | None:
        """Return the plan for a principal's calls of a tool; None if each call is prepared in the general way.

        That is the case if the principal acts for another, has narrowed itself to toolsets, or was authenticated under another policy, and
        if the policy discloses the values of bound arguments to it. The object stays the same while the policy is in force.
        """
        if principal.under is not self._under or principal.on_behalf_of is not None or principal.toolsets:
            return None
        found = self._known.get((name, principal.id, principal.roles))
        return self._made(principal, name) if found is None else found

    def _made(self, principal: Principal, name: str) -> ToolPlan | None:
        tool, access = self._tools.get(name), self._access
        if tool is None or name in META_TOOLS or not access.visible(principal, tool):
            return None
        if access.told(principal):
            return None
        bound = frozenset(one.argument.partition(".")[0] for one in access.bound(principal, tool))
        if len(self._known) >= _MAX_PLANS:
            self._known.clear()
        ordinary = self._ordinary.get((tool.digest, bound))
        if ordinary is None:
            ordinary = self._ordinary[tool.digest, bound] = OrdinaryArguments(tool, bound)
        values = BoundValues(access, tool) if bound else None
        plan = ToolPlan(tool=tool, ordinary=ordinary, withheld=self._withheld, bound=values)
        self._known[name, principal.id, principal.roles] = plan
        return plan
