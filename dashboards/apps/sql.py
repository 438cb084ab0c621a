"""SQL page: queries run in a separate process that can read the workspace and can't write to it."""

import marimo

app = marimo.App(width="full", app_title="SQL")

with app.setup:
    from collections.abc import Callable

    import marimo as mo
    from markupsafe import Markup

    from curriculum.catalog.page_query import Reply
    from dashboards import answer_charts, frame, questions, sql_panels, workspace

    CHART = ("chart", "across", "up", "by")

    def parameter(name: str) -> str | None:
        """Return a query parameter of the address, or None if it is missing."""
        found = mo.query_params().get(name)
        return found if isinstance(found, str) else None

    def ask(sql: str | None) -> None:
        """Store a query in the address, and remove the chart settings of the previous query from it."""
        for name in CHART:
            if name in mo.query_params():
                mo.query_params().remove(name)
        mo.query_params().set("q", sql or "")


@app.cell
def _() -> None:
    mo.Html(frame.shown(frame.header("sql")))


@app.cell
def _() -> tuple[bool]:
    offered = True
    mo.Html(frame.shown(sql_panels.sidebar(workspace.home())))
    return (offered,)


@app.cell
def _(offered: bool) -> tuple[mo.ui.form[str, str], str, bool]:
    # The sidebar says which questions are this server's own.
    assert offered
    first, is_known = sql_panels.first_question(parameter("q") or "")
    asked = mo.ui.code_editor(
        value=first, language="sql", min_height=120, max_height=420, show_copy_button=False
    ).form(
        submit_button_label="Run",
        submit_button_tooltip="Run the query (Ctrl+Enter)",
        bordered=False,
        on_change=ask,
    )
    mo.Html(frame.shown(sql_panels.editor(frame.control(asked))))
    return asked, first, is_known


@app.cell
def _(
    asked: mo.ui.form[str, str], first: str, is_known: bool
) -> tuple[sql_panels.AnswerOutcome, Reply | None]:
    mo.stop(asked.value is None and not is_known, mo.Html(frame.shown(sql_panels.not_asked())))

    def _show(progress: Markup) -> None:
        mo.output.replace(mo.Html(frame.shown(progress)))

    found = sql_panels.outcome(
        workspace.home(),
        first if asked.value is None else str(asked.value),
        session=questions.session_of(mo.app_meta().request),
        show=_show,
    )
    reply = found.reply
    mo.output.clear()
    return found, reply


@app.cell
def _(found: sql_panels.AnswerOutcome) -> None:
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


@app.cell
def _(
    reply: Reply | None,
) -> tuple[mo.ui.dropdown, mo.ui.dropdown, mo.ui.dropdown, mo.ui.dropdown]:
    mo.stop(reply is None)
    assert reply is not None
    _kind, _across, _up, _by = map(parameter, CHART)
    _choice = answer_charts.resolve_choice(reply, _kind or "", _across or "", _up or "", _by)
    mo.stop(_choice is None)
    assert _choice is not None
    _known = answer_charts.columns(reply)
    _numbers = [name for name, column in _known.items() if column.kind == "number"]

    def _keep(name: str) -> Callable[[object], None]:
        return lambda value: mo.query_params().set(name, str(value))

    kind = mo.ui.dropdown(
        sql_panels.KIND_NAMES,
        value=next(
            name for name, kind_name in sql_panels.KIND_NAMES.items() if kind_name == _choice.kind
        ),
        label="Chart",
        on_change=_keep("chart"),
    )
    across = mo.ui.dropdown(
        list(_known), value=_choice.across, label="x axis", on_change=_keep("across")
    )
    up = mo.ui.dropdown(_numbers, value=_choice.up, label="y axis", on_change=_keep("up"))
    by = mo.ui.dropdown(
        {sql_panels.ONE_COLOUR: "", **{name: name for name in _known}},
        value=_choice.by or sql_panels.ONE_COLOUR,
        label="colour by",
        on_change=_keep("by"),
    )
    return kind, across, up, by


@app.cell
def _(
    across: mo.ui.dropdown,
    by: mo.ui.dropdown,
    kind: mo.ui.dropdown,
    reply: Reply | None,
    up: mo.ui.dropdown,
) -> None:
    assert reply is not None
    _choice = answer_charts.ChartChoice(
        kind=str(kind.value), across=str(across.value), up=str(up.value), by=str(by.value)
    )
    _controls = frame.choices(kind, across, up, by)
    mo.Html(frame.shown(sql_panels.chart(reply, _choice, _controls)))


if __name__ == "__main__":
    app.run()
