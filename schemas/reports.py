"""The report of each stage: what its manifest carries under `report`, one model a stage.

A stage fills in the fields that it counted and `dump`s those alone, in the order of the fields; every reader
validates the same model, which ignores fields of a later version and has a default for each that is missing.
Mixtures have theirs in schemas/mixture.py, training runs in schemas/job.py.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class StageReport(BaseModel):
    """Counts of a stage; a field that was never filled in is no part of the JSON."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, defer_build=True)

    def dump(self) -> dict[str, JsonValue]:
        """Return the JSON of the fields that were filled in."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class SkipsReport(StageReport):
    """Input of documents: changes of a history, or lines of conversations."""

    read: int = 0
    """Changes or lines."""
    lost: float = 0.0
    """Share of the wanted input that can't be read, 0…1."""
    renames: str = "similar"
    """exact where renames with edits end a lineage; of a history."""
    skipped: dict[str, int] = {}
    """Changes or lines by reason."""
    examples: dict[str, tuple[str, ...]] = {}
    """Places by reason, commit:path or file:line."""
    decoded: dict[str, int] = {}
    """Changes read from another encoding than UTF-8, by encoding."""
    vendored: dict[str, int] = {}
    """Files of the pinned tree that are vendored by their content, by evidence."""
    ignored_keys: dict[str, int] = {}
    """Lines by key that isn't read; of conversations."""
    ignored_examples: dict[str, str] = {}
    """The first of them by key, file:line."""
    trees: dict[str, int] = {}
    """Versions of files that are in no graph, by reason; of a history."""


class CoverageReport(StageReport):
    """Functions of a tree, by what an index covers of them."""

    functions: int = 0
    """Definitions with a body."""
    matched: int = 0
    """Found in the index, with any body."""
    covered: int = 0
    """Matched and equal byte by byte: their edges are the frontend's."""
    partial: int = 0
    """Covered by units with errors alone."""
    fallback: int = 0
    """Not covered: their edges are the syntax tree's."""


class ChangedLinesReport(StageReport):
    """Lines of C and C++ code that commits added or changed, by what the syntax trees know around them."""

    lines: int = 0
    """Lines with a word outside of comments, literals, directives, using declarations, static
    assertions and heads of namespaces."""
    outside_functions: int = 0
    """Lines in no function with a body."""
    outside_symbols: int = 0
    """Lines in no function, type, variable and macro that is known."""
    examples: tuple[str, ...] = ()
    """Starts of the longest runs of lines in no symbol, one a file, as commit:path:line and its text."""


class DocumentsReport(StageReport):
    """Documents of one family and repository."""

    documents: int = 0
    num_bytes: int = 0
    """Bytes of their texts."""
    left_out: dict[str, int] = {}
    """Changes and targets that gave no document, by reason."""
    edges: dict[str, int] = {}
    """Edges by label; of graphs, as the next three."""
    edge_kinds: dict[str, int] = {}
    """Edges by kind."""
    chunks: dict[str, int] = {}
    """Chunks by form."""
    hops: dict[str, int] = {}
    """Chunks by distance from the target, which is "0"."""
    licences: dict[str, int] = {}
    """Documents by licence of their sources, or "unknown"; a document counts for each of its licences."""
    licence_evidence: dict[str, int] = {}
    """Documents by evidence of these licences: header, file, corpus, unknown; likewise."""
    changes: SkipsReport = SkipsReport()
    """The history that was read."""
    lines: SkipsReport = SkipsReport()
    """The lines of conversations that were read."""
    changed_lines: ChangedLinesReport = ChangedLinesReport()
    """The changes of C and C++ files; of graphs."""
    without_syntax_tree: tuple[str, ...] = ()
    """Paths of files that had no whole syntax tree at some commit."""
    crowded_names: dict[str, int] = {}
    """Names by path, of files with more names than the graph looks up."""
    lacks: str = ""
    """Cause for which there is no document: the repository has no index, or is skipped; empty otherwise."""
    coverage: CoverageReport = CoverageReport()


