"""SQL: any question, answered by a process that can read the data and write nothing."""

import marimo

app = marimo.App(width="full", app_title="SQL")

with app.setup:
    import marimo as mo

    from dashboards import frame, questions, sql_panels, workspace

    def set_parameter(sql: str | None) -> None:
        """Keep the question in the address."""
        mo.query_params().set("q", sql or "")


@app.cell
def _() -> None:
    mo.Html(frame.header("sql"))


@app.cell
def _() -> None:
    mo.Html(sql_panels.sidebar(workspace.home()))


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
    mo.Html(f'<section class="card editor" id="ask"><h2>Ask in SQL</h2>{asked}</section>')
    return asked, first


@app.cell
def _(asked: mo.ui.form[str, str], first: str) -> tuple[sql_panels.Outcome]:
    def _show(words: str) -> None:
        mo.output.replace(mo.Html(f'<section class="card"><h2>Answer</h2>{words}</section>'))

    came = sql_panels.outcome(
        workspace.home(),
        first if asked.value is None else str(asked.value),
        session=questions.session_of(mo.app_meta().request),
        show=_show,
    )
    mo.output.clear()
    return (came,)


@app.cell
def _(came: sql_panels.Outcome) -> None:
    _files = ""
    if came.reply is not None:
        _reply = came.reply
        _csv = mo.download(_reply.csv, filename="answer.csv", mimetype="text/csv", label="CSV")
        _parquet = mo.download(
            _reply.parquet,
            filename="answer.parquet",
            mimetype="application/vnd.apache.parquet",
            label="Parquet",
        )
        _files = f'<div class="files" id="files">{_csv}{_parquet}</div>'
    mo.Html(f'<section class="card" id="answer"><h2>Answer</h2>{_files}{came.shown}</section>')


if __name__ == "__main__":
    app.run()
