"""Others' chat templates are followed around contents that they never see, or refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, FileSystemLoader

from curriculum.sandbox import landlock
from curriculum.stages.tokens import given_tokenizer
from curriculum.store import Store
from curriculum.tokens import chat_template, template_process
from curriculum.tokens.chat_template import Roles
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from curriculum.tokens.train import given_config, write_tokenizer
from schemas.errors import TokenizerError
from tests.curriculum.tokens.templates import (
    LLAMA3,
    MISTRAL,
    QWEN3,
    QWEN25,
    plainly,
    put,
    template_of,
    tokenizer_with,
)
from tests.error_fields import fields

ASKED: Roles = ("user", "assistant")
SYSTEM: Roles = ("system",)
LOOP = "{% for message in messages %}"


def around(mark: str, inner: str = "{{ message.content }}") -> str:
    return f"{LOOP}<|im_start|>{{{{ message.role }}}}\n{inner}{mark}{{% endfor %}}"


SIMPLE = around("<|im_end|>\n")


@pytest.mark.parametrize(
    ("text", "with_system"),
    [(QWEN25, True), (QWEN3, True), (LLAMA3, True), (MISTRAL, False), (SIMPLE, True)],
)
@pytest.mark.parametrize("exchanges", [1, 2, 5, 40])
def test_contents_in_their_gaps_read_as_jinja_renders_them(
    text: str, with_system: bool, exchanges: int
) -> None:
    for system in (False, True)[: 1 + with_system]:
        roles: Roles = (*SYSTEM[:system], *ASKED * exchanges)
        said = [(role, f"says <{number}>,\n and more") for number, role in enumerate(roles)]
        gaps = template_of(text).gaps(roles)
        joined = gaps[0] + "".join(
            content + gap for (_, content), gap in zip(said, gaps[1:], strict=True)
        )
        assert joined == plainly(text, said)


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("{{ message.content | upper }}", "alters"),
        ("{{ message.content | e }}", "alters"),
        ("{{ message.content | replace('\\n', ' ') }}", "alters"),
        ("{{ message.content[:2000] }}", "alters"),
        ("{{ message.content.split('\\n') | join('') }}", "alters"),
        ("{{ message.content }}{{ message.content }}", "more than once"),
        ("{{ message.content }} ({{ message.content[:40] }})", "repeats a part"),
        ("{% if loop.index != 2 %}{{ message.content }}{% endif %}", "leaves its content out"),
        ("{% if loop.index == 2 %}{{ raise_exception('no answers') }}{% endif %}{{ message.content }}",
         "no answers"),
    ],
)  # fmt: skip
def test_a_template_that_does_not_keep_contents_is_refused_naming_the_turn(
    inner: str, why: str
) -> None:
    template = template_of(around("<|im_end|>", inner))
    with pytest.raises(TokenizerError, match=why) as refused:
        template.sensitive()
    assert "turn " in str(refused.value)
    assert "tokenizer_config.json" in str(refused.value)


def test_a_template_that_reorders_turns_is_refused() -> None:
    turned = "{% for message in messages | reverse %}{{ message.content }}<|im_end|>{% endfor %}"
    with pytest.raises(TokenizerError, match="turn 2, assistant, "):
        template_of(turned).gaps(ASKED)


def test_a_system_turn_that_a_template_drops_or_moves_is_refused_and_others_are_not() -> None:
    with pytest.raises(TokenizerError, match="turn 1, system, "):
        template_of(MISTRAL).gaps(("system", *ASKED))
    assert template_of(MISTRAL).gaps(ASKED * 2) == (
        "<s>[INST]", "[/INST]", "</s>[INST]", "[/INST]", "</s>",
    )  # fmt: skip


def test_a_default_system_turn_is_generated_and_a_given_one_takes_its_place() -> None:
    assert template_of(QWEN25).gaps(ASKED)[0] == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    )
    assert template_of(QWEN25).gaps(("system", *ASKED))[0] == "<|im_start|>system\n"


def test_a_date_is_the_template_s_own_and_one_of_today_is_refused() -> None:
    assert "Today Date: 26 Jul 2024\n" in template_of(LLAMA3).gaps(ASKED)[0]
    asks = "{{ strftime_now('%d') }}" + SIMPLE
    with pytest.raises(TokenizerError, match="strftime_now"):
        template_of(asks).gaps(ASKED)


@pytest.mark.parametrize("unsteady", ["{{ [1, 2] | random }}", "{{ lipsum() }}"])
def test_nothing_in_a_template_is_random(unsteady: str) -> None:
    with pytest.raises(TokenizerError, match=r"random|lipsum"):
        template_of(unsteady + SIMPLE).gaps(ASKED)


def test_what_a_template_takes_contents_apart_at_is_found() -> None:
    found = template_of(QWEN3).sensitive()
    assert {(literal.role, literal.place, literal.text) for literal in found} >= {
        ("assistant", "inside", "</think>")
    }
    assert {literal.role for literal in found} == {"assistant"}
    assert any(literal.is_in("<think>a</think>b") for literal in found)
    assert not any(literal.is_in("<think> and <tool_response>") for literal in found)
    for text in (QWEN25, LLAMA3, MISTRAL):
        assert template_of(text).sensitive() == ()


def test_a_string_that_a_template_cuts_at_an_end_is_found() -> None:
    cutting = "{{ message.content.removeprefix('Answer: ').removesuffix('!!') }}"
    found = template_of(around("<|im_end|>", cutting)).sensitive()
    assert {(literal.place, literal.text) for literal in found} == {
        ("at the start of", "Answer: "), ("at the end of", "!!"),
    }  # fmt: skip


def test_functions_and_tags_of_transformers_are_there() -> None:
    template = template_of(
        "{{ {'é': '<'} | tojson }}{% for message in messages %}{% if loop.index > 9 %}{% break %}{% endif %}"
        "{% generation %}{{ message.content }}{% endgeneration %}|{% endfor %}"
    )
    assert template.gaps(ASKED) == ('{"é": "<"}', "|", "|")


ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{{ 10 ** (10 ** 9) }}",
    "{% set n = namespace(x='xxxx') %}{% for a in range(90) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
]


@pytest.mark.parametrize("endless", ENDLESS)
def test_a_template_without_an_end_is_refused_in_time(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_template, "SECONDS", 1)
    began = time.monotonic()
    with pytest.raises(TokenizerError, match=r"limit|Error"):
        template_of(endless + SIMPLE).gaps(ASKED)
    assert time.monotonic() - began < 30


def test_the_same_templates_take_more_time_or_memory_without_a_sandbox() -> None:
    """Each would go on, but for the last: Python ends its recursion."""
    script = (
        "import resource, signal, sys\n"
        "from curriculum.tokens.template_process import environment\n"
        "signal.setitimer(signal.ITIMER_PROF, float(sys.argv[2]))\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))\n"
        "try: environment().from_string(sys.argv[1]).render()\n"
        "except MemoryError: sys.exit(77)\n"
    )
    ends = [
        subprocess.run([sys.executable, "-c", script, endless, seconds], check=False).returncode
        for endless, seconds in zip(ENDLESS, ("1", "1", "60"), strict=False)
    ]
    assert ends == [-signal.SIGPROF, -signal.SIGPROF, 77]


@pytest.mark.parametrize(
    ("attack", "shown"),
    [
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "<class 'type'>"),
        ("{{ cycler.__init__.__globals__.os.system('touch PLACE') }}", "0"),
        ("{{ self.__init__.__globals__ }}", "__builtins__"),
        ("{% set _ = messages.append(messages[0]) %}{{ messages | length }}", "2"),
        ("{{ ('{0.__class__.__base__}' | attr('format'))(1) }}", "<class 'object'>"),
        ("{% include 'FILE' %}", "a file"),
        ("{% import 'FILE' as file %}{{ file }}", "a file"),
    ],
)
def test_a_template_reaches_nothing_of_python(attack: str, shown: str, tmp_path: Path) -> None:
    """The same template shows what it reached where Jinja has no sandbox, and may read files."""
    place, file = tmp_path / "made", tmp_path / "file"
    file.write_text("a file")
    attack = attack.replace("PLACE", str(place)).replace("FILE", str(file))
    with pytest.raises(TokenizerError):
        template_of(attack + SIMPLE).gaps(ASKED)
    assert not place.exists()
    plain = Environment(loader=FileSystemLoader("/"))
    said = plain.from_string(attack).render(messages=[{"role": "user", "content": "x"}])
    assert shown in said
    assert place.exists() == ("touch" in attack)


PROBE = """
def answer(request):
    found = []
    for act in (
        lambda: open('/etc/passwd'),
        lambda: open(PLACE, 'w'),
        lambda: __import__('socket').socket(),
        lambda: os.execv('/bin/true', ['true']) if CONFINED else 1,
    ):
        try:
            act()
            found.append('done')
        except OSError as refused:
            found.append('refused')
    return {'fault': f"{found} {'SECRET' in os.environ}"}


