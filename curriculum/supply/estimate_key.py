"""Configuration values that enter the key of an estimate: everything that decides its figures."""

from dataclasses import asdict

from pydantic import JsonValue

from curriculum import encode
from curriculum.corpus import conversations, domains, history, select, trees
from curriculum.corpus.select_conversations import conversation_ingredients
from curriculum.stages.tokens import Tokenizing
from curriculum.supply.measure import DocumentKind
from curriculum.supply.sampled_corpus import SamplingPlan
from curriculum.tokens import token_store as token_store
from curriculum.tokens import train
from schemas.families import CHAT_FAMILY, FAMILIES, families_of, reads_commits
from schemas.objectives import OBJECTIVES


def shared_ingredients(plan: SamplingPlan, tokenizing: Tokenizing) -> dict[str, JsonValue]:
    """Return the part of the key's configuration that the estimates of all kinds share."""
    rules = domains.load_domains(plan.corpus.domains)
    return {
        "share": plan.share,
        "repositories": [repository.ingredients() for repository in plan.repositories],
        "edits": plan.corpus.edit_settings().not_usual(),
        "selection": select.ingredients(plan.corpus),
        "domains": domains.ingredients(rules),
        "tokenizer": tokenizing.config,
        "revisions": {
            "changes": history.REVISION,
            "trees": trees.REVISION,
            "selection": select.REVISION,
            "domains": domains.REVISION,
            "tokenizer": train.REVISION,
            "tokens": token_store.REVISION,
            "encode": encode.REVISION,
            **{name: FAMILIES[name].revision for name in families_of("changes")},
        },
    }


def own_ingredients(plan: SamplingPlan, kind: DocumentKind) -> dict[str, JsonValue]:
    """Return the part of the key's configuration that is specific to `kind`."""
    own: dict[str, JsonValue] = {
        **asdict(kind),
        "family_revision": FAMILIES[kind.family].revision,
        "objective_revision": OBJECTIVES[kind.objective].revision,
    }
    if reads_commits(kind.family):
        own.update(plan.corpus.context_settings().not_usual())
    if kind.family == CHAT_FAMILY:
        own["conversations"] = [
            conversations.ingredients(conversations.find_conversations(conversation), plan.corpus)
            for conversation in plan.corpus.conversations
        ]
        own["overlong"] = [source.overlong for source in plan.corpus.conversations]
        own["chat_selection"] = conversation_ingredients(plan.corpus)
        own["chat_revision"] = conversations.REVISION
    if FAMILIES[kind.family].needs_index:
        own["indexes"] = {
            index.repository: None
            if index.artefact is None or index.artefact.planned
            else index.artefact.content
            for index in plan.indexes
        }
    return own
