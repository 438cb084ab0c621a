"""Report models of all stages, stored in each manifest under `report`.

A stage sets the fields that it counts, and only these are written, in the order of fields. Readers validate
with the same model: fields of a later version are ignored, and missing fields have defaults. Reports of
mixtures are in schemas/mixture.py, those of training runs in schemas/job.py.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class StageReport(BaseModel):
    """Counts of a stage; unset fields are omitted from the JSON."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, defer_build=True)

    def dump(self) -> dict[str, JsonValue]:
        """Return the JSON of all fields that were set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class SkipsReport(StageReport):
    """Input from which documents are made: changes of a history, or lines of conversation files."""

    read: int = 0
    """Number of changes or lines."""
    lost: float = 0.0
    """Share (0…1) of the selected changes or lines that can't be read."""
    renames: str = "similar"
    """Detection of renames in a history. With exact, a lineage ends if a renamed file was also edited."""
    skipped: dict[str, int] = {}
    """Number of skipped changes or lines by reason."""
    examples: dict[str, tuple[str, ...]] = {}
    """Examples of skipped places by reason, as commit:path or file:line."""
    decoded: dict[str, int] = {}
    """Number of changes in an encoding other than UTF-8, by encoding."""
    vendored: dict[str, int] = {}
    """Number of files in the pinned tree that are vendored according to their content, by evidence."""
    ignored_keys: dict[str, int] = {}
    """Number of lines by unknown key; conversations only."""
    ignored_examples: dict[str, str] = {}
    """First occurrence of each unknown key, as file:line."""
    trees: dict[str, int] = {}
    """Number of file versions that all graphs lack, by reason; histories only."""


class CoverageReport(StageReport):
    """Numbers of functions in a tree, by how the index covers them."""

    functions: int = 0
    """Number of definitions with a body."""
    matched: int = 0
    """Number of functions that the index has, with the same or another body."""
    covered: int = 0
    """Number of functions that the index has with an identical body. They use the frontend's edges."""
    partial: int = 0
    """Number of functions that are covered only by translation units with errors."""
    fallback: int = 0
    """Number of functions that the index doesn't cover. They use edges of the syntax tree."""


class ChangedLinesReport(StageReport):
    """Numbers of C and C++ lines that commits added or changed, by the symbols that contain them."""

    lines: int = 0
    """Number of lines. Lines count only if they have a word outside of comments, literals, directives, using
    declarations, static assertions and namespace heads.
    """
    outside_functions: int = 0
    """Number of lines outside of functions with a body."""
    outside_symbols: int = 0
    """Number of lines outside of all known functions, types, variables and macros."""
    examples: tuple[str, ...] = ()
    """Starts of the longest runs of lines outside of symbols, one per file, as commit:path:line and text."""


class DocumentsReport(StageReport):
    """Documents of one family and repository."""

    documents: int = 0
    num_bytes: int = 0
    """Total size of their texts in bytes."""
    left_out: dict[str, int] = {}
    """Number of changes and targets without a document, by reason."""
    edges: dict[str, int] = {}
    """Number of edges by label. This field and the next three are for graph families only."""
    edge_kinds: dict[str, int] = {}
    """Edges by kind."""
    chunks: dict[str, int] = {}
    """Chunks by form."""
    hops: dict[str, int] = {}
    """Number of chunks by distance from the target, which has distance "0"."""
    licences: dict[str, int] = {}
    """Number of documents by licence of their sources, or "unknown". A document counts once per licence."""
    licence_evidence: dict[str, int] = {}
    """Number of documents by evidence of these licences: header, file, corpus, unknown. A document counts
    once per evidence.
    """
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
    """Reason why documents are missing: no index, or a skipped repository. Otherwise empty."""
    coverage: CoverageReport = CoverageReport()


class DatabaseReport(StageReport):
    """Entries of a compilation database."""

    entries: int = 0
    matched: int = 0
    """Number of files in the tree that have an entry: the translation units."""
    duplicates: int = 0
    """Number of additional entries of a file. Of its entries, the one that parses with the fewest errors is
    used.
    """
    missing: int = 0
    """Number of entries whose file doesn't exist in the tree."""
    not_understood: int = 0
    """Number of entries with compilers or languages that libclang doesn't support."""
    missing_response_files: int = 0


class UnitProblem(StageReport):
    """A translation unit that isn't indexed, or only partially."""

    path: str = ""
    outcome: str = ""
    """Outcome: partial, failed, timed out or crashed."""
    reason: str = ""


class EdgeCount(StageReport):
    """Edges of one kind and label."""

    kind: str = ""
    label: str = ""
    edges: int = 0


