"""Pages of all kinds, to be held to the same rules: those of the server, and files that it links."""

from tests.dashboards.report.conftest import facts
from tests.dashboards.rows.conftest import rows_home
from tests.flows.cli.inspect.conftest import wide

__all__ = ["facts", "rows_home", "wide"]
