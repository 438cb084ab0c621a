"""What a flow run shows of itself."""

import json
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State

from flows import tracking

pytestmark = pytest.mark.usefixtures("prefect_server")


@flow
def shows(numbers: list[int]) -> None:
    """Show a table for each number, and a link once."""
    for number in numbers:
        tracking.show("yield of Ours", f"the {number}.", [{"rows": number}])
    tracking.show("nothing", "no lines", [])
    tracking.link("report", "the report", "http://127.0.0.1/report.html")


def _artifacts(numbers: list[int]) -> list[tuple[str, str, Any]]:
    state: State[Any] = shows(numbers, return_state=True)
    only = {"flow_runs": {"id": {"any_": [str(state.state_details.flow_run_id)]}}}
    with get_client(sync_client=True) as client:
        found = client.request("POST", "/artifacts/filter", json=only).json()
    return sorted((each["key"], each["description"], each["data"]) for each in found)


def test_what_a_run_shows_twice_is_there_once_and_as_it_was_last() -> None:
    earlier = _artifacts([3])
    link, table = _artifacts([1, 2])
    assert link[0] == "report"
    assert table[:2] == ("yield-of-ours", "the 2.")
    assert json.loads(table[2]) == [{"rows": 2}]
    assert json.loads(earlier[1][2]) == [{"rows": 3}], "another run's is its own"
