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


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that renders, compiled once. It needs the standard library of Go alone."""
    folder = tmp_path_factory.mktemp("go")
    program = folder / "render"
    source = str(Path(__file__).with_name("render.go"))
    ran(tool("go"), "build", "-o", str(program), source, GOCACHE=str(folder / "cache"), GO111MODULE="off")
    return program


def rendered(renderer: Path, folder: Path, **changed: Any) -> str:
    given = values() | changed
    check(given)
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


@pytest.mark.parametrize(
    "changed",
    [
        {"replica": 2},
        {"replicas": 0},
        {"image": {"repository": "toolgen", "tag": "latest"}},
        {"credentials": "Not A Name"},
        {"network": {"from": "ingress", "pods": [{"app": "x"}], "internetPorts": []}},
        {"record": {"size": "large"}},
    ],
)
def test_values_that_are_none_are_refused(changed: dict[str, Any]) -> None:
    check(values())
    with pytest.raises(jsonschema.ValidationError):
        check(values() | changed)
