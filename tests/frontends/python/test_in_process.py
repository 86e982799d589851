"""Gateways made in Python, without a project: the same pipeline, a policy that allows what was named, and nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

import toolgen
from tests.projects import PETS, make_project
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.connectors.mock_service import MockResponse
from toolgen.connectors.openapi.mock.description import MockDescription
from toolgen.connectors.openapi.mock.server import MockApp
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.frontends.python.in_process import of_openapi
from toolgen.frontends.server.applications import served_in_thread

SECRET = "canary-credential"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "pets.json"
    path.write_text(json.dumps(PETS), encoding="utf-8")
    return path


def add(left: int, right: int = 1) -> int:
    """Adds two numbers."""
    return left + right


@toolgen.tool(effect="destructive")
async def wipe(everything: bool) -> str:
    """Removes things."""
    return f"gone: {everything}"


def test_an_api_is_called_in_three_lines_with_its_credential(temporary: Path, spec: Path) -> None:
    app = MockApp(MockDescription(SourceConfig(name="pets", kind="openapi", location=str(spec))))
    seen: list[str] = []

    class NotingApp:
        """Mock that notes the credential of each request."""

        def answer(
            self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes | None
        ) -> MockResponse:
            seen.append(dict(headers).get("x-key", ""))
            return app.answer(method, path, query, headers, body)

    with served_in_thread(NotingApp()) as url:
        gateway = toolgen.Gateway.from_openapi(spec, credentials=SECRET, server=url)
        with gateway as calls:
            assert calls.call("pets__get_pet", {"petId": 1}).status == "ok"
            refused = calls.call("pets__delete_pet", {"petId": 1})
            assert refused.error is not None
            assert refused.error.code == "unknown_tool"
            assert [tool.name for tool in calls.tools.list()] == ["pets__get_pet"]
            assert SECRET not in repr(calls.preview("pets__get_pet", {"petId": 1}))
            texts = [path.read_bytes() for path in temporary.rglob("*") if path.is_file()]
    assert seen == [SECRET]
    assert texts
    assert not any(SECRET.encode() in text or gateway.key.encode() in text for text in texts)


def test_requests_reach_the_server_and_no_other_place(spec: Path) -> None:
    gateway = toolgen.Gateway.from_openapi(spec, credentials=SECRET, server="http://127.0.0.1:9")
    assert gateway.policy.egress.allow == {("127.0.0.1", 9)}
    assert not gateway.policy.egress.private_networks


def test_functions_are_tools_by_their_own_names() -> None:
    with toolgen.Gateway.from_functions(add, wipe, allow=["write", "destructive"]) as calls:
        assert calls.call("add", {"left": 2}).data == 3
        assert calls.call("wipe", {"everything": True}).data == "gone: True"
        wrong = calls.call("add", {"left": "much"})
        assert wrong.error is not None
        assert wrong.error.code == "validation"


@pytest.mark.parametrize("effect", ["read", "write"])
def test_one_effect_of_those_that_are_allowed_is_enough(effect: Literal["read", "write"]) -> None:
    @toolgen.tool(effect=effect)
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    with toolgen.Gateway.from_functions(double) as calls:
        assert calls.call("double", {"number": 2}).data == 4


def test_a_destructive_function_is_no_tool_until_it_is_named() -> None:
    with toolgen.Gateway.from_functions(add, wipe) as calls:
        assert [tool.name for tool in calls.tools.list()] == ["add"]


def test_calls_have_no_rate_limit_unless_it_is_asked_for(spec: Path) -> None:
    with toolgen.Gateway.from_functions(add) as calls:
        assert {calls.call("add", {"left": 1}).status for _ in range(150)} == {"ok"}
    assert toolgen.Gateway.from_openapi(spec, credentials=SECRET).policy.limits == ()


@pytest.mark.parametrize(
    "limits", ["2/min", ["2/min"], [{"id": "two", "per": ["principal"], "rate": "2/min"}], ("9/s", "2/min")]
)
def test_limits_are_those_that_were_asked_for(limits: Any) -> None:
    with toolgen.Gateway.from_functions(add, limits=limits) as calls:
        ends = [calls.call("add", {"left": 1}) for _ in range(3)]
    assert [end.error.code if end.error else end.status for end in ends] == ["ok", "ok", "rate_limited"]


@pytest.mark.parametrize("limits", ["often", [{"rate": "2/min"}], [{"id": {1}}], ["2/min", "2 a minute"]])
def test_limits_that_are_none_are_refused(limits: Any) -> None:
    with pytest.raises(ToolgenError):
        toolgen.Gateway.from_functions(add, limits=limits)


@pytest.mark.parametrize("limits", ["often", ["2/min", "2 a minute"]])
def test_a_rate_that_is_none_is_said_of_the_argument_and_of_no_file(limits: Any) -> None:
    with pytest.raises(ConfigError, match=r"^limits: '(often|2 a minute)'"):
        toolgen.Gateway.from_functions(add, limits=limits)


def test_what_is_no_fastapi_application_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"from_asgi"):
        toolgen.Gateway.from_fastapi(object())


def test_tools_have_the_same_names_in_both_forms() -> None:
    gateway = toolgen.Gateway.from_functions(add)
    with gateway as calls:
        assert [name for name in dir(calls.tools) if name[0] != "_"] == [
            name for name in dir(gateway.tools) if name[0] != "_"
        ]


def test_a_function_of_this_program_stays_what_it_was() -> None:
    toolgen.Gateway.from_functions(add)
    assert add.__module__ == __name__
    assert not hasattr(add, "__toolgen_tool__")
    assert add(1) == 2


async def test_it_can_be_awaited_as_well() -> None:
    async with toolgen.Gateway.from_functions(add) as gateway:
        named = (await gateway.call("add", {"left": 4}, principal="agent")).data
        outcome = (
            named,
            (await gateway.call("add", {"left": 4})).data,
            (await gateway.preview("add", {"left": 1})).status,
        )
    assert outcome == (5, 5, "ok")


@pytest.mark.parametrize("name", ["", "nobody"])
def test_no_empty_name_stands_for_the_only_principal(name: str) -> None:
    with toolgen.Gateway.from_functions(add) as calls:
        refused = calls.call("add", {"left": 4}, principal=name)
    assert (refused.status, refused.data) == ("refused", None)


def test_a_gateway_that_was_closed_stays_closed() -> None:
    gateway = toolgen.Gateway.from_functions(add)
    with gateway as calls:
        pass
    with pytest.raises(ConfigError, match="this gateway was closed"):
        calls.call("add", {"left": 4})
    with pytest.raises(ConfigError, match="this gateway was closed"):
        gateway.__enter__()


async def test_a_gateway_that_was_closed_on_a_loop_stays_closed() -> None:
    async with (again := toolgen.Gateway.from_functions(add)):
        pass
    with pytest.raises(ConfigError, match="this gateway was closed"):
        await again.call("add", {"left": 4})
    with pytest.raises(ConfigError, match="this gateway was closed"):
        await again.__aenter__()


async def test_inside_a_loop_serving_is_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigError, match=r"in a thread"):
        toolgen.serve(toolgen.Gateway.from_functions(add), port=0)


def test_it_is_served_from_a_thread_of_a_program() -> None:
    """In a process of its own: nothing ends such a gateway before its program."""
    done = subprocess.run([sys.executable, "-c", IN_A_THREAD], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "200\n"), done.stderr


async def test_inside_a_loop_the_synchronous_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="async with"), toolgen.Gateway.from_functions(add):
        pass


def test_the_record_is_in_a_folder_where_one_is_named(tmp_path: Path) -> None:
    with toolgen.Gateway.from_functions(add, record=tmp_path / "record") as calls:
        calls.call("add", {"left": 1})
    assert [entry["event"] for entry in entries(tmp_path / "record") if entry.get("tool") == "add"] == [
        "intent",
        "outcome",
    ]
    assert verify(tmp_path / "record").ok


def test_nothing_is_left_of_a_gateway_that_is_gone(temporary: Path, spec: Path) -> None:
    before = set(sys.modules)
    made = [toolgen.Gateway.from_functions(add), toolgen.Gateway.from_openapi(spec, server="http://127.0.0.1:9")]
    assert len(list(temporary.iterdir())) == 2
    made.clear()
    gc.collect()
    assert list(temporary.iterdir()) == []
    assert not {name for name in set(sys.modules) - before if name.startswith("toolgen_functions")}


def untyped(value): ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((print,), "is not a function"),
        ((add, add), "two functions are called add"),
        ((untyped,), "value has no type"),
    ],
)
def test_what_cannot_be_a_tool_is_said(temporary: Path, given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        toolgen.Gateway.from_functions(*given)
    assert list(temporary.iterdir()) == []


def test_an_effect_that_is_none_is_said(spec: Path) -> None:
    with pytest.raises(ConfigError, match=r"'reads'.*'read'"):
        toolgen.Gateway.from_openapi(spec, allow=["reads"])


def test_one_credential_for_several_schemes_is_refused(spec: Path) -> None:
    text = json.loads(json.dumps(PETS))
    text["components"]["securitySchemes"]["other"] = {"type": "http", "scheme": "bearer"}
    text["paths"]["/pets/{petId}"]["delete"]["security"] = [{"other": []}]
    with pytest.raises(ConfigError, match=r"key, other"):
        toolgen.Gateway.from_openapi(text, name="pets", credentials=SECRET)


def test_several_principals_need_a_name(tmp_path: Path) -> None:
    with toolgen.Gateway.load(make_project(tmp_path)) as calls:
        assert calls.call("shop__list_tables", principal="bot").status == "ok"
        with pytest.raises(ConfigError, match="principal="):
            calls.call("shop__list_tables")


IN_A_THREAD = """
import os, queue, threading, urllib.request
import toolgen

