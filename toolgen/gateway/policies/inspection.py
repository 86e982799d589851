"""Detectors of a project: built-in ones, and objects of its own modules."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from msgspec.structs import asdict

from toolgen.config.checks import SHIPPED, DetectorSettings, InspectionSettings
from toolgen.core.canonical import canonical
from toolgen.core.errors import ConfigError
from toolgen.gateway.policies.middleware import imported
from toolgen.model.detection import Detector, Finding
from toolgen.policy.detectors.classifier import Classifier, installed_model
from toolgen.policy.detectors.hidden_text import HiddenText
from toolgen.policy.detectors.inspector import DetectorWatch, Inspector, Reader
from toolgen.policy.detectors.instructions import Instructions
from toolgen.policy.detectors.leaks import Leaks
from toolgen.policy.detectors.national_ids import NationalIds
from toolgen.policy.detectors.personal_data import PersonalData
from toolgen.policy.detectors.secrets import SecretDetector
from toolgen.policy.detectors.tokens import Tokens

__all__ = ["inspector_of"]


def inspector_of(settings: InspectionSettings) -> Inspector:
    """Return the inspector of answers. Raises `ConfigError` for a detector that cannot be loaded."""
    tokens = Tokens(settings.tokenised) if settings.tokenised else None
    return Inspector([_watch(one, settings) for one in settings.detectors], tokens)


def _watch(one: DetectorSettings, settings: InspectionSettings) -> DetectorWatch:
    detector: Detector
    reader: Reader | None = None
    if one.detector == "classifier":
        model = installed_model()
        detector = classifier = Classifier(model, one.timeout_s)
        reader, code = classifier.read, model.digest.encode() + _code_of(classifier)
    elif one.detector in SHIPPED:
        detector = (
            _shipped(one)
            if set(one.kinds) == set(SHIPPED[one.detector][0])
            else _Only(_shipped(one), frozenset(one.kinds))
        )
        code = _code_of(_shipped(one))
    else:
        made, code = imported(one.detector, settings.root, one.where)
        detector = made() if isinstance(made, type) else made
        if not callable(getattr(detector, "find", None)):
            raise ConfigError(
                f"{one.detector} is not a detector", where=one.where, suggestion="give it a method find(text)"
            )
        if one.kinds:
            detector = _Only(detector, frozenset(one.kinds))
    said = {name: value for name, value in asdict(one).items() if name != "where"}
    return DetectorWatch(
        name=one.detector,
        digest="sha256:" + sha256(code + b"\0" + canonical(said)).hexdigest(),
        detector=detector,
        then=one.then,
        label=one.label,
        tools=one.tools,
        removes=one.detector == "hidden_text",
        reader=reader,
    )


def _code_of(detector: object) -> bytes:
    file = Path(sys.modules[type(detector).__module__].__file__ or "")
    return b"".join(path.read_bytes() for path in (file, file.with_suffix(".yaml")) if path.is_file())


def _shipped(one: DetectorSettings) -> Detector:
    match one.detector:
        case "hidden_text":
            return HiddenText()
        case "instructions":
            return Instructions()
        case "secrets":
            return SecretDetector()
        case "personal_data":
            return PersonalData(frozenset(one.kinds))
        case "national_ids":
            return NationalIds(one.countries, one.where)
        case _:
            return Leaks()


class _Only:
    """Detector limited to some kinds of findings."""

    def __init__(self, detector: Detector, kinds: frozenset[str]) -> None:
        self._detector, self._kinds = detector, kinds

    def find(self, text: str) -> Iterable[Finding]:
        """Return the findings of these kinds."""
        kinds = self._kinds
        return [finding for finding in self._detector.find(text) if finding.kind in kinds]
