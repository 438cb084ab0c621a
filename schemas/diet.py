"""The diet: what one specialist is trained on, phase by phase; and the phases file that it is written for."""

import math
import re
import shlex
from collections import Counter
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, RootModel, WithJsonSchema, model_validator

from schemas.corpus import Name
from schemas.families import CHAT_FAMILY, EDIT_FAMILY, ENRICHED_FAMILY, FAMILIES, FamilyName
from schemas.objectives import (
    CHAT_OBJECTIVE,
    FIXED_SETS,
    OBJECTIVES,
    PHASE_SET,
    USUAL_OBJECTIVE,
    ObjectiveName,
    Score,
    SetName,
)
from schemas.packed_row import MAX_ROW_LENGTH, ROW_MULTIPLE, Packer
from schemas.seeds import Seed
from schemas.study import BudgetUnit, Study, no_study
from schemas.text import Documented, FieldsError, Number, Whole

RowLength = Annotated[Whole, Field(ge=ROW_MULTIPLE, le=MAX_ROW_LENGTH, multiple_of=ROW_MULTIPLE)]


class PhaseSpec(Documented):
    """The defaults of a phase; a serving may name any family and its own row length."""

    row_length: RowLength | Annotated[tuple[RowLength, ...], Field(min_length=1)]
    """Tokens of a row, a multiple of 128; of several lengths each serving names one."""
    rope_base: Annotated[Number, Field(gt=1)] = 500_000.0
    """The base of rotary positions: the longer the rows, the larger."""
    families: Annotated[tuple[FamilyName, ...], Field(min_length=1)]
    """The families that the phase is meant for; a serving may name any."""

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """The row lengths of the phase, as a tuple also where there is one."""
        return self.row_length if isinstance(self.row_length, tuple) else (self.row_length,)


class PhasesSpec(RootModel[dict[Name, PhaseSpec]]):
    """A phases file: names to phases, in the order of the curriculum."""

    @model_validator(mode="after")
    def _some(self) -> "PhasesSpec":
        if not self.root:
            raise ValueError("there is no phase. Define at least one")
        if "anneal" in self.root:
            raise ValueError("anneal is the name of the tail job. Name the phase otherwise")
        for name in FIXED_SETS:
            if name in self.root:
                raise ValueError(
                    f"{name} is the name of a set to measure on. Name the phase otherwise"
                )
        return self


_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_COUNT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([kKMBT]?)")
TOKEN_COUNT = r"^[0-9_]+(\.[0-9_]+)?[kKMBT]?$"
"""The pattern of a number of tokens in the schemas of forms and editors."""


def token_count(value: object) -> object:
    """Tokens from `10B`, `500M`, `1.5K` or a whole number; anything else is a ValueError.

    >>> token_count("500M"), token_count("1.5K"), token_count(17)
    (500000000, 1500, 17)
    """
    if isinstance(value, str) and (match := _COUNT.fullmatch(value.strip().replace("_", ""))):
        return int(Fraction(match[1]) * _UNITS[match[2]])
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    written = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
    meant = _likely_count(written) or "10B, 500M or 10_000_000_000"
    raise ValueError(f"this is no number of tokens. Write {meant}")


_NEAR_COUNT = re.compile(r"([0-9]{1,20}(?:[.,][0-9]++)*+)\s*+([a-zA-Z]*?)\s*+(?:tok|tokens)?")
_UNIT_WORDS = {"": "", "thousand": "K", "million": "M", "mio": "M", "billion": "B", "trillion": "T"}


def _likely_count(text: str) -> str:
    """The number of tokens that a text likely means, as it is written; "" where it isn't clear.

    >>> [_likely_count(each) for each in ("400 k", "400kb", "10,000,000", "20 million", "1e6", "lots")]
    ['400K', '400K', '10_000_000', '20M', '', '']
    """
    match = _NEAR_COUNT.fullmatch(text.strip())
    if match is None:
        return ""
    number, word = match[1].replace(",", "_"), match[2].lower()
    unit = _UNIT_WORDS.get(word, word[:1].upper() if word in _SHORT_UNITS else None)
    return "" if unit is None or (unit and "_" in number) else f"{number}{unit}"


_SHORT_UNITS = ("k", "kb", "m", "mb", "b", "bn", "t", "tb")


