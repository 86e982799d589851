"""The tools whose names and answers the conformance suites know; a project's own functions look like these."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Annotated, Any

import msgspec

import toolgen
from toolgen import ToolContext

_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_SILENCE = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@toolgen.tool(effect="read")
def about() -> str:
    """Says what this is. Suites that call whichever tool comes first call this one."""
    return "The tools that the conformance suites know."


@toolgen.tool(effect="read")
def test_simple_text() -> str:
    """Answers with a text."""
    return "This is a simple text response for testing."


@toolgen.tool(effect="read")
def test_image_content() -> toolgen.Image:
    """Answers with a picture."""
    return toolgen.Image(_PIXEL)


@toolgen.tool(effect="read")
def test_audio_content() -> toolgen.Audio:
    """Answers with a recording."""
    return toolgen.Audio(_SILENCE)


@toolgen.tool(effect="read")
def test_embedded_resource() -> toolgen.EmbeddedResource:
    """Answers with a document."""
    return toolgen.EmbeddedResource("test://embedded-resource", "This is an embedded resource content.")


@toolgen.tool(effect="read")
def test_multiple_content_types() -> list[str | toolgen.Image | toolgen.EmbeddedResource]:
    """Answers with a text, a picture and a document."""
    document = toolgen.EmbeddedResource(
        "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
    )
    return ["Multiple content types test:", toolgen.Image(_PIXEL), document]


@toolgen.tool(effect="read")
async def test_error_handling() -> str:
    """Fails, and says so."""
    raise toolgen.ToolError("This tool intentionally returns an error for testing")


@toolgen.tool(effect="read")
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Tells how far it is."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@toolgen.tool(effect="read")
async def test_logging_tool(ctx: ToolContext) -> str:
    """Writes to the gateway's log, and to nobody else's."""
    ctx.logger.info("called")
    return "logged"


@toolgen.tool(effect="read")
async def test_tool_with_logging(ctx: ToolContext) -> str:
    """Tells its client what it does."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log.info(text, client=True)
        await asyncio.sleep(0.05)
    return "logged"


@toolgen.tool(effect="read", requires=("sampling",))
async def test_sampling(prompt: str, ctx: ToolContext) -> str:
    """Asks the caller's model."""
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    answer: Any = await ctx.sample([message], max_tokens=100)
    return f"LLM response: {answer['content']['text']}"


@toolgen.tool(effect="read", requires=("sampling",))
async def test_missing_capability(ctx: ToolContext) -> str:
    """Is for clients that have a model."""
    return "not reached without one"


@toolgen.tool(effect="read")
async def test_elicitation(message: str, ctx: ToolContext) -> str:
    """Asks the person."""
    text = {"type": "string", "description": "User's response"}
    address = {"type": "string", "description": "User's email address"}
    schema = {
        "type": "object",
        "properties": {"username": text, "email": address},
        "required": ["username", "email"],
    }
    answer = await ctx.elicit(message, schema)
    return f"User response: action={answer.action}, content={dict(answer.content)}"


@toolgen.tool(effect="read")
async def test_streaming_elicitation(ctx: ToolContext) -> str:
    """Asks the person after it has begun."""
    await ctx.progress(1, 2)
    return (await ctx.elicit("What is your name?", _NAME)).action


@toolgen.tool(effect="read")
async def test_elicitation_sep1034_defaults(ctx: ToolContext) -> str:
    """Asks with a default for everything."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await ctx.elicit("Who are you?", {"type": "object", "properties": properties})
    return f"Elicitation completed: action={answer.action}, content={dict(answer.content)}"


@toolgen.tool(effect="read")
async def test_elicitation_sep1330_enums(ctx: ToolContext) -> str:
    """Asks for choices of every kind."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    legacy = {"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", **legacy},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await ctx.elicit("Choose", {"type": "object", "properties": properties})
    return f"Elicitation completed: action={answer.action}, content={dict(answer.content)}"


