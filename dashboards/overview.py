"""Overview: what needs a hand first, then how each phase of each specialist stands."""

import marimo

app = marimo.App(width="full", app_title="Overview")

with app.setup:
    import marimo as mo

    from dashboards import frame, place
    from dashboards.questions import Snapshot


@app.cell
def _() -> tuple[Snapshot]:
    snapshot = Snapshot(place.home())
    mo.Html(frame.header("overview"))
    return (snapshot,)


if __name__ == "__main__":
    app.run()