TokenCount = Annotated[
    int,
    BeforeValidator(token_count),
    Field(gt=0, le=10**16),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "exclusiveMinimum": 0},
                {"type": "string", "pattern": TOKEN_COUNT},
            ]
        },
        mode="validation",
    ),
]
Share = Annotated[Number, Field(ge=1e-6, le=1)]
"""A millionth is the least: shares are summed to within as much."""
Factor = Annotated[Number, Field(ge=0, le=1e6)]
"""A domain is seen at most a million times as often as another."""
ALTERNATIVE = "|"
RepositoryPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9*?\[][A-Za-z0-9._*?!|\[\]-]{0,199}$")]
"""A name, or a pattern of names: `*` any text, `?` a letter, `[…]` one of these, `|` between alternatives."""


def _of_a_family_or_imported(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"required": ["family"]}, {"required": ["imported"]}]


class Serving(Documented):
    """One line of a diet: a family, an objective and its share of the phase's tokens."""

    OTHER_NAMES = MappingProxyType(
        dict.fromkeys(
            ("weight", "ratio", "fraction", "percent", "percentage", "proportion"), "share"
        )
        | dict.fromkeys(("length", "seq_len", "seq_length", "sequence_length"), "row_length")
        | {"dataset": "family", "loss": "objective", "portion": "share"}
    )

    model_config = ConfigDict(json_schema_extra=_of_a_family_or_imported)

    family: FamilyName | None = None
    """Kind of document: v2 files before and after a commit, v3 the commit itself, edit a file before a
    commit and the commit as search/replace blocks, v4 and v5 what a commit touched behind its callers and
    callees, v6 with the structure of the code, chat conversations. Imported rows say it themselves."""
    imported: Annotated[str, Field(min_length=1)] | None = None
    """Rows that `curriculum import` published, in place of rows of the corpus: their name, or the first six
    digits of their key or more. Family, objective and row length are theirs; what is said here must agree."""
    base: FamilyName | None = None
    """Base of v6_enriched: the family whose documents get structure; by default v2_simple in rows of at most
    4096 tokens and v4_context_graph in longer ones."""
    objective: ObjectiveName | None = None
    """Learning objective: causal every next token, fim a part between what stands around it,
    doc_to_code a body from its comment, code_to_doc the comment from the body, target what a commit
    changed behind its context, chat what the assistant says. By default causal, and chat of
    conversations."""
    share: Share
    """Share of the phase's valid tokens; the shares of a phase sum to 1."""
    row_length: RowLength | None = None
    """The phase's by default; required where the phase has several."""
    domains: dict[str, Factor] | None = None
    """Factors by domain, `*` for the rest: how many times as often its rows are seen."""
    repositories: tuple[RepositoryPattern, ...] | None = None
    """Only what these repositories of the corpus give, by name or by a pattern such as `llvm*` or
    `llvm*|lattice`, each of which must match one at least; all by default."""
    variants: Annotated[Whole, Field(ge=1, le=64)] | None = None
    """Number of splits of each document for fim, 4 by default; each repetition reads the next."""
    score: Score | None = None
    """Targets of training rows: new scores a line only in the first document of its repository that shows the
    line behind the same line before, in the order of the commits, and fim scores no context; all scores every
    line wherever it stands. By default new. Conversations and imported rows have no such choice."""
    both: bool | None = None
    """true takes every commit of v4_context_graph. By default it leaves out the commits that v5_clang_graph,
    served in the same phase, shows: those half of whose functions the compiler frontend knows."""
    why: str = ""
    """The reason, for people; it changes no key."""

    @model_validator(mode="before")
    @classmethod
    def _objective_of_a_family(cls, content: object) -> object:
        """Conversations have an objective of their own by default; imported rows say theirs."""
        if not isinstance(content, dict) or content.get("imported") is not None:
            return content
        usual = CHAT_OBJECTIVE if content.get("family") == CHAT_FAMILY else USUAL_OBJECTIVE
        return content if content.get("objective") else {**content, "objective": usual}

    @model_validator(mode="after")
    def _source(self) -> "Serving":
        """A family with an objective that it has, or imported rows as they are."""
        if self.imported is None and self.family is None:
            raise ValueError(
                "it has neither a family nor imported rows. Add family, or imported with their name"
            )
        if self.imported is not None:
            for name in ("base", "repositories", "variants", "score", "both"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} says what is built of a corpus, and imported rows are served as they "
                        f"are. Leave {name} out"
                    )
            return self
        if self.family == CHAT_FAMILY and self.objective != CHAT_OBJECTIVE:
            raise ValueError(
                f"conversations are learnt with objective {CHAT_OBJECTIVE}, which scores what the "
                f"assistant says, not with {self.objective}. Leave objective out"
            )
        if self.family == CHAT_FAMILY and self.score is not None:
            raise ValueError(
                "conversations aren't versions of one another: all that the assistant says is scored. "
                "Leave score out"
            )
        stand_ins = {each.stand_in for each in FAMILIES.values() if each.stand_in}
        if self.both is not None and not stand_ins & {self.family, self.base, ENRICHED_FAMILY}:
            raise ValueError(
                f"no other family shows the commits of {self.family} in its place. Leave both out"
            )
        if self.objective == CHAT_OBJECTIVE and self.family != CHAT_FAMILY:
            raise ValueError(
                f"{self.family} has no turns, and objective {CHAT_OBJECTIVE} scores those of the "
                f"assistant. Take family {CHAT_FAMILY} or another objective"
            )
        if EDIT_FAMILY in (self.family, self.base) and self.objective != USUAL_OBJECTIVE:
            raise ValueError(
                f"blocks of {EDIT_FAMILY} are learnt with objective {USUAL_OBJECTIVE}, not with "
                f"{self.objective}. Leave objective out"
            )
        return self

    @model_validator(mode="after")
    def _options(self) -> "Serving":
        """Variants, domains, repositories and a base that the source has."""
        objective, factors = self.objective, self.domains
        if self.variants is not None and objective and not OBJECTIVES[objective].variants:
            several = ", ".join(name for name, each in OBJECTIVES.items() if each.variants)
            raise ValueError(
                f"{objective} has no variants: only {several} splits a document in several ways. "
                "Leave variants out"
            )
        if factors is not None and not any(factors.values()) and (not factors or "*" in factors):
            raise ValueError(
                "no domain has a factor above 0, so nothing is served. Raise one, or leave domains out"
            )
        if self.repositories is not None and not self.repositories:
            raise ValueError(
                "the list of repositories is empty, so nothing is served. Leave it out, and all count"
            )
        if self.base is not None and self.family != ENRICHED_FAMILY:
            raise ValueError(
                f"{self.family} has no base: only {ENRICHED_FAMILY} has. Leave base out"
            )
        if self.base == ENRICHED_FAMILY:
            raise ValueError(f"{ENRICHED_FAMILY} can't be its own base. Name another family")
        if self.base == CHAT_FAMILY:
            raise ValueError(
                "conversations have no structure of code. Name another base, or leave it out"
            )
        return self