def add(left: int, right: int = 1) -> int:
    "Adds two numbers."
    return left + right

ready = queue.SimpleQueue()
asked = {"port": 0, "ready": ready.put}
threading.Thread(target=toolgen.serve, args=(toolgen.Gateway.from_functions(add),), kwargs=asked, daemon=True).start()
print(urllib.request.urlopen(ready.get(timeout=60) + "/healthz").status, flush=True)
os._exit(0)
"""
SERVED = """
import toolgen

def add(left: int, right: int = 1) -> int:
    "Adds two numbers."
    return left + right

toolgen.serve(toolgen.Gateway.from_functions(add), port=0)
"""


def test_it_can_be_served(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVED]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ}, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        key = process.stderr.readline().split()[-1]
        url = process.stderr.readline().split()[-1]
        headers = {"authorization": f"Bearer {key}"}
        answer = httpx.post(f"{url}/v1/tools/add/call", json={"arguments": {"left": 1}}, headers=headers, timeout=60)
        assert answer.json()["data"] == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_the_key_of_such_a_gateway_is_in_no_repr(temporary: Path, spec: Path) -> None:
    parts = of_openapi(spec, name="", server="", allow=["read"], credentials=None, record=None)
    assert parts.key.startswith("tgk_")
    assert parts.key not in repr(parts)
    parts.discard()
