"""SQL: any question, answered by a process that can read the data and write nothing."""

import marimo

app = marimo.App(width="full", app_title="SQL")

with app.setup:
    import marimo as mo
    from markupsafe import Markup

    from dashboards import frame, questions, sql_panels, workspace

    def set_parameter(sql: str | None) -> None:
        """Keep the question in the address."""
        mo.query_params().set("q", sql or "")


@app.cell
def _() -> None:
    mo.Html(frame.shown(frame.header("sql")))


@app.cell
def _() -> None:
    mo.Html(frame.shown(sql_panels.sidebar(workspace.home())))


@app.cell
def _() -> tuple[mo.ui.form[str, str], str]:
    _given = mo.query_params().get("q")
    first = _given.strip() if isinstance(_given, str) and _given.strip() else sql_panels.FIRST
    asked = mo.ui.code_editor(
        value=first, language="sql", min_height=120, max_height=420, show_copy_button=False
    ).form(
        submit_button_label="Ask",
        submit_button_tooltip="Ctrl+Enter asks too",
        bordered=False,
        on_change=set_parameter,
    )
    mo.Html(frame.shown(sql_panels.editor(frame.control(asked))))
    return asked, first


@app.cell
def _(asked: mo.ui.form[str, str], first: str) -> tuple[sql_panels.Outcome]:
    def _show(progress: Markup) -> None:
        mo.output.replace(mo.Html(frame.shown(progress)))

    found = sql_panels.outcome(
        workspace.home(),
        first if asked.value is None else str(asked.value),
        session=questions.session_of(mo.app_meta().request),
        show=_show,
    )
    mo.output.clear()
    return (found,)


@app.cell
def _(found: sql_panels.Outcome) -> None:
    _downloads = []
    if found.reply is not None:
        _reply = found.reply
        _csv = mo.download(_reply.csv, filename="answer.csv", mimetype="text/csv", label="CSV")
        _parquet = mo.download(
            _reply.parquet,
            filename="answer.parquet",
            mimetype="application/vnd.apache.parquet",
            label="Parquet",
        )
        _downloads = [frame.control(_csv), frame.control(_parquet)]
    mo.Html(frame.shown(sql_panels.card(found.shown, _downloads)))


if __name__ == "__main__":
    app.run()
