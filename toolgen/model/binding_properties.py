"""Properties of bindings for other packages, independent of the kind of system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec

from toolgen.model.schema import JsonObject, Schema

if TYPE_CHECKING:
    from toolgen.model.graphql_schema import Graph

__all__ = ["BindingProperties"]

B = TypeVar("B", bound="BindingProperties")


class BindingProperties(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all bindings. The default of a property is right for kinds of systems without it."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """URLs that calls go to."""
        return ()

    inspected_as: ClassVar[Literal["request", "statement", "document", "schema"]] = "request"
    """Inspected part of a call: its destination, a statement or a document of the caller, or the part of a schema it may show."""

    @property
    def destination(self) -> str | None:
        """URL that the egress rules judge before a call; None if a call sends no request."""
        return next(iter(self.addresses), None)

    @property
    def request_line(self) -> str:
        """Method and URL of a request as the description has it; "" for other calls."""
        return ""

    @property
    def help_url(self) -> str | msgspec.UnsetType:
        """Documentation of the operation."""
        return msgspec.UNSET

    @property
    def key_form(self) -> str:
        """Form of the idempotency key in a request: `uuid`, or any text."""
        return ""

    @property
    def own_operation(self) -> str:
        """Name of the called operation in the system behind the tool."""
        return ""

    @property
    def own_names(self) -> Mapping[str, str]:
        """Own name of each argument that is listed under another."""
        names = getattr(self, "arguments", msgspec.UNSET)
        return {} if names is msgspec.UNSET else names

    def renamed(self: B, names: Mapping[str, str]) -> B | None:
        """Return the binding with the listed names of arguments; None if the gateway itself names all its arguments."""
        if "arguments" not in self.__struct_fields__:
            return None
        parts: dict[str, Any] = {"arguments": {listed: own for own, listed in names.items()}}
        return msgspec.structs.replace(self, **parts, **self._renamed_parts(names))

    def _renamed_parts(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return the fields that name arguments, with the listed names."""
        return {}

    @property
    def code_argument(self) -> str:
        """Argument that holds code of the caller; "" without one."""
        return ""

    @property
    def cursor_argument(self) -> str:
        """Argument that takes the cursor of the next items; "" without one."""
        return ""

    @property
    def stored_document(self) -> str:
        """Text of the sent operation, in the language of the system; "" for none."""
        return ""

    @property
    def keeps_values(self) -> bool:
        """True if values reach the system unchanged, and are not converted to text of a request."""
        return False

    @property
    def answers_lists(self) -> bool:
        """True if an answer may be a list of a known form."""
        return False

    @property
    def takes_code(self) -> bool:
        """True if the caller writes a program that calls other tools."""
        return False

    @property
    def reading_tool(self) -> str:
        """Name of the tool whose call is the read of a resource; "" for any other read."""
        return ""

    def reading_arguments(self, variables: JsonObject, schema: Schema) -> JsonObject:
        """Return the arguments of that call, of these variables of the URI, under the input schema of the tool."""
        return variables

    @property
    def makes_calls(self) -> bool:
        """True if a call makes calls of other tools."""
        return False

    @property
    def answers_files(self) -> bool:
        """True if an answer may contain bytes, according to the description."""
        return False

    @property
    def sends_files(self) -> bool:
        """True if file arguments are sent as files."""
        return False

    @property
    def is_query(self) -> bool:
        """True if the language of the system says that the call only reads."""
        return False

    @property
    def module(self) -> str:
        """Python module whose functions are called; "" without one."""
        return ""

    @property
    def converses(self) -> bool:
        """True if a running call can ask its caller questions."""
        return False

    @property
    def reports_progress(self) -> bool:
        """True if the system may report the progress of a read, or send log messages meanwhile."""
        return False

    def answer_type(self, graph: Graph) -> str:
        """Return the type of a schema that fields are chosen from; "" for none."""
        return ""

    def listed_schema(self, schema: Schema) -> Schema:
        """Return the input schema with the limits of the gateway."""
        return schema

    @property
    def whole(self) -> str:
        """Digest of an input schema that is stored in parts; "" for a schema of its own."""
        return ""

    def with_other_schema(self: B) -> B:
        """Return the binding for a tool whose input schema is not the stored one."""
        return self

    @property
    def result_schema(self) -> Mapping[str, Any] | None:
        """Schema of what a caller's device answers; None without one."""
        return None
