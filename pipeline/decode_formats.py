"""Format-error rates: how many outputs are wrong under each kind of constraint."""

from __future__ import annotations

import json

from pipeline.config import DecodingConfig
from pipeline.data import Record
from pipeline.decode_passes import decode
from pipeline.decode_workload import Form, Workload
from pipeline.extractor import Extractor
from pipeline.protocols import Engine, Request
from pipeline.validation import Valid, Validator


def format_errors(
    engine: Engine, workload: Workload, form: Form, *, max_tokens: int, in_flight: int, decoding: DecodingConfig
) -> dict[str, float]:
    """Share of documents without a valid record: free text, JSON mode, grammar, and grammar with validation and retry.

    ``form`` is that of all documents. An output counts as right when it ended by itself and its text is a valid value
    of the schema, as it stands.
    """
    validator = Validator(form.schema)
    shares = {}
    for name, grammar in (("plain text", ""), ("JSON mode", _any_object()), ("grammar", form.grammar)):
        requests = [
            Request(f"format-{name}-{chunk.doc_id}", prompt.token_ids, max_tokens, grammar, prompt.document_span)
            for chunk, prompt in zip(workload.chunks, workload.prompts, strict=True)
        ]
        done = decode(engine, requests, in_flight=in_flight).completions
        wrong = sum(c.finish_reason != "stop" or not isinstance(validator.validate(c.text), Valid) for c in done)
        shares[name] = wrong / len(done)
    extractor = Extractor(
        engine,
        prompter=form.prompting,
        validator=validator,
        grammar=form.grammar,
        decoding=decoding.model_copy(update={"max_output_tokens": max_tokens}),
        max_in_flight=in_flight,
    )
    outcomes = list(extractor.run(workload.chunks))
    shares["grammar, validation and retry"] = sum(not isinstance(o, Record) for o in outcomes) / len(outcomes)
    return shares


def _any_object() -> str:
    import xgrammar

    return str(xgrammar.Grammar.from_json_schema(json.dumps({"type": "object"}), any_whitespace=True))
