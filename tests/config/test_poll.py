"""`poll:` of a source and of a tool: what it may say, and that what it must not say is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from toolgen.config.settings import from_data
from toolgen.connectors.poll_settings import AnswerPlace, PollConfig, StatusPost
from toolgen.core.errors import ConfigError


def read(poll: Any, **more: Any) -> Any:
    source = {"openapi": "api.yaml", "poll": poll}
    return from_data({"sources": {"jobs": source}, **more}, Path("/p/toolgen.yaml"))


def test_every_form_of_a_place_is_read() -> None:
    written = """
    url: [Operation-Location, "$.links['a.b'].status", "/v1/{$.name}:wait?x={$.id}", request]
    state: $.status
    done: [Succeeded, true]
    failed: Failed
    running: [Running]
    error: $.error
    result_url: Location
    percent: $.percentComplete
    message: $.stage
    interval: 500ms
    longest_interval: 5m
    total: 2h
    cancel: POST /v1/{$.name}:cancel
    origins: [https://Status.example.com, "http://127.0.0.1:8080/"]
    """
    assert read(yaml.safe_load(written)).sources["jobs"].poll == PollConfig(
        url=(
            AnswerPlace(header="operation-location"),
            AnswerPlace(path=("links", "a.b", "status")),
            AnswerPlace(template=("/v1/", ("name",), ":wait?x=", ("id",))),
            AnswerPlace(),
        ),
        state=("status",),
        done=frozenset({"succeeded", "true"}),
        failed=frozenset({"failed"}),
        running=frozenset({"running"}),
        error=("error",),
        result_url=AnswerPlace(header="location"),
        percent=("percentComplete",),
        message=("stage",),
        interval_s=0.5,
        longest_interval_s=300,
        total_s=7200,
        cancel="POST",
        cancel_url=AnswerPlace(template=("/v1/", ("name",), ":cancel")),
        origins=frozenset({("https", "status.example.com", 443), ("http", "127.0.0.1", 8080)}),
    )


def test_without_a_word_the_usual_headers_are_followed() -> None:
    settings = read({}, tools={"jobs__a": {"poll": "never"}, "jobs__b": {"poll": {"cancel": "DELETE"}}})
    names = [place.header for place in settings.sources["jobs"].poll.url]
    assert names == ["operation-location", "azure-asyncoperation", "location"]
    never, own = settings.tools
    assert (never.poll.url, own.poll.cancel, own.poll.cancel_url) == ((), "DELETE", None)
    assert read(None).sources["jobs"].poll is None


WRONG: list[tuple[Any, str]] = [
    ({"url": "Loca tion"}, "takes a header"),
    ({"url": "http://evil.invalid/{$.id}"}, "takes a header"),
    ({"url": ["Location"] * 9}, "up to 8 places"),
    ({"url": "$.a[*].b"}, "without *"),
    ({"url": "$.a[0].b"}, "without *"),
    ({"url": "$.*"}, "without *"),
    ({"url": "//evil.invalid/{$.id}"}, "takes a path"),
    ({"url": "/a/../b"}, "takes a path"),
    ({"url": "/a/{id}"}, "takes a path"),
    ({"url": "/a b"}, "takes a path"),
    ({"state": "status", "done": "x"}, "not a place like"),
    ({"state": "$.status"}, "needs done:"),
    ({"done": "x"}, "only with state:"),
    ({"state": "$.s", "done": ["a", "b"], "failed": "B"}, "'b' has two meanings"),
    ({"state": "$.s", "done": [str(n) for n in range(33)]}, "up to 32"),
    ({"result": "$.a", "result_url": "Location"}, "contradicts result_url:"),
    ({"interval": "1ms"}, "takes a time"),
    ({"interval": "-2s"}, "takes a time"),
    ({"longest_interval": "2h"}, "takes a time"),
    ({"total": "25h"}, "takes a time"),
    ({"cancel": "PUT"}, "takes DELETE or POST"),
    ({"cancel": "DELETE http://evil.invalid/"}, "takes a header"),
    ({"origins": ["https://a.example/path"]}, "not an origin"),
    ({"origins": ["https://user@a.example"]}, "not an origin"),
    ({"origins": ["ftp://a.example"]}, "not an origin"),
    ({"origins": ["a.example"]}, "not an origin"),
    ({"origins": ["https://a.example:x"]}, "not an origin"),
    ({"origins": [f"https://a{n}.example" for n in range(17)]}, "up to 16"),
    ({"every": "2s"}, "unknown key 'every'"),
    ("never", "must be a mapping"),
]


@pytest.mark.parametrize(("poll", "said"), WRONG)
def test_what_it_must_not_say_is_refused(poll: Any, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(poll)
    assert said in str(refused.value)


def test_it_belongs_to_requests_over_http() -> None:
    with pytest.raises(ConfigError, match=r"poll: .*openapi"):
        from_data({"sources": {"own": {"python": "m", "poll": {}}}}, Path("/p/toolgen.yaml"))
    with pytest.raises(ConfigError, match="never"):
        read({}, tools={"jobs__a": {"poll": "always"}})


def test_a_status_that_is_had_by_post_is_read() -> None:
    post = {"body": {"JobId": "$.job.id", "Deep": True}, "headers": {"X-Amz-Target": "Jobs.GetJob"}}
    kind = "application/x-amz-json-1.1"
    assert read({"url": "/", "post": {**post, "media_type": kind}}).sources["jobs"].poll.post == StatusPost(
        body=(("JobId", ("job", "id")), ("Deep", True)), headers=(("X-Amz-Target", "Jobs.GetJob"),), media_type=kind
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"body": {}}, "takes a body of 1 to 16 members"),
        ({"body": {f"n{number}": 1 for number in range(17)}}, "takes a body of 1 to 16 members"),
        ({"body": {"id": "$.a[*]"}}, "takes one place"),
        ({"body": {"id": {"a": 1}}}, "post"),
        ({"headers": {"Authorization": "Bearer x"}}, "is not an allowed header"),
        ({"headers": {"cOOkie": "x"}}, "is not an allowed header"),
        ({"headers": {"X-Y": "a\r\nHost: b"}}, "is not plain text"),
        ({"headers": {"X Y": "a"}}, "is not an allowed header"),
        ({"media_type": "text/plain"}, "media_type: takes a kind of JSON"),
        ({"method": "PUT"}, "unknown key 'method'"),
    ],
)
def test_what_may_not_be_posted_for_a_status_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read({"url": "/", "post": {"body": {"id": "$.id"}, **changes}})
    assert said in str(raised.value)
