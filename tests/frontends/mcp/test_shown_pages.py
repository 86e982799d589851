"""Web pages that clients were shown: how many are remembered, and who is told of which."""

from __future__ import annotations

import asyncio

from toolgen.frontends.mcp import shown_pages
from toolgen.frontends.mcp.shown_pages import ShownPages
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.model.call import Principal

BOT, OTHER = Principal(id="bot"), Principal(id="other")
ELICIT = "elicitation/create"


def shown(pages: ShownPages, session: str, page: str, principal: Principal = BOT) -> None:
    pages.shown(principal, session, ELICIT, {"mode": "url", "elicitationId": page})


def test_no_client_has_more_pages_remembered_than_it_may() -> None:
    pages = ShownPages(ResourceUpdates())
    for number in range(1_000):
        shown(pages, "busy", f"busy-{number}")
    shown(pages, "quiet", "quiet")
    for number in range(shown_pages._MAX_SESSIONS - 2):
        shown(pages, f"s-{number}", f"p-{number}")
    assert len(pages._sessions) == shown_pages._MAX_SESSIONS
    assert len(pages._holders) == shown_pages._MAX_PAGES + 1 + shown_pages._MAX_SESSIONS - 2
    for number in range(shown_pages._MAX_SESSIONS):
        shown(pages, f"t-{number}", f"q-{number}")
    assert len(pages._sessions) == len(pages._holders) == shown_pages._MAX_SESSIONS
    with pages.listening(BOT, "t-1") as stream:
        for number in range(1_000):  # done, and nobody listens but one
            pages.done(f"q-{number}")
            pages.done("unknown")
        assert [stream.done.get_nowait() for _ in range(stream.done.qsize())] == ["q-1"]
    for number in range(1_000):
        shown(pages, "late", f"late-{number}")
        pages.done(f"late-{number}")
    with pages.listening(BOT, "late") as stream:
        assert stream.done.qsize() == shown_pages._MAX_PAGES


def test_a_page_is_told_over_the_stream_of_its_request_while_that_is_open_and_read() -> None:
    pages, told = ShownPages(ResourceUpdates()), list[bytes]()

    def send(body: bytes) -> None:
        if told:
            raise asyncio.QueueFull
        told.append(body)

    with pages.listening(BOT, "s") as stream:
        for page in ("a", "b", "c"):
            pages.shown(BOT, "s", ELICIT, {"mode": "url", "elicitationId": page}, send)
        pages.done("a")
        pages.done("b")  # the stream is not read any more
        pages.close(BOT, "s", send)
        told.clear()
        pages.done("c")
        assert b'"elicitationId":"a"' not in b"".join(told)
        assert [stream.done.get_nowait() for _ in range(stream.done.qsize())] == ["b", "c"]
    assert not pages._streams


def test_a_form_and_a_page_without_a_session_are_not_remembered() -> None:
    pages = ShownPages(ResourceUpdates())
    pages.shown(BOT, "s", ELICIT, {"mode": "form", "elicitationId": "a"})
    pages.shown(BOT, "s", "sampling/createMessage", {"mode": "url", "elicitationId": "a"})
    pages.shown(BOT, "", ELICIT, {"mode": "url", "elicitationId": "a"})
    pages.shown(BOT, "s", ELICIT, {"mode": "url", "elicitationId": 7})
    assert not pages._sessions


def test_sessions_of_two_callers_have_their_own_pages() -> None:
    pages = ShownPages(ResourceUpdates())
    shown(pages, "s", "a")
    shown(pages, "s", "b", OTHER)
    with pages.listening(BOT, "s") as mine, pages.listening(OTHER, "s") as theirs:
        pages.done("b")
        assert (mine.done.qsize(), theirs.done.get_nowait()) == (0, "b")
