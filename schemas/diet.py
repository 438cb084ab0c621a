"""Diet and phases files: what a specialist is trained on, phase by phase."""

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
    """Defaults of a phase. A serving may use any family, and a row length of its own."""

    row_length: RowLength | Annotated[tuple[RowLength, ...], Field(min_length=1)]
    """Tokens per row, a multiple of 128. If a list is given, each serving chooses one of its lengths."""
    rope_base: Annotated[Number, Field(gt=1)] = 500_000.0
    """Base of the rotary position embedding; longer rows need a larger base."""
    families: Annotated[tuple[FamilyName, ...], Field(min_length=1)]
    """Families that the phase is meant for. A serving may use any other family, too."""

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """Row lengths of the phase, always as a tuple."""
        return self.row_length if isinstance(self.row_length, tuple) else (self.row_length,)


class PhasesSpec(RootModel[dict[Name, PhaseSpec]]):
    """A phases file: the phases by name, in the order of the curriculum."""

    @model_validator(mode="after")
    def _some(self) -> "PhasesSpec":
        if not self.root:
            raise ValueError("the phases file has no phase. Define at least one")
        if "anneal" in self.root:
            raise ValueError(
                "anneal is reserved for the final decay job. Choose another name for the phase"
            )
        for name in FIXED_SETS:
            if name in self.root:
                raise ValueError(
                    f"{name} is reserved for a validation set. Choose another name for the phase"
                )
        return self


_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_COUNT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([kKMBT]?)")
TOKEN_COUNT = r"^[0-9_]+(\.[0-9_]+)?[kKMBT]?$"
"""Regular expression of a token count, for the JSON schemas that forms and editors use."""


def token_count(value: object) -> object:
    """Convert `10B`, `500M`, `1.5K` or an integer to a number of tokens.

    >>> token_count("500M"), token_count("1.5K"), token_count(17)
    (500000000, 1500, 17)

    Raises:
        ValueError: for any other value; the message suggests the likely spelling.
    """
    if isinstance(value, str) and (match := _COUNT.fullmatch(value.strip().replace("_", ""))):
        return int(Fraction(match[1]) * _UNITS[match[2]])
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    written = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)
    meant = _likely_count(written) or "10B, 500M or 10_000_000_000"
    raise ValueError(f"this is not a token count. Write {meant}")


_NEAR_COUNT = re.compile(r"([0-9]{1,20}(?:[.,][0-9]++)*+)\s*+([a-zA-Z]*?)\s*+(?:tok|tokens)?")
_UNIT_WORDS = {"": "", "thousand": "K", "million": "M", "mio": "M", "billion": "B", "trillion": "T"}


