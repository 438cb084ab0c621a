"""The process that renders a chat template of anyone's, run by chat_template.py; it imports jinja2 alone.

Jinja's sandbox keeps a template from Python's inside, and doesn't bound loops: the kernel ends this process
with its CPU seconds or its memory. Before the process reads the template it enters a sandbox in which it can
read code alone. Nothing in it changes from run to run: there is no clock, and nothing random.

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
"""Characters of one conversation, rendered."""
MAX_FAULT = 500
"""Characters of a template's own words for what is wrong."""
UNSTEADY = ("random",)
"""Filters that give something else each time; `lipsum` is one among the globals."""


class GenerationTag(Extension):
    """Accept `{% generation %}` around what an assistant says, which marks it and changes nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return what lies between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message: str) -> None:
    """Refuse a conversation, as templates do by this name."""
    raise TemplateError(message)


def tojson(value: Any, indent: int | None = None, **options: Any) -> str:
    """JSON as transformers writes it: Unicode stays, and HTML is nothing special."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def environment() -> ImmutableSandboxedEnvironment:
    """The environment that templates of transformers expect, but for strftime_now.

    Templates that ask whether it is defined take a date of their own instead; others are refused.
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
    """Leave this process code to read; a kernel without Landlock was accepted when the tokenizer came in."""
    sandbox = Sandbox(read=code_paths(), memory=num_bytes, cpu_seconds=seconds)
    if landlock():
        sandbox.enter()
    else:
        sandbox.limit()
    # Children would have limits of their own.
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Render each conversation; a fault is of the template as a whole, or of one conversation."""
    engine = environment()
    try:
        parsed = engine.parse(request["template"])
        constants = {
            each.value for each in parsed.find_all(nodes.Const) if isinstance(each.value, str)
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
        except Exception as failed:  # templates fail as Python does, in any way
            rendered.append({"fault": shown(failed)})
            continue
        too_long = f"it writes {len(text):,} characters; {MAX_TEXT_LENGTH:,} are read"
        rendered.append({"text": text} if len(text) <= MAX_TEXT_LENGTH else {"fault": too_long})
    return {"constants": sorted(constants), "rendered": rendered}


def shown(error: BaseException) -> str:
    """An error in one line, with its kind where it has no words or is Python's."""
    words = " ".join(str(error)[:MAX_FAULT].split())
    plain = isinstance(error, TemplateError) and words
    return words if plain else f"{type(error).__name__} {words}".strip()


def main() -> None:
    """Answer the one request on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    confine(request["seconds"], request["bytes"])
    sys.stdout.write(json.dumps(answer(request)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