class CallsReport(StageReport):
    """Numbers of call sites in a tree's functions, by what the frontend knows about the callee."""

    inside: int = 0
    """Number of calls of functions that are declared in the tree."""
    outside: int = 0
    """Number of calls of library functions."""
    dependent: int = 0
    """Number of calls whose callee is unknown until a template is instantiated."""
    unknown: int = 0
    """Number of calls through a pointer, or in invalid code."""


class IndexReport(StageReport):
    """A compiler's index of a tree; units = indexed + partial + failed + timed_out + crashed."""

    database: DatabaseReport = DatabaseReport()
    replaced: tuple[str, ...] = ()
    """Sorted paths of files that were indexed by an additional entry, because their first entry has more
    errors.
    """
    indexed: int = 0
    """Number of units without errors."""
    partial: int = 0
    failed: int = 0
    timed_out: int = 0
    crashed: int = 0
    problems: tuple[UnitProblem, ...] = ()
    """Units with problems, sorted by path."""
    functions: int = 0
    declarations: int = 0
    """Number of functions that are declared in the tree, but not defined by any unit."""
    classes: int = 0
    includes: int = 0
    edges: tuple[EdgeCount, ...] = ()
    calls: CallsReport = CallsReport()


class DomainSize(StageReport):
    """Numbers and sizes of the kept documents of one domain."""

    documents: int = 0
    val: int = 0
    """Documents in the validation set."""
    bytes: int = 0
    code_bytes: int = 0
    comment_bytes: int = 0
    """Number of bytes of comments, which code_bytes include."""
    comment_share: float = 0.0
    """comment_bytes ÷ code_bytes, 0…1."""
    share: float = 0.0
    """Share (0…1) of the bytes of all domains; not set for single repositories."""


class RuleCount(StageReport):
    """Number of documents that match a domain rule, and of documents whose domain the rule decides."""

    rule: str = ""
    domain: str = ""
    holds: int = 0
    decides: int = 0


class CopyClusterReport(StageReport):
    """A large cluster of near-duplicates, with the pair of files that connects its two largest parts."""

    lineages: int = 0
    share: float = 0.0
    """Share (0…1) of the cluster in the bytes of all file versions."""
    first: str = ""
    second: str = ""
    similarity: float = 0.0
    """Jaccard similarity of the pair, 0…1."""


class SelectionReport(StageReport):
    """Kept documents by split and domain, and rejected documents by reason."""

    documents: int = 0
    repeated: int = 0
    """Number of rows whose id another document of the same repository has."""
    kept: int = 0
    val: int = 0
    """Kept documents in the validation set."""
    unseen: int = 0
    """Kept documents of unseen repositories."""
    later: int = 0
    """Kept documents of later commits, in files that have earlier training data."""
    rejected: dict[str, int] = {}
    """Documents by reason."""
    joined_val: tuple[str, ...] = ()
    """Units that were moved to the validation set because it would have been empty, as `family: unit`."""
    families_without_val: tuple[str, ...] = ()
    copy_clusters: tuple[CopyClusterReport, ...] = ()
    """Clusters of near-duplicates that are so large that one pair may have joined unrelated files."""
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
    """Documents that were fitted to the row length, and their encodings."""

    documents: dict[str, int] = {}
    """Number of documents by outcome."""
    num_bytes: dict[str, int] = {}
    """Number of bytes in the documents' texts, by outcome."""
    encodings: int = 0
    tokens: int = 0
    """Number of tokens in all encodings."""
    elided_bytes: int = 0
    lengths: dict[str, LengthBucket] = {}
    """Counts by range of lengths in tokens."""
    context_chunks: dict[str, int] = {}
    """Number of context chunks by outcome: kept, elided, other_side (files of another split), and refused for
    their licence; graph families only.
    """
    other_side_bytes: int = 0
    """Number of bytes that were elided because their file is in another split."""
    objective: dict[str, int] = {}
    """Counters of the objective by name."""
    structure: dict[str, int] = {}
    """Structure chunks and edges by outcome."""
    refused: dict[str, int] = {}
    """Number of conversations whose turns the chat template can't mark, by cause."""
    refused_examples: dict[str, str] = {}
    """First example of each cause: the conversation and its turn."""

    @property
    def mean_tokens(self) -> float:
        """Mean number of tokens per document in rows, summed over its encodings; 0 without documents."""
        encoded = sum(self.documents.get(name, 0) for name in ("whole", "elided", "divided"))
        return self.tokens / encoded if encoded else 0.0


