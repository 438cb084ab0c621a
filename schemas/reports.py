"""Report models of all stages, stored in each manifest under `report`.

A stage sets the fields that it counted and dumps only those, in field order. Readers validate with the same
model: fields of a later version are ignored, and missing fields have defaults. Reports of mixtures are in
schemas/mixture.py, those of training runs in schemas/job.py.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class StageReport(BaseModel):
    """Counts of a stage; unset fields are omitted from the JSON."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, defer_build=True)

    def dump(self) -> dict[str, JsonValue]:
        """Return the JSON of all fields that were set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class SkipsReport(StageReport):
    """Input of documents: changes of a history, or lines of conversation files."""

    read: int = 0
    """Number of changes or lines."""
    lost: float = 0.0
    """Share (0…1) of the selected input that can't be read."""
    renames: str = "similar"
    """Rename detection of a history: exact if renames with edits end a lineage."""
    skipped: dict[str, int] = {}
    """Changes or lines by reason."""
    examples: dict[str, tuple[str, ...]] = {}
    """Places by reason, as commit:path or file:line."""
    decoded: dict[str, int] = {}
    """Changes decoded from an encoding other than UTF-8, by encoding."""
    vendored: dict[str, int] = {}
    """Files of the pinned tree that are vendored according to their content, by evidence."""
    ignored_keys: dict[str, int] = {}
    """Lines by unknown key; conversations only."""
    ignored_examples: dict[str, str] = {}
    """First occurrence by key, as file:line."""
    trees: dict[str, int] = {}
    """File versions missing from all graphs, by reason; histories only."""


class CoverageReport(StageReport):
    """Functions of a tree by their coverage in an index."""

    functions: int = 0
    """Definitions with a body."""
    matched: int = 0
    """Functions found in the index, with any body."""
    covered: int = 0
    """Functions found with an identical body; they use the frontend's edges."""
    partial: int = 0
    """Functions covered only by translation units with errors."""
    fallback: int = 0
    """Functions without coverage; they use edges of the syntax tree."""


class ChangedLinesReport(StageReport):
    """C and C++ lines that commits added or changed, by the symbols around them."""

    lines: int = 0
    """Lines with a word outside of comments, literals, directives, using declarations, static assertions
    and namespace heads."""
    outside_functions: int = 0
    """Lines outside of functions with a body."""
    outside_symbols: int = 0
    """Lines outside of all known functions, types, variables and macros."""
    examples: tuple[str, ...] = ()
    """Starts of the longest runs of lines outside of symbols, one per file, as commit:path:line and text."""


class DocumentsReport(StageReport):
    """Documents of one family and repository."""

    documents: int = 0
    num_bytes: int = 0
    """Total size of their texts in bytes."""
    left_out: dict[str, int] = {}
    """Changes and targets without a document, by reason."""
    edges: dict[str, int] = {}
    """Edges by label; like the next three fields, graph families only."""
    edge_kinds: dict[str, int] = {}
    """Edges by kind."""
    chunks: dict[str, int] = {}
    """Chunks by form."""
    hops: dict[str, int] = {}
    """Chunks by distance from the target, which is "0"."""
    licences: dict[str, int] = {}
    """Documents by licence of their sources, or "unknown"; a document counts once per licence."""
    licence_evidence: dict[str, int] = {}
    """Documents by evidence of these licences: header, file, corpus, unknown; a document counts once per
    evidence."""
    changes: SkipsReport = SkipsReport()
    """Changes of the history that were read."""
    lines: SkipsReport = SkipsReport()
    """Lines of conversation files that were read."""
    changed_lines: ChangedLinesReport = ChangedLinesReport()
    """Changed lines in C and C++ files; graph families only."""
    without_syntax_tree: tuple[str, ...] = ()
    """Paths of files without a complete syntax tree at some commit."""
    crowded_names: dict[str, int] = {}
    """Number of names by path, for files with more names than the graph looks up."""
    lacks: str = ""
    """Reason for missing documents: no index, or a skipped repository; otherwise empty."""
    coverage: CoverageReport = CoverageReport()


