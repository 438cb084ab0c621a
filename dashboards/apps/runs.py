"""Runs page: active training runs, curves and settings of finished runs, and cost."""

import marimo

app = marimo.App(width="full", app_title="Runs compared")

with app.setup:
    from collections.abc import Callable

    import marimo as mo

    from dashboards import frame, run_panels, training_panel, training_view, workspace
    from dashboards.questions import WorkspaceView

    def parameter(name: str) -> str:
        """Return a query parameter of the address; empty if it is missing."""
        found = mo.query_params().get(name)
        return found if isinstance(found, str) else ""

    def stored(name: str) -> Callable[[object], None]:
        """Return a function that stores a choice of the reader in the address."""
        return lambda value: mo.query_params().set(name, str(value))

    def weight_slider(name: str, label: str, value: float) -> mo.ui.slider:
        """Return a slider for the weight of an exponential moving average."""
        return mo.ui.slider(
            *(0, training_view.MAX_WEIGHT, 0.01),
            value=value,
            label=frame.label(label),
            show_value=True,
            debounce=True,
            on_change=stored(name),
        )


@app.cell
def _() -> tuple[WorkspaceView, list[run_panels.Gain]]:
    snapshot = WorkspaceView(workspace.home())
    won = run_panels.gains(snapshot)
    mo.Html(frame.shown(frame.header("runs")))
    return snapshot, won


@app.cell
def _() -> tuple[mo.ui.refresh, mo.ui.dropdown, mo.ui.slider, mo.ui.slider]:
    again = mo.ui.refresh(
        options=[f"{training_panel.SECONDS}s", "1m"],
        default_interval=f"{training_panel.SECONDS}s",
    )
    _asked = training_view.TrainingView.of(*map(parameter, ("x", "smooth_loss", "smooth_bpb")))
    axis = mo.ui.dropdown(
        [*training_view.AXES], value=_asked.axis.name, label="x-axis", on_change=stored("x")
    )
    loss_weight = weight_slider("smooth_loss", "Smoothing of the loss", _asked.loss_weight)
    bpb_weight = weight_slider("smooth_bpb", "Smoothing of val_bpb", _asked.bpb_weight)
    mo.Html(frame.shown(training_panel.controls((axis, loss_weight, bpb_weight), again)))
    return again, axis, loss_weight, bpb_weight


@app.cell
def _(
    axis: mo.ui.dropdown, bpb_weight: mo.ui.slider, loss_weight: mo.ui.slider
) -> tuple[training_view.TrainingView]:
    view = training_view.TrainingView(
        axis=training_view.AXES[str(axis.value)],
        loss_weight=float(loss_weight.value),
        bpb_weight=float(bpb_weight.value),
    )
    return (view,)


@app.cell
def _(again: mo.ui.refresh, snapshot: WorkspaceView, view: training_view.TrainingView) -> None:
    _ = again.value
    mo.Html(frame.shown(training_panel.panel(snapshot.home, workspace.resources(), view)))


@app.cell
def _(snapshot: WorkspaceView, won: list[run_panels.Gain]) -> tuple[mo.ui.dropdown]:
    mo.stop(not won, mo.Html(frame.shown(run_panels.none_yet(snapshot.home))))
    _names = run_panels.specialists(won)
    _asked = parameter("specialist")

    def _go(name: str) -> None:
        if "runs" in mo.query_params():
            mo.query_params().remove("runs")
        mo.query_params().set("specialist", name)

    who = mo.ui.dropdown(
        _names,
        value=_asked if _asked in _names else _names[0],
        label="Highlighted specialist",
        on_change=_go,
    )
    mo.Html(frame.shown(frame.choices(who)))
    return (who,)


@app.cell
def _(who: mo.ui.dropdown, won: list[run_panels.Gain]) -> None:
    mo.Html(frame.shown(run_panels.heatmap(won, str(who.value))))


@app.cell
def _(snapshot: WorkspaceView, view: training_view.TrainingView, who: mo.ui.dropdown) -> None:
    mo.Html(frame.shown(run_panels.curves(snapshot, str(who.value), view)))


@app.cell
def _(who: mo.ui.dropdown, won: list[run_panels.Gain]) -> tuple[mo.ui.multiselect]:
    _asked = parameter("runs").split(",")
    runs = mo.ui.multiselect(
        [run.name for run in won],
        value=[run.name for run in won if run.name in _asked]
        or [run.name for run in won if run.specialist == who.value],
        label="Selected runs",
        on_change=lambda names: mo.query_params().set("runs", ",".join(map(str, names))),
    )
    mo.Html(frame.shown(frame.choices(runs, name="runs")))
    return (runs,)


@app.cell
def _(runs: mo.ui.multiselect, won: list[run_panels.Gain]) -> tuple[list[run_panels.Gain]]:
    chosen = [run for run in won if run.name in runs.value]
    return (chosen,)


@app.cell
def _(
    chosen: list[run_panels.Gain], snapshot: WorkspaceView, view: training_view.TrainingView
) -> None:
    mo.Html(frame.shown(run_panels.losses(snapshot, chosen, view)))


@app.cell
def _(chosen: list[run_panels.Gain], snapshot: WorkspaceView) -> None:
    mo.Html(frame.shown(run_panels.settings(snapshot.home, chosen)))


@app.cell
def _(snapshot: WorkspaceView, who: mo.ui.dropdown) -> None:
    mo.Html(frame.shown(run_panels.costs(snapshot, str(who.value))))


if __name__ == "__main__":
    app.run()
