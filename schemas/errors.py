"""The mistakes of users, each with a name, a value, a cause and a cure.

    CurriculumError
    ├── CorpusError      a pin, a repository or a rule of a corpus
    ├── SchemaError      a file, a row or a document that breaks its contract
    ├── DietError        a diet or a phase
    │   └── DietFieldError   one field of it: whoever has the file names its line
    ├── TokenizerError   a tokenizer that cannot keep a promise
    │   └── TurnError        a conversation that its chat template can't mark
    ├── PackError        a document that cannot be fitted or packed
    ├── MixtureError     a diet that its rows cannot serve: whoever has the file names its line
    ├── WorkerError      a process or a machine that builds
    ├── JobError         a training job
    │   ├── JobKilledError   its process was killed: another try resumes from its last checkpoint
    │   ├── JobMemoryError   it needs more memory than there is
    │   └── NotFiniteError   its loss or gradient isn't a number
    ├── StoreError       an artefact that is not what its manifest says
    │   └── DamagedFileError  a file that can't be decoded
    └── CatalogError     a question that the catalog can't answer

Mistakes of programmers are asserts. Nothing is caught to be swallowed.
"""

import copyreg
from collections.abc import Sequence

from schemas.visible import one_line, shortened


class CurriculumError(Exception):
    """A user's mistake: the value, its cause and its cure, on one line.

    As a text it can be shown anywhere: what would command a terminal, hide or begin a line is escaped, and of
    a part with more than MAX_SHOWN characters only the first are shown. Its parts are raw.
    `location` are the steps to a field of a file, for whoever has the file. `lines` follow the message, each
    on a line of its own: the end of a log, or further mistakes.

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
        """Pickle whole, so that an error crosses from a worker process with all its parts."""
        state = {"args": self.args, **vars(self)}
        return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]


class CorpusError(CurriculumError):
    """A pin, a repository or a rule of a corpus is wrong."""


class SchemaError(CurriculumError):
    """A file, a row or a document breaks its contract."""


class DietError(CurriculumError):
    """A diet or a phase is wrong."""


class DietFieldError(DietError):
    """A field of a diet is wrong."""


class TokenizerError(CurriculumError):
    """A tokenizer cannot keep a promise that rows rest on."""


class TurnError(TokenizerError):
    """A conversation that the chat template can't mark, though it may mark others."""


class PackError(CurriculumError):
    """A document cannot be fitted or packed."""


class MixtureError(CurriculumError):
    """The rows cannot serve what the diet asks for."""


class WorkerError(CurriculumError):
    """A process or a machine that builds was lost, or isn't like the others."""


class JobError(CurriculumError):
    """A training job cannot start, resume or end."""


class JobKilledError(JobError):
    """A job's process was killed or lost its machine; another try resumes from its last checkpoint."""


class JobMemoryError(JobError):
    """A job needs more memory than there is."""


class NotFiniteError(JobError):
    """A job's loss or gradient isn't finite."""


class StoreError(CurriculumError):
    """An artefact is not what its manifest says."""


class DamagedFileError(StoreError, OSError):
    """A file can't be decoded; whoever expects Arrow's own error of it catches this one too."""


class CatalogError(CurriculumError):
    """A question that the catalog can't answer."""