class DatabaseReport(StageReport):
    """Entries of a compilation database."""

    entries: int = 0
    matched: int = 0
    """Files of the tree with an entry: the translation units."""
    duplicates: int = 0
    """Additional entries of a file; the entry that parses with the fewest errors is used."""
    missing: int = 0
    """Entries of files that don't exist in the tree."""
    not_understood: int = 0
    """Entries with compilers or languages that libclang doesn't support."""
    missing_response_files: int = 0


class UnitProblem(StageReport):
    """A translation unit that isn't indexed, or only partially."""

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
    """Call sites in a tree's functions, by how the frontend resolves them."""

    inside: int = 0
    """Resolved to a function that is declared in the tree."""
    outside: int = 0
    """Resolved to a library function."""
    dependent: int = 0
    """Undecided until a template is instantiated."""
    unknown: int = 0
    """Calls through a pointer, or in invalid code."""


class IndexReport(StageReport):
    """A compiler's index of a tree; units = indexed + partial + failed + timed_out + crashed."""

    database: DatabaseReport = DatabaseReport()
    replaced: tuple[str, ...] = ()
    """Sorted paths of files indexed by an additional entry, because their first entry has more errors."""
    indexed: int = 0
    """Units without errors."""
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
    """Documents in the validation set."""
    bytes: int = 0
    code_bytes: int = 0
    comment_bytes: int = 0
    """Bytes of comments within code_bytes."""
    comment_share: float = 0.0
    """comment_bytes ÷ code_bytes, 0…1."""
    share: float = 0.0
    """Share (0…1) of the bytes of all domains; not set for single repositories."""


class RuleCount(StageReport):
    """Number of documents that match a rule of domains, and of documents that it decides."""

    rule: str = ""
    domain: str = ""
    holds: int = 0
    decides: int = 0


class CopyClusterReport(StageReport):
    """A large cluster of near-duplicates, with the pair of files that connects its two largest parts."""

    lineages: int = 0
    share: float = 0.0
    """Share (0…1) of the bytes of all file versions."""
    first: str = ""
    second: str = ""
    similarity: float = 0.0
    """Jaccard similarity of the pair, 0…1."""


class SelectionReport(StageReport):
    """Kept documents by split and domain, and rejected documents by reason."""

    documents: int = 0
    repeated: int = 0
    """Rows with the id of another document in the same repository."""
    kept: int = 0
    val: int = 0
    """Kept documents in the validation set."""
    unseen: int = 0
    """Kept documents of unseen repositories."""
    later: int = 0
    """Kept documents of later commits, in files with earlier training data."""
    rejected: dict[str, int] = {}
    """Documents by reason."""
    joined_val: tuple[str, ...] = ()
    """Units that were moved to the validation set because it was empty, as `family: unit`."""
    families_without_val: tuple[str, ...] = ()
    copy_clusters: tuple[CopyClusterReport, ...] = ()
    """Clusters of near-duplicates so large that a single pair may join unrelated files."""
    domains: dict[str, DomainSize] = {}
    repositories: dict[str, dict[str, DomainSize]] = {}
    """Counts by repository and domain."""
    rules: tuple[RuleCount, ...] = ()
    """Counts in rule order."""
    warnings: tuple[str, ...] = ()
    """Warnings about rules that don't separate documents."""


class TokenizerReport(StageReport):
    """A tokenizer: its special ids and the engine that runs it."""

    vocab_size: int = 0
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int = 0
    document_tokens: str = ""
    """Control tokens around a document: bos_eos, eos …"""
    engine: str = ""
    engine_reason: str = ""
    """Reason why text isn't encoded at full speed; empty if it is."""


