"""Tools that run on the user's device: their file, and the requests that are kept for the device."""

from __future__ import annotations

from collections.abc import Callable

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings

__all__ = ["DeviceConnector"]


class DeviceConnector(Connector):
    """Connector of `device:`."""

    kind = "device"
    failure_advice = "a device has the time that timeout: of its file says"
    auth_refusal = "a device shows its user's own credential when it asks for its requests"
    no_proof = "the tool runs on its caller's own device, by the project's own file"

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the tools of a file."""
        from toolgen.connectors.device.read import read_device  # noqa: PLC0415 - if there is such a source

        return read_device(config)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the executor that keeps requests until a device answers them."""
        from toolgen.connectors.device.executor import DeviceExecutor  # noqa: PLC0415 - if there is such a source

        return DeviceExecutor(context.devices)
