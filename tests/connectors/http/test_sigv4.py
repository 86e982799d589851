"""AWS Signature Version 4, held against botocore and against the figures that AWS publishes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote, unquote

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.exhaustive import examples
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.sigv4 import AwsKey, sign_aws

# The credentials, region and time of AWS's published test suite ("aws-sig-v4-test-suite").
NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def key(service: str = "service", token: str = "") -> AwsKey:
    return AwsKey(
        access_key_id="AKIDEXAMPLE",
        secret_access_key=SECRET,
        session_token=token,
        region="us-east-1",
        service=service,
    )


def request(method: str, url: str, *headers: tuple[str, str], body: bytes | None = None) -> HttpRequest:
    return HttpRequest(method=method, url=url, headers=headers, body=body)


def authorization(signed: HttpRequest) -> str:
    return dict(signed.headers)["Authorization"]


@pytest.mark.parametrize(
    ("name", "asked", "signature"),
    [
        (
            "get-vanilla",
            request("GET", "https://example.amazonaws.com/"),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "get-vanilla-query-order-key-case",
            request("GET", "https://example.amazonaws.com/?Param2=value2&Param1=value1"),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-vanilla-utf8-query",
            request("GET", "https://example.amazonaws.com/?%E1%88%B4=bar"),
            "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
        ),
        (
            "post-vanilla",
            request("POST", "https://example.amazonaws.com/"),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "post-x-www-form-urlencoded",
            request(
                "POST",
                "https://example.amazonaws.com/",
                ("Content-Type", "application/x-www-form-urlencoded"),
                body=b"Param1=value1",
            ),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ],
)
def test_published_signatures_come_out(name: str, asked: HttpRequest, signature: str) -> None:
    assert authorization(sign_aws(asked, key(), NOW.timestamp())).endswith(f"Signature={signature}"), name


def by_botocore(asked: HttpRequest, used: AwsKey, monkeypatch: pytest.MonkeyPatch) -> str:
    kept = [(name, value) for name, value in asked.headers if name.lower() == "content-type"]
    other = AWSRequest(method=asked.method, url=asked.url, headers=dict(kept), data=asked.body or b"")
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: NOW.replace(tzinfo=None))
    maker = S3SigV4Auth if used.service == "s3" else SigV4Auth
    credentials = BotoCredentials(used.access_key_id, used.secret_access_key, used.session_token or None)
    maker(credentials, used.service, used.region).add_auth(other)
    return str(other.headers["Authorization"])


PATHS = st.text("abz09-_.~ /%é&+=:@,;()*!$'\"", max_size=24)
VALUES = st.text("abz09-_.~ /%é&+=:@,;()*!$'", max_size=12)


@settings(max_examples=examples(200), deadline=None)
@given(
    path=PATHS,
    query=st.lists(st.tuples(VALUES.filter(bool), VALUES), max_size=4),
    service=st.sampled_from(["execute-api", "s3", "es"]),
    body=st.none() | st.binary(max_size=40),
    token=st.sampled_from(["", "FwoGZXIvYXdzEJ//session"]),
    port=st.sampled_from(["", ":443", ":8443"]),
)
def test_every_request_is_signed_as_botocore_signs_it(
    path: str, query: list[tuple[str, str]], service: str, body: bytes | None, token: str, port: str
) -> None:
    place = re.sub("/+", "/", quote(path, safe="/:@!$&'()*+,;=~"))
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    url = f"https://API.example.com{port}/{place.lstrip('/')}{'?' if pairs else ''}{pairs}"
    used = key(service, token)
    asked = request("POST", url, ("Content-Type", "application/json"), ("Accept", "*/*"), body=body)
    with pytest.MonkeyPatch.context() as patch:
        # S3 encodes what it was sent again; botocore leaves that to its callers, who send nothing else.
        same = replace(asked, url=re.sub(r"(?<=com)[^?]*", encoded, url)) if service == "s3" else asked
        expected = by_botocore(same, used, patch)
    assert authorization(sign_aws(asked, used, NOW.timestamp())) == expected


def encoded(found: re.Match[str]) -> str:
    port, slash, path = found[0].partition("/")
    return port + slash + quote(unquote(path), safe="/-_.~")


def test_an_s3_path_is_signed_as_it_is_sent() -> None:
    asked = request("GET", "https://bucket.s3.amazonaws.com/a//b%20c/../d")
    with pytest.MonkeyPatch.context() as patch:
        assert authorization(sign_aws(asked, key("s3"), NOW.timestamp())) == by_botocore(asked, key("s3"), patch)
