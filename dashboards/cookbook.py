"""The README's cookbook: the questions of dashboards/queries, each with its SQL."""

from importlib import resources

from dashboards.questions import Question, question


def recipes() -> list[Question]:
    """The questions that stand in the cookbook, by name; those of panels aren't among them."""
    folder = resources.files("dashboards") / "queries"
    names = (file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [question(name.removesuffix(".sql")) for name in sorted(names)]


def cookbook() -> str:
    """The cookbook as Markdown: a line a question, which opens to its meaning and its SQL."""
    return "\n\n".join(_entry(each) for each in recipes())


def _entry(recipe: Question) -> str:
    asked, _, meaning = recipe.words.partition("? ")
    said = f"{meaning}\n\n" if meaning else ""
    comments = (line for line in recipe.sql.splitlines() if not line.startswith("--"))
    sql = "\n".join(comments).strip()
    title = asked.removesuffix("?")
    return f"<details><summary>{title}?</summary>\n\n{said}```sql\n{sql}\n```\n\n</details>"
