"""Operations behind an answer, followed as one call: against a real server, and against one that wants to lead the gateway elsewhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.connectors.http.bindings import binding, call
from tests.connectors.http.test_executor import CANARY, executor, saying
from tests.connectors.http.test_streamed import Told
from tests.stream_servers import stream_server
from tests.virtual_time import VirtualTimeLoop
from toolgen.connectors.executor import Destination
from toolgen.connectors.http.polling import PollingExecutor, reader_for
from toolgen.connectors.poll_settings import AnswerPlace, PollConfig, StatusPost
from toolgen.model.call import Call
from toolgen.model.result import Delivery, Error, Failed, Success
from toolgen.model.verdict import Allow, Deny, Verdict

SOON: dict[str, Any] = {"interval_s": 0.0, "longest_interval_s": 0.0, "total_s": 60.0}
LOCATION = PollConfig(url=(AnswerPlace(header="location"),), **SOON)
AZURE = PollConfig(
    url=(AnswerPlace(header="operation-location"),),
    state=("status",),
    done=frozenset({"succeeded"}),
    failed=frozenset({"failed", "canceled"}),
    error=("error",),
    result_url=AnswerPlace(),
    percent=("percentComplete",),
    message=("stage",),
    **SOON,
)
GOOGLE = PollConfig(
    url=(AnswerPlace(template=("/v1/", ("name",))),),
    state=("done",),
    done=frozenset({"true"}),
    error=("error",),
    result=("response",),
    cancel="POST",
    cancel_url=AnswerPlace(template=("/v1/", ("name",), ":cancel")),
    **SOON,
)
Said = tuple[int, Mapping[str, str], Any]
ACCEPTED: Said = (202, {"Location": "/jobs/1"}, {})
WHERE: Said = (201, {"Operation-Location": "http://127.0.0.1:{port}/operations/1"}, {"id": 7})


class Api:
    """Answers by method and path, one after the other, the last one for ever; None hangs up. Keeps what was asked, and every head."""

    def __init__(self, answers: Mapping[str, list[Said | None]]) -> None:
        self._answers = {path: list(said) for path, said in answers.items()}
        self.asked: list[str] = []
        self.heads: list[str] = []
        self.port = 0
        self.polled = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        self.asked.append(f"{method} {target.partition('?')[0]}")
        self.heads.append(head)
        if len(self.asked) > 1:
            self.polled.set()
        said = self._answers.get(self.asked[-1], [(404, {}, {})])
        answer = said.pop(0) if len(said) > 1 else said[0]
        if answer is None:
            return
        status, headers, body = answer
        lines = "".join(f"{name}: {value.replace('{port}', str(self.port))}\r\n" for name, value in headers.items())
        text = json.dumps(body).encode()
        await saying(text, status=f"{status} X", headers=f"Content-Type: application/json\r\n{lines}")(b"", writer)


def begins(port: int, method: str = "POST", path: str = "/e", **more: Any) -> Call:
    bound = binding(
        method=method, path=path, servers=(f"http://127.0.0.1:{port}",), security=(("key", "bearer"),), **more
    )
    return call(bound)


def no_redirects(destination: Destination) -> Verdict:
    """As policies are without a word."""
    return Deny(rule="egress", reason="no") if destination.service == "redirect" else Allow(rule="t")


async def play(
    poll: PollConfig, answers: Mapping[str, list[Said | None]], method: str = "POST", line: Any = None, **more: Any
) -> tuple[Any, Api]:
    """How one call ends, and the API."""

    api = Api(answers)
    async with asyncio.timeout(60), stream_server(api.serve) as api.port:
        inner = executor(reader=reader_for([poll]), **{"permit": no_redirects, **more})
        followed = PollingExecutor(inner, default=poll, polls={}, hidden={"key"})
        try:
            asked = msgspec.structs.replace(begins(api.port, method), line=line)
            return await followed.execute(asked), api
        finally:
            await followed.close()


RUNNING: Said = (200, {}, {"status": "Running", "percentComplete": 40, "stage": "half"})
ENDINGS: list[tuple[str, PollConfig, Mapping[str, list[Said | None]], Any, list[str]]] = [
    (
        "a location",
        LOCATION,
        {
            "POST /e": [ACCEPTED],
            "GET /jobs/1": [(202, {}, {}), (202, {"Location": "/jobs/2"}, {})],
            "GET /jobs/2": [(200, {}, {"n": 1})],
        },
        {"n": 1},
        ["POST /e", "GET /jobs/1", "GET /jobs/1", "GET /jobs/2"],
    ),
    (
        "see other",
        LOCATION,
        {
            "POST /e": [ACCEPTED],
            "GET /jobs/1": [(303, {"Location": "/things/1"}, {})],
            "GET /things/1": [(200, {}, {"n": 2})],
        },
        {"n": 2},
        ["POST /e", "GET /jobs/1", "GET /things/1"],
    ),
    (
        "a status, and what was made",
        AZURE,
        {
            "POST /e": [WHERE],
            "GET /operations/1": [RUNNING, (200, {}, {"status": " Succeeded"})],
            "GET /e": [(200, {}, {"id": 7, "ready": True})],
        },
        {"id": 7, "ready": True},
        ["POST /e", "GET /operations/1", "GET /operations/1", "GET /e"],
    ),
    (
        "a name",
        GOOGLE,
        {
            "POST /e": [(200, {}, {"name": "operations/x", "done": False})],
            "GET /v1/operations/x": [
                (200, {}, {"name": "operations/x"}),
                (200, {}, {"done": True, "response": {"n": 3}}),
            ],
        },
        {"n": 3},
        ["POST /e", "GET /v1/operations/x", "GET /v1/operations/x"],
    ),
    (
        "ended already",
        GOOGLE,
        {"POST /e": [(200, {}, {"name": "a/b", "done": True, "response": [4]})]},
        [4],
        ["POST /e"],
    ),
    ("no operation", LOCATION, {"POST /e": [(200, {"Location": "/jobs/1"}, {"n": 5})]}, {"n": 5}, ["POST /e"]),
    ("no location", LOCATION, {"POST /e": [(202, {}, {"n": 6})]}, {"n": 6}, ["POST /e"]),
    (
        "a moment's failure",
        LOCATION,
        {"POST /e": [ACCEPTED], "GET /jobs/1": [(503, {}, {}), None, (429, {}, {}), (200, {}, {"n": 7})]},
        {"n": 7},
        ["POST /e"] + 4 * ["GET /jobs/1"],
    ),
    (
        "the same URL",
        PollConfig(url=(AnswerPlace(),), **SOON),
        {"POST /e": [(202, {}, {})], "GET /e": [(202, {}, {}), (200, {}, {"n": 8})]},
        {"n": 8},
        ["POST /e", "GET /e", "GET /e"],
    ),
]


@pytest.mark.parametrize(("poll", "answers", "data", "asked"), [one[1:] for one in ENDINGS], ids=[one[0] for one in ENDINGS])  # fmt: skip
async def test_an_operation_is_followed_to_its_result(
    poll: PollConfig, answers: Mapping[str, list[Said | None]], data: Any, asked: list[str]
) -> None:
    outcome, api = await play(poll, answers)
    assert isinstance(outcome, Success), outcome
    assert (outcome.data, api.asked) == (data, asked)
    assert outcome.delivery.attempts == len(asked)
    assert outcome.delivery.headers is None
    for head in api.heads:  # each is a request of its own, with the call's credentials
        assert head.count(CANARY) == 2


FAILED: list[tuple[PollConfig, Said | None, str, str]] = [
    (AZURE, (200, {}, {"status": "Failed", "error": {"code": "x", "message": "no room"}}), "upstream_error", "failed: no room"),
    (AZURE, (200, {}, {"status": "Succeeded", "error": {"message": "half of it"}}), "upstream_error", "failed: half of it"),
    (replace(AZURE, running=frozenset({"running"})), (200, {}, {"state": "?"}), "outcome_unknown", "has no known state"),
    (AZURE, (200, {}, "<html>"), "outcome_unknown", "has no known state"),
    (replace(AZURE, running=frozenset({"running"})), (200, {}, {"status": "Exploded"}), "outcome_unknown", "has no known state"),
    (LOCATION, (404, {}, {"message": "gone"}), "outcome_unknown", "404"),
    (LOCATION, (500, {}, {}), "outcome_unknown", "500"),
    (LOCATION, (503, {}, {}), "outcome_unknown", "503"),
    (LOCATION, None, "outcome_unknown", "broke"),
    (replace(LOCATION, total_s=0.0), (202, {}, {}), "outcome_unknown", "did not end in time"),
    (LOCATION, (303, {"Location": "/lost"}, {}), "upstream_error", "succeeded, but its result cannot be read"),
    (LOCATION, (303, {"Location": "http://169.254.169.254/"}, {}), "upstream_error", "may not be requested"),
    (LOCATION, (302, {"Location": "/elsewhere"}, {}), "outcome_unknown", "302"),
]  # fmt: skip


@pytest.mark.parametrize(("poll", "status", "code", "said"), FAILED)
async def test_an_operation_that_does_not_end_well_is_told_so(
    poll: PollConfig, status: Said | None, code: str, said: str
) -> None:
    where = "/jobs/1" if poll.url == LOCATION.url else "/operations/1"
    outcome, api = await play(
        poll, {"POST /e": [ACCEPTED if poll.url == LOCATION.url else WHERE], f"GET {where}": [status]}
    )
    assert isinstance(outcome, Failed), outcome
    assert outcome.error.code == code
    assert said in outcome.error.message
    assert len(api.asked) <= 7
    assert "GET /elsewhere" not in api.asked
    assert not outcome.delivery.unsent


@pytest.mark.parametrize(
    ("status", "total", "code"), [((404, {}, {}), 60.0, "upstream_error"), (ACCEPTED, 0.0, "upstream_timeout")]
)
async def test_a_read_whose_status_breaks_has_only_failed(status: Said, total: float, code: str) -> None:
    outcome, _ = await play(replace(LOCATION, total_s=total), {"GET /e": [ACCEPTED], "GET /jobs/1": [status]}, "GET")
    assert outcome.error.code == code


ELSEWHERE = [
    "http://169.254.169.254/latest/meta-data",
    "http://evil.invalid/jobs/1",
    "//evil.invalid/jobs/1",
    "https://127.0.0.1:{port}/jobs/1",
    "http://127.0.0.1:1/jobs/1",
    "http://user:word@127.0.0.1:{port}/jobs/1",
    "http://127.0.0.1:{port}@evil.invalid/",
    "\\\\evil.invalid\\jobs",
    "file:///etc/passwd",
    "http://[::1",
    "/" + "a" * 10_000,
]


@pytest.mark.parametrize("location", ELSEWHERE)
async def test_a_status_elsewhere_is_not_asked_for(location: str) -> None:
    outcome, api = await play(LOCATION, {"POST /e": [(202, {"Location": location}, {})]})
    assert (outcome.error.code, api.asked) == ("outcome_unknown", ["POST /e"])
    moving = {"POST /e": [ACCEPTED], "GET /jobs/1": [(202, {"Location": location}, {})]}
    outcome, api = await play(LOCATION, moving)
    assert (outcome.error.code, api.asked) == ("outcome_unknown", ["POST /e", "GET /jobs/1"])


@pytest.mark.parametrize("path", ["/%2e%2e/admin", "/a/..;x/b", "/{id}", "/jobs/1#x"])
async def test_a_path_that_could_be_read_as_another_is_not_asked_for(path: str) -> None:
    outcome, api = await play(LOCATION, {"POST /e": [(202, {"Location": path}, {})]})
    assert outcome.error.code == "outcome_unknown"
    assert [one for one in api.asked if one not in {"POST /e", "GET /jobs/1"}] == []


@pytest.mark.parametrize(
    "name", ["../../admin", "a/../b", "a?b=1", "a#b", "", "a%2fb", "//evil.invalid", True, {}, "x" * 2000]
)
async def test_a_name_that_could_change_the_route_is_not_put_into_it(name: Any) -> None:
    outcome, api = await play(GOOGLE, {"POST /e": [(200, {}, {"name": name, "done": False})]})
    assert (outcome.error.code, api.asked) == ("outcome_unknown", ["POST /e"])


async def test_another_origin_is_asked_where_it_is_allowed_and_shown_no_credential() -> None:
    other = Api({"GET /jobs/1": [(202, {}, {}), (200, {}, {"n": 1})]})
    async with stream_server(other.serve) as port:
        there = f"http://127.0.0.1:{port}/jobs/1"
        api = Api({"POST /e": [(202, {"Location": there}, {})]})
        async with stream_server(api.serve) as api.port:
            poll = replace(LOCATION, origins=frozenset({("http", "127.0.0.1", port)}))
            followed = PollingExecutor(executor(reader=reader_for([poll])), default=poll, polls={}, hidden={"key"})
            outcome = await followed.execute(begins(api.port))
            await followed.close()
    assert isinstance(outcome, Success)
    assert len(other.heads) == 2
    assert not [head for head in other.heads if CANARY in head or "authorization" in head.lower()]


async def test_every_address_is_put_to_the_policy() -> None:
    asked: list[str] = []

    def permit(destination: Destination) -> Verdict:
        asked.append(destination.address)
        return (
            Allow(rule="t")
            if destination.address == "127.0.0.1"
            else Deny(rule="egress", reason="no", code="egress_refused")
        )

    poll = replace(LOCATION, origins=frozenset({("http", "10.0.0.1", 80)}))
    begun: dict[str, list[Said | None]] = {"GET /e": [(202, {"Location": "http://10.0.0.1/x"}, {})]}
    outcome, _ = await play(poll, begun, "GET", permit=permit)
    assert (outcome.error.code, outcome.error.rule, asked) == ("egress_refused", "egress", ["127.0.0.1", "10.0.0.1"])


async def test_a_credential_that_a_location_repeats_is_sent_once() -> None:
    echoed: Said = (202, {"Location": f"/jobs/1?key={CANARY}&at=2"}, {})
    outcome, api = await play(LOCATION, {"POST /e": [echoed], "GET /jobs/1": [(200, {}, {})]})
    assert isinstance(outcome, Success)
    assert api.heads[1].startswith(f"GET /jobs/1?at=2&key={CANARY} HTTP/1.1")


async def test_progress_is_told_as_the_status_says_it() -> None:
    class Line(Told):
        __slots__ = ("told",)

        def __init__(self) -> None:
            super().__init__()
            self.told: list[tuple[float, float | None, str]] = []

        def progress(self, done: float, total: float | None, message: str) -> None:
            self.told.append((done, total, message))

    said: list[Any] = [40, "55.5%", 1e9, -3, None, "a lot", True, {"a": 1}]
    statuses: list[Said | None] = [
        (200, {}, {"status": "Running", "percentComplete": one, "stage": "x" * 900}) for one in said
    ]
    line = Line()
    ended: list[Said | None] = [*statuses, (200, {}, {"status": "Succeeded"})]
    await play(AZURE, {"POST /e": [WHERE], "GET /operations/1": ended, "GET /e": [(200, {}, {})]}, line=line)
    assert [(done, total) for done, total, _ in line.told] == [(40, 100), (55.5, 100), (100, 100), (0, 100)]
    assert {len(message) for _, _, message in line.told} == {200}


class Scripted:
    """An executor whose answers have these headers, in time that passes at once; notes when it was asked."""

    def __init__(self, **headers: str) -> None:
        self._headers = headers
        self.at: list[float] = []

    async def execute(self, call: Call) -> Success:
        self.at.append(asyncio.get_running_loop().time())
        return Success(data={}, delivery=Delivery(status=202, headers={"location": "/jobs/1", **self._headers}))

    def preview(self, call: Call) -> dict[str, Any]:
        return {}

    async def close(self) -> None: ...


@pytest.fixture
def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    return VirtualTimeLoop


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        ({}, 2), ("5", 5), ("0", 2), ("-5", 2), ("1e9", 2), ("1.5", 2), ("", 2), ("soon", 2), ("60", 60), ("61", 60),
        ("9" * 400, 60), ("Wed, 21 Oct 2099 07:28:00 GMT", 60), ("Wed, 21 Oct 1999 07:28:00 GMT", 2),
    ],
)  # fmt: skip
async def test_the_service_says_how_long_to_wait_within_bounds(asked: Any, pause: float) -> None:
    inner = Scripted(**({"retry-after": asked} if asked != {} else {}))
    poll = PollConfig(url=(AnswerPlace(header="location"),), total_s=480)
    outcome = await PollingExecutor(inner, default=poll, polls={}, hidden=()).execute(begins(1))
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "outcome_unknown"
    assert {round(later - earlier, 3) for earlier, later in zip(inner.at, inner.at[1:], strict=False)} == {pause}
    assert 480 - pause <= inner.at[-1] < 480


@pytest.mark.usefixtures("loop_factory")
async def test_what_the_policy_withholds_by_now_is_not_asked_about() -> None:
    inner = Scripted()
    times: list[str] = []

    async def withheld(call: Call) -> Error | None:
        times.append(call.tool.name)
        return Error(code="paused", message="held back") if len(times) == 3 else None

    poll = PollConfig(url=(AnswerPlace(header="location"),))
    asked = msgspec.structs.replace(begins(1, "GET"), withheld=withheld)
    outcome = await PollingExecutor(inner, default=poll, polls={}, hidden=()).execute(asked)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, len(inner.at)) == ("paused", 3)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("never", [True, False])
async def test_a_tool_has_its_own_settings(never: bool) -> None:
    inner = Scripted()
    own = PollConfig(url=()) if never else PollConfig(url=(AnswerPlace(header="x-job"),))
    outcome = await PollingExecutor(inner, default=LOCATION, polls={"t__op": own}, hidden=()).execute(begins(1))
    assert isinstance(outcome, Success)
    assert (len(inner.at), outcome.delivery.headers) == (1, None)


class Leaving(Told):
    """A caller that may call its call off."""

    __slots__ = ()


@pytest.mark.parametrize(("left", "sent"), [(True, ["POST /v1/a/b:cancel"]), (False, [])])
async def test_the_service_is_told_when_the_call_is_called_off(left: bool, sent: list[str]) -> None:
    running: Said = (200, {}, {"name": "a/b", "done": False})
    api = Api({"POST /e": [running], "GET /v1/a/b": [running], "POST /v1/a/b:cancel": [(200, {}, {})]})
    line = Leaving()
    async with asyncio.timeout(60), stream_server(api.serve) as api.port:
        poll = replace(GOOGLE, interval_s=0.01)
        followed = PollingExecutor(executor(reader=reader_for([poll])), default=poll, polls={}, hidden={"key"})
        asked = msgspec.structs.replace(begins(api.port), line=line)
        task = asyncio.create_task(followed.execute(asked))
        await api.polled.wait()
        if left:
            line.leave()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await followed.close()
    assert [one for one in api.asked[1:] if not one.startswith("GET")] == sent


POSTED = replace(
    AZURE,
    url=(AnswerPlace(template=("/",)),),
    result_url=None,
    post=StatusPost(
        body=(("JobId", ("job", "id")), ("Deep", True)),
        headers=(("X-Amz-Target", "Jobs.GetJob"),),
        media_type="application/x-amz-json-1.1",
    ),
)


async def test_a_status_is_asked_for_by_post_where_that_is_said() -> None:
    job: Said = (200, {}, {"job": {"id": 'j"1'}})
    statuses: list[Said | None] = [RUNNING, (503, {}, {}), (200, {}, {"status": "Succeeded", "n": 9})]
    outcome, api = await play(POSTED, {"POST /e": [job], "POST /": statuses})
    assert isinstance(outcome, Success)
    assert outcome.data == {"status": "Succeeded", "n": 9}
    assert api.asked == ["POST /e", "POST /", "POST /", "POST /"]
    sent = json.dumps({"JobId": 'j"1', "Deep": True}, separators=(",", ":"))
    for head in api.heads[1:]:
        lines = head.lower().split("\r\n")
        assert "x-amz-target: jobs.getjob" in lines
        assert "content-type: application/x-amz-json-1.1" in lines
        assert f"content-length: {len(sent)}" in lines


@pytest.mark.parametrize("said", [{}, {"job": {"id": None}}, {"job": {"id": {"a": 1}}}, {"job": {"id": "x" * 5000}}])
async def test_a_status_is_not_asked_for_with_what_the_answer_does_not_say(said: Any) -> None:
    outcome, api = await play(POSTED, {"POST /e": [(200, {}, said)], "POST /": [RUNNING]})
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "outcome_unknown"
    assert api.asked == ["POST /e"]