class DatabaseReport(StageReport):
    """Entries of a compilation database."""

    entries: int = 0
    matched: int = 0
    """Files of the tree that have an entry: the units."""
    duplicates: int = 0
    """Further entries of a file; the entry that parses with the fewest errors counts."""
    missing: int = 0
    """Entries of files that the tree doesn't have."""
    not_understood: int = 0
    """Entries of compilers or languages that libclang doesn't parse."""
    missing_response_files: int = 0


class UnitProblem(StageReport):
    """A unit that isn't indexed, or only in part."""

    path: str = ""
    outcome: str = ""
    """partial, failed, timed out or crashed."""
    reason: str = ""


class EdgeCount(StageReport):
    """Edges of one kind and label."""

    kind: str = ""
    label: str = ""
    edges: int = 0


class CallsReport(StageReport):
    """Places in a tree's functions that call, by what the frontend resolves."""

    inside: int = 0
    """Resolved to a function that is declared in the tree."""
    outside: int = 0
    """Resolved to one of a library."""
    dependent: int = 0
    """Decided only when a template is instantiated."""
    unknown: int = 0
    """Through a pointer, or inside of damaged code."""


class IndexReport(StageReport):
    """A compiler's index of a tree; units = indexed + partial + failed + timed_out + crashed."""

    database: DatabaseReport = DatabaseReport()
    replaced: tuple[str, ...] = ()
    """Files that count by a further entry, since the first one has more errors; sorted."""
    indexed: int = 0
    """Units with no error."""
    partial: int = 0
    failed: int = 0
    timed_out: int = 0
    crashed: int = 0
    problems: tuple[UnitProblem, ...] = ()
    """Sorted by path."""
    functions: int = 0
    declarations: int = 0
    """Functions that are declared in the tree and defined by no unit."""
    classes: int = 0
    includes: int = 0
    edges: tuple[EdgeCount, ...] = ()
    calls: CallsReport = CallsReport()


class DomainSize(StageReport):
    """Kept documents of one domain."""

    documents: int = 0
    val: int = 0
    """Documents on the val side."""
    bytes: int = 0
    code_bytes: int = 0
    comment_bytes: int = 0
    """Bytes of comments in the bytes of code."""
    comment_share: float = 0.0
    """comment_bytes ÷ code_bytes, 0…1."""
    share: float = 0.0
    """Share of the bytes of all domains, 0…1; not counted of one repository."""


class RuleCount(StageReport):
    """Documents for which a rule of domains holds, and those that it decides."""

    rule: str = ""
    domain: str = ""
    holds: int = 0
    decides: int = 0


class CopyClusterReport(StageReport):
    """A large cluster of near copies, with the pair of files that made two large parts of it one."""

    lineages: int = 0
    share: float = 0.0
    """Share of the bytes of all versions of files, 0…1."""
    first: str = ""
    second: str = ""
    similarity: float = 0.0
    """Jaccard similarity of the pair, 0…1."""


class SelectionReport(StageReport):
    """Documents that are kept, by side and domain, and the causes for which others aren't."""

    documents: int = 0
    repeated: int = 0
    """Rows whose id a document of the same repository has already."""
    kept: int = 0
    val: int = 0
    """Kept documents on the val side."""
    unseen: int = 0
    """Kept documents of unseen repositories."""
    later: int = 0
    """Kept documents of later commits, of files that are trained on before."""
    rejected: dict[str, int] = {}
    """Documents by reason."""
    joined_val: tuple[str, ...] = ()
    """family: unit, of units that were moved to val to have some."""
    families_without_val: tuple[str, ...] = ()
    copy_clusters: tuple[CopyClusterReport, ...] = ()
    """Clusters of near copies so large that a pair may join what doesn't belong together."""
    domains: dict[str, DomainSize] = {}
    repositories: dict[str, dict[str, DomainSize]] = {}
    """Counts by repository and domain."""
    rules: tuple[RuleCount, ...] = ()
    """Counts in the order of the rules."""
    warnings: tuple[str, ...] = ()
    """Rules that separate no documents."""


class TokenizerReport(StageReport):
    """A tokenizer: its ids and the engine that runs it."""

    vocab_size: int = 0
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int = 0
    document_tokens: str = ""
    """Control tokens that frame a document: bos_eos, eos …"""
    engine: str = ""
    engine_reason: str = ""
    """Reason why text isn't encoded at full speed; empty where it is."""


