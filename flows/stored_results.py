"""Guard that makes Prefect read no stored results. The flows store none, so they never need one.

Prefect would unpickle a file that the server names. After a server has ended, the process of another user may
take over its port, name such a file and thereby run code in our process.
"""

from typing import Any, NoReturn

from prefect._internal.result_records import ResultRecord

from schemas.errors import StoreError


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise StoreError(
        "a flow run's result",
        cause="the Prefect server refers to a result file, but these flows store no results",
        cure="Check that the server is the one that you started, then run the command again",
    )


def refuse_stored_results() -> None:
    """Make this process refuse to read stored results of flow and task runs."""
    for reader in ("deserialize", "deserialize_from_result_and_metadata"):
        assert hasattr(ResultRecord, reader), "Prefect reads stored results by these alone"
        setattr(ResultRecord, reader, _refuse)
