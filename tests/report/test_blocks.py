"""Pages, sections and tables that any command can build."""

import base64
import hashlib
import re

from fairsilo.report.blocks import Column, details, note, page, section, table, table_page
from fairsilo.report.html import Html


def test_table_has_scopes_and_tabular_numbers() -> None:
    made = table(
        [Column("Method"), Column("Accuracy", "percent"), Column("Gap", "signed", why="no rows")],
        [["<b>", 0.75, -0.1], ["y", 0.5, None]],
        caption="Results & more",
    )
    assert made.count('scope="col"') == 3
    assert made.count('scope="row"') == 2
    assert "<caption>Results &amp; more</caption>" in made
    assert ">&lt;b&gt;</th>" in made
    assert '<td class="num" data-sort="0.75">75.0%</td>' in made
    assert '<td class="num" data-sort="-0.1">\u22120.100</td>' in made
    assert 'title="no rows"' in made


def test_table_kinds() -> None:
    columns = [Column("a"), Column("b", "count"), Column("c", "size"), Column("d", "points")]
    made = table([*columns, Column("e", "figure")], [["x", 1234, 5e6, 0.012, "1 to 2"]])
    for text in (">1,234<", ">5 MB<", ">+1.2%<", ">1 to 2<"):
        assert text in made


def test_markup_goes_in_only_as_html() -> None:
    made = section("A & B", note("<i>"), details("<u>", Html("<em>x</em>")))
    assert "A &amp; B" in made
    assert "&lt;i&gt;" in made
    assert "&lt;u&gt;" in made
    assert "<em>x</em>" in made


def test_page_is_one_document_that_may_load_nothing() -> None:
    made = page("<T>", [section(name, "x") for name in ("One", "Two", "Three")], lead="a < b")
    assert made.startswith("<!DOCTYPE html>")
    assert made.count("<h1>") == 1
    assert "<h1>&lt;T&gt;</h1>" in made
    assert "a &lt; b" in made
    assert [*re.findall(r'<a href="#(\w+)"', made)] == ["main", "one", "two", "three"]
    assert not re.search(r'(?:src|href)="(?!#|data:,")', made)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', made)
    assert policy.startswith("default-src 'none'; ")
    script = made[made.rindex("<script>") + len("<script>") : made.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy


def test_table_page_takes_headings_and_blocks() -> None:
    made = table_page("T", [("First", ["text <", table(["a"], [["b"]])])])
    assert '<section id="first"' in made
    assert "text &lt;" in made
    assert "<nav" not in made
