"""The leakcheck that a job requires, in a process of its own, and what its report must say."""

import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from curriculum.train.metrics import log
from curriculum.train.processes import dying_with_parent, words_of
from curriculum.train.run_directory import LEAKCHECK
from schemas.errors import JobError
from schemas.json_text import read_json
from schemas.leak import LeakReport, ProvenJob

COMMAND = (sys.executable, "-P", "-m", "curriculum.leakcheck")
"""Named and not imported: the proof runs this package's steps."""
GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.1
_ENDS = (0, 1)
"""Exit codes with a report: nothing was seen, or a leak."""
_AGAIN = "Train the phase again"


def proven(path: Path, stop: Callable[[], bool]) -> bool:
    """Return True if the steps of the job in a file were proven; False where `stop` said so before the end.

    The report stays beside the job. Its progress goes where this process writes.

    Raises:
        JobError: where a leak was seen, the proof failed, or its report isn't whole or of another job.
    """
    file = path.parent / LEAKCHECK
    file.unlink(missing_ok=True)
    process = subprocess.Popen(
        [*COMMAND, str(path), "--report", str(file)],
        stdin=subprocess.DEVNULL,
        preexec_fn=dying_with_parent(signal.SIGKILL),
    )
    try:
        while process.poll() is None and not stop():
            time.sleep(_POLL_SECONDS)
        if stop():
            return False
    finally:
        _end(process)
    report = _report(path, file, process.returncode)
    if not report.passed:
        first = report.failures[0] if report.failures else None
        raise JobError(
            "leakcheck",
            f"{len(report.failures)} claims fail",
            cause=f"documents influence one another: {first.place}{first.claim}: {first.detail}"
            if first is not None
            else "the proof is empty",
            cure=f"Read {file}; don't train with this model, loader and backend",
        )
    log(f"leakcheck  nothing was seen; {report.result}")
    return True


def is_refuted(attempt: Path) -> bool:
    """Return True where the last proof of an attempt's job saw a leak."""
    file = attempt / LEAKCHECK
    try:
        sealed = read_json(ProvenJob, file, error=JobError, cause="it is no report", cure=_AGAIN)
    except (OSError, JobError):
        return False
    return not sealed.report.passed


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _report(path: Path, file: Path, code: int) -> LeakReport:
    """The report of a proof that ended, held against its job and its exit code."""
    if code not in _ENDS or not file.is_file():
        raise JobError(
            "leakcheck",
            words_of(code),
            cause="the proof ended without a report, and the lines above say why",
            cure="Fix what they report, or remove leakcheck from `require`",
        )
    sealed = read_json(
        ProvenJob,
        file,
        error=JobError,
        cause="this is no whole report of a leakcheck",
        cure=_AGAIN,
    )
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    if sealed.job != expected:
        raise JobError(str(file), sealed.job[:12], cause="it is about another job", cure=_AGAIN)
    if sealed.result != sealed.report.result or sealed.report.passed != (code == 0):
        raise JobError(
            str(file),
            f"{sealed.result}, {words_of(code)}",
            cause=f"its findings say {sealed.report.result}",
            cure=_AGAIN,
        )
    return sealed.report