def _likely_count(text: str) -> str:
    """Return a valid spelling of the token count that a text probably means; "" if that is unclear.

    >>> [_likely_count(text) for text in ("400 k", "400kb", "10,000,000", "20 million", "1e6", "lots")]
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
"""A share of at least one millionth, which is the tolerance for sums of shares."""
Factor = Annotated[Number, Field(ge=0, le=1e6)]
"""Sampling factor of a domain, at most a million."""
ALTERNATIVE = "|"
RepositoryPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9*?\[][A-Za-z0-9._*?!|\[\]-]{0,199}$")]
"""A name or a glob of names: `*` is any text, `?` one character, `[…]` one of these characters, and `|`
separates alternatives.
"""


def _of_a_family_or_imported(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"required": ["family"]}, {"required": ["imported"]}]


class Serving(Documented):
    """One serving of a diet: a family, an objective and a share of the phase's tokens."""

    OTHER_NAMES = MappingProxyType(
        dict.fromkeys(
            ("weight", "ratio", "fraction", "percent", "percentage", "proportion"), "share"
        )
        | dict.fromkeys(("length", "seq_len", "seq_length", "sequence_length"), "row_length")
        | {"dataset": "family", "loss": "objective", "portion": "share"}
    )

    model_config = ConfigDict(json_schema_extra=_of_a_family_or_imported)

    family: FamilyName | None = None
    """Kind of document: v2 files before and after a commit; v3 the commit itself; edit a file and the
    commit as search/replace blocks; v4 and v5 code touched by a commit, after its callers and callees;
    v6 documents with code structure; chat conversations. Imported rows set it themselves."""
    imported: Annotated[str, Field(min_length=1)] | None = None
    """Rows published by `curriculum import`, used instead of rows of the corpus: their name, or at least the
    first six digits of their key. Family, objective and row length come from the rows; values given here must
    match.
    """
    base: FamilyName | None = None
    """For v6_enriched, the family whose documents get code structure. By default, this is v2_simple in rows
    of at most 4096 tokens, and v4_context_graph in longer ones.
    """
    objective: ObjectiveName | None = None
    """Learning objective. causal predicts every next token; fim a middle part from the text around it;
    doc_to_code a function body from its documentation; code_to_doc the documentation from the body; target
    the code that a commit changed, from its context; chat the assistant's turns. By default chat for
    conversations, else causal.
    """
    share: Share
    """Share of the phase's valid tokens; the shares of a phase sum to 1."""
    row_length: RowLength | None = None
    """Tokens per row. By default the phase's row length; required if the phase has several."""
    domains: dict[str, Factor] | None = None
    """Sampling factors by domain, with `*` for all others. A domain with factor 2 has its rows used twice as
    often.
    """
    repositories: tuple[RepositoryPattern, ...] | None = None
    """Use only documents of these corpus repositories, given by name or by a glob, for example `llvm*` or
    `llvm*|lattice`. Each entry must match at least one repository; by default all are used."""
    variants: Annotated[Whole, Field(ge=1, le=64)] | None = None
    """Number of ways to split each document for fim, 4 by default. Each repetition uses the next one."""
    score: Score | None = None
    """Scored tokens of training rows. new, the default, scores a line only in the first document of its
    repository, in commit order, that shows the line after the same previous line; with it, fim scores no
    context. all scores every line. Not available for conversations and imported rows.
    """
    both: bool | None = None
    """true keeps every commit of v4_context_graph. By default, commits that v5_clang_graph shows in the
    same phase are skipped. It shows commits for which the compiler frontend knows at least half of the
    functions.
    """
    why: str = ""
    """Reason for the serving, for readers. It changes no key."""

    @model_validator(mode="before")
    @classmethod
    def _objective_of_a_family(cls, content: object) -> object:
        """Fill in the default objective: chat for conversations, else causal.

        Imported rows have an objective of their own.
        """
        if not isinstance(content, dict) or content.get("imported") is not None:
            return content
        usual = CHAT_OBJECTIVE if content.get("family") == CHAT_FAMILY else USUAL_OBJECTIVE
        return content if content.get("objective") else {**content, "objective": usual}

    @model_validator(mode="after")
    def _source(self) -> "Serving":
        """Raise unless the serving names imported rows, or a family with an objective that suits it."""
        if self.imported is None and self.family is None:
            raise ValueError(
                "a serving needs a family or imported rows. Add family, or imported with the name of the "
                "rows"
            )
        if self.imported is not None:
            for name in ("base", "repositories", "variants", "score", "both"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} applies only to rows built from a corpus, but imported rows are used "
                        f"unchanged. Remove {name}"
                    )
            return self
        if self.family == CHAT_FAMILY and self.objective != CHAT_OBJECTIVE:
            raise ValueError(
                f"conversations can only be trained with objective {CHAT_OBJECTIVE}, which scores the "
                f"assistant's turns, not with {self.objective}. Remove objective"
            )
        if self.family == CHAT_FAMILY and self.score is not None:
            raise ValueError(
                "score compares versions of files, which conversations don't have: all turns of the "
                "assistant are scored. Remove score"
            )
        stand_ins = {family.stand_in for family in FAMILIES.values() if family.stand_in}
        if self.both is not None and not stand_ins & {self.family, self.base, ENRICHED_FAMILY}:
            raise ValueError(
                f"no other family in the phase can replace commits of {self.family}, so both has no "
                "effect. Remove both"
            )
        if self.objective == CHAT_OBJECTIVE and self.family != CHAT_FAMILY:
            raise ValueError(
                f"objective {CHAT_OBJECTIVE} scores the turns of the assistant, but {self.family} has no "
                f"turns. Choose family {CHAT_FAMILY} or another objective"
            )
        if EDIT_FAMILY in (self.family, self.base) and self.objective != USUAL_OBJECTIVE:
            raise ValueError(
                f"family {EDIT_FAMILY} supports only objective {USUAL_OBJECTIVE}, not {self.objective}. "
                "Remove objective"
            )
        return self

    @model_validator(mode="after")
    def _options(self) -> "Serving":
        """Raise unless the settings variants, domains, repositories and base suit the family."""
        objective, factors = self.objective, self.domains
        if self.variants is not None and objective and not OBJECTIVES[objective].variants:
            several = ", ".join(name for name, spec in OBJECTIVES.items() if spec.variants)
            raise ValueError(
                f"objective {objective} has no variants: only {several} can split a document in several "
                "ways. Remove variants"
            )
        if factors is not None and not any(factors.values()) and (not factors or "*" in factors):
            raise ValueError(
                "no domain has a factor above 0, so no rows are left. Raise a factor, or remove domains"
            )
        if self.repositories is not None and not self.repositories:
            raise ValueError(
                "the list of repositories is empty, so no rows are left. Remove repositories to use all"
            )
        if self.base is not None and self.family != ENRICHED_FAMILY:
            raise ValueError(
                f"{self.family} has no base: base applies only to {ENRICHED_FAMILY}. Remove base"
            )
        if self.base == ENRICHED_FAMILY:
            raise ValueError(
                f"{ENRICHED_FAMILY} can't be its own base. Choose another family as base"
            )
        if self.base == CHAT_FAMILY:
            raise ValueError(
                "conversations have no code structure. Choose another base, or remove base"
            )
        return self


