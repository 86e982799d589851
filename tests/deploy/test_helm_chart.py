"""Helm chart: its values, and what it renders to, held against deploy/kubernetes and the schemas of Kubernetes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import toolgen
from tests.deploy.test_deployment import DEPLOY, documents, manifests, ran, tool

CHART = DEPLOY / "helm" / "toolgen"
TEMPLATES = sorted(CHART.glob("templates/*"))
KINDS = ("StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy")
PODS = [{"app": "toolgen-redis", "port": 6379}, {"app": "toolgen-postgres", "port": 5432}]


def values() -> dict[str, Any]:
    found: dict[str, Any] = documents(CHART / "values.yaml")[0]
    return found


def check(given: dict[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(given, schema, cls=jsonschema.Draft202012Validator)


@pytest.fixture(scope="module", params=["go", "helm"])
def renderer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that renders: Helm, or one that is compiled once and needs the standard library of Go alone."""
    if request.param == "helm":
        return Path(tool("helm"))
    folder = tmp_path_factory.mktemp("go")
    program = folder / "render"
    source = str(Path(__file__).with_name("render.go"))
    ran(tool("go"), "build", "-o", str(program), source, GOCACHE=str(folder / "cache"), GO111MODULE="off")
    return program


def helm(command: str, *arguments: str, folder: Path) -> str:
    """What Helm said, with folders of its own."""
    places = {f"HELM_{name}_HOME": str(folder / "helm") for name in ("CACHE", "CONFIG", "DATA")}
    return ran(tool("helm"), command, *arguments, **places)


def rendered(renderer: Path, folder: Path, **changed: Any) -> str:
    given = values() | changed
    check(given)
    if renderer.name == "helm":
        (folder / "values.json").write_text(json.dumps(given), encoding="utf-8")
        options = ("--namespace", "toolgen", "--values", str(folder / "values.json"))
        return helm("template", "toolgen", str(CHART), *options, folder=folder)
    chart = documents(CHART / "Chart.yaml")[0]
    release = {"Name": "toolgen", "Namespace": "toolgen", "Service": "Helm"}
    about = {"Values": given, "Release": release, "Chart": {"AppVersion": chart["appVersion"]}}
    (folder / "values.json").write_text(json.dumps(about), encoding="utf-8")
    return ran(str(renderer), str(folder / "values.json"), *map(str, TEMPLATES))


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """A manifest without what a chart adds: labels of the release, its namespace and the place of the image."""

    def cut(value: Any) -> Any:
        if isinstance(value, dict):
            own = {
                "app.kubernetes.io/instance",
                "app.kubernetes.io/version",
                "app.kubernetes.io/managed-by",
                "namespace",
            }
            return {name: cut(item) for name, item in value.items() if name not in own}
        return [cut(item) for item in value] if isinstance(value, list) else value

    changed: dict[str, Any] = cut(copy.deepcopy(found))
    changed["metadata"].pop("labels", None)
    for container in changed["spec"].get("template", {}).get("spec", {}).get("containers", ()):
        container["image"] = container["image"].rpartition("/")[2].partition(":")[0]
    return changed


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = documents(CHART / "Chart.yaml")[0]
    assert chart["appVersion"] == values()["image"]["tag"] == toolgen.__version__
    assert chart["version"].replace("-", "") == toolgen.__version__


def test_the_chart_makes_the_objects_of_the_manifests(renderer: Path, tmp_path: Path) -> None:
    text = rendered(renderer, tmp_path, network=values()["network"] | {"pods": PODS})
    found = {one["kind"]: one for one in yaml.safe_load_all(text) if one}
    assert set(found) == set(KINDS)
    for kind in KINDS:
        assert plain(found[kind]) == plain(manifests()[kind]), kind


def test_what_values_change(renderer: Path, tmp_path: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    text = rendered(
        renderer,
        tmp_path,
        replicas=5,
        image=values()["image"] | {"digest": digest},
        record={"size": "50Gi", "storageClass": "fast"},
        network={"from": "edge", "pods": [], "internetPorts": []},
    )
    found = {one["kind"]: one for one in yaml.safe_load_all(text) if one}
    spec = found["StatefulSet"]["spec"]
    assert spec["replicas"] == 5
    assert spec["template"]["spec"]["containers"][0]["image"] == f"registry.example.com/toolgen@{digest}"
    (volume,) = spec["volumeClaimTemplates"]
    assert volume["spec"]["storageClassName"] == "fast"
    assert volume["spec"]["resources"]["requests"]["storage"] == "50Gi"
    assert len(found["NetworkPolicy"]["spec"]["egress"]) == 1  # names alone


def test_kubernetes_takes_what_is_rendered(renderer: Path, tmp_path: Path) -> None:
    path = tmp_path / "rendered.yaml"
    path.write_text(rendered(renderer, tmp_path, network=values()["network"] | {"pods": PODS}), encoding="utf-8")
    said = ran(tool("kubernetes-validate"), "--strict", str(path))
    assert said.count("passed for resource") == len(KINDS)


WRONG: list[dict[str, Any]] = [
    {"replica": 2},
    {"replicas": 0},
    {"image": {"repository": "toolgen", "tag": "latest"}},
    {"credentials": "Not A Name"},
    {"network": {"from": "ingress", "pods": [{"app": "x"}], "internetPorts": []}},
    {"record": {"size": "large"}},
]


@pytest.mark.parametrize("changed", WRONG)
def test_values_that_are_none_are_refused(changed: dict[str, Any]) -> None:
    check(values())
    with pytest.raises(jsonschema.ValidationError):
        check(values() | changed)


@pytest.mark.parametrize("changed", WRONG)
def test_helm_refuses_values_that_are_none(changed: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "values.json").write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(AssertionError, match="values don't meet the specifications of the schema"):
        helm("template", "toolgen", str(CHART), "--values", str(tmp_path / "values.json"), folder=tmp_path)


def test_helm_finds_no_fault_in_the_chart(tmp_path: Path) -> None:
    said = helm("lint", "--strict", str(CHART), "--set", "replicas=3", folder=tmp_path)
    assert "1 chart(s) linted, 0 chart(s) failed" in said
