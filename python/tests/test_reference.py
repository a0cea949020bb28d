"""The reference in the documents is that of the code."""

from __future__ import annotations

from pathlib import Path

from reference import reference

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/python-reference.md"


def test_the_document_has_the_signatures_and_words_of_the_code() -> None:
    anew = "write it anew: python3 python/tests/reference.py > docs/python-reference.md"
    assert DOCUMENT.read_text() == reference(), anew
