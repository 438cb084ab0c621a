"""Runs page: active training runs, change of val_bpb by phase, validation curves, and cost."""

import marimo

app = marimo.App(width="full", app_title="Runs compared")

with app.setup:
    import marimo as mo

    from dashboards import frame, run_panels, training_panel, workspace
    from dashboards.questions import WorkspaceView

    def set_parameter(name: str) -> None:
        """Store the specialist that the reader selected in the address."""
        mo.query_params().set("specialist", name)


@app.cell
def _() -> tuple[WorkspaceView, list[run_panels.Gain]]:
    snapshot = WorkspaceView(workspace.home())
    won = run_panels.gains(snapshot)
    mo.Html(frame.shown(frame.header("runs")))
    return snapshot, won


@app.cell
def _(again: mo.ui.refresh, snapshot: WorkspaceView) -> None:
    _ = again.value
    mo.Html(frame.shown(training_panel.panel(snapshot.home, workspace.resources())))


@app.cell
def _() -> tuple[mo.ui.refresh]:
    again = mo.ui.refresh(
        options=[f"{training_panel.SECONDS}s", "1m"],
        default_interval=f"{training_panel.SECONDS}s",
    )
    mo.Html(frame.shown(training_panel.interval(frame.control(again))))
    return (again,)


@app.cell
def _(snapshot: WorkspaceView, won: list[run_panels.Gain]) -> tuple[mo.ui.dropdown]:
    mo.stop(not won, mo.Html(frame.shown(run_panels.none_yet(snapshot.home))))
    _names = run_panels.specialists(won)
    _asked = mo.query_params().get("specialist")
    who = mo.ui.dropdown(
        _names,
        value=_asked if _asked in _names else _names[0],
        label="Highlighted specialist",
        on_change=set_parameter,
    )
    mo.Html(frame.shown(frame.choices(who)))
    return (who,)


@app.cell
def _(who: mo.ui.dropdown, won: list[run_panels.Gain]) -> None:
    mo.Html(frame.shown(run_panels.heatmap(won, str(who.value))))


@app.cell
def _(snapshot: WorkspaceView, who: mo.ui.dropdown) -> None:
    mo.Html(frame.shown(run_panels.curves(snapshot, str(who.value))))


@app.cell
def _(snapshot: WorkspaceView, who: mo.ui.dropdown) -> None:
    mo.Html(frame.shown(run_panels.costs(snapshot, str(who.value))))


if __name__ == "__main__":
    app.run()