class StopsImproving(Documented):
    """val_bpb fell by less than `stops_improving_by` over the last `over_evaluations` evaluations."""

    stops_improving_by: Annotated[Number, Field(gt=0)]
    """Bits per byte."""
    set: SetName = PHASE_SET
    """Rows that it is measured on: phase is all that the phase serves, an objective what it serves with
    that one, target the targets of its graph documents alone, anchor the held-out documents that
    all phases share, unseen the corpus's unseen repositories, later its later commits."""
    over_evaluations: Annotated[Whole, Field(ge=1)] = 3
    """Number of evaluations that it is compared over."""

    @property
    def what(self) -> str:
        """The figure that it looks at, in words: val_bpb, or val_bpb of fim."""
        return "val_bpb" if self.set == PHASE_SET else f"val_bpb of {self.set}"


class AdvanceWhen(Documented):
    """The gate: the phase ends before its budget when all of this holds."""

    min_tokens: TokenCount | None = None
    """Valid tokens that the phase sees in any case; --token-budget scales them too."""
    val_bpb: StopsImproving | None = None
    """Condition: the phase's bits per byte on held-out rows improve no more."""


def _complete_unless_it_extends(schema: dict[str, Any]) -> None:
    """Let an editor ask for what is required only of a diet that extends no other."""
    whole = {"properties": {"phases": {"items": {"required": [*REQUIRED_OF_A_PHASE]}}}}
    schema["if"] = {"required": ["extends"]}
    schema["else"] = {"required": schema.pop("required"), **whole}


def _named(schema: dict[str, Any]) -> None:
    schema["required"] = ["phase"]


REQUIRED_OF_A_PHASE = ("phase", "portion", "servings")


