"""Demo calls of an agent and its reviewer over MCP and REST, with the results they must have."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
from msgspec import Struct

__all__ = ["CALLS", "STEPS", "Agent", "DemoFailure", "tell"]

_SEARCH = ("catalog__search", {"text": "dog"})
_MAX_SEARCHES = 5
_MAX_SHOWN = 200
_WAIT_S = 20.0
_LOOK_S = 0.05

CALLS: Sequence[tuple[str, str, dict[str, Any], str]] = (
    # purpose, tool, arguments, expected result: ok, or the code of the error
    ("reads over REST", "orders__list_orders", {"status": "open", "limit": 2}, "ok"),
    ("reads over GraphQL", "catalog__list_products", {"first": 2}, "ok"),
    ("reads over SQL", "shop__query", {"sql": "SELECT city, count(*) AS customers FROM customers GROUP BY city"}, "ok"),
    ("calls a tool the policy does not give", "orders__delete_order", {"order_id": "o7"}, "unknown_tool"),
    (
        "hides a DELETE in SQL",
        "shop__query",
        {"sql": "WITH gone AS (DELETE FROM orders RETURNING id) SELECT count(*) FROM gone"},
        "sql_refused",
    ),
    ("reads a column the policy keeps", "shop__query", {"sql": "SELECT card_number FROM customers"}, "sql_refused"),
)


STEPS = ("orders__search_issues", "shop__query", "orders__cancel_order", "support__fix_issue", "orders__comment_issue")
"""The workflow and the calls of its steps, in the order of the log: the workflow continues after the step that waited."""


class DemoFailure(Exception):  # noqa: N818
    """Unexpected result of the demo."""


class Agent(Struct):
    """MCP client over HTTP. `made` are its calls: the tool, and the result of each."""

    http: httpx.Client
    made: list[tuple[str, str]] = []
    _session: dict[str, str] = {}

    def begin(self) -> Sequence[str]:
        """Initialize, and list the tools."""
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}}
        self._send("initialize", hello)
        self.http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=self._headers())
        return [tool["name"] for tool in self._send("tools/list", {})["tools"]]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the outcome of a call, and its answer as text."""
        result = self._send("tools/call", {"name": tool, "arguments": arguments})
        lines = (" ".join(line.split()) for line in str(result["content"][0].get("text", "")).splitlines())
        text = ". ".join(line.removesuffix(".") for line in lines if line)
        ending = text.partition(":")[0] if result.get("isError") else "ok"
        self.made.append((tool, ending))
        return ending, text

    def _send(self, method: str, params: Mapping[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self.http.post("/mcp", json=message, headers=self._headers())
        if session := answer.headers.get("mcp-session-id"):
            self._session = {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
        whole = _message(answer)
        if "result" not in whole:
            raise DemoFailure(f"{method} was answered with {answer.status_code}")
        return whole["result"]

    def _headers(self) -> dict[str, str]:
        return {"accept": "application/json, text/event-stream", **self._session}


def tell(
    url: str, keys: Mapping[str, str], say: Callable[[str], None], *, has_sql: bool = True
) -> Sequence[tuple[str, str]]:
    """Play everything, or the part without a database; return the calls. Raises `DemoFailure` for an unexpected result."""
    with (
        _client(url, keys["agent"]) as http,
        _client(url, keys["lead"]) as reviewer,
        _client(url, keys["ann"]) as device,
    ):
        agent = Agent(http)
        names = agent.begin()
        say(f"\nthe agent sees {len(names)} tools: {', '.join(names)}")
        for purpose, tool, arguments, expected in CALLS:
            if has_sql or not tool.startswith("shop__"):
                _expect(purpose, tool, arguments, agent.call(tool, arguments), expected, say)
        _too_many(agent, say)
        _approved(agent, reviewer, say)
        if has_sql:
            _fixed(agent, reviewer, say)
        _on_the_device(agent, device, say)
        return agent.made


def _client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=_WAIT_S, trust_env=False)


def _expect(
    purpose: str,
    tool: str,
    arguments: Mapping[str, Any],
    came: tuple[str, str],
    expected: str,
    say: Callable[[str], None],
) -> None:
    ending, text = came
    say(f"\n> the agent {purpose}: {tool} {json.dumps(arguments)}")
    say(
        f"  {'answer' if ending == 'ok' else 'refused'}: {text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + '…'}"
    )
    if ending != expected:
        raise DemoFailure(f"{tool} ended {ending}, not {expected}")


def _too_many(agent: Agent, say: Callable[[str], None]) -> None:
    came, number = agent.call(*_SEARCH), 1
    while came[0] == "ok" and number < _MAX_SEARCHES:
        came, number = agent.call(*_SEARCH), number + 1
    _expect(f"searches once too often (call {number})", *_SEARCH, came, "rate_limited", say)


def _approved(agent: Agent, reviewer: httpx.Client, say: Callable[[str], None]) -> None:
    """Make a call that waits for a person, who sees exactly the call that would be made."""
    tool, arguments = "orders__cancel_order", {"order_id": "o7"}
    say(f"\n> the agent cancels an order: {tool} {json.dumps(arguments)}")
    waiting = _asked(agent, tool, arguments, say)
    _approve(reviewer, waiting["call_id"], "asked for by phone")
    say("  the lead approves exactly this call, once")
    done = _ended(agent, waiting)
    agent.made.append((tool, "ok"))
    say(f"  answer: {json.dumps(done['data'])}")


def _fixed(agent: Agent, reviewer: httpx.Client, say: Callable[[str], None]) -> None:
    """Run a workflow from an issue to its fix: it waits at the step that a person has to approve, and continues."""
    tool, arguments = "support__fix_issue", {"words": "came twice"}
    say(f"\n> the agent fixes an issue with one call, a workflow of four steps: {tool} {json.dumps(arguments)}")
    waiting = _asked(agent, tool, arguments, say)
    listed: list[dict[str, Any]] = []
    until = time.monotonic() + _WAIT_S
    while not listed and time.monotonic() < until:
        listed = reviewer.get("/v1/approvals").json()["approvals"]
    if [one["tool"] for one in listed] != ["orders__cancel_order"]:
        raise DemoFailure(f"the lead is asked for {[one['tool'] for one in listed]}")
    _approve(reviewer, listed[0]["id"], "it came twice")
    say(
        f"  the lead is asked for one step of it, {listed[0]['tool']} {json.dumps(listed[0]['arguments'])}, and approves it"
    )
    done = _ended(agent, waiting)
    agent.made += [(step, "ok") for step in STEPS]
    say(f"  answer: {json.dumps(done['data'])}")


def _asked(agent: Agent, tool: str, arguments: Mapping[str, Any], say: Callable[[str], None]) -> Any:
    """Return the answer to a call that has to wait."""
    waiting = agent.http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments, "wait": 0}).json()
    say(f"  {waiting['status']}: {waiting['error']['message']}")
    if waiting["status"] != "pending":
        raise DemoFailure(f"{tool} ended {waiting['status']}, not pending")
    return waiting


