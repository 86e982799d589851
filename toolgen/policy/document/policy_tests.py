"""Tests of a policy (`tests:`), each with its caller under the policy."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.call import Principal
from toolgen.model.context import resolved_context
from toolgen.model.manifest import Manifest
from toolgen.policy.arguments import repair
from toolgen.policy.credentials import ClaimsError, PolicyCredentials, claims_read, user_of
from toolgen.policy.document.principals import instant
from toolgen.policy.document.rules import read_earlier
from toolgen.policy.document.schema import (
    TestShape,
    UserShape,
)
from toolgen.policy.explain import SelfTest

__all__ = ["TestDraft", "finished_test", "read_test"]


class TestDraft(Struct, frozen=True, kw_only=True):
    """Test whose names of principals, rules and toolsets are checked after all files were read."""

    __test__ = False  # pytest collects classes named Test…

    given: TestShape
    test: SelfTest


def read_test(document: YamlDocument, index: int, manifest: Manifest) -> TestDraft:
    """Read an entry of `tests:`. Raises `PolicyError`."""
    path = ("tests", index)
    given = decode(document, path, TestShape, PolicyError)
    where = document.where(*path)
    if sum(map(bool, (given.call, given.prompt, given.resource))) != 1:
        raise PolicyError("a test names one tool (call:), prompt: or resource:", where=where)
    if not given.call:
        return _context_test(given, manifest, where)
    tool = manifest.tools.get(given.call)
    if tool is None:
        raise PolicyError(f"there is no tool '{given.call}'{nearest(given.call, manifest.tools)}", where=where)
    for dropped in repair(tool.input_schema, given.arguments).dropped:
        known = tool.input_schema.get("properties", {})
        raise PolicyError(f"{given.call} has no argument '{dropped}'{nearest(dropped, known)}", where=where)
    test = SelfTest(
        caller=Principal(id=""),
        tool=given.call,
        arguments=given.arguments,
        expect=given.expect,
        rule=given.rule,
        at=None if given.at is None else instant(given.at, "at", where),
        after=read_earlier(document, path, given, manifest),
        where=where,
    )
    return TestDraft(given=given, test=test)


def _context_test(given: TestShape, manifest: Manifest, where: str) -> TestDraft:
    """Return a test of a prompt or resource. Raises `PolicyError`, also for earlier calls in the test, which rules about these do not
    use."""
    if given.after:
        raise PolicyError("after: belongs to a test of a tool", where=where)
    read, arguments = resolved_context(manifest, given.prompt, given.resource, given.arguments)
    if given.expect == "ask" and (read is None or read.name not in manifest.tools):
        raise PolicyError("prompts and resources are never approved by a person: expect allow or deny", where=where)
    if read is None:
        what = f"prompt '{given.prompt}'{nearest(given.prompt, manifest.prompts)}" if given.prompt else "such resource"
        raise PolicyError(f"there is no {what}", where=where)
    for name in arguments:
        if name not in read.input_schema["properties"]:
            known = read.input_schema["properties"]
            raise PolicyError(f"{given.prompt} has no argument '{name}'{nearest(name, known)}", where=where)
    test = SelfTest(
        caller=Principal(id=""),
        tool=read.name,
        arguments=arguments,
        expect=given.expect,
        rule=given.rule,
        at=None if given.at is None else instant(given.at, "at", where),
        where=where,
    )
    return TestDraft(given=given, test=test)


def finished_test(
    draft: TestDraft, credentials: PolicyCredentials, rules: Collection[str], toolsets: Collection[str]
) -> SelfTest:
    """Return the test with its caller, after all principals were read. Raises `PolicyError`."""
    given, where = draft.given, draft.test.where
    caller = _party(given.as_, credentials, where)
    if given.on_behalf_of is not None:
        user = _party(given.on_behalf_of, credentials, where)
        entry = credentials.principals.get(caller.id)
        if entry is None or not entry.may_act_for(user.id):
            raise PolicyError(f"{caller.id} has no '{user.id}' under acts_for", where=where)
        caller = replace(caller, on_behalf_of=user)
    if given.toolset and given.toolset not in toolsets:
        raise PolicyError(f"there is no toolset '{given.toolset}'{nearest(given.toolset, toolsets)}", where=where)
    if given.rule is not None and given.rule not in {"default", *rules}:
        raise PolicyError(f"there is no rule '{given.rule}'{nearest(given.rule, rules)}", where=where)
    return replace(draft.test, caller=replace(caller, toolsets=frozenset({given.toolset} - {""})))


def _party(given: str | UserShape, credentials: PolicyCredentials, where: str) -> Principal:
    if isinstance(given, str):
        entry = credentials.principals.get(given)
        if entry is None:
            issuer, _, subject = given.partition(":")
            hint = f"write a user of an issuer as {{issuer: {issuer}, subject: {subject}, claims: {{…}}}}"
            raise PolicyError(
                f"there is no principal '{given}'{nearest(given, credentials.principals)}",
                where=where,
                suggestion=hint if issuer in credentials.issuers else "",
            )
        return entry.principal
    return _user(given, credentials, where)


def _user(given: UserShape, credentials: PolicyCredentials, where: str) -> Principal:
    """Return the user with these claims. A claim that the policy does not read is an error, because the test would not test it."""
    issuer = credentials.issuers.get(given.issuer)
    if issuer is None:
        raise PolicyError(
            f"there is no issuer '{given.issuer}'{nearest(given.issuer, credentials.issuers)}", where=where
        )
    known = claims_read(issuer)
    for claim in given.claims:
        if claim not in known:
            raise PolicyError(
                f"the issuer '{issuer.name}' reads no claim '{claim}'{nearest(claim, known)}", where=where
            )
    try:
        return user_of(issuer, {**given.claims, "sub": given.subject})
    except ClaimsError as error:
        raise PolicyError(f"no token with these claims is accepted: {error}", where=where) from None
