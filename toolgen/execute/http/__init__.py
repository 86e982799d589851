"""HTTP tools: the exact request, sent to a checked address, and its answer."""

from toolgen.execute.http.connector import Resolver, Timeouts
from toolgen.execute.http.executor import HttpExecutor
from toolgen.execute.http.parameter_styles import UnbindableError

__all__ = ["HttpExecutor", "Resolver", "Timeouts", "UnbindableError"]
