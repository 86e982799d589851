"""deploy/ held against the tools that read it, where they are installed (`make deploy-tools`), and against rules of our own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.governed import project, upstream
from tests.served_workers import serving
from toolgen.config.settings import load
from toolgen.core.units import parse_duration

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOOLS = ROOT / ".venv-deploy" / "bin"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
PROJECTS = ["compose", "kubernetes"]
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*\Z")


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(TOOLS))
    if found is None:
        pytest.skip(f"{name} is not installed: `make deploy-tools` installs it")
    return found


def ran(*command: str, **variables: str) -> str:
    """What a command said; it must have ended well."""
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


def manifests() -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for path in KUBERNETES for one in documents(path)}


def compose() -> dict[str, Any]:
    return documents(DEPLOY / "compose" / "compose.yaml")[0]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each on one line."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(name, " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in lines if line.strip())]


def last_stage() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, rest in instructions():
        if name == "FROM":
            found = {}
        found.setdefault(name, []).append(rest)
    return found


def test_the_image_runs_as_nobody_in_particular_and_says_whether_it_is_well() -> None:
    stage = last_stage()
    assert stage["USER"] == ["10001:10001"]
    assert stage["STOPSIGNAL"] == ["SIGTERM"]
    assert len(stage["HEALTHCHECK"]) == 1
    assert json.loads(stage["ENTRYPOINT"][0]) == ["/opt/toolgen/bin/toolgen"]
    assert not any("pip" in run or "apt" in run for run in stage["RUN"])
    written = " ".join(rest for name, rest in instructions() if name in {"ENV", "ARG"})
    assert not re.search(r"(?i)password|secret|token|api_?key", written)
    assert "ADD" not in dict(instructions())


def test_every_image_has_a_version() -> None:
    base = next(rest for name, rest in instructions() if name == "ARG").removeprefix("PYTHON_IMAGE=")
    images = [base, *(service["image"] for service in compose()["services"].values())]
    assert [image for image in images if not PINNED.match(image)] == []


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    let_in = {line[1:] for line in (DEPLOY / "Containerfile.dockerignore").read_text().splitlines() if line[:1] == "!"}
    copied = {
        part.removeprefix("./")
        for name, rest in instructions()
        if name == "COPY" and "--from" not in rest
        for part in rest.split()[:-1]
    }
    assert copied <= let_in
    assert all((ROOT / name).exists() for name in copied)


def test_the_health_check_of_the_image_asks_a_gateway(tmp_path: Path) -> None:
    _, _, command = last_stage()["HEALTHCHECK"][0].partition(" CMD ")
    _, flag, code = json.loads(command)
    assert flag == "-c"

    def healthy(url: str) -> bool:
        asked = subprocess.run(
            [sys.executable, "-c", code], env={"TOOLGEN_HEALTH_URL": url}, capture_output=True, timeout=60, check=False
        )
        return asked.returncode == 0

    with upstream() as (_, server):
        path = project(tmp_path / "p", server, {"rules": []})
        with serving(path) as served:
            assert healthy(f"{served.url}/readyz")
            assert not healthy(f"{served.url}/nothing")
            assert served.end() == 0
            assert not healthy(f"{served.url}/readyz")


def test_compose_fits_its_schema() -> None:
    ran(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose" / "compose.yaml"))


def test_containers_of_the_compose_file_may_do_little() -> None:
    services = compose()["services"]
    gateway = services["gateway"]
    assert gateway["read_only"] is True
    assert gateway["cap_drop"] == ["ALL"]
    assert {"./project:/srv/toolgen:ro", "record:/srv/toolgen/var"} <= set(gateway["volumes"])
    assert "ports" not in gateway
    assert [name for name, service in services.items() if "ports" in service] == ["caddy"]
    for service in services.values():
        assert service["security_opt"] == ["no-new-privileges:true"]
    settings = load(DEPLOY / "compose" / "project" / "toolgen.yaml")
    assert (parse_duration(gateway["stop_grace_period"]) or 0) > settings.drain_s
    assert [str(one) for one in settings.trusted_proxies] == [
        compose()["networks"]["front"]["ipam"]["config"][0]["subnet"]
    ]


def test_kubernetes_takes_the_manifests() -> None:
    files = [str(path) for path in KUBERNETES if path.name != "kustomization.yaml"]
    said = ran(tool("kubernetes-validate"), "--strict", *files)
    assert said.count("passed for resource") == len(manifests()) - 1


def test_the_kustomization_names_what_is_there() -> None:
    folder = DEPLOY / "kubernetes"
    found = manifests()["Kustomization"]
    assert {path.name for path in KUBERNETES} == {*found["resources"], "kustomization.yaml"}
    assert all((folder / file).is_file() for one in found["configMapGenerator"] for file in one["files"])
    assert all((folder / f"{name}.example").is_file() for one in found["secretGenerator"] for name in one["envs"])
    spec = manifests()["StatefulSet"]["spec"]["template"]["spec"]
    maps = {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}
    assert maps == {one["name"] for one in found["configMapGenerator"]}
    assert spec["containers"][0]["image"] == found["images"][0]["name"]


def test_a_pod_is_drained_before_it_is_killed_and_may_do_little() -> None:
    found = manifests()
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (gateway,) = pod["containers"]
    settings = load(DEPLOY / "kubernetes" / "project" / "toolgen.yaml")
    before = gateway["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > before + settings.drain_s
    assert settings.grace_s
    assert gateway["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert gateway["livenessProbe"]["httpGet"]["path"] == gateway["startupProbe"]["httpGet"]["path"] == "/healthz"
    assert gateway["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        found["StatefulSet"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert found["NetworkPolicy"]["spec"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("name", PROJECTS)
def test_the_projects_are_good_and_name_every_credential(name: str) -> None:
    folder = DEPLOY / name
    text = (folder / "project" / "toolgen.yaml").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\$\{env:(\w+)\}", text))
    offered = set(re.findall(r"^(\w+)=$", (folder / "credentials.env.example").read_text(), re.MULTILINE))
    assert wanted == offered
    ran(sys.executable, "-m", "toolgen", "policy", "check", "--config", str(folder / "project" / "toolgen.yaml"))
    shown = ran(sys.executable, "-m", "toolgen", "tools", "--config", str(folder / "project" / "toolgen.yaml"))
    assert "status__get_status" in shown


def test_a_project_works_as_kubernetes_mounts_it(tmp_path: Path) -> None:
    """toolgen.yaml is a file (subPath), the folders hold links into a folder that is another after each change."""
    source = DEPLOY / "kubernetes" / "project"
    shutil.copy(source / "toolgen.yaml", tmp_path / "toolgen.yaml")
    for name in ("policies", "specs"):
        mounted = tmp_path / name
        shutil.copytree(source / name, mounted / "..2026_11_23")
        (mounted / "..data").symlink_to("..2026_11_23")
        for file in (source / name).iterdir():
            (mounted / file.name).symlink_to(Path("..data") / file.name)
    where = ["--config", str(tmp_path / "toolgen.yaml")]
    assert "1 rules" in ran(sys.executable, "-m", "toolgen", "policy", "check", *where)
    assert "status__get_status" in ran(sys.executable, "-m", "toolgen", "tools", *where)
    assert load(tmp_path / "toolgen.yaml").state_dir == tmp_path.resolve() / "var" / "state"


def unit(folder: Path) -> Path:
    """The unit with what is not installed on this machine replaced by what is."""
    text = (DEPLOY / "systemd" / "toolgen.service").read_text(encoding="utf-8")
    text = text.replace("/opt/toolgen/bin/toolgen", "/bin/true")
    (folder / "toolgen.service").write_text(text, encoding="utf-8")
    return folder / "toolgen.service"


def test_systemd_takes_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    assert ran(analyze, "verify", str(unit(tmp_path))) == ""
    ran(analyze, "security", "--offline=true", "--threshold=20", str(unit(tmp_path)))


def commands(text: str) -> Iterator[list[str]]:
    for line in re.findall(r"^Exec\w+=/opt/toolgen/bin/toolgen (.*)$", text, re.MULTILINE):
        yield line.split()


def test_the_unit_and_the_image_run_commands_that_exist() -> None:
    text = (DEPLOY / "systemd" / "toolgen.service").read_text(encoding="utf-8")
    wanted = [*commands(text), json.loads(last_stage()["CMD"][0])]
    assert len(wanted) == 3
    for command in wanted:
        ran(sys.executable, "-m", "toolgen", *command, "--help")


def test_the_unit_waits_longer_than_the_gateway_drains() -> None:
    text = (DEPLOY / "systemd" / "toolgen.service").read_text(encoding="utf-8")
    waits = re.search(r"^TimeoutStopSec=(\w+)$", text, re.MULTILINE)
    assert waits is not None
    assert (parse_duration(waits[1]) or 0) > 30  # what gateway.drain is where nothing is said
    assert "KillMode=mixed" in text
