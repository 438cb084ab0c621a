"""Overview: what needs a hand first, then how each phase of each specialist stands."""

import marimo

app = marimo.App(width="full", app_title="Overview")

with app.setup:
    import marimo as mo

    from dashboards import frame, place, standing
    from dashboards.questions import Snapshot


@app.cell
def _() -> tuple[Snapshot]:
    snapshot, old = standing.snapshot(place.home(), place.resources())
    mo.Html(frame.header("overview") + old)
    return (snapshot,)


@app.cell
def _(snapshot: Snapshot) -> tuple[standing.Totals]:
    totals = standing.totals(snapshot)
    mo.stop(not totals.artefacts, mo.Html(standing.first()))
    mo.Html(standing.totals_card(totals))
    return (totals,)


@app.cell
def _(snapshot: Snapshot, totals: standing.Totals) -> None:
    mo.Html(standing.attention(snapshot))


@app.cell
def _(snapshot: Snapshot, totals: standing.Totals) -> None:
    mo.Html(standing.specialists(snapshot))


@app.cell
def _(snapshot: Snapshot, totals: standing.Totals) -> None:
    mo.Html(standing.data_sets(snapshot))


if __name__ == "__main__":
    app.run()
