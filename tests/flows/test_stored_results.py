"""No answer of a Prefect server makes a process of ours read a stored result, which would run code."""

import os
import subprocess
import sys
from pathlib import Path

ANSWERED = """\
import os, pathlib, sys
from prefect.client.schemas.responses import OrchestrationResult
from prefect.results import ResultRecord
from prefect._internal.result_records import ResultRecordMetadata
from prefect.serializers import PickleSerializer

class Payload:
    def __reduce__(self):
        return os.mkdir, (sys.argv[2],)

folder = pathlib.Path(sys.argv[1])
record = ResultRecord(
    result=Payload(),
    metadata=ResultRecordMetadata(storage_key=str(folder / "record"), serializer=PickleSerializer()),
)
(folder / "record").write_bytes(record.serialize())
answer = OrchestrationResult.model_validate({
    "state": {"type": sys.argv[3], "name": "Ended", "data": record.metadata.model_dump(mode="json")},
    "status": "REJECT",
    "details": {"type": "reject_details", "reason": "ended"},
})
if sys.argv[4] == "ours":
    import flows.final_states
try:
    answer.state.result(raise_on_failure=False)
except Exception as refused:
    print(type(refused).__name__)
"""


def read(folder: Path, state: str, reader: str) -> tuple[str, bool]:
    """Let a process take a server's word for a result; what it printed, and whether the result's code ran."""
    folder.mkdir()
    asked = subprocess.run(
        [sys.executable, "-c", ANSWERED, str(folder), str(folder / "ran"), state, reader],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PREFECT_HOME": str(folder / "prefect")},
    )
    return asked.stdout.strip() or asked.stderr, (folder / "ran").exists()


def test_a_result_that_the_server_names_is_not_read(tmp_path: Path) -> None:
    for state in ("COMPLETED", "FAILED"):
        assert read(tmp_path / f"ours-{state}", state, "ours") == ("StoreError", False)
        # Prefect by itself runs what it holds.
        assert read(tmp_path / f"theirs-{state}", state, "prefect")[1]
