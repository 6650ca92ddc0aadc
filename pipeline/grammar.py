"""Schema to grammar text (EBNF for xgrammar) in a fixed natural JSON layout.

Written here rather than taken from ``xgrammar.Grammar.from_json_schema``, whose conversion (0.2.8) drops or
mistranslates keywords: lengths beside patterns, keywords beside unions, quotes in strings with ``maxLength`` or a
pattern. Every layout is deterministic: no optional white space, so that most of the text is forced.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from pipeline.coverage import Keyword, classify
from pipeline.emitter import emit
from pipeline.errors import SchemaError
from pipeline.merge_policy import without_merge
from pipeline.schema import Schema
from pipeline.shape_builder import build_shapes

Layout = Literal["spaced", "indented", "compact"]


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A grammar and what it enforces. ``fingerprint`` is the SHA-256 of ``text``."""

    text: str
    layout: Layout
    fingerprint: str
    coverage: tuple[Keyword, ...]


def build_grammar(
    schema: Schema, *, layout: Layout = "indented", max_json_depth: int = 128, max_list_items: int | None = None
) -> GrammarSpec:
    """The grammar of one record.

    ``spaced`` writes one line with ``", "`` and ``": "``, ``indented`` two spaces a level (recursive and free parts
    stay on one line), ``compact`` no space at all. Raises SchemaError where no value fits or the fields nest deeper
    than ``max_json_depth`` (validation bounds what recursion may reach). ``max_list_items`` stops a list without
    ``maxItems`` one item after that many, which the validator with the same limit then refuses.
    """
    table, root, dropped = build_shapes(without_merge(schema.json_schema), max_list_items=max_list_items)
    emitted = emit(table, root, layout)
    if emitted.depth > max_json_depth:
        raise SchemaError(
            f"the fields nest {emitted.depth} levels deep, more than max_json_depth={max_json_depth}", path="#",
            hint="raise dspark.max_json_depth or flatten the schema",
        )  # fmt: skip
    return GrammarSpec(
        emitted.text, layout, hashlib.sha256(emitted.text.encode()).hexdigest(), classify(schema.json_schema, dropped)
    )