def main()"""


@pytest.mark.parametrize("is_confined", [True, False])
def test_the_process_that_renders_can_read_code_alone_and_has_nothing_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_confined: bool
) -> None:
    """A stand-in that has escaped Jinja's sandbox, and the same one where ours is left out."""
    if is_confined and not landlock():
        pytest.skip("needs Landlock")
    monkeypatch.setenv("SECRET", "1")
    probe = PROBE.replace("PLACE", repr(str(tmp_path / "made")))
    source = Path(template_process.__file__).read_text()
    source = source.replace("def main()", probe.replace("CONFINED", str(is_confined)))
    if not is_confined:
        source = source.replace('    confine(request["seconds"]', '    (request["seconds"]')
    script = tmp_path / "escaped.py"
    script.write_text(source)
    monkeypatch.setattr(chat_template, "_SCRIPT", script)
    with pytest.raises(TokenizerError) as told:
        template_of(f"{{# {is_confined} #}}" + SIMPLE).gaps(ASKED)
    ends = ["refused" if is_confined else "done"] * 4
    assert f"({ends} False)" in told.value.cause
    assert (tmp_path / "made").exists() != is_confined
    assert os.environ["SECRET"] == "1"


def test_without_landlock_a_process_that_renders_keeps_its_limits() -> None:
    """Its template was accepted when the tokenizer came in."""
    script = (
        "from curriculum.tokens import template_process\n"
        "template_process.landlock = lambda: 0\n"
        "template_process.confine(1, 1 << 30)\n"
        "while True: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


@pytest.mark.parametrize("broken", ["{% for x in %}", "{{ ", "{% endif %}", "{{ x | nofilter }}"])
def test_what_is_no_template_is_refused(broken: str) -> None:
    with pytest.raises(TokenizerError, match="valid template"):
        template_of(broken).gaps(ASKED)


def test_a_template_is_read_beside_the_tokenizer_in_each_of_its_forms(tmp_path: Path) -> None:
    plain = TokenizerTexts.read(put(tmp_path / "plain", SIMPLE)).chat_template
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": SIMPLE}]
    default = TokenizerTexts.read(put(tmp_path / "named", named)).chat_template
    own = put(tmp_path / "own", "not this one")
    own.with_name("chat_template.jinja").write_text(SIMPLE)
    apart = TokenizerTexts.read(own).chat_template
    assert plain is not None
    assert default is not None
    assert apart is not None
    assert plain.text == default.text == apart.text == SIMPLE
    assert plain.sha256 == default.sha256 == apart.sha256
    assert apart.name == "chat_template.jinja"
    older = put(tmp_path / "older", None)
    older.with_name("chat_template.json").write_text(json.dumps({"chat_template": SIMPLE}))
    processed = TokenizerTexts.read(older).chat_template
    assert processed is not None
    assert (processed.name, processed.text) == ("chat_template.json", SIMPLE)
    both = put(tmp_path / "both", SIMPLE)
    both.with_name("chat_template.json").write_text(json.dumps({"chat_template": "not this one"}))
    assert TokenizerTexts.read(both).chat_template == plain
    for nothing in (None, ""):
        assert TokenizerTexts.read(put(tmp_path / "none", nothing)).chat_template is None


@pytest.mark.parametrize(
    "name", ["chat_template.jinja", "tokenizer_config.json", "chat_template.json"]
)
def test_a_template_behind_a_link_out_of_its_folder_is_refused_by_name(
    tmp_path: Path, name: str
) -> None:
    file = put(tmp_path / "theirs", None)
    private = tmp_path / "private"
    private.write_text(SIMPLE if name.endswith("jinja") else json.dumps({"chat_template": SIMPLE}))
    link = file.with_name(name)
    link.unlink(missing_ok=True)
    link.symlink_to(private)
    home = Store(tmp_path / "home")
    with pytest.raises(TokenizerError) as refused:
        given_tokenizer(home, file, "bos_eos", unsandboxed=True)
    assert refused.value.name == str(link)
    assert str(private) in refused.value.cause
    assert not [*home.artefacts("tokenizers")]
    private.rename(file.with_name("own"))
    link.unlink()
    link.symlink_to("own")
    made = given_tokenizer(home, file, "bos_eos", unsandboxed=True)
    assert json.loads((made.path / "tokenizer_config.json").read_text())["chat_template"] == SIMPLE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"chat_template": [{"name": "a", "template": "x"}, {"name": "b", "template": "y"}]}, "a, b"),
        ({"chat_template": 7}, "one is named default"),
        ({"chat_template": "x" * (chat_template.LONGEST + 1)}, "at most"),
    ],
)  # fmt: skip
def test_a_config_that_names_no_template_to_take_is_refused(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(TokenizerError, match=why):
        Tokenizer.load(put(tmp_path / "x", SIMPLE, **changes))


def test_a_config_that_is_no_json_or_no_file_is_refused(tmp_path: Path) -> None:
    file = put(tmp_path / "x", SIMPLE)
    config = file.with_name("tokenizer_config.json")
    config.write_text("{")
    with pytest.raises(TokenizerError, match="JSON"):
        Tokenizer.load(file)
    config.unlink()
    os.mkfifo(config)
    with pytest.raises(TokenizerError, check=fields(name=config)):
        Tokenizer.load(file)


def test_a_template_is_in_the_key_only_where_there_is_one_and_comes_back_whole(
    tmp_path: Path,
) -> None:
    given = Tokenizer.load(put(tmp_path / "given", LLAMA3))
    bare = Tokenizer.parse(given.json)
    assert given.chat_template is not None
    assert {**given_config(bare), "chat_template": given.chat_template.sha256} == given_config(
        given
    )
    assert "chat_template" not in given_config(bare)
    written = tmp_path / "written"
    written.mkdir()
    write_tokenizer(given, written)
    again = Tokenizer.load(written / "tokenizer.json")
    assert given_config(again) == given_config(given)
    assert json.loads((written / "tokenizer_config.json").read_text()) == {
        "chat_template": LLAMA3, "bos_token": "<|begin_of_text|>",
    }  # fmt: skip
    write_tokenizer(bare, tmp_path)
    assert not (tmp_path / "tokenizer_config.json").exists()


def digest(file: Path) -> str:
    found = TokenizerTexts.read(file).chat_template
    assert found is not None
    return found.sha256


def test_what_the_template_does_not_name_is_not_in_the_key(tmp_path: Path) -> None:
    changes: tuple[dict[str, Any], ...] = ({}, {"model_max_length": 9}, {"eos_token": "<|x|>"})
    assert len({digest(put(tmp_path / "x", QWEN25, **fields)) for fields in changes}) == 1
    assert len({digest(put(tmp_path / "x", LLAMA3, bos_token=bos)) for bos in ("<a>", "<b>")}) == 2


def test_a_tokenizer_keeps_its_template_across_processes() -> None:
    tokenizer = tokenizer_with(QWEN25)
    rebuild, parts = tokenizer.__reduce__()
    assert callable(rebuild)
    assert isinstance(parts, tuple)
    assert rebuild(*parts).chat_template == tokenizer.chat_template


def test_words_of_a_template_for_what_is_wrong_are_cut() -> None:
    template = template_of("{{ raise_exception('x' * 10000000) }}")
    with pytest.raises(TokenizerError) as refused:
        template.gaps(ASKED)
    assert 100 < len(str(refused.value)) < 2_000