class TokensReport(StageReport):
    """Token ids of the documents of one family and repository."""

    documents: int = 0
    tokens: int = 0
    num_bytes: int = 0
    """Total size of the documents' texts in bytes."""
    vocab_size: int = 0
    bos_id: int | None = None
    eos_id: int | None = None
    pad_id: int = 0
    engine: str = ""
    engine_reason: str = ""
    """Reason why text isn't encoded at full speed; empty if it is."""


class LengthBucket(StageReport):
    """Documents before fitting and encodings after it, for one range of lengths in tokens."""

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
    """Tokens of all encodings."""
    elided_bytes: int = 0
    lengths: dict[str, LengthBucket] = {}
    """Counts by range of tokens."""
    context_chunks: dict[str, int] = {}
    """Context chunks by outcome: kept, elided, other_side, and refused for their licence; graph families
    only."""
    other_side_bytes: int = 0
    """Elided bytes of files in another split."""
    objective: dict[str, int] = {}
    """Counters of the objective by name."""
    structure: dict[str, int] = {}
    """Structure chunks and edges by outcome."""
    refused: dict[str, int] = {}
    """Conversations whose turns the chat template can't mark, by cause."""
    refused_examples: dict[str, str] = {}
    """First example by cause: the conversation and its turn."""

    @property
    def mean_tokens(self) -> float:
        """Mean number of tokens per document in rows, over all its encodings; 0 without documents."""
        encoded = sum(self.documents.get(name, 0) for name in ("whole", "elided", "divided"))
        return self.tokens / encoded if encoded else 0.0


class DomainRows(StageReport):
    """Packed rows of one domain."""

    row_length: int = 0
    """Positions per row."""
    rows: int = 0
    fewest_rows: int = 0
    """Lower bound ⌈tokens ÷ row_length⌉."""
    documents: int = 0
    tokens: int = 0
    """Positions with a token rather than padding."""
    attention_pairs: int = 0
    """Σ len·(len+1)/2 over documents."""
    unmasked_pairs: int = 0
    """rows · T·(T+1)/2."""
    context_histogram: tuple[int, ...] = ()
    """Tokens with < 1k, 1–4k, 4–16k, > 16k tokens of the same document before them."""
    scored_tokens: int = 0
    """Positions whose target counts in the loss."""
    pack_yield: float = Field(0.0, validation_alias="yield", serialization_alias="yield")
    """tokens ÷ positions, 0…1."""
    padded_yield: float = 0.0
    """Yield with one document per row."""
    first_fit_yield: float = 0.0
    """Yield of first-fit packing in document order, on the first 50,000 documents; 0 if not computed."""


class ContextReport(StageReport):
    """Number of tokens of the same document before a scored token."""

    mean: float = 0.0
    """Mean in tokens."""
    past_4k: float = 0.0
    """Share (0…1) of scored tokens with a context of more than 4,096 tokens."""
    past_16k: float = 0.0
    """Share (0…1) of scored tokens with a context of more than 16,384 tokens."""
    past_64k: int = 0
    """Scored tokens with a context of at least 65,536 tokens; only counted for longer rows."""
    long_document: int = 0
    """90th percentile of document lengths in tokens, as shown in rows."""


class ChopReport(StageReport):
    """Rows filled by cutting documents."""

    begun_inside: int = 0
    """Rows that start inside a document."""
    divided: int = 0
    """Documents that span several rows."""
    unscored_rows: int = 0
    """Rows without a scored token, which are left out."""
    unscored_row_tokens: int = 0
    """Tokens in these rows."""


class WindowsReport(StageReport):
    """Windows of a rows artefact, as stored in windows.pq."""

    scored: int = 0
    """Scored positions; each has one window."""
    halvings: int = 0
    """Number of times that the threshold of kept hashes was halved."""
    kept: int = 0
    """Distinct windows with a hash below the threshold."""

    @property
    def distinct(self) -> int:
        """Number of distinct tokens: exact if `halvings` is 0, else an estimate."""
        return self.kept << self.halvings


