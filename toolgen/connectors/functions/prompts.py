"""Python functions as prompts, resources and completers: the marks that make them, and their answers as JSON."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar, get_args, get_origin, overload

from msgspec import Struct

from toolgen.connectors.functions.context import ToolContext
from toolgen.connectors.functions.decorator import Audio, EmbeddedResource, Image, ToolMark
from toolgen.connectors.functions.docstrings import documented
from toolgen.connectors.functions.signature import Broken, FunctionTool, imported, offer_of
from toolgen.model.context import PromptArgument
from toolgen.model.tool import FunctionBinding
from toolgen.model.uri_template import canonical_uri, parse_template

__all__ = [
    "ContextFunction",
    "Message",
    "PromptMark",
    "ResourceMark",
    "completes",
    "load_context",
    "load_context_offers",
    "prompt",
    "resource",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Content = str | Image | Audio | EmbeddedResource
_MARK = "__toolgen_context__"
_COMPLETES = "__toolgen_completes__"
_MAX_COMPLETED_S = 10.0
_DEFAULT_TIMEOUT_S = 30.0
_MAX_VALUES = 100


class Message:
    """Message of a prompt, by the user or by the assistant."""

    __slots__ = ("content", "role")

    def __init__(self, content: Content, role: Literal["user", "assistant"] = "user") -> None:
        if role not in {"user", "assistant"}:
            raise ValueError(f"role: {role!r} is neither user nor assistant")
        self.content = content
        self.role = role

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: `role` and `content`."""
        content = self.content
        return {"role": self.role, "content": content if isinstance(content, str) else content.to_json()}


class PromptMark(Struct, frozen=True, kw_only=True):
    """Options of `@prompt`."""

    name: str = ""
    title: str = ""
    description: str = ""
    timeout_s: float = _DEFAULT_TIMEOUT_S