class StopsImproving(Documented):
    """Condition: val_bpb improved by less than `stops_improving_by` over `over_evaluations` evaluations."""

    stops_improving_by: Annotated[Number, Field(gt=0)]
    """Minimum improvement in bits per byte."""
    set: SetName = PHASE_SET
    """Validation set to look at. phase is everything that the phase serves; an objective is everything
    served with that objective; target is only the targets of graph documents; anchor is the validation
    documents that all phases share; unseen is the corpus's unseen repositories; later is the corpus's later
    commits.
    """
    over_evaluations: Annotated[Whole, Field(ge=1)] = 3
    """Number of evaluations over which the improvement is computed."""

    @property
    def what(self) -> str:
        """Name of the metric: `val_bpb`, or for example `val_bpb of fim`."""
        return "val_bpb" if self.set == PHASE_SET else f"val_bpb of {self.set}"


class AdvanceWhen(Documented):
    """The gate: the phase ends before its budget if all of its conditions are met."""

    min_tokens: TokenCount | None = None
    """Minimum number of valid tokens that the phase trains on. It is scaled by --token-budget."""
    val_bpb: StopsImproving | None = None
    """Condition: the phase's validation bits per byte stop improving."""


def _complete_unless_it_extends(schema: dict[str, Any]) -> None:
    """Require the mandatory fields only of a diet that doesn't extend another one, for editors."""
    whole = {"properties": {"phases": {"items": {"required": [*REQUIRED_OF_A_PHASE]}}}}
    schema["if"] = {"required": ["extends"]}
    schema["else"] = {"required": schema.pop("required"), **whole}


def _named(schema: dict[str, Any]) -> None:
    schema["required"] = ["phase"]


REQUIRED_OF_A_PHASE = ("phase", "portion", "servings")