class DietPhase(Documented):
    """Mixture of one phase of a specialist, and its gate."""

    model_config = ConfigDict(json_schema_extra=_named)

    phase: Name
    """A phase of the phases file."""
    portion: Share
    """Fraction of token_budget; the portions of all phases and of the anneal sum to 1."""
    servings: Annotated[tuple[Serving, ...], Field(min_length=1)]
    """Servings of this phase, all mixed in one order."""
    max_repetition: Annotated[Number, Field(ge=1)] = 4.0
    """Times that a row may be seen in this phase; asking for more is a shortage."""
    max_token_repetition: Annotated[Number, Field(ge=1)] | None = None
    """The diet's, for this phase alone."""
    on_shortage: Literal["stop", "renormalise"] = "stop"
    """For servings with too few rows: stop refuses the phase; renormalise lowers their shares to what there
    is and raises the others."""
    advance_when: AdvanceWhen | None = None
    """The gate: the phase ends before its budget when all its rules hold."""
    on_budget: Literal["advance", "hold"] = "advance"
    """Action where the budget ends before the gate opens: advance continues, hold waits for a person."""
    require: tuple[Literal["leakcheck", "approval", "masking_cost"], ...] = ()
    """Checks to pass before the phase may begin, or the one after it."""
    why: str = ""
    """The reason, for people; it changes no key."""

    @model_validator(mode="after")
    def _shares_and_gate(self) -> "DietPhase":
        """Shares that sum to 1, and a gate with a rule where one is needed."""
        total = math.fsum(serving.share for serving in self.servings)
        if abs(total - 1) > 1e-6:
            raise FieldsError(
                f"the shares of {self.phase} sum to {total:.6g}, not to 1. Change one by {1 - total:+.6g}",
                fields=[("servings", index, "share") for index, _ in enumerate(self.servings)],
            )
        rule = self.advance_when
        if rule is not None and rule.min_tokens is None and rule.val_bpb is None:
            raise ValueError(
                f"advance_when of {self.phase} has no rule. Give it min_tokens or val_bpb, or leave it out"
            )
        if rule is None and self.on_budget == "hold":
            raise ValueError(
                f"{self.phase} holds at the end of its budget for a gate, and it has none. "
                "Add advance_when, or leave on_budget out"
            )
        return self


class Anneal(Documented):
    """The decay: a tail job of its own over the last phase's servings."""

    portion: Share
    """Fraction of token_budget, beside the portions of the phases."""


JOB_FIELD = "{job}"
"""Stands in a trainer's command for the path of job.json."""


class ExternalTrainer(Documented):
    """A trainer of another make, in place of the one that comes with this."""

    command: str
    """Command that is started for each phase, in the folder where curriculum was called and without a shell:
    "torchrun --nproc-per-node 8 my_train.py {job}". {job} is the path of
    job.json; curriculum.train.external_trainer says what it must leave. It enters the keys of runs."""

    @model_validator(mode="after")
    def _names_the_job(self) -> "ExternalTrainer":
        try:
            words = shlex.split(self.command)
        except ValueError as broken:
            raise ValueError(
                f"the command can't be split into words: {broken}. Close its quotes"
            ) from None
        if not any(JOB_FIELD in word for word in words[1:]):
            raise ValueError(
                f"the command doesn't say where {JOB_FIELD} stands, so it couldn't know what to train. "
                f'Write for instance "python my_train.py {JOB_FIELD}"'
            )
        return self


AskedBackend = Literal["auto", "flex", "varlen", "sdpa", "documents"]

TRAINED_TOKENIZER = "corpus"
"""Stands in a diet for a tokenizer that is trained on its corpus."""


