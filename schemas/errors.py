"""User-facing errors, each with a name, a value, a cause and a cure.

    CurriculumError
    ├── CorpusError      a pin, a repository or a rule of a corpus
    ├── SchemaError      a file, row or document that violates its schema
    ├── DietError        a diet or a phase
    │   └── DietFieldError   one field of a diet; callers that know the file add its line
    ├── TokenizerError   an unusable tokenizer
    │   └── TurnError        a conversation whose turns the chat template can't mark
    ├── PackError        a document that can't be fitted or packed
    ├── MixtureError     a diet with too few rows; callers that know the file add its line
    ├── WorkerError      a lost or unusable build process or machine
    ├── JobError         a training job
    │   ├── JobKilledError   its process was killed; a retry resumes from its last checkpoint
    │   ├── JobMemoryError   it needs more memory than available
    │   └── NotFiniteError   its loss or gradient isn't a number
    ├── StoreError       an artefact that doesn't match its manifest
    │   └── DamagedFileError  a file that can't be decoded
    └── CatalogError     an invalid query of the catalog

Errors in the program itself are assertions. No error is silently ignored.
"""

import copyreg
from collections.abc import Sequence

from schemas.visible import one_line, shortened


class CurriculumError(Exception):
    """An error with its value, cause and cure on one line.

    str() is safe to show anywhere: terminal escapes, invisible characters and line breaks are escaped, and
    parts longer than MAX_SHOWN characters are cut. The attributes hold the raw values. `location` is the
    path of a field in a file; callers that know the file use it to find the line. `lines` are printed below
    the message, for example the end of a log.

    >>> str(DietError("t.yaml:4", "share = 2", cause="a share is at most 1", cure="Lower it"))
    't.yaml:4: share = 2; a share is at most 1. Lower it'
    """

    def __init__(
        self,
        name: str,
        value: object = None,
        *,
        cause: str,
        cure: str,
        location: tuple[int | str, ...] = (),
        lines: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.value = value
        self.cause = cause
        self.cure = cure
        self.location = location
        self.lines = tuple(lines)
        found = "" if value is None else f"{shortened(str(value))}; "
        message = one_line(f"{shortened(name)}: {found}{shortened(cause)}. {shortened(cure)}")
        more = shortened("\n".join(map(one_line, self.lines)))
        super().__init__(f"{message}\n{more}" if more else message)

    def __reduce__(self) -> tuple[object, ...]:
        """Return the state for pickling, with all fields, so that workers can send the error."""
        state = {"args": self.args, **vars(self)}
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]


class CorpusError(CurriculumError):
    """An invalid pin, repository or rule of a corpus."""


class SchemaError(CurriculumError):
    """A file, row or document that violates its schema."""


class DietError(CurriculumError):
    """An invalid diet or phase."""


class DietFieldError(DietError):
    """An invalid field of a diet."""


class TokenizerError(CurriculumError):
    """A tokenizer that lacks a property which rows require."""


class TurnError(TokenizerError):
    """A conversation whose turns the chat template can't mark. It may be able to mark others."""


class PackError(CurriculumError):
    """A document that can't be fitted or packed."""


class MixtureError(CurriculumError):
    """Too few rows for a diet's servings."""


class WorkerError(CurriculumError):
    """A build process or machine that was lost, or that differs from the others."""


class JobError(CurriculumError):
    """A training job that can't start, resume or end."""


class JobKilledError(JobError):
    """A killed process or lost machine of a job; a retry resumes from its last checkpoint."""


class JobMemoryError(JobError):
    """A job that needs more memory than is available."""


class NotFiniteError(JobError):
    """A loss or gradient of a job that isn't finite."""


class StoreError(CurriculumError):
    """An artefact that doesn't match its manifest."""


class DamagedFileError(StoreError, OSError):
    """A file that can't be decoded. Like Arrow's own error, it is an OSError."""


class CatalogError(CurriculumError):
    """An invalid query of the catalog."""
