"""Overview: what needs a hand first, then the status of each phase of each specialist."""

import marimo

app = marimo.App(width="full", app_title="Overview")

with app.setup:
    import marimo as mo

    from dashboards import frame, overview_panels, workspace
    from dashboards.questions import Snapshot


@app.cell
def _() -> tuple[Snapshot]:
    snapshot, old = overview_panels.snapshot(workspace.home(), workspace.resources())
    mo.Html(frame.shown(frame.header("overview"), old))
    return (snapshot,)


@app.cell
def _(snapshot: Snapshot) -> tuple[overview_panels.Totals]:
    totals = overview_panels.totals(snapshot)
    mo.stop(not totals.artefacts, mo.Html(frame.shown(overview_panels.first())))
    mo.Html(frame.shown(overview_panels.totals_card(totals)))
    return (totals,)


@app.cell
def _(snapshot: Snapshot, totals: overview_panels.Totals) -> None:
    mo.Html(frame.shown(overview_panels.attention(snapshot)))


@app.cell
def _(snapshot: Snapshot, totals: overview_panels.Totals) -> None:
    mo.Html(frame.shown(overview_panels.specialists(snapshot)))


@app.cell
def _(snapshot: Snapshot, totals: overview_panels.Totals) -> None:
    mo.Html(frame.shown(overview_panels.data_sets(snapshot)))


if __name__ == "__main__":
    app.run()
