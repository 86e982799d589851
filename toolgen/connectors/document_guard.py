"""Guard of documents that callers write in a language of their own, as the connector of such a language brings it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from toolgen.model.call import Call, Principal
from toolgen.model.graphql_schema import Graph
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Deny, Verdict

__all__ = ["ArgumentValidator", "DocumentGuard", "DocumentRules"]


class ArgumentValidator(Protocol):
    """Validator of the arguments of one tool."""

    def faults(self, arguments: JsonObject, most: int, /) -> Sequence[str]:
        """Return faults in words, at most so many."""
        ...


class DocumentRules(Struct, frozen=True, kw_only=True):
    """Rules of the policy that documents are judged by.

    `decide` returns the verdict on a root field as on a call of its tool, and adds to its last argument what the record should know.
    `visible` is True for tools that a principal may know of, `bound` for tools of which the gateway sets an argument: nothing can be set
    inside of a document. `redacted` is True if the policy hides something in a tool's answers, which an alias would show under another
    name. `strictest` combines verdicts.
    """

    decide: Callable[[Call, Tool, JsonObject, list[Any]], Verdict]
    visible: Callable[[Principal, Tool], bool]
    bound: Callable[[Principal, Tool], bool]
    redacted: Callable[[Tool], bool]
    strictest: Callable[[Iterable[Verdict]], Verdict]
    validator: Callable[[Tool], ArgumentValidator]


class DocumentGuard(Protocol):
    """Guard of the documents of one source.

    A protocol, because the guard belongs to the connector of GraphQL, which the pipeline must not import.
    """

    async def read(self, call: Call) -> Any:
        """Return a document that was held against the schema, for `judge`, or a refusal."""
        ...

    def judge(self, call: Call, checked: Any, notes: list[Any]) -> tuple[Call, Verdict] | Deny:
        """Return the call with a document that was read and the strictest verdict on the calls in it, or a refusal."""
        ...

    def check(self, call: Call, notes: list[Any]) -> tuple[Call, Verdict] | Deny:
        """Read and judge a document at once, for previews."""
        ...

    def part(self, call: Call) -> Graph:
        """Return the part of the schema that the caller may know of."""
        ...

    async def visible_graph(self, call: Call) -> Graph:
        """Return this part without blocking other calls."""
        ...