class ResourceMark(Struct, frozen=True, kw_only=True):
    """Options of `@resource`."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    media_type: str = ""
    timeout_s: float = _DEFAULT_TIMEOUT_S


class _Completes(Struct, frozen=True, kw_only=True):
    """Function and argument of a completer."""

    function: str
    argument: str


class ContextFunction(Struct, frozen=True, kw_only=True):
    """Function of a prompt or resource, with its arguments; `offer` runs it."""

    mark: PromptMark | ResourceMark
    offer: FunctionTool
    arguments: tuple[PromptArgument, ...]


@overload
def prompt(function: Function, /) -> Function: ...


@overload
def prompt(
    *, name: str = "", title: str = "", description: str = "", timeout: float = _DEFAULT_TIMEOUT_S
) -> Callable[[Function], Function]: ...


def prompt(function: Any = None, /, *, timeout: float = _DEFAULT_TIMEOUT_S, **said: Any) -> Any:
    """Mark a function as a prompt. It answers with a text, a picture, a `Message`, or a list of them, made from arguments that are texts.

    Raises `ValueError` for an invalid option.
    """
    mark = PromptMark(**said, timeout_s=_checked_timeout(timeout))
    return _put(_MARK, mark) if function is None else _put(_MARK, mark)(function)


def resource(
    uri: str,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    media_type: str = "",
    timeout: float = _DEFAULT_TIMEOUT_S,
) -> Callable[[Function], Function]:
    """Mark a function as a resource, or as a template of resources if the URI has variables, which are its arguments:
    `@toolgen.resource("shop://orders/{id}")`. It answers with a text, bytes, or anything that is JSON.

    Raises `ValueError` for an invalid option.
    """
    parse_template(uri)
    if "{" not in uri:
        canonical = canonical_uri(uri)
        if canonical != uri:
            raise ValueError(f"uri: write {uri!r} as {canonical!r}")
    mark = ResourceMark(
        uri=uri,
        name=name,
        title=title,
        description=description,
        media_type=media_type,
        timeout_s=_checked_timeout(timeout),
    )
    return _put(_MARK, mark)


def completes(function: Callable[..., Any], argument: str) -> Callable[[Function], Function]:
    """Mark a function that proposes values of an argument of a prompt or template: `@toolgen.completes(summarise, "ticket")`.

    It takes the text typed so far, and the other arguments if it has a second parameter, and answers with a list of texts. Raises
    `ValueError` if the function has no such argument.
    """
    if argument not in inspect.signature(function).parameters:
        raise ValueError(f"argument: {function.__name__} has no {argument!r}")
    return _put(_COMPLETES, _Completes(function=function.__name__, argument=argument))


def _put(name: str, mark: object) -> Callable[[Any], Any]:
    def marked(function: Any) -> Any:
        setattr(function, name, mark)
        return function

    return marked


def _checked_timeout(seconds: float) -> float:
    if not 0 < seconds <= 3600:
        raise ValueError("timeout: takes seconds, up to an hour")
    return seconds


def load_context(module: str, root: str) -> tuple[Mapping[str, ContextFunction | Broken], Mapping[str, FunctionTool]]:
    """Return the functions of a module that are prompts and resources, and the completers, by the function's name.

    Imports the module, which is the project's own code. Raises `DescriptionError`.
    """
    own = {
        name: function
        for name, function in vars(imported(module, root)).items()
        if getattr(function, "__module__", "") == module and inspect.isfunction(function)
    }
    completers: dict[tuple[str, str], FunctionTool] = {}
    for name, function in own.items():
        about = getattr(function, _COMPLETES, None)
        if isinstance(about, _Completes):
            completers[about.function, about.argument] = _completer(name, function)
    found: dict[str, ContextFunction | Broken] = {}
    for name, function in own.items():
        mark = getattr(function, _MARK, None)
        if isinstance(mark, PromptMark | ResourceMark):
            found[name] = _context_function(name, function, mark, completers, module)
    return found, {one.name: one for one in completers.values()}


def _context_function(
    name: str,
    function: Callable[..., Any],
    mark: PromptMark | ResourceMark,
    completers: Mapping[tuple[str, str], FunctionTool],
    module: str,
) -> ContextFunction | Broken:
    said = ToolMark(effect="read", title=mark.title, description=mark.description, timeout_s=mark.timeout_s)
    offer = offer_of(name, function, said, parts=True)
    if isinstance(offer, Broken):
        return offer
    try:
        arguments = tuple(_arguments(name, function, completers, module))
        if isinstance(mark, ResourceMark):
            _check_variables(mark.uri, [one.name for one in arguments])
    except (TypeError, ValueError) as error:
        return Broken(name=name, reason=str(error), line=offer.line)
    shaped = _messages if isinstance(mark, PromptMark) else functools.partial(_contents, mark.media_type)
    return ContextFunction(mark=mark, offer=_wrapped(offer, shaped), arguments=arguments)


def _check_variables(uri: str, arguments: Sequence[str]) -> None:
    variables = parse_template(uri).variables
    if "uri" in variables:
        raise ValueError("uri is not allowed as a variable, because the record uses that name for the complete URI")
    if missing := set(variables) - set(arguments):
        raise ValueError(f"its URI has {{{min(missing)}}}, and the function has no such parameter")
    if more := set(arguments) - set(variables):
        raise ValueError(f"its parameter {min(more)} is not a variable of its URI")


def _arguments(
    name: str, function: Callable[..., Any], completers: Mapping[tuple[str, str], FunctionTool], module: str
) -> typing.Iterator[PromptArgument]:
    hints = typing.get_type_hints(function)
    told = documented(inspect.getdoc(function) or "")[1]
    for given in inspect.signature(function).parameters.values():
        hint = hints.get(given.name)
        if hint is ToolContext:
            continue
        values = _values(given.name, hint)
        completer = completers.get((name, given.name))
        yield PromptArgument(
            name=given.name,
            description=told.get(given.name, ""),
            required=given.default is given.empty,
            values=values,
            completer=None
            if completer is None
            else FunctionBinding(
                module=module, function=completer.name, code=completer.code, converses=bool(completer.context)
            ),
        )


def _values(name: str, hint: Any) -> tuple[str, ...]:
    """Return the possible texts of an argument; () for any. Raises `TypeError` for a type other than text."""
    if hint is str:
        return ()
    if get_origin(hint) is Literal and all(isinstance(one, str) for one in get_args(hint)):
        return get_args(hint)
    raise TypeError(f"{name}: arguments of prompts and resources are texts: str, or Literal of texts")


def _wrapped(offer: FunctionTool, shaped: Callable[[Any], Any]) -> FunctionTool:
    """Return the offer with its answers in the form of a prompt or resource."""
    function = offer.function
    made: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def made_later(**arguments: Any) -> Any:
            return shaped(await function(**arguments))

        made = made_later
    else:

        @functools.wraps(function)
        def made_now(**arguments: Any) -> Any:
            return shaped(function(**arguments))

        made = made_now
    fields = {name: getattr(offer, name) for name in offer.__struct_fields__}
    return FunctionTool(**{**fields, "function": made})


def _messages(answer: Any) -> dict[str, Any]:
    """Return `{"messages": [{"role", "content"}]}` for the answer of a prompt's function."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    return {"messages": [(part if isinstance(part, Message) else Message(_content(part))).to_json() for part in parts]}