_ADDRESS = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}


@toolgen.tool(
    effect="read",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": _ADDRESS},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
def json_schema_2020_12_tool(**arguments: Any) -> dict[str, Any]:
    """Takes what a schema of its own says."""
    return arguments


@toolgen.tool(effect="read")
def test_x_mcp_header(
    region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})], query: str = ""
) -> str:
    """Wants its region in a header too, so that what stands before the gateway can route by it."""
    return region


def _toggle(name: str, selected: str) -> str:
    """Change what the caller sees, as an edit of the policy does: a rule that hides something comes, or goes."""
    policy = Path(os.environ["TOOLGEN_CONFORMANCE"]) / "policies" / "policy.yaml"
    text = policy.read_text(encoding="utf-8")
    rule = f"  - {{id: {name}, to: [suite], {selected}, verdict: deny}}\n"
    changed = text.replace(rule, "") if rule in text else text.replace("rules:\n", "rules:\n" + rule)
    policy.write_text(changed, encoding="utf-8")
    return "changed"


@toolgen.tool(effect="read")
async def test_trigger_tool_change() -> str:
    """Changes what the caller may call."""
    return _toggle("hidden-tool", "tools: [test_appearing]")


@toolgen.tool(effect="read")
async def test_trigger_prompt_change() -> str:
    """Changes which prompts the caller may get."""
    return _toggle("hidden-prompt", "prompts: [test_appearing_prompt]")


@toolgen.tool(effect="read")
def test_appearing() -> str:
    """Is there and not there."""
    return "there"


@toolgen.tool(effect="read")
async def test_input_required_result_elicitation(ctx: ToolContext) -> str:
    """Greets whoever it asked."""
    answer = await ctx.elicit("What is your name?", _NAME, key="user_name")
    return f"Hello, {answer.content.get('name', 'nobody')}!"