class Diet(Documented):
    """A diet file; `diets/*.yaml`."""

    model_config = ConfigDict(json_schema_extra=_complete_unless_it_extends)

    extends: str | None = None
    """Another diet, by name or path, which itself extends none. What stands here takes the place of what
    that says; `phases`, where given, is the whole list, and what an entry leaves out is that of the other's
    phase of the same name."""
    specialist: Name
    """Specialist whose diet it is; it enters the paths of mixtures and runs."""
    why: str = ""
    """Purpose of the specialist, for people; it changes no key."""
    phases_file: str = "phases"
    """Name or path of the phases file that the diet is written for."""
    corpus: str
    """A corpus by its name, such as sample, or the path of its YAML, relative to this file."""
    tokenizer: str = TRAINED_TOKENIZER
    """`corpus` trains a byte-level BPE on the corpus; else a path to a tokenizer.json."""
    vocab_size: Annotated[Whole, Field(ge=300, le=1 << 20)] = 32_768
    """Size of a tokenizer trained on the corpus; ignored for a given one."""
    document_tokens: Literal["bos_eos", "bos", "eos", "none"] = "bos_eos"
    """Control tokens around each document, of those that the tokenizer has."""
    model: str
    """The preset of the model: tiny, or the name of a larger one."""
    softcap: Annotated[Number, Field(gt=0)] | None = None
    """Bound of the model's attention scores, softcap · tanh(score / softcap); 50, for instance. None by
    default. varlen and sdpa refuse it."""
    backend: AskedBackend = "auto"
    """Kernel of attention. auto takes flex on a GPU and documents on a CPU, chosen when training
    starts: it enters no key, and a resume on another machine may take another. One that is named here enters
    the keys of runs, and training is refused where it can't be had."""
    trainer: ExternalTrainer | None = None
    """Trains in place of ours; the diet's model then says only what it is told of one."""
    study: Study | None = Field(default=None, exclude_if=no_study)
    """Settings for comparisons only. Runs are marked; they can't be exported, nor continued by a diet that
    isn't the same study."""
    token_budget: TokenCount
    """Valid tokens of all phases together: 500K, 20M, 10B."""
    tokens_per_step: TokenCount | None = None
    """Row positions per optimizer step; by default the model's preset says."""
    max_token_repetition: Annotated[Number, Field(ge=1)] = 4.0
    """Times that a distinct token may be scored, on average over a phase and those before it, before the mix
    warns; a token is distinct with the 15 tokens before it."""
    structure_inputs: bool = True
    """True if the model reads the structure columns of v6_enriched rows, from the first phase that has such
    rows on; what it had learnt without them stays as it was. With false those rows are flat text to it."""
    seed: Seed = 17
    """Seed of order, shuffling and initial weights."""
    branch: Name | None = None
    """Tells apart diets of one specialist: it enters the paths of mixtures and runs. Phases that two
    branches have alike are planned and trained once."""
    phases: Annotated[tuple[DietPhase, ...], Field(min_length=1)]
    """The phases in the order in which they are trained."""
    anneal: Anneal | None = None
    """The decay at the end; without it the last phase keeps its learning rate."""

    @property
    def order_seed(self) -> int:
        """The seed of the order of rows."""
        study = self.study
        return self.seed if study is None or study.order_seed is None else study.order_seed

    @property
    def packer(self) -> Packer:
        """The packer of rows to train on."""
        return "best_fit" if self.study is None else self.study.packer

    @property
    def budget_unit(self) -> BudgetUnit:
        """The unit of the token budget."""
        return "tokens" if self.study is None else self.study.budget

    @model_validator(mode="after")
    def _portions_and_budgets(self) -> "Diet":
        """Distinct phases whose portions sum to 1, and gates that may open within their budgets."""
        times = Counter(phase.phase for phase in self.phases)
        twice = next((name for name in times if times[name] > 1), None)
        if twice:
            raise ValueError(f"the phase {twice} is listed twice. Merge its servings")
        portions = [phase.portion for phase in self.phases]
        total = math.fsum(portions + ([self.anneal.portion] if self.anneal else []))
        if abs(total - 1) > 1e-6:
            raise FieldsError(
                f"the portions sum to {total:.6g}, not to 1 (anneal counts). "
                f"Change one by {1 - total:+.6g}",
                fields=[
                    *(("phases", index, "portion") for index, _ in enumerate(self.phases)),
                    *([("anneal", "portion")] if self.anneal else []),
                ],
            )
        self._gates_within_their_budgets()
        return self

    def _gates_within_their_budgets(self) -> None:
        """Raise for the first gate that can't open, with the budget that all of them need."""
        least = [
            (phase.advance_when.min_tokens if phase.advance_when else None) or 0
            for phase in self.phases
        ]
        needed = max(
            math.ceil(tokens / phase.portion)
            for tokens, phase in zip(least, self.phases, strict=True)
        )
        for index, (tokens, phase) in enumerate(zip(least, self.phases, strict=True)):
            budget = round(phase.portion * self.token_budget)
            if tokens > budget:
                raise FieldsError(
                    f"{phase.phase} advances after {tokens:,} tokens, and its budget ends before, at "
                    f"{budget:,}. Raise token_budget to {needed:,}, or lower min_tokens to {budget:,}",
                    fields=[("phases", index, "advance_when", "min_tokens")],
                )
