"""Keys of Standard Webhooks, the signature, and the addresses that something may be sent to."""

from __future__ import annotations

import base64

import pytest

from toolgen.model.webhook import key_of, signed_headers, url_fault

# The example of https://github.com/standard-webhooks/standard-webhooks, with which its libraries are tested.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_the_signature_is_that_of_the_specification() -> None:
    key = key_of(SECRET)
    assert key is not None
    assert signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330.9, BODY, [key]) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "secret",
        "whsec_",
        "whsec_!!!!",
        SECRET.removeprefix("whsec_"),
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        SECRET + "\n",
    ],
)
def test_what_is_no_secret_is_no_key(secret: str) -> None:
    assert key_of(secret) is None


@pytest.mark.parametrize(
    "url", ["https://h.example.com/x?y=z", "http://127.0.0.1:8/", "http://[::1]/", "https://h:8443"]
)
def test_addresses_that_are_taken(url: str) -> None:
    assert url_fault(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h.example.com",
        "http://h.example.com/",
        "http://10.0.0.1/",
        "ftp://h.example.com/",
        "file:///etc/passwd",
        "https://user@h.example.com/",
        "https://h.example.com/#x",
        "https://h.example.com:0/",
        "https://h.example.com:99999/",
        "https://h.example.com/\r\nx: y",
        "https://h.example.com/ x",
        "https://[::1",
        "http://localhost.example.com/",
    ],
)
def test_addresses_that_are_not(url: str) -> None:
    assert url_fault(url)