def _approve(reviewer: httpx.Client, call: str, note: str) -> None:
    answered = reviewer.post(f"/v1/approvals/{call}", json={"decision": "approve", "note": note})
    if answered.status_code != 200:
        raise DemoFailure(f"the approval was answered with {answered.status_code}")


def _ended(agent: Agent, waiting: Any) -> Any:
    """Return the outcome of a call that waited."""
    done, until = waiting, time.monotonic() + _WAIT_S
    while done["status"] == "pending" and time.monotonic() < until:
        time.sleep(_LOOK_S)
        done = agent.http.get(f"/v1/calls/{waiting['call_id']}").json()
    if done["status"] != "ok":
        raise DemoFailure(f"the approved call ended {done['status']}: {done.get('error')}")
    return done


def _on_the_device(agent: Agent, device: httpx.Client, say: Callable[[str], None]) -> None:
    """Make a call that the customer's own device executes: it fetches the request, and answers."""
    tool, arguments = "phone__confirm", {"question": "Is it right that order o7 is cancelled?"}
    acting = {"x-on-behalf-of": "ann"}
    body = {"arguments": arguments, "wait": 0}
    waiting = agent.http.post(f"/v1/tools/{tool}/call", json=body, headers=acting).json()
    agent.made.append((tool, waiting["status"]))
    say(f"\n> the agent asks a customer, on her own device: {tool} {json.dumps(arguments)}")
    say(f"  {waiting['status']}: {waiting['error']['message']}")
    (asked,) = device.get("/v1/device/requests").json()["requests"]
    say(f"  the device shows: {asked['display']}")
    answer = {"jsonrpc": "2.0", "id": asked["request"]["id"], "result": True}
    taken = [device.post("/v1/tool-messages", json=answer).status_code for _ in range(2)]
    if taken != [200, 409]:
        raise DemoFailure(f"an answer that was sent twice was answered with {taken}")
    say("  the customer says yes; the same answer sent again is refused (409)")
    done = agent.http.get(f"/v1/calls/{waiting['call_id']}", headers=acting).json()
    if done["status"] != "ok":
        raise DemoFailure(f"the call for the device ended {done['status']}: {done.get('error')}")
    agent.made[-1] = (tool, "ok")
    say(f"  answer: {json.dumps(done['data'])}")


def _message(answer: httpx.Response) -> dict[str, Any]:
    """Return the JSON-RPC message of an answer, which may be a single event."""
    text = answer.text
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        text = next((line[5:] for line in text.splitlines() if line.startswith("data:")), "{}")
    whole = json.loads(text or "{}")
    return whole if isinstance(whole, dict) else {}