class TokensReport(StageReport):
    """Ids of the documents of one family and repository."""

    documents: int = 0
    tokens: int = 0
    num_bytes: int = 0
    """Bytes of the documents' texts."""
    vocab_size: int = 0
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int = 0
    engine: str = ""
    engine_reason: str = ""
    """Reason why text isn't encoded at full speed; empty where it is."""


class LengthBucket(StageReport):
    """Documents before they are fitted and encodings after, of one range of lengths in tokens."""

    documents: int = 0
    tokens: int = 0
    encodings: int = 0
    encoded_tokens: int = 0


class EncodeReport(StageReport):
    """Documents that were fitted to the row length."""

    documents: dict[str, int] = {}
    """Documents by outcome."""
    num_bytes: dict[str, int] = {}
    """Bytes of their texts by outcome."""
    encodings: int = 0
    tokens: int = 0
    """Tokens of the encodings."""
    elided_bytes: int = 0
    lengths: dict[str, LengthBucket] = {}
    """Counts by range of tokens."""
    context_chunks: dict[str, int] = {}
    """Chunks of context: kept, elided, other_side, and refused for their licence; of graphs."""
    other_side_bytes: int = 0
    """Elided bytes of files on the other side of the split."""
    objective: dict[str, int] = {}
    """Counts of the objective, by name."""
    structure: dict[str, int] = {}
    """Chunks and edges of structure, by what became of them."""
    refused: dict[str, int] = {}
    """Conversations that the chat template can't mark, by cause."""
    refused_examples: dict[str, str] = {}
    """The first of them by cause: the conversation and its turn."""

    @property
    def mean_tokens(self) -> float:
        """Tokens of a document in rows, on average: of all its encodings; 0 where there is none."""
        encoded = sum(self.documents.get(name, 0) for name in ("whole", "elided", "divided"))
        return self.tokens / encoded if encoded else 0.0


class DomainRows(StageReport):
    """Packed rows of one domain."""

    row_length: int = 0
    """Positions of a row."""
    rows: int = 0
    fewest_rows: int = 0
    """⌈tokens ÷ row_length⌉."""
    documents: int = 0
    tokens: int = 0
    """Positions that hold a token."""
    attention_pairs: int = 0
    """Σ len·(len+1)/2 over documents."""
    unmasked_pairs: int = 0
    """rows · T·(T+1)/2."""
    context_histogram: tuple[int, ...] = ()
    """Tokens with < 1k, 1–4k, 4–16k, > 16k tokens of their own document before them."""
    scored_tokens: int = 0
    """Positions whose target counts in the loss."""
    pack_yield: float = Field(0.0, validation_alias="yield", serialization_alias="yield")
    """tokens ÷ positions, 0…1."""
    padded_yield: float = 0.0
    """The yield with one document a row."""
    first_fit_yield: float = 0.0
    """The yield of first fit in the order of the documents, on the first 50,000; 0 where it wasn't tried."""


class ContextReport(StageReport):
    """Tokens of its own document before a scored token."""

    mean: float = 0.0
    """Tokens."""
    past_4k: float = 0.0
    """Share of the scored tokens with more than 4,096, 0…1."""
    past_16k: float = 0.0
    """Share of the scored tokens with more than 16,384, 0…1."""
    past_64k: int = 0
    """Scored tokens with 65,536 or more; counted where rows are longer than that."""
    long_document: int = 0
    """Tokens that nine in ten documents have at most, as rows show them."""


class ChopReport(StageReport):
    """Rows of documents that were cut."""

    begun_inside: int = 0
    """Rows that begin inside a document."""
    divided: int = 0
    """Documents that are in several rows."""
    unscored_rows: int = 0
    """Rows without a token to learn from, which are left out."""
    unscored_row_tokens: int = 0
    """Tokens in them."""


class WindowsReport(StageReport):
    """Windows of a rows artefact, as windows.pq has them."""

    scored: int = 0
    """Scored positions, each of which has a window."""
    halvings: int = 0
    """Times that the threshold of kept hashes was halved."""
    kept: int = 0
    """Different windows whose hash is below the threshold."""

    @property
    def distinct(self) -> int:
        """Distinct tokens: exact where `halvings` is 0, else an estimate."""
        return self.kept << self.halvings


