"""Sending to webhooks, over real HTTP: what is signed, what counts as delivered, what is refused, and what nobody is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from pathlib import Path

import pytest

from tests.authorities import Authority
from tests.messages import line_names
from tests.receivers import Receiver, receiver
from tests.resolvers import resolving
from toolgen.config.notify import Webhook
from toolgen.connectors.executor import Destination
from toolgen.gateway.notify.webhook import DeliveryError, WebhookSender
from toolgen.model.secret import parse_reference
from toolgen.model.verdict import Verdict
from toolgen.policy.egress import Egress

KEYS = (b"a" * 32, b"b" * 32)
SECRETS = tuple("whsec_" + base64.b64encode(key).decode() for key in KEYS)
NOW = 1_700_000_000.5


def webhook(url: str, *secrets: str, authorities: str = "") -> Webhook:
    return Webhook(
        name="ops",
        url=parse_reference(url),
        secrets=tuple(parse_reference(one) for one in secrets or SECRETS[:1]),
        format="generic",
        events=frozenset({"approval_requested"}),
        arguments=True,
        authorities=parse_reference(authorities) if authorities else None,
    )


def under(egress: Egress, sent: list[Destination] | None = None) -> object:
    def permit(destination: Destination) -> Verdict:
        if sent is not None:
            sent.append(destination)
        return egress.check(destination.host, destination.port, destination.address)

    return permit


OPEN = under(Egress(private_networks=True))


async def failure(sender: WebhookSender) -> DeliveryError:
    with pytest.raises(DeliveryError) as raised:
        await sender.send("msg_1", b"{}", NOW)
    return raised.value


def sender(to: Webhook, permit: object = OPEN, **more: object) -> WebhookSender:
    return WebhookSender(to, permit, **more)  # type: ignore[arg-type]


def signatures(to: Receiver) -> list[str]:
    return to.got[-1].headers["webhook-signature"].split()


async def test_a_message_is_signed_with_each_secret_over_id_time_and_body() -> None:
    with receiver() as to:
        await sender(webhook(f"{to.url}/a?b=c", *SECRETS)).send("msg_1", b'{"n":1}', NOW)
        (got,) = to.got
        assert (got.path, got.id, got.body) == ("/a?b=c", "msg_1", b'{"n":1}')
        assert got.headers["webhook-timestamp"] == "1700000000"
        assert got.headers["content-type"] == "application/json"
        signed = b'msg_1.1700000000.{"n":1}'
        expected = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in KEYS]
        assert signatures(to) == [f"v1,{one}" for one in expected]


@pytest.mark.parametrize(
    ("answer", "lasting", "wait_s", "holds"),
    [
        ((500, {}), False, 0, False),
        ((404, {}), False, 0, False),
        ((410, {}), True, 0, False),
        ((429, {"retry-after": "7"}), False, 7, True),
        ((429, {}), False, 0, False),
        ((503, {"retry-after": "999999"}), False, 3600, True),
        ((503, {"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}), False, 9.5, True),
        ((500, {"retry-after": "7"}), False, 7, False),
        ((429, {"retry-after": "soon"}), False, 0, False),
        ((304, {}), False, 0, False),
    ],
)
async def test_an_answer_that_is_no_2xx_says_what_to_do(
    answer: object, lasting: bool, wait_s: float, holds: bool
) -> None:
    with receiver() as to:
        to.answers = [answer]
        found = await failure(sender(webhook(to.url)))
        assert (found.lasting, found.wait_s, found.holds) == (lasting, wait_s, holds)


async def test_a_redirect_is_not_followed() -> None:
    with receiver() as to, receiver() as elsewhere:
        to.answers = [(307, {"location": elsewhere.url})]
        assert "redirects" in (await failure(sender(webhook(to.url)))).why
        assert elsewhere.got == []


async def test_who_closes_the_connection_has_not_got_it() -> None:
    with receiver() as to:
        to.answers = ["close"]
        found = await failure(sender(webhook(to.url)))
        assert (found.lasting, len(to.got)) == (False, 1)
        await sender(webhook(to.url)).send("msg_1", b"{}", NOW)


async def test_who_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.gateway.notify.webhook._TOTAL_S", 0.3)
    with receiver() as to:
        to.answers = ["hang"]
        assert line_names((await failure(sender(webhook(to.url)))).why, "127.0.0.1 ", "in time")


@pytest.mark.parametrize(
    "egress",
    [Egress(), Egress(allow=frozenset({("hooks.example.com", 443)}))],
    ids=["private", "unlisted"],
)
async def test_a_place_that_the_policy_does_not_open_is_not_reached(egress: Egress) -> None:
    with receiver() as to:
        found = await failure(sender(webhook(to.url), under(egress)))
        assert (found.code, found.lasting, to.got) == ("egress_refused", True, [])
        assert "not connect to 127.0.0.1" in found.why


async def test_a_name_that_resolves_to_a_private_address_is_refused() -> None:
    asked: list[Destination] = []

    to = webhook("https://hooks.example.com/x")
    found = await failure(sender(to, under(Egress(), asked), resolver=resolving("93.184.215.14", "169.254.169.254")))
    assert (found.code, found.lasting) == ("egress_refused", True)
    assert [one.address for one in asked if one.address] == ["93.184.215.14", "169.254.169.254"]


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("${env:URL}", SECRETS[0]),
        ("http://127.0.0.1:9/", "${env:SIGNING}"),
        ("${file:/nowhere}", SECRETS[0]),
    ],
)
async def test_what_cannot_be_read_is_told_without_what_it_is(
    monkeypatch: pytest.MonkeyPatch, url: str, secret: str
) -> None:
    monkeypatch.setenv("URL", "http://hooks.example.com/s3cr3t")
    monkeypatch.setenv("SIGNING", "s3cr3t")
    found = await failure(sender(webhook(url, secret)))
    assert found.code == "secret_unavailable"
    assert "s3cr3t" not in str(found.why) + repr(found)


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with receiver() as to, receiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await sender(webhook(to.url)).send("msg_1", b"{}", NOW)
        assert (len(to.got), proxy.got) == (1, [])


async def test_a_receiver_is_believed_whose_certificate_one_of_the_named_authorities_signed(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    certificate, key = ours.issue("hooks")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    believed = tmp_path / "believed.pem"
    with receiver(context) as to:
        assert not (await failure(sender(webhook(to.url)))).lasting
        for text in (other.path.read_text(), "no certificate", ""):
            believed.write_text(text)
            why = (await failure(sender(webhook(to.url, authorities=f"${{file:{believed}}}")))).why
            assert "BEGIN" not in why
        assert to.got == []
        believed.write_text(ours.path.read_text())  # it is read again for each message
        await sender(webhook(to.url, authorities=f"${{file:{believed}}}")).send("msg_1", b"{}", NOW)
        wrong = to.url.replace("localhost", "127.0.0.2")  # a name that the certificate does not have
        assert await failure(sender(webhook(wrong, authorities=f"${{file:{believed}}}")))
        assert [one.id for one in to.got] == ["msg_1"]
