"""Process that renders an untrusted chat template, started by chat_template.py; it imports only jinja2.

Jinja's sandbox hides Python's internals from a template but doesn't limit loops; the kernel ends this
process at its limit of CPU time or memory. Before reading the template, the process enters a sandbox in which
it can read only code. Rendering is deterministic: there is no clock and no randomness.

A request is one JSON value on stdin, the answer one on stdout:

    {"template", "tokens", "seconds", "bytes", "conversations": [[[role, content] …] …]}
    {"constants": [string …], "rendered": [{"text"} or {"fault"} …]}      or {"fault"}
"""

import json
import os
import resource
import sys
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from curriculum.sandbox import Sandbox, code_paths, landlock

Message = tuple[str, str]
MAX_TEXT_LENGTH = 4 << 20
"""Maximum characters of one rendered conversation."""
MAX_FAULT = 500
"""Maximum characters of a template's own error message."""
UNSTEADY = ("random",)
"""Nondeterministic filters; `lipsum` is a nondeterministic global."""


class GenerationTag(Extension):
    """Accepts `{% generation %}` around an assistant's text, which has no effect on rendering."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the nodes between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message: str) -> None:
    """Reject a conversation; templates call this function by name."""
    raise TemplateError(message)


def tojson(value: Any, indent: int | None = None, **options: Any) -> str:
    """Return JSON as transformers does: without escaping Unicode or HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def environment() -> ImmutableSandboxedEnvironment:
    """Return the environment that transformers templates expect, without strftime_now.

    Templates that test whether it is defined use a fixed date instead; other templates that use it fail.
    """
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", GenerationTag],
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    for name in UNSTEADY:
        del made.filters[name]
    del made.globals["lipsum"]
    return made


def confine(seconds: int, num_bytes: int) -> None:
    """Restrict this process to reading code; without Landlock, only apply its resource limits.

    Running without Landlock was accepted when the tokenizer was imported.
    """
    sandbox = Sandbox(read=code_paths(), memory=num_bytes, cpu_seconds=seconds)
    if landlock():
        sandbox.enter()
    else:
        sandbox.limit()
    # Child processes would get limits of their own.
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Render each conversation; return a fault of the whole template or of single conversations."""
    engine = environment()
    try:
        parsed = engine.parse(request["template"])
        constants = {
            constant.value
            for constant in parsed.find_all(nodes.Const)
            if isinstance(constant.value, str)
        }
        template = engine.from_string(request["template"])
    except (TemplateError, RecursionError, MemoryError, SyntaxError, ValueError) as broken:
        return {"fault": shown(broken)}
    rendered = []
    for messages in request["conversations"]:
        try:
            text = template.render(
                messages=[{"role": role, "content": content} for role, content in messages],
                tools=None,
                documents=None,
                add_generation_prompt=False,
                **request["tokens"],
            )
        except Exception as failed:  # a template can raise any Python exception
            rendered.append({"fault": shown(failed)})
            continue
        too_long = f"it writes {len(text):,} characters; {MAX_TEXT_LENGTH:,} are read"
        rendered.append({"text": text} if len(text) <= MAX_TEXT_LENGTH else {"fault": too_long})
    return {"constants": sorted(constants), "rendered": rendered}


def shown(error: BaseException) -> str:
    """Return an error as one line, with its type if it has no message or comes from Python."""
    words = " ".join(str(error)[:MAX_FAULT].split())
    plain = isinstance(error, TemplateError) and words
    return words if plain else f"{type(error).__name__} {words}".strip()


def main() -> None:
    """Answer the request on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    confine(request["seconds"], request["bytes"])
    sys.stdout.write(json.dumps(answer(request)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
