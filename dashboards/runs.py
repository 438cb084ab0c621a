"""Runs compared: what each phase won for each specialist, how val_bpb fell, and what it cost."""

import marimo

app = marimo.App(width="full", app_title="Runs compared")

with app.setup:
    import marimo as mo

    from dashboards import compared, frame, place
    from dashboards.questions import Snapshot

    def say(name: str) -> None:
        """Keep the chosen specialist in the address."""
        mo.query_params().set("specialist", name)


@app.cell
def _() -> tuple[Snapshot, list[compared.Gain]]:
    snapshot = Snapshot(place.home())
    won = compared.gains(snapshot)
    mo.Html(frame.header("runs"))
    return snapshot, won


@app.cell
def _(won: list[compared.Gain]) -> tuple[mo.ui.dropdown]:
    mo.stop(not won, mo.Html(compared.none_yet()))
    _names = compared.specialists(won)
    _asked = mo.query_params().get("specialist")
    who = mo.ui.dropdown(
        _names,
        value=_asked if _asked in _names else _names[0],
        on_change=say,
    )
    mo.Html(f'<div class="choice" id="choice"><span>In colour {who}</span></div>')
    return (who,)


@app.cell
def _(who: mo.ui.dropdown, won: list[compared.Gain]) -> None:
    mo.Html(compared.heatmap(won, str(who.value)))


@app.cell
def _(snapshot: Snapshot, who: mo.ui.dropdown) -> None:
    mo.Html(compared.curves(snapshot, str(who.value)))


@app.cell
def _(snapshot: Snapshot, who: mo.ui.dropdown) -> None:
    mo.Html(compared.costs(snapshot, str(who.value)))


if __name__ == "__main__":
    app.run()
