"""A page is up to date if its last line has the digest of its inputs."""

from pathlib import Path

from dashboards.page_digest import digest_line, ends_with


def test_only_a_whole_page_of_the_same_inputs_is_up_to_date(tmp_path: Path) -> None:
    file, line = tmp_path / "page.html", digest_line("code", {"phase": 1})
    assert not ends_with(file, line)
    file.write_text("-->")
    assert not ends_with(file, line), "it is shorter than the line"
    file.write_text(f"<html></html>{line}")
    assert ends_with(file, line)
    assert not ends_with(file, digest_line("code", {"phase": 2}))
    file.write_text(f"<html></html>{line}more")
    assert not ends_with(file, line)
