"""Overview page: entries that need attention, then the status of every phase."""

import marimo

app = marimo.App(width="full", app_title="Overview")

with app.setup:
    import marimo as mo

    from dashboards import frame, overview_panels, workspace
    from dashboards.questions import WorkspaceView
    from schemas.specialist import SpecialistRef

    def set_parameter(name: str) -> None:
        """Store the specialist that the reader selected in the address."""
        mo.query_params().set("specialist", name)


@app.cell
def _() -> tuple[WorkspaceView]:
    snapshot, old = overview_panels.snapshot(workspace.home(), workspace.resources())
    mo.Html(frame.shown(frame.header("overview"), old))
    return (snapshot,)


@app.cell
def _(snapshot: WorkspaceView) -> tuple[overview_panels.TotalsLine]:
    totals = overview_panels.totals(snapshot)
    mo.stop(not totals.artefacts, mo.Html(frame.shown(overview_panels.first(snapshot.home))))
    mo.Html(frame.shown(overview_panels.totals_card(totals)))
    return (totals,)


@app.cell
def _(snapshot: WorkspaceView, totals: overview_panels.TotalsLine) -> None:
    mo.stop(not totals.artefacts)
    mo.Html(frame.shown(overview_panels.attention(snapshot)))


@app.cell
def _(snapshot: WorkspaceView, totals: overview_panels.TotalsLine) -> None:
    mo.stop(not totals.artefacts)
    mo.Html(frame.shown(overview_panels.specialists(snapshot)))


@app.cell
def _(
    snapshot: WorkspaceView, totals: overview_panels.TotalsLine
) -> tuple[dict[str, SpecialistRef], mo.ui.dropdown]:
    refs = overview_panels.specialist_refs(snapshot)
    mo.stop(not refs)
    _asked = mo.query_params().get("specialist")
    who = mo.ui.dropdown(
        list(refs),
        value=_asked if _asked in refs else next(iter(refs)),
        label="Specialist",
        on_change=set_parameter,
    )
    mo.Html(frame.shown(*([frame.choices(who)] if len(refs) > 1 else [])))
    return refs, who


@app.cell
def _(refs: dict[str, SpecialistRef], snapshot: WorkspaceView, who: mo.ui.dropdown) -> None:
    mo.Html(
        frame.shown(
            overview_panels.pipeline(snapshot.home, refs[str(who.value)], workspace.resources())
        )
    )


@app.cell
def _(snapshot: WorkspaceView, totals: overview_panels.TotalsLine) -> None:
    mo.stop(not totals.artefacts)
    mo.Html(frame.shown(overview_panels.data_sets(snapshot)))


if __name__ == "__main__":
    app.run()