class RowsReport(StageReport):
    """Packed rows of one data set and split; imported rows only have `domains` and `windows`."""

    encode: EncodeReport = EncodeReport()
    unscored: int = 0
    """Encodings without a scored token, which are left out of rows."""
    unscored_bytes: int = 0
    """Bytes of text in these encodings."""
    domains: dict[str, DomainRows] = {}
    packer: str = "best_fit"
    chop: ChopReport = ChopReport()
    """Counts of the packer `chop`."""
    rows_if_mixed: int = 0
    """Number of rows if documents of different domains shared rows."""
    context: ContextReport = ContextReport()
    windows: WindowsReport = WindowsReport()

    @property
    def rows(self) -> int:
        """Number of rows of all domains."""
        return sum(domain.rows for domain in self.domains.values())

    @property
    def documents(self) -> int:
        """Number of documents of all domains, counted once per row that contains a piece."""
        return sum(domain.documents for domain in self.domains.values())

    @property
    def tokens(self) -> int:
        """Number of non-padding positions of all domains."""
        return sum(domain.tokens for domain in self.domains.values())


class ImportedDomain(StageReport):
    """Imported rows of one domain; RowsReport reads the same fields."""

    rows: int = 0
    documents: int = 0
    tokens: int = 0
    """Positions with a token rather than padding."""
    scored_tokens: int = 0
    """Positions whose target counts in the loss."""
    row_length: int = 0
    """Positions per row."""
    pack_yield: float = Field(0.0, validation_alias="yield", serialization_alias="yield")
    """tokens ÷ positions, 0…1."""


class ImportReport(StageReport):
    """Imported rows: packed here from tokens, or used unchanged."""

    divided: int = 0
    """Documents in several pieces: longer than a row, or with an id shared by several pieces."""
    further_pieces: int = 0
    """Pieces beyond the first of each document; rows count them as documents."""
    added_bos: int = 0
    """Pieces to which a BOS was added; like the next two fields, token imports only."""
    empty: int = 0
    """Documents without tokens."""
    unscored: int = 0
    """Pieces with fewer than two tokens."""
    boundaries_from_eos: int = 0
    """Documents that start after an EOS, with --boundaries eos."""
    without_eos: int = 0
    """Documents without a final EOS although others have one, for example because they were cut."""
    cleared: int = 0
    """Loss mask targets across a boundary that were removed, with --boundaries eos."""
    columns_left_behind: tuple[str, ...] = ()
    """Columns outside of the schema; like the next field, Parquet imports only."""
    read_as: tuple[str, ...] = ()
    """Columns of another type, with the type that they are converted to."""
    fallbacks: tuple[str, ...] = ()
    """Columns that aren't stored, with the value that replaces them."""
    domains: dict[str, ImportedDomain] = {}
    windows: WindowsReport = WindowsReport()


class EstimateReport(StageReport):
    """Supply of one kind of rows, estimated before a build."""

    tokens: int = 0
    """Approximate number of valid tokens in training rows."""
    units: int = 0
    """Commits and conversations that were sampled."""


class AblationReport(StageReport):
    """Verdicts of an ablation."""

    is_sound: bool = False
    """True if the ablation's control arms passed."""
    verdicts: dict[str, str] = {}
    """Verdict by claim."""
    why: str = ""
    """Question that the ablation answers."""
    corpus: str = ""
    model: str = ""
    weights: int = 0
    """Number of model parameters; 0 if unknown."""
    row_lengths: tuple[int, ...] = ()
    """Row lengths of all arms, ascending."""


class MeasurementReport(StageReport):
    """Measurements of a run's last checkpoint on the fixed sets in one format."""

    val_bpb: dict[str, float] = {}
    """Bits per byte by set."""


class SurveyReport(StageReport):
    """Survey of a repository's history, of which a sample is read."""

    tree_bytes: int = 0
    """Size in bytes of the files in selected languages at the pinned commit."""
    in_log: int = 0
    """Number of ancestors of the pinned commit."""
    unread: dict[str, int] = {}
    """Commits without any change that is read, by the filter that excludes them."""
