"""CEL expressions of a policy: compiled and checked when it is loaded, evaluated in bounded time and memory.

Google's C++ runtime evaluates them, and only this module uses it. It checks types, limits iterations (10,000 an evaluation) and matches
regular expressions in linear time. Values that it would read incorrectly never reach it: a NUL, for example, ends its strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from toolgen.core.errors import ConfigError, PolicyError
from toolgen.core.spelling import nearest
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.policy.cel.comparison import comparison_of
from toolgen.policy.cel.names import VARIABLES, CelScope, fault_of, numbers_excluded, probes
from toolgen.policy.cel.numbers import literal_fault
from toolgen.policy.cel.tree import Comprehension, Identifier, Node, Select, read_tree, walk
from toolgen.policy.cel.values import PlainCopier, Unevaluated, json_of, kind_word, reason_of

_INSTALLED = find_spec("cel_expr_python") is not None
if TYPE_CHECKING or _INSTALLED:
    from cel_expr_python import cel

__all__ = [
    "EVERYTHING",
    "ConditionVariables",
    "Expression",
    "History",
    "Reads",
    "Unevaluated",
    "compile_expression",
    "read_together",
]

_MAX_LENGTH = 4_000
_MAX_TEXT = 1_000_000
_MAX_ITERATED_TEXT = 16_384  # a comprehension may read every character for every value, so the two limits multiply
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_PLACE = re.compile(r"ERROR: <input>:\d+:(\d+): (.*)")
_SUFFIX = re.compile(r" ?\(in container ''\)| ?\[[A-Z_]+\]$")
_WANTED = {"bool": ("BOOL", "DYN"), "number": ("INT", "UINT", "DOUBLE", "DYN")}
T = TypeVar("T")
_MAX_KEPT = 4_096
_NONE_KNOWN: Mapping[str, Expression] = MappingProxyType({})


class Reads(NamedTuple):
    """Inputs that expressions read from a call: variables other than `args`, and the names of arguments (None for any argument)."""

    variables: frozenset[str]
    arguments: frozenset[str] | None


EVERYTHING = Reads(frozenset({"principal", "user", "tool", "now"}), None)


class History(Protocol):
    """Earlier calls, as expressions may ask about them. Each method raises `LookupError` when the answer was forgotten.

    `called` counts the calls that succeeded; `count` and `sum` also those that failed or are in flight, as they may have done something.

    A protocol, because the state implements it, which the policy must not import.
    """

    def labels(self) -> Sequence[str]: ...

    def called(self, tools: str) -> int: ...

    def count(self, tools: str) -> int: ...

    def sum(self, tools: str, argument: str) -> int | float: ...


class ConditionVariables(Struct, kw_only=True):
    """Variables of expressions for one principal of one call. Each variable is computed on first use.

    `now` is in seconds since the epoch. `session` has the calls of this principal in this session, `history` the calls of this principal
    in all sessions. `reads` covers every expression without a history that is evaluated with these variables.
    """

    principal: Principal
    tool: Tool
    arguments: JsonObject
    now: float
    session: History | None = None
    history: History | None = None
    reads: Reads = EVERYTHING
    _made: dict[str, object] = {}
    _shared: cel.Activation | None = None
    _apart: bool = False

    def shared(self) -> cel.Activation | None:
        """Return the call as all expressions without a history may read it, computed once; None if only some of them may read it."""
        if self._shared is None and not self._apart:
            try:
                data = {name: self.of(name) for name in self.reads.variables}
                data["args"] = self.given(self.reads.arguments, _MAX_ITERATED_TEXT)
                self._shared = _environment().Activation(data)
            except (Unevaluated, RuntimeError, TypeError, ValueError, OverflowError):
                self._apart = True
        return self._shared

    def reads_as_given(self, name: str) -> bool:
        """Return True if every expression that shares these variables can read this one: the runtime can represent all its values."""
        shared = self.shared()
        if shared is None:
            return False
        try:
            return _probe(name).eval(shared).value() is True
        except (RuntimeError, TypeError, ValueError, OverflowError):
            return False

    def of(self, name: str) -> object:
        """Return a variable other than `args`. Raises `Unevaluated`."""
        made = self._made.get(name)
        if made is None and name not in self._made:
            made = self._made[name] = self._make(name)
        return made

    def given(self, names: frozenset[str] | None, most_text: int) -> dict[str, object]:
        """Return the arguments with these names, or all of them for None. Raises `Unevaluated` if there are more than an expression may
        read."""
        plain, arguments = PlainCopier(most_text), self.arguments
        if names is None:
            return {plain.text(name): plain.value(value) for name, value in arguments.items()}
        return {name: plain.value(arguments[name]) for name in names if name in arguments}

    def _make(self, name: str) -> object:
        match name:
            case "principal":
                return _PARTIES.of(self.principal)
            case "user":
                user = self.principal.on_behalf_of
                return None if user is None else _PARTIES.of(user)
            case "tool":
                return _TOOLS.of(self.tool)
            case "now":
                return datetime.fromtimestamp(self.now, UTC)
            case "session" | "history":
                asked = _known(self.session if name == "session" else self.history)
                return {"of": name, "labels": _labels(asked)}
            case _:
                raise Unevaluated(f"there is no {name}")


class Expression:
    """Compiled expression, created by `compile_expression`."""

    __slots__ = (
        "_arguments",
        "_compiled",
        "_kind",
        "_most_text",
        "_tree",
        "_variables",
        "asks_history",
        "comparison",
        "excluded",
        "source",
    )

    def __init__(self, source: str, compiled: cel.Expression, tree: Node) -> None:
        self.excluded = tuple(numbers_excluded(tree))
        self.source = source
        self._compiled = compiled
        self._kind, self._tree = str(compiled.return_type().name()), tree
        names = {node.name for node in walk(tree) if isinstance(node, Identifier)} & VARIABLES.keys()
        self._variables = tuple(sorted(names - {"args"}))
        self._arguments = _arguments(tree) if "args" in names else frozenset()
        self.asks_history = bool(names & {"session", "history"})
        """True if the answer depends on earlier calls."""
        self.comparison = None if self.asks_history else comparison_of(tree)
        """Comparison with literals that must hold for the expression to be true."""
        iterates = any(isinstance(node, Comprehension) for node in walk(tree))
        self._most_text = _MAX_ITERATED_TEXT if iterates else _MAX_TEXT

    @property
    def variables(self) -> frozenset[str]:
        """Return the names of the variables that it uses."""
        return frozenset({*self._variables, *(() if self._arguments == frozenset() else ("args",))})

    def fault(self, scope: CelScope, wants: str = "") -> str | None:
        """Return the error if the result is not of the kind `wants`, or if a name is not in the scope; None if there is no error."""
        if wants and self._kind not in _WANTED[wants]:
            return f"'{_shown(self.source)}' is {self._kind.lower()}, not {wants}"
        fault = fault_of(self._tree, scope)
        return None if fault is None else f"'{_shown(self.source)}': {fault}"

    def reads(self) -> Reads:
        """Return the inputs that the expression reads, without its questions about history."""
        return Reads(frozenset(self._variables), self._arguments)

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    def holds(self, facts: ConditionVariables) -> bool:
        """Return the answer of a condition; only `true` is true. Raises `Unevaluated`."""
        if not self.asks_history and (shared := facts.shared()) is not None:
            quick = self._run(activation=shared)
            if quick is True or quick is False:
                return quick
        answer = self.evaluate(facts)
        if not isinstance(answer, bool):
            raise Unevaluated(f"{self.source} is {kind_word(answer)}, not true or false")
        return answer

    def _run(self, activation: cel.Activation) -> object:
        """Return the plain answer, or None if `evaluate` has to explain the error."""
        try:
            return self._compiled.eval(activation).value()
        except (RuntimeError, TypeError, ValueError, OverflowError):
            return None

    def number(self, facts: ConditionVariables) -> int | float:
        """Return the answer of a numeric expression. Raises `Unevaluated`; NaN and infinity are not numbers."""
        answer = self.evaluate(facts)
        if isinstance(answer, bool) or not isinstance(answer, (int, float)) or answer - answer != 0:
            raise Unevaluated(f"{self.source} is {kind_word(answer)}, not a number")
        return answer

    def evaluate(self, facts: ConditionVariables) -> Json:
        """Return the answer as JSON. Raises `Unevaluated` if there is no answer, for any reason."""
        data: dict[str, object] = {name: facts.of(name) for name in self._variables}
        if self._arguments is None or self._arguments:
            data["args"] = facts.given(self._arguments, self._most_text)
        asked = _Histories(facts) if self.asks_history else None
        previous = _ASKED.history
        _ASKED.history = asked
        try:
            answer = self._compiled.eval(data=data)
            if answer.type() == cel.Type.ERROR:
                raise Unevaluated(f"{self.source}: {reason_of(str(answer.value()))}")
            return json_of(answer.plain_value())
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise Unevaluated(f"{self.source}: {reason_of(str(error))}") from None
        finally:
            _ASKED.history = previous
            if asked is not None and asked.forgot is not None:
                raise asked.forgot


def compile_expression(
    source: str, scope: CelScope, *, where: str, wants: str = "", known: Mapping[str, Expression] = _NONE_KNOWN
) -> Expression:
    """Compile and check an expression; `wants` is `bool` or `number` if only that type is useful. An expression in `known` (by its text) is
    only checked.

    Raises `PolicyError` at `where` for an expression that does not parse, has the wrong type, or uses a name that does not exist in the
    scope.
    """
    found = known.get(source)
    if found is not None:
        if fault := found.fault(scope, wants):
            raise PolicyError(fault, where=where)
        return found
    if len(source) > _MAX_LENGTH:
        raise PolicyError(f"an expression has at most {_MAX_LENGTH} characters", where=where)
    if fault := literal_fault(source):
        raise PolicyError(f"'{_shown(source)}': {fault}", where=where)
    try:
        compiled = _environment().compile(source)
        tree = read_tree(compiled.serialize())
        made = Expression(source, compiled, tree)
    except (RuntimeError, TypeError, ValueError) as error:
        raise PolicyError(f"'{_shown(source)}': {_said(str(error))}", where=where) from None
    except RecursionError:
        raise PolicyError(f"'{_shown(source)}' is nested too deep", where=where) from None
    if fault := made.fault(scope, wants):
        raise PolicyError(fault, where=where)
    for probe, said in probes(tree):
        if not _answers(probe):
            raise PolicyError(f"'{_shown(source)}': {said}", where=where)
    return made


def _answers(probe: str) -> bool:
    try:
        return bool(_environment().compile(probe).eval(data={}).type() != cel.Type.ERROR)
    except (RuntimeError, TypeError, ValueError):
        return False


def read_together(expressions: Iterable[Expression]) -> Reads:
    """Return the combined inputs of the expressions that can share one conversion of a call: those that read no history."""
    each = [expression.reads() for expression in expressions if not expression.asks_history]
    some = [read.arguments for read in each if read.arguments is not None]
    return Reads(
        frozenset().union(*(read.variables for read in each)),
        frozenset().union(*some) if len(some) == len(each) else None,
    )


class _Histories:
    """The two histories during the evaluation of one expression, with their errors: the runtime does not keep exceptions."""

    __slots__ = ("_facts", "forgot")

    def __init__(self, facts: ConditionVariables) -> None:
        self._facts = facts
        self.forgot: Unevaluated | None = None

    def answer(self, receiver: Any, ask: Callable[[History], int | float]) -> int | float:
        history = self._facts.session if _scope_of(receiver) == "session" else self._facts.history
        try:
            return ask(_known(history))
        except LookupError:
            self.forgot = Unevaluated("the earlier calls that it asks about are no longer stored")
        except Unevaluated as error:
            self.forgot = error
        return 0


class _Current(Struct):
    history: _Histories | None = None


_ASKED = _Current()  # evaluation never waits and never yields its thread, so there is one at a time


def _ask(receiver: Any, ask: Callable[[History], int | float]) -> int | float:
    if _ASKED.history is None:
        raise RuntimeError("no history")
    return _ASKED.history.answer(receiver, ask)


def _scope_of(receiver: Any) -> str:
    found = receiver.get("of") if isinstance(receiver, Mapping) else ""
    return str(found.value()) if isinstance(found, cel.Value) else str(found)


@lru_cache(maxsize=16)
def _probe(name: str) -> cel.Expression:
    """Return an expression that is true if the runtime can read a variable, null included."""
    return _environment().compile(f"dyn({name}) == dyn({name})")


@lru_cache(maxsize=1)
def _environment() -> cel.Env:
    if not _INSTALLED:
        raise ConfigError(
            "the policy has an expression in CEL (`when:`, `bind:`), and the CEL runtime is not installed",
            suggestion='install it with: pip install "toolgen[cel]"',
        )
    kinds = cel.Type
    types = {"map": kinds.Map(kinds.STRING, kinds.DYN), "any": kinds.DYN, "time": kinds.TIMESTAMP}

    def member(name: str, result: cel.Type, parameters: int, run: Callable[..., object]) -> cel.FunctionDecl:
        takes = [types["map"], *[kinds.STRING] * parameters]
        overload = cel.Overload(f"history_{name}", return_type=result, parameters=takes, is_member=True, impl=run)
        return cel.FunctionDecl(name, [overload])

    return cel.NewEnv(
        variables={name: types[kind] for name, kind in VARIABLES.items()},
        functions=[
            member("called", kinds.BOOL, 1, lambda r, tools: _ask(r, lambda h: h.called(tools)) > 0),
            member("count", kinds.INT, 1, lambda r, tools: _ask(r, lambda h: h.count(tools))),
            member("sum", kinds.DYN, 2, lambda r, tools, argument: _ask(r, lambda h: h.sum(tools, argument))),
        ],
    )


def _labels(history: History) -> list[str]:
    try:
        return [*history.labels()]
    except LookupError:
        raise Unevaluated("the earlier calls that it asks about are no longer stored") from None


def _known(history: History | None) -> History:
    if history is None:
        raise Unevaluated("earlier calls are not recorded here")
    return history


def _arguments(tree: Node) -> frozenset[str] | None:
    """Return the arguments that an expression reads, or None if it may read any of them."""
    nodes = [*walk(tree)]
    named = [node.field for node in nodes if isinstance(node, Select) and node.operand == Identifier(name="args")]
    return frozenset(named) if nodes.count(Identifier(name="args")) == len(named) else None


class _IdentityCache(Generic[T]):
    """Cache of values computed from frozen objects that many calls share. The key is the identity; the size is bounded."""

    __slots__ = ("_kept", "_make")

    def __init__(self, make: Callable[[T], dict[str, object]]) -> None:
        self._make = make
        self._kept: dict[int, tuple[T, dict[str, object]]] = {}

    def of(self, item: T) -> dict[str, object]:
        found = self._kept.get(id(item))
        if found is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            # The item is stored beside its value, so that its id is not reused for another object.
            found = self._kept[id(item)] = (item, self._make(item))
        return found[1]


def _tool(tool: Tool) -> dict[str, object]:
    return {"name": tool.name, "source": tool.source, "effect": tool.effect.value}


def _party(principal: Principal) -> dict[str, object]:
    plain = PlainCopier(_MAX_TEXT)
    return {
        "id": plain.text(principal.id),
        "roles": [plain.text(role) for role in sorted(principal.roles)],
        "attributes": plain.value(principal.attributes),
    }


_PARTIES: _IdentityCache[Principal] = _IdentityCache(_party)
_TOOLS: _IdentityCache[Tool] = _IdentityCache(_tool)


def _said(text: str) -> str:
    """Return the compiler's message, with the closest existing name for an unknown one."""
    if found := _UNDECLARED.search(text):
        name = found[1].partition(".")[0]
        return f"unknown name '{name}'{nearest(name, [*VARIABLES, 'has', 'size', 'matches', 'called', 'count', 'sum'])}"
    if found := _PLACE.search(text):
        return f"column {found[1]}: {_SUFFIX.sub('', found[2])}"
    return "is not a valid expression"


def _shown(source: str) -> str:
    return bounded(source, 80)