class DomainRows(StageReport):
    """Packed rows of one domain."""

    row_length: int = 0
    """Positions per row."""
    rows: int = 0
    fewest_rows: int = 0
    """Lower bound of the number of rows: ⌈tokens ÷ row_length⌉."""
    documents: int = 0
    tokens: int = 0
    """Number of positions with a token, not padding."""
    attention_pairs: int = 0
    """Number of attention pairs within documents: Σ len·(len+1)/2."""
    unmasked_pairs: int = 0
    """Number of attention pairs without masks: rows · T·(T+1)/2."""
    context_histogram: tuple[int, ...] = ()
    """Numbers of scored tokens with < 1k, 1–4k, 4–16k and > 16k tokens of the same document before them."""
    scored_tokens: int = 0
    """Number of positions whose target counts in the loss."""
    pack_yield: float = Field(0.0, validation_alias="yield", serialization_alias="yield")
    """tokens ÷ positions, 0…1."""
    padded_yield: float = 0.0
    """Yield with one document per row."""
    first_fit_yield: float = 0.0
    """Yield of first-fit packing in document order, for the first 50,000 documents; 0 if not computed."""


class ContextReport(StageReport):
    """Contexts of scored tokens: the number of tokens of the same document before each token."""

    mean: float = 0.0
    """Mean context in tokens."""
    past_4k: float = 0.0
    """Share (0…1) of scored tokens with a context of more than 4,096 tokens."""
    past_16k: float = 0.0
    """Share (0…1) of scored tokens with a context of more than 16,384 tokens."""
    past_64k: int = 0
    """Number of scored tokens with a context of at least 65,536 tokens. It is only counted in longer rows."""
    long_document: int = 0
    """90th percentile of the document lengths in tokens, as rows show the documents."""


class ChopReport(StageReport):
    """Counts of rows that are filled by cutting documents."""

    begun_inside: int = 0
    """Number of rows that start inside a document."""
    divided: int = 0
    """Number of documents that are in several rows."""
    unscored_rows: int = 0
    """Number of rows that are left out because they have no scored token."""
    unscored_row_tokens: int = 0
    """Number of tokens in these rows."""


class WindowsReport(StageReport):
    """Counts of the windows (see schemas/windows.py) of a rows artefact, which are stored in windows.pq."""

    scored: int = 0
    """Number of scored positions. Each has one window."""
    halvings: int = 0
    """Number of times that the limit for hashes to keep was halved."""
    kept: int = 0
    """Number of distinct windows with a hash below the limit."""

    @property
    def distinct(self) -> int:
        """Number of distinct tokens. It is exact if `halvings` is 0, and otherwise an estimate."""
        return self.kept << self.halvings


class RowsReport(StageReport):
    """Packed rows of one data set and split; imported rows only have `domains` and `windows`."""

    encode: EncodeReport = EncodeReport()
    unscored: int = 0
    """Number of encodings that are left out of rows because they have no scored token."""
    unscored_bytes: int = 0
    """Number of bytes of text in these encodings."""
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
        """Number of documents of all domains. A document counts once per row that has a piece of it."""
        return sum(domain.documents for domain in self.domains.values())

    @property
    def tokens(self) -> int:
        """Number of non-padding positions of all domains."""
        return sum(domain.tokens for domain in self.domains.values())


class ImportedDomain(StageReport):
    """Counts of imported rows of one domain. RowsReport reads the same fields."""

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
    """Counts of imported rows, which were either packed here from tokens or taken over unchanged."""

    divided: int = 0
    """Number of documents in several pieces, because they are longer than a row, or pieces share their id."""
    further_pieces: int = 0
    """Number of pieces after the first one of each document. Rows count these pieces as documents."""
    added_bos: int = 0
    """Number of pieces to which a BOS was added. This field and the next two are for imports of tokens."""
    empty: int = 0
    """Documents without tokens."""
    unscored: int = 0
    """Number of pieces with fewer than two tokens."""
    boundaries_from_eos: int = 0
    """Number of documents that start after an EOS, with --boundaries eos."""
    without_eos: int = 0
    """Number of documents without an EOS at the end, although others have one. They may have been cut."""
    cleared: int = 0
    """Number of targets across a boundary that were removed from the loss mask, with --boundaries eos."""
    columns_left_behind: tuple[str, ...] = ()
    """Columns that aren't part of the schema. This field and the next are for imports of Parquet only."""
    read_as: tuple[str, ...] = ()
    """Columns with another type than in the schema, and the type that they are converted to."""
    fallbacks: tuple[str, ...] = ()
    """Columns that the import lacks, with the value that is used for them."""
    domains: dict[str, ImportedDomain] = {}
    windows: WindowsReport = WindowsReport()


class EstimateReport(StageReport):
    """Estimated supply of one kind of rows, before a build."""

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
    """Measurements of the last checkpoint of a run on the fixed sets, with rows in one format."""

    val_bpb: dict[str, float] = {}
    """Bits per byte by set."""


class SurveyReport(StageReport):
    """Survey of the history of a repository, of which only a sample is read."""

    tree_bytes: int = 0
    """Size in bytes of the files in selected languages at the pinned commit."""
    in_log: int = 0
    """Number of commits that the pinned commit descends from."""
    unread: dict[str, int] = {}
    """Number of commits of which no change is read, by the filter that excludes them."""