class DietPhase(Documented):
    """Mixture and gate of one phase of a specialist."""

    model_config = ConfigDict(json_schema_extra=_named)

    phase: Name
    """Name of a phase in the phases file."""
    portion: Share
    """Fraction of token_budget. The portions of all phases and of the anneal sum to 1."""
    servings: Annotated[tuple[Serving, ...], Field(min_length=1)]
    """Servings of this phase, mixed into one order."""
    max_repetition: Annotated[Number, Field(ge=1)] = 4.0
    """Maximum number of times that a row is used in this phase. If more is demanded, rows are too few."""
    max_token_repetition: Annotated[Number, Field(ge=1)] | None = None
    """Value for this phase that overrides the diet's max_token_repetition."""
    on_shortage: Literal["stop", "renormalise"] = "stop"
    """Handling of servings with too few rows. stop refuses the phase; renormalise lowers their shares to the
    available rows, and raises the other shares.
    """
    advance_when: AdvanceWhen | None = None
    """The gate: the phase ends before its budget if all of its conditions are met."""
    on_budget: Literal["advance", "hold"] = "advance"
    """Action if the budget ends before the gate opens. advance continues with the next phase; hold waits for
    a person.
    """
    require: tuple[Literal["leakcheck", "approval", "masking_cost"], ...] = ()
    """Checks that must pass before this phase starts, or before the next one does."""
    why: str = ""
    """Reason for the phase's settings, for readers. It changes no key."""

    @model_validator(mode="after")
    def _shares_and_gate(self) -> "DietPhase":
        """Raise unless the shares sum to 1. Also raise if a gate lacks a condition that it needs."""
        total = math.fsum(serving.share for serving in self.servings)
        if abs(total - 1) > 1e-6:
            raise FieldsError(
                f"the shares of {self.phase} sum to {total:.6g} instead of 1. Change one by "
                f"{1 - total:+.6g}",
                fields=[("servings", index, "share") for index, _ in enumerate(self.servings)],
            )
        rule = self.advance_when
        if rule is not None and rule.min_tokens is None and rule.val_bpb is None:
            raise ValueError(
                f"advance_when of {self.phase} has no condition. Add min_tokens or val_bpb, or remove "
                "advance_when"
            )
        if rule is None and self.on_budget == "hold":
            raise ValueError(
                f"on_budget: hold of {self.phase} waits for a gate, but the phase has none. Add "
                "advance_when, or remove on_budget"
            )
        return self


class Anneal(Documented):
    """The final decay of the learning rate. It is a job of its own, with the servings of the last phase."""

    portion: Share
    """Fraction of token_budget, in addition to the portions of the phases."""


JOB_FIELD = "{job}"
"""Text in the command of a trainer that is replaced by the path of job.json."""


class ExternalTrainer(Documented):
    """An external trainer that replaces the built-in one."""

    command: str
    """Command that is started for each phase, without a shell, in the folder where curriculum was called,
    for example "torchrun --nproc-per-node 8 my_train.py {job}". {job} is the path of job.json;
    curriculum.train.external_trainer describes the files that it must write. The keys of runs depend on the
    command.
    """

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
                f"the command has no placeholder {JOB_FIELD}, so it can't receive the job file. Write for "
                f'instance "python my_train.py {JOB_FIELD}"'
            )
        return self


AskedBackend = Literal["auto", "flex", "varlen", "sdpa", "documents"]

TRAINED_TOKENIZER = "corpus"
"""Value of a diet's `tokenizer` for a tokenizer that is trained on the corpus."""


