"""No request leaves for where it must not, and no argument makes two requests of one: counted by the kernel, where only loopback is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

_ALONE = ["unshare", "--net"]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    if (
        shutil.which("unshare") is None
        or subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("this machine does not let a test have a network namespace of its own")
    done = subprocess.run(
        [*_ALONE, sys.executable, "-m", "tests.attacks.ssrf"], capture_output=True, check=False, timeout=120, text=True
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_everything_that_leads_inside_or_splits_a_request_is_refused_before_a_packet_leaves(
    found: dict[str, Any],
) -> None:
    assert found["interfaces"] == ["lo"]
    assert len(found["cases"]) >= 150
    assert found["control"]["ended"] == "answered"
    assert found["control"]["packets"] > 0
    wrong = {
        name: case for name, case in found["cases"].items() if case["ended"] not in case["expected"] or case["packets"]
    }
    assert not wrong
