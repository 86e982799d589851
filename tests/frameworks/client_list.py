"""Clients that `make frameworks` tries, in the order of the table: name of its script, title, and environment if it has another name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CLIENTS", "EXAMPLES", "FrameworkClient"]

SCRIPTS = Path(__file__).parent / "clients"
EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"


@dataclass(frozen=True, kw_only=True)
class FrameworkClient:
    """One client of MCP, as a package or a framework brings it."""

    name: str
    title: str
    environment: str = ""

    @property
    def script(self) -> Path:
        """Its script: Python, or JavaScript for an npm package."""
        path = SCRIPTS / f"with_{self.name}.py"
        return path if path.exists() else path.with_suffix(".mjs")

    @property
    def example(self) -> Path:
        """The file of the documentation."""
        return EXAMPLES / self.script.name


_TITLES = {
    "mcp": "MCP SDK, Python",
    "mcp_1": "MCP SDK 1, Python",
    "mcp_js": "MCP SDK, TypeScript",
    "mcp_js_1": "MCP SDK 1, TypeScript",
    "fastmcp": "FastMCP",
    "pydantic_ai": "pydantic-ai",
    "openai_agents": "OpenAI Agents, Python",
    "openai_agents_js": "OpenAI Agents, TypeScript",
    "langchain": "LangChain, Python",
    "langchain_js": "LangChain, JavaScript",
    "google_adk": "Google ADK",
    "google_genai": "Google Gen AI, Python",
    "google_genai_js": "Google Gen AI, JavaScript",
    "llama_index": "LlamaIndex",
    "smolagents": "smolagents",
    "crewai": "CrewAI",
    "crewai_tools": "crewai-tools",
    "semantic_kernel": "Semantic Kernel",
    "agent_framework": "Microsoft Agent Framework",
    "autogen": "AutoGen",
    "agno": "Agno",
    "strands": "Strands Agents",
    "haystack": "Haystack",
    "dspy": "DSPy",
    "anthropic": "Anthropic SDK, Python",
    "anthropic_js": "Anthropic SDK, TypeScript",
    "ai_sdk": "AI SDK",
    "mastra": "Mastra",
    "mastra_0": "Mastra 0.14",
}
CLIENTS = tuple(
    FrameworkClient(name=name, title=title, environment="crewai" if name == "crewai_tools" else name)
    for name, title in _TITLES.items()
)