@toolgen.tool(effect="read")
async def test_input_required_result_sampling(ctx: ToolContext) -> str:
    """Asks the caller's model about France."""
    message = {"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}
    answer: Any = await ctx.sample([message], max_tokens=100, key="capital_question")
    return str(answer["content"]["text"])


@toolgen.tool(effect="read")
async def test_input_required_result_list_roots(ctx: ToolContext) -> str:
    """Says where the caller works."""
    return ", ".join(await ctx.roots(key="client_roots"))


@toolgen.tool(effect="read")
async def test_input_required_result_request_state(ctx: ToolContext) -> str:
    """Asks once, and knows the call again."""
    await ctx.elicit("Please confirm", _OK, key="confirm")
    return "state-ok"


@toolgen.tool
async def test_input_required_result_tampered_state(ctx: ToolContext) -> str:
    """The same, for a call that changes something."""
    await ctx.elicit("Please confirm", _OK, key="confirm")
    return "state-ok"


@toolgen.tool(effect="read")
async def test_input_required_result_multiple_inputs(ctx: ToolContext) -> str:
    """Asks three things at once."""
    greeting = {"role": "user", "content": {"type": "text", "text": "Generate a greeting"}}
    name, _, roots = await asyncio.gather(
        ctx.elicit("What is your name?", _NAME, key="user_name"),
        ctx.sample([greeting], max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{name.action}, {len(roots)} roots"


@toolgen.tool(effect="read")
async def test_input_required_result_multi_round(ctx: ToolContext) -> str:
    """Asks one thing after the other."""
    name = await ctx.elicit("Step 1: What is your name?", _NAME, key="step1")
    color = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
    favourite = await ctx.elicit("Step 2: What is your favorite color?", color, key="step2")
    return f"{name.content.get('name')} likes {favourite.content.get('color')}"


@toolgen.tool(effect="read")
async def test_input_required_result_capabilities(ctx: ToolContext) -> str:
    """Asks for what the caller can answer."""
    if "elicitation" in ctx.capabilities:
        return (await ctx.elicit("Please confirm", _OK, key="confirm")).action
    message = {"role": "user", "content": {"type": "text", "text": "Say yes"}}
    answer: Any = await ctx.sample([message], max_tokens=10)
    return str(answer["content"])


@toolgen.tool(effect="read")
def greet(name: str) -> str:
    """Greets, at once."""
    return f"Hello, {name}!"


@toolgen.tool(effect="read", timeout=120)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes as long as it is told to."""
    await asyncio.sleep(seconds)
    return f"computed {label} in {seconds:g} s"


@toolgen.tool(effect="read", requires=("tasks",))
async def failing_job() -> str:
    """Fails after a while, as a tool."""
    await asyncio.sleep(1)
    raise toolgen.ToolError("This job always fails")


@toolgen.tool(effect="write", timeout=0.5, requires=("tasks",))
async def protocol_error_job() -> str:
    """Takes longer than it may: nobody knows then whether it took effect, which is more than a tool's own error."""
    await asyncio.sleep(60)
    return "not reached"


@toolgen.tool(effect="write", requires=("tasks",))
async def confirm_delete(filename: str, ctx: ToolContext) -> str:
    """Asks the person while it runs."""
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
    answer = await ctx.elicit(f"Delete {filename}?", schema, key="confirm")
    return f"deleted {filename}" if answer.content.get("confirm") else f"kept {filename}"


@toolgen.tool(effect="write", requires=("tasks",))
async def multi_input(ctx: ToolContext) -> str:
    """Asks two things at once."""
    answers = await asyncio.gather(*(ctx.elicit(f"Who is {one}?", _NAME, key=one) for one in ("first", "second")))
    return " and ".join(str(answer.content.get("name")) for answer in answers)


@toolgen.tool(effect="write")
async def test_tool_with_task(ctx: ToolContext) -> str:
    """Asks first, and takes long afterwards."""
    answer = await ctx.elicit("What is your name?", _NAME, key="user_name")
    await asyncio.sleep(1)
    return f"Hello, {answer.content.get('name')}!"


@toolgen.prompt
def test_simple_prompt() -> str:
    """Says one thing."""
    return "This is a simple prompt for testing."


@toolgen.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Says what it was given."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@toolgen.completes(test_prompt_with_arguments, "arg1")
def proposed(value: str) -> list[str]:
    """Proposes some words."""
    return [word for word in ("paris", "park", "party", "testValue1") if word.startswith(value)]


@toolgen.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[toolgen.EmbeddedResource | str]:  # noqa: N803 - as the suite calls it
    """Shows a document."""
    return [
        toolgen.EmbeddedResource(resourceUri, "Embedded resource content for testing."),
        "Please process the embedded resource above.",
    ]


@toolgen.prompt
def test_prompt_with_image() -> list[toolgen.Image | str]:
    """Shows a picture."""
    return [toolgen.Image(_PIXEL), "Please analyze the image above."]


@toolgen.prompt
async def test_input_required_result_prompt(ctx: ToolContext) -> str:
    """Asks what it is about."""
    about = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    answer = await ctx.elicit("What is it about?", about, key="user_context")
    return f"Write about {answer.content.get('context', 'nothing')}."


@toolgen.resource("test://static-text", media_type="text/plain")
def static_text() -> str:
    """Text that is always the same."""
    return "This is the content of the static text resource."


@toolgen.resource("test://static-binary", media_type="image/png")
def static_binary() -> bytes:
    """Picture that is always the same."""
    return _PIXEL


@toolgen.resource("test://watched-resource", media_type="text/plain")
def watched_resource() -> str:
    """Text that clients subscribe to."""
    return "Watched resource content"


@toolgen.resource("test://template/{id}/data", media_type="application/json")
def template_data(id: str) -> dict[str, Any]:  # noqa: A002 - as the suite calls it
    """Data of one item."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@toolgen.prompt
def test_appearing_prompt() -> str:
    """Is there and not there."""
    return "there"
