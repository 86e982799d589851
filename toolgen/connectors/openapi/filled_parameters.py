"""Parameters that the gateway fills in and that are no arguments: constants, credentials, and the idempotency key header."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs
from msgspec.structs import replace

from toolgen.connectors.openapi.operation import Operation, Parameter, RequestBody
from toolgen.connectors.openapi.schema import Direction, Schemas
from toolgen.core.spelling import nearest
from toolgen.model.auth_schemes import sent
from toolgen.model.idempotency_keys import NO_KEY_HEADER
from toolgen.model.manifest import SecurityScheme
from toolgen.model.parameter_names import may_be_one
from toolgen.model.tool import Constant, HttpKey

__all__ = ["NO_CONSTANTS", "Constants", "is_signature_part", "sends_credential", "without_credentials", "without_key"]

# Idempotency-Key (the IETF's draft), X-Idempotency-Key, Cko-Idempotency-Key, X-idempotence-uuid, I-Twilio-Idempotency-Token …
_NAMED = re.compile(r"(?:[a-z0-9]+-)*idempoten(?:cy|ce|t)-?(?:key|token|id|uuid)?\Z")
# X-Request-Id and similar headers also identify a request in logs; only the description decides.
_PERHAPS = re.compile(r"(?:[a-z0-9]+-)*(?:request|transaction|operation|message|client)-?(?:id|key|token|uuid)\Z")
_SAID = re.compile(r"idempoten", re.IGNORECASE)
_BACKTRACKS = 100_000
# Values of the gateway: the id of a call, the digest of a caller's key, or a UUID made of either (`model/idempotency_keys.py`).
_TEXTS = (f"call_{'0' * 24}", f"tg_{'f' * 48}")
_UUIDS = ("6f9619ff-8b86-4011-b42d-00cf4fc964ff",)

# Names of a bearer token as a parameter (RFC 6750, section 2.3). `token` has other meanings too, so its description decides.
_TOKENS = frozenset({"accesstoken", "oauthtoken", "bearertoken", "authtoken"})
_MAY_BE_TOKENS = frozenset({"token", "authorization", "auth"})
_OF_CREDENTIALS = re.compile(
    r"authenticat|authoriz|\bauth\b|bearer|oauth|access token|api token|\bscopes?\b", re.IGNORECASE
)
# A property of a body needs a clearer description: some bodies are about a token, for example to revoke it.
_AUTHENTICATES = re.compile(
    r"authentication token|\b(?:requires?|required|with) (?:the )?scopes?\b|authenticat\w* (?:this|the|your) (?:request|call)",
    re.IGNORECASE,
)
# Google's system parameters (cloud.google.com/apis/docs/system-parameters), repeated in every method of its APIs.
_GOOGLES = frozenset(
    {
        *("$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"),
        *("uploadType", "upload_protocol", "userIp"),
    }
)
# Parts of AWS's Signature Version 4, repeated in every operation of its descriptions.
_SIGNATURE = frozenset(
    {
        *("x-amz-algorithm", "x-amz-content-sha256", "x-amz-credential", "x-amz-date", "x-amz-security-token"),
        *("x-amz-signature", "x-amz-signedheaders"),
    }
)
_MARKS_OF_GOOGLE = frozenset({"alt", "prettyPrint", "quotaUser"})

Note = Callable[[str, str], None]


class Constants:
    """Values of `constants:` of a source, by name. Names of headers match in any case, as in HTTP."""

    def __init__(self, given: Mapping[str, Constant]) -> None:
        self._given = given
        self._unused = dict.fromkeys(given)
        self._seen: dict[str, None] = {}

    def taken(self, parameters: list[Parameter]) -> tuple[list[Parameter], list[tuple[Parameter, Constant]]]:
        """Return the parameters that stay arguments, and the fixed parameters with their values. Google's system parameters are in
        neither list.
        """
        fixed = []
        names = {one.name for one in parameters if one.in_ == "query"}
        googles = names & _GOOGLES if names >= _MARKS_OF_GOOGLE else frozenset()
        kept = []
        for one in parameters:
            name = self._constant(one)
            if name is not None:
                self._unused.pop(name, None)
                fixed.append((one, self._given[name]))
            elif one.in_ != "query" or one.name not in googles or one.required:
                kept.append(one)
        if self._unused:
            self._seen |= dict.fromkeys(one.name for one in parameters)
        return kept, fixed

    def _constant(self, one: Parameter) -> str | None:
        if one.in_ == "header":
            return next((name for name in self._given if name.lower() == one.name.lower()), None)
        return one.name if one.name in self._given and one.in_ != "querystring" else None

    def unused(self) -> Iterator[str]:
        """Yield a sentence for each constant that matches no parameter."""
        for name in self._unused:
            yield f"constants: no operation has a parameter {name[:80]!r}{nearest(name, self._seen)}"


NO_CONSTANTS = Constants({})


def sends_credential(scheme: SecurityScheme, one: Parameter) -> bool:
    """Return True if a parameter carries the credential that the gateway sends for a security scheme."""
    if scheme.type == "apiKey" and scheme.in_ == one.in_ and may_be_one(scheme.name, one.name):
        return True
    if one.in_ not in {"query", "header", "cookie"} or sent(scheme) != ("header", "authorization"):
        return False
    folded = one.name.lower().replace("_", "").replace("-", "")
    return folded in _TOKENS or (folded in _MAY_BE_TOKENS and bool(_OF_CREDENTIALS.search(one.description)))


def is_signature_part(scheme: SecurityScheme, one: Parameter) -> bool:
    """Return True if a parameter is a part of the signature that the gateway makes for a security scheme."""
    return (
        one.in_ in {"header", "query"}
        and one.name.lower() in _SIGNATURE
        and sent(scheme) == ("header", "authorization")
    )


def without_credentials(
    body: RequestBody, schemas: Schemas, operation: Operation, schemes: Mapping[str, SecurityScheme], note: Note
) -> RequestBody:
    """Return the body without properties that contain the bearer token of the gateway (Slack's `token`)."""
    needed = {name for option in operation.security for name in option}
    bearer = any(
        schemes[name].type in {"oauth2", "openIdConnect"} or schemes[name].scheme == "bearer"
        for name in needed & schemes.keys()
    )
    raw = schemas.resolve(body.schema) if bearer else None
    properties = raw.get("properties") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or not isinstance(properties, dict):
        return body
    tokens = {name for name, one in properties.items() if isinstance(one, dict) and _is_token(name, one)}
    if not tokens:
        return body
    for name in sorted(tokens):
        note("credential_parameter", f"{name[:80]!r} in the body carries a credential; the gateway sends it")
    kept = {name: one for name, one in properties.items() if name not in tokens}
    required = raw.get("required")
    wanted = [name for name in required if name not in tokens] if isinstance(required, list) else []
    beside = {key: one for key, one in raw.items() if key not in {"properties", "required"}}
    return replace(body, schema={**beside, "properties": kept, **({"required": wanted} if wanted else {})})


def _is_token(name: str, schema: Mapping[str, Any]) -> bool:
    said = schema.get("description")
    folded = name.lower().replace("_", "").replace("-", "")
    return folded in _TOKENS | _MAY_BE_TOKENS and isinstance(said, str) and bool(_AUTHENTICATES.search(said))


def without_key(
    parameters: list[Parameter], schemas: Schemas, configured: str, note: Note
) -> tuple[list[Parameter], HttpKey | None]:
    """Return the remaining parameters, and the header that the gateway fills in.

    `configured` is its name in toolgen.yaml: "" if absent, and `NO_KEY_HEADER` if no header is to be filled in.
    """
    found = None if configured == NO_KEY_HEADER else _found(parameters, configured)
    if found is None:
        return parameters, None
    form = _form(found, schemas)
    if form is None:
        note("key_header", f"the header {found.name[:80]!r} does not accept a key of the gateway; it stays an argument")
        return parameters, None
    return [one for one in parameters if one is not found], HttpKey(
        header=found.name, form=form, required=found.required
    )


def _found(parameters: Sequence[Parameter], configured: str) -> Parameter | None:
    headers = [(one, one.name.lower().replace("_", "-")) for one in parameters if one.in_ == "header"]
    if given := next((one for one, _ in headers if one.name.lower() == configured.lower()), None):
        return given
    named = next((one for one, name in headers if _NAMED.match(name)), None)
    return named or next((one for one, name in headers if _PERHAPS.match(name) and _SAID.search(one.description)), None)


def _form(one: Parameter, schemas: Schemas) -> str | None:
    """Return the kind of key that the header's schema accepts: `text`, `uuid`, or None."""
    if one.content_type:
        return None
    whole = {"type": "object", "properties": {"key": schemas.convert(one.schema, Direction.INPUT)}}
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schemas.close(whole, Direction.INPUT),
            validate_formats=True,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        )
    except ValueError:  # An invalid schema is reported when the parameter is read as an argument.
        return None
    for form, texts in (("text", _TEXTS), ("uuid", _UUIDS)):
        if all(validator.is_valid({"key": text}) for text in texts):
            return form
    return None
