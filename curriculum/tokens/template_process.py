"""Process that renders an untrusted chat template, started by chat_template.py; it imports only jinja2.

Jinja's sandbox hides Python's internals from a template but doesn't limit loops. So the process has limits of
CPU time and memory, at which the kernel ends it. Before reading the template, the process enters a sandbox in
which it can read nothing but code. Rendering is deterministic: there is no clock and no randomness.

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
"""Maximum length of one rendered conversation in characters."""
MAX_FAULT = 500
"""Maximum length in characters of an error message that comes from the template."""
UNSTEADY = ("random",)
"""Nondeterministic filters, which are removed, as is the nondeterministic global `lipsum`."""


class GenerationTag(Extension):
    """Jinja extension for `{% generation %}` around an assistant's text; the tag has no effect."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the nodes between the opening and the closing tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message: str) -> None:
    """Reject a conversation with a message; templates call this function by its name."""
    raise TemplateError(message)


def tojson(value: Any, indent: int | None = None, **options: Any) -> str:
    """Return `value` as JSON, as transformers does: Unicode and HTML aren't escaped."""
    return json.dumps(value, ensure_ascii=False, indent=indent, **options)


def environment() -> ImmutableSandboxedEnvironment:
    """Return the Jinja environment that templates for transformers expect, without `strftime_now`.

    Templates that test whether `strftime_now` is defined use a fixed date without it. Templates that call it
    untested fail.
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
    """Limit the CPU time and memory of this process, and restrict it to reading code.

    If the kernel lacks Landlock, only the limits apply; the user accepted this when importing the tokenizer.
    """
    sandbox = Sandbox(read=code_paths(), memory=num_bytes, cpu_seconds=seconds)
    if landlock():
        sandbox.enter()
    else:
        sandbox.limit()
    # A child process would start with fresh limits, so none may be started.
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Render each conversation of a request.

    The answer has a text or a fault per conversation, or a single fault if the template is invalid.
    """
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
    """Return an error as one line of text.

    The line includes the error's type if the error has no message or isn't one of Jinja.
    """
    words = " ".join(str(error)[:MAX_FAULT].split())
    plain = isinstance(error, TemplateError) and words
    return words if plain else f"{type(error).__name__} {words}".strip()


def main() -> None:
    """Read a request from stdin and write its answer to stdout."""
    request = json.loads(sys.stdin.buffer.read())
    confine(request["seconds"], request["bytes"])
    sys.stdout.write(json.dumps(answer(request)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