class Diet(Documented):
    """A diet file; `diets/*.yaml`."""

    model_config = ConfigDict(json_schema_extra=_complete_unless_it_extends)

    extends: str | None = None
    """Another diet, by name or path, which can't extend a diet itself. Fields given here override its
    fields. `phases`, if given, replaces the whole list. Fields that an entry lacks come from the extended
    diet's phase of the same name.
    """
    specialist: Name
    """Specialist that the diet trains. Its name is part of the paths of mixtures and runs."""
    why: str = ""
    """Purpose of the specialist, for readers. It changes no key."""
    phases_file: str = "phases"
    """Name or path of the phases file that the diet is written for."""
    corpus: str
    """A corpus by name, for example sample, or the path of its YAML file, relative to this file."""
    tokenizer: str = TRAINED_TOKENIZER
    """`corpus` trains a byte-level BPE tokenizer on the corpus; any other value is the path of a
    tokenizer.json."""
    vocab_size: Annotated[Whole, Field(ge=300, le=1 << 20)] = 32_768
    """Size of a tokenizer trained on the corpus. It is ignored for a given tokenizer."""
    document_tokens: Literal["bos_eos", "bos", "eos", "none"] = "bos_eos"
    """Control tokens around each document. Those that the tokenizer lacks are left out."""
    model: str
    """Model preset: tiny, or the name of a larger one."""
    softcap: Annotated[Number, Field(gt=0)] | None = None
    """Softcap of the model's attention scores, softcap · tanh(score / softcap), for example 50. None by
    default. The backends varlen and sdpa don't support it."""
    backend: AskedBackend = "auto"
    """Attention backend. auto uses flex on a GPU and documents on a CPU; it is chosen when training starts,
    changes no key, and may change on resume. If a backend is named here, the keys of runs depend on it, and
    training fails where it isn't available.
    """
    trainer: ExternalTrainer | None = None
    """External trainer that replaces the built-in one; it receives the diet's model only as a description."""
    study: Study | None = Field(default=None, exclude_if=no_study)
    """Settings for comparisons only. Their runs are marked. They can't be exported, and only a diet with the
    same study can continue them.
    """
    token_budget: TokenCount
    """Valid tokens of all phases together, for example 500K, 20M or 10B."""
    tokens_per_step: TokenCount | None = None
    """Row positions per optimizer step; by default set by the model preset."""
    max_token_repetition: Annotated[Number, Field(ge=1)] = 4.0
    """Mixing warns if a distinct token is scored more often than this, averaged over a phase and all earlier
    phases. A token is distinct together with the 15 tokens before it.
    """
    structure_inputs: bool = True
    """true lets the model read the structure columns of v6_enriched rows, starting with the first phase that
    has such rows. Weights that were trained before stay unchanged. false treats these rows as flat text.
    """
    seed: Seed = 17
    """Seed of order, shuffling and initial weights."""
    branch: Name | None = None
    """Name that distinguishes diets of one specialist. It is part of the paths of mixtures and runs. Phases
    that are equal in two branches are planned and trained once.
    """
    phases: Annotated[tuple[DietPhase, ...], Field(min_length=1)]
    """Phases in training order."""
    anneal: Anneal | None = None
    """Final decay of the learning rate. Without it, the learning rate of the last phase doesn't decay."""

    @property
    def order_seed(self) -> int:
        """Seed of the order of rows."""
        study = self.study
        return self.seed if study is None or study.order_seed is None else study.order_seed

    @property
    def packer(self) -> Packer:
        """Packer of the training rows."""
        return "best_fit" if self.study is None else self.study.packer

    @property
    def budget_unit(self) -> BudgetUnit:
        """Unit of the token budget."""
        return "tokens" if self.study is None else self.study.budget

    @model_validator(mode="after")
    def _portions_and_budgets(self) -> "Diet":
        """Raise unless phases differ in name, portions sum to 1, and gates can open within their budgets."""
        times = Counter(phase.phase for phase in self.phases)
        twice = next((name for name in times if times[name] > 1), None)
        if twice:
            raise ValueError(
                f"the phase {twice} is listed twice. Merge its servings into one entry"
            )
        portions = [phase.portion for phase in self.phases]
        total = math.fsum(portions + ([self.anneal.portion] if self.anneal else []))
        if abs(total - 1) > 1e-6:
            raise FieldsError(
                f"the portions sum to {total:.6g} instead of 1 (including anneal). Change one by "
                f"{1 - total:+.6g}",
                fields=[
                    *(("phases", index, "portion") for index, _ in enumerate(self.phases)),
                    *([("anneal", "portion")] if self.anneal else []),
                ],
            )
        self._gates_within_their_budgets()
        return self

    def _gates_within_their_budgets(self) -> None:
        """Raise for the first gate that can't open within its budget, and name a budget that suffices."""
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
                    f"{phase.phase} can't advance before {tokens:,} tokens, but its budget ends at "
                    f"{budget:,}. Raise token_budget to {needed:,}, or lower min_tokens to {budget:,}",
                    fields=[("phases", index, "advance_when", "min_tokens")],
                )
