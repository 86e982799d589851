"""Bucket with object lock. Not S3 itself: signatures are checked by botocore, and what S3 asks of a locked object is asked here too."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.gateway.audit.sinks.base import HttpSink


class BucketSink(HttpSink):
    kind = "s3"
    refuses_content = False

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.objects: dict[str, bytes] = {}

    def settings(self) -> dict[str, Any]:
        key = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "${env:SINK_SECRET}"}
        return {
            "s3": {
                "bucket": "records",
                "prefix": "toolgen/a_b/",
                "endpoint": f"https://localhost:{self.port}",
                "retention": {"mode": "compliance", "days": 400},
                "aws": {"region": "eu-west-1", **key},
            }
        }

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        assert method == "PUT"
        names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        given = {name: headers[name] for name in names if name != "host"}
        request = AWSRequest(method, f"https://{headers['host']}{path}", headers=given, data=body)
        request.context["timestamp"] = headers["x-amz-date"]
        signer = S3SigV4Auth(Credentials("AKIDEXAMPLE", "right-secret"), "s3", "eu-west-1")
        canonical = signer.canonical_request(request)
        signature = signer.signature(signer.string_to_sign(request, canonical), request)
        if not headers["authorization"].endswith(f"Signature={signature}"):
            return 403, b"<Error><Code>SignatureDoesNotMatch</Code><canary/></Error>"
        assert "host" in names
        digest = hashlib.sha256(body)
        assert headers["x-amz-content-sha256"] == digest.hexdigest()
        locked = {"x-amz-checksum-sha256", "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"}
        assert locked <= set(names)
        assert headers["x-amz-sdk-checksum-algorithm"] == "SHA256"
        if headers["x-amz-checksum-sha256"] != base64.b64encode(digest.digest()).decode():
            return 400, b"<Error><Code>BadDigest</Code></Error>"
        until = datetime.fromisoformat(headers["x-amz-object-lock-retain-until-date"])
        assert headers["x-amz-object-lock-mode"] == "COMPLIANCE"
        assert abs(until - datetime.now(UTC) - timedelta(days=400)) < timedelta(minutes=5)
        self.takes(body.splitlines())
        sent = [entry["seq"] for entry in self.received[-len(body.splitlines()) :]]
        stream = self.received[-1]["stream"]
        mark = self.received[-1]["hash"][:16]
        assert path == f"/records/toolgen/a_b/{stream}/{sent[0]:012d}-{sent[-1]:012d}-{mark}.jsonl"
        self.identities.append(path)
        self.objects[path] = body
        return 200, b""
