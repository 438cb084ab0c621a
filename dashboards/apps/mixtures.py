"""Mixtures page: planned and realised shares of a phase, and a preview with shares of the reader's choice."""

import marimo

app = marimo.App(width="full", app_title="Mixtures")

with app.setup:
    from collections.abc import Sequence

    import marimo as mo

    from dashboards import frame, mixture_panels, workspace
    from dashboards.questions import WorkspaceView

    SHARES, TIMES = "shares", "budget"

    def parameter(name: str) -> str:
        """Return a query parameter of the address; empty if it is missing."""
        found = mo.query_params().get(name)
        return found if isinstance(found, str) else ""

    def set_parameter(name: str, value: str | None) -> None:
        """Set a query parameter of the address, or remove it if the value is empty."""
        if value:
            mo.query_params().set(name, value)
        elif name in mo.query_params():
            mo.query_params().remove(name)

    def moved(of: Sequence[mixture_panels.ServingTotals]) -> list[float]:
        """Return the shares of the servings in percent: those in the address, or else those of the diet."""
        given = parameter(SHARES).split(",")
        try:
            wanted = [float(share) for share in given]
        except ValueError:
            wanted = []
        if len(wanted) != len(of) or not all(0 <= share <= 100 for share in wanted):
            wanted = [round(100 * serving.share, 1) for serving in of]
        return wanted

    def times() -> float:
        """Return the factor by which the address multiplies the budget, between 0.25 and 4; 1 by default."""
        try:
            return min(4.0, max(0.25, float(parameter(TIMES))))
        except ValueError:
            return 1.0


@app.cell
def _() -> tuple[WorkspaceView, list[mixture_panels.Mixed]]:
    snapshot = WorkspaceView(workspace.home())
    all_mixed = mixture_panels.mixed(snapshot)
    mo.Html(frame.shown(frame.header("mixtures")))
    return snapshot, all_mixed


@app.cell
def _(all_mixed: list[mixture_panels.Mixed], snapshot: WorkspaceView) -> tuple[mo.ui.dropdown]:
    mo.stop(not all_mixed, mo.Html(frame.shown(mixture_panels.none_yet(snapshot.home))))

    def _go(name: str) -> None:
        set_parameter(SHARES, None)
        set_parameter("specialist", name)

    who = mo.ui.dropdown(
        list(dict.fromkeys(mixture.specialist for mixture in all_mixed)),
        value=mixture_panels.choose_mixture(all_mixed, parameter("specialist"), None).specialist,
        label="Specialist",
        on_change=_go,
    )
    return (who,)


@app.cell
def _(all_mixed: list[mixture_panels.Mixed], who: mo.ui.dropdown) -> tuple[mo.ui.dropdown]:
    def _go(name: str) -> None:
        set_parameter(SHARES, None)
        set_parameter("phase", name)

    phase = mo.ui.dropdown(
        [mixture.phase for mixture in all_mixed if mixture.specialist == who.value],
        value=mixture_panels.choose_mixture(all_mixed, who.value, parameter("phase")).phase,
        label="Phase",
        on_change=_go,
    )
    mo.Html(frame.shown(frame.choices(who, phase)))
    return (phase,)


@app.cell
def _(
    all_mixed: list[mixture_panels.Mixed],
    phase: mo.ui.dropdown,
    snapshot: WorkspaceView,
    who: mo.ui.dropdown,
) -> tuple[mixture_panels.Mixed, list[mixture_panels.ServingTotals]]:
    which = mixture_panels.choose_mixture(all_mixed, who.value, phase.value)
    found = mixture_panels.servings(snapshot, which)
    mo.Html(frame.shown(mixture_panels.shares(which, found)))
    return which, found


@app.cell
def _(
    found: list[mixture_panels.ServingTotals],
) -> tuple[mo.ui.array, mo.ui.slider]:
    sliders = mo.ui.array(
        [
            mo.ui.slider(
                *(0, 100, 0.5),
                value=round(2 * share) / 2,
                label=frame.label(f"{serving.first.family} {serving.first.how}"),
                show_value=True,
                full_width=True,
            )
            for serving, share in zip(found, moved(found), strict=True)
        ],
        on_change=lambda values: set_parameter(SHARES, ",".join(f"{share:g}" for share in values)),
    )
    budget = mo.ui.slider(
        steps=[0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4],
        value=times(),
        label="Budget ×",
        show_value=True,
        on_change=lambda value: set_parameter(TIMES, None if value == 1 else f"{value:g}"),
    )
    return sliders, budget


@app.cell
def _(
    budget: mo.ui.slider,
    found: list[mixture_panels.ServingTotals],
    sliders: mo.ui.array,
    snapshot: WorkspaceView,
    which: mixture_panels.Mixed,
) -> None:
    mo.Html(
        frame.shown(
            mixture_panels.what_if(
                which,
                found,
                mixture_panels.lines(snapshot, which),
                [frame.control(element) for element in sliders.elements],
                [float(str(share)) / 100 for share in sliders.value],
                frame.control(budget),
                budget.value,
            )
        )
    )


@app.cell
def _(
    found: list[mixture_panels.ServingTotals], snapshot: WorkspaceView, which: mixture_panels.Mixed
) -> None:
    _panels = mixture_panels.epochs(which, found), mixture_panels.repositories(snapshot, which)
    mo.Html(frame.shown(frame.side_by_side(*_panels)))


if __name__ == "__main__":
    app.run()
