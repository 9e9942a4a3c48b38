"""HTML pages that stand alone."""

from __future__ import annotations

import base64

from aiosearch.display import pages


def test_texts_are_escaped_in_elements_tables_and_attributes() -> None:
    hostile = '"><img src=x onerror=alert(1)>'
    texts = [
        pages.element("p", hostile, hostile),
        pages.table(("head", hostile), [(hostile, "1")], {1}, {0}),
        pages.facts([(hostile, hostile)]),
        pages.picture("<svg/>", hostile),
        pages.code(hostile),
        pages.details(hostile, ""),
        pages.section(hostile),
        pages.page(hostile),
    ]
    for text in texts:
        assert "<img src=x" not in text
        assert "&quot;&gt;&lt;img src=x" in text


def test_a_page_forbids_itself_to_load_anything() -> None:
    text = pages.page("title", pages.section("part", pages.element("p", "text")))
    assert "default-src 'none'" in text
    assert 'http-equiv="refresh"' not in text
    assert 'content="2"' in pages.page("title", refresh=2)


def test_a_picture_is_in_the_page() -> None:
    text = pages.picture("<svg/>", "a drawing")
    assert base64.b64encode(b"<svg/>").decode() in text


def test_a_fragment_changes_no_other_part_of_a_notebook() -> None:
    text = pages.fragment(pages.element("p", "text"))
    assert text.startswith("<style>@scope (.aiosearch)")
    assert "<html" not in text
