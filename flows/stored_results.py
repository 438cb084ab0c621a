"""Results that a Prefect server says are stored in a file: no flow here stores any, so none is read.

To read one, Prefect unpickles a file that the server names. Where another user's process answers in the
place of a server that has ended, that would run code of theirs.
"""

from typing import Any, NoReturn

from prefect._internal.result_records import ResultRecord

from schemas.errors import StoreError


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise StoreError(
        "a flow run's result",
        cause="the Prefect server names a file for it, and flows here store no results",
        cure="See whether the server is the one that you started, then run the command again",
    )


def refuse_stored_results() -> None:
    """Refuse to read the stored result of any flow or task run in this process."""
    for reader in ("deserialize", "deserialize_from_result_and_metadata"):
        assert hasattr(ResultRecord, reader), "Prefect reads stored results by these alone"
        setattr(ResultRecord, reader, _refuse)