def _content(part: Any) -> Content:
    if isinstance(part, str | Image | Audio | EmbeddedResource):
        return part
    raise TypeError(
        f"a prompt answers with texts, pictures, recordings, documents and messages, not {type(part).__name__}"
    )


def _contents(media_type: str, answer: Any) -> Any:
    """Return the JSON of a resource: a text, a document, a file, or other JSON."""
    if isinstance(answer, bytes | bytearray):
        return Image(bytes(answer), media_type or "application/octet-stream").to_json()
    if isinstance(answer, Image | Audio | EmbeddedResource):
        return answer.to_json()
    return answer


def _completer(name: str, function: Callable[..., Any]) -> FunctionTool:
    """Return the function with the parameters `value` and `context`."""
    parameters = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if typing.get_type_hints(function).get(one.name) is not ToolContext
    ]
    offer = offer_of(name, function, ToolMark(effect="read", timeout_s=_MAX_COMPLETED_S), parts=True)
    if isinstance(offer, Broken):
        raise TypeError(offer.reason)

    def asked(value: str, context: Mapping[str, str] | None) -> dict[str, Any]:
        return dict(zip(parameters, (value, dict(context or {})), strict=False))

    called = offer.function
    made: Callable[..., Any]
    if inspect.iscoroutinefunction(called):

        async def later(value: str, context: Mapping[str, str] | None = None, **others: Any) -> Any:
            return _proposed(await called(**asked(value, context), **others))

        made = later
    else:

        def now(value: str, context: Mapping[str, str] | None = None, **others: Any) -> Any:
            return _proposed(called(**asked(value, context), **others))

        made = now
    fields = {one: getattr(offer, one) for one in offer.__struct_fields__}
    return FunctionTool(**{**fields, "function": made, "struct": None})


def _proposed(answer: Any) -> dict[str, Any]:
    values = [str(one) for one in answer]
    return {"values": [*islice(values, _MAX_VALUES)], "total": len(values), "has_more": len(values) > _MAX_VALUES}


def load_context_offers(module: str, root: str) -> Mapping[str, FunctionTool | Broken]:
    """Return the functions behind the prompts, resources and completers of a module, by the function's name. Raises `DescriptionError`."""
    functions, completers = load_context(module, root)
    offers = {name: one if isinstance(one, Broken) else one.offer for name, one in functions.items()}
    return {**offers, **completers}
