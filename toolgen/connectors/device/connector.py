"""Tools that run on the user's device: their file, and the requests stored for the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.model.binding_change import BindingChange
from toolgen.model.tool import Tool

__all__ = ["DeviceConnector"]


class DeviceKeys(Struct):
    """Keys of a source in toolgen.yaml."""

    device: str | None = None


class DeviceConnector(Connector):
    """Connector of `device:`."""

    kind = "device"
    keys = DeviceKeys
    bindings = frozenset({"device"})
    failure_advice = "timeout: of its file is the time limit of a device"
    auth_refusal = "a device uses its user's own credential when it fetches its requests"
    no_proof = "the tool runs on its caller's own device, by the project's own file"

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the tools of a file."""
        from toolgen.connectors.device.read import read_device  # noqa: PLC0415 - if there is such a source

        return read_device(config)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the executor that stores requests until a device answers them."""
        from toolgen.connectors.device.executor import DeviceExecutor  # noqa: PLC0415 - if there is such a source

        return DeviceExecutor(context.devices)

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of a request to a device."""
        from toolgen.connectors.device.binding_changes import device_changes  # noqa: PLC0415 - for a comparison alone

        return device_changes(before, after)