class RowsReport(StageReport):
    """Packed rows of one data set and side of the split; imported ones have `domains` and `windows` alone."""

    encode: EncodeReport = EncodeReport()
    unscored: int = 0
    """Encodings without a token to learn from, which rows leave out."""
    unscored_bytes: int = 0
    """Bytes of text in them."""
    domains: dict[str, DomainRows] = {}
    packer: str = "best_fit"
    chop: ChopReport = ChopReport()
    """Counts of the packer that cuts."""
    rows_if_mixed: int = 0
    """Rows that the same documents take where domains share them."""
    context: ContextReport = ContextReport()
    windows: WindowsReport = WindowsReport()

    @property
    def rows(self) -> int:
        """Rows of all domains."""
        return sum(domain.rows for domain in self.domains.values())

    @property
    def documents(self) -> int:
        """Documents of all domains, one again for each row that has a piece of it."""
        return sum(domain.documents for domain in self.domains.values())

    @property
    def tokens(self) -> int:
        """Positions of all domains that hold a token."""
        return sum(domain.tokens for domain in self.domains.values())


class ImportedDomain(StageReport):
    """Imported rows of one domain; RowsReport reads the same fields."""

    rows: int = 0
    documents: int = 0
    tokens: int = 0
    """Positions that hold a token."""
    scored_tokens: int = 0
    """Positions whose target counts in the loss."""
    row_length: int = 0
    """Positions of a row."""
    pack_yield: float = Field(0.0, validation_alias="yield", serialization_alias="yield")
    """tokens ÷ positions, 0…1."""


class ImportReport(StageReport):
    """Rows that were made elsewhere: packed here from tokens, or taken as they are."""

    divided: int = 0
    """Documents that lie in several pieces: those longer than a row, or whose id several pieces share."""
    further_pieces: int = 0
    """Pieces beyond the first of each, which rows count as documents."""
    added_bos: int = 0
    """Pieces that a BOS was added to; of tokens, as the next two."""
    empty: int = 0
    """Documents without a token."""
    unscored: int = 0
    """Pieces of fewer than two tokens."""
    boundaries_from_eos: int = 0
    """Documents that begin behind an EOS, with --boundaries eos."""
    without_eos: int = 0
    """Documents that end without the EOS that others end with, such as those that were cut."""
    cleared: int = 0
    """Targets that a loss mask had across a boundary, with --boundaries eos."""
    columns_left_behind: tuple[str, ...] = ()
    """Columns that the contract doesn't have; of Parquet, as the next."""
    read_as: tuple[str, ...] = ()
    """Columns of another type, with the type that they are read as."""
    fallbacks: tuple[str, ...] = ()
    """Columns that aren't stored, with what is taken for them."""
    domains: dict[str, ImportedDomain] = {}
    windows: WindowsReport = WindowsReport()


class EstimateReport(StageReport):
    """The supply of one kind of rows, before anything is built."""

    tokens: int = 0
    """About so many valid tokens of rows to train on."""
    units: int = 0
    """Commits and conversations that were read for it."""


class AblationReport(StageReport):
    """The verdicts of an ablation."""

    is_sound: bool = False
    """True if its own controls came out as they have to."""
    verdicts: dict[str, str] = {}
    """Verdict by claim."""
    why: str = ""
    """The question that it answers."""
    corpus: str = ""
    model: str = ""
    weights: int = 0
    """Parameters of the model; 0 where they aren't known."""
    row_lengths: tuple[int, ...] = ()
    """Row lengths of all arms, ascending."""


class MeasurementReport(StageReport):
    """A run's last checkpoint on the fixed sets in one format."""

    val_bpb: dict[str, float] = {}
    """Bits per byte by set."""


class SurveyReport(StageReport):
    """The history of a repository of which a sample is read."""

    tree_bytes: int = 0
    """Bytes of the files in a wanted language at the pinned commit."""
    in_log: int = 0
    """Commits that lead to the pinned one."""
    unread: dict[str, int] = {}
    """Commits of which no change is read, by what leaves them out."""
