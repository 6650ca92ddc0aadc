"""Evaluation of a run against gold records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.bootstrap import Interval, bootstrap, f1_of, share_of
from pipeline.calibration import Calibration, calibrate
from pipeline.field_scores import Difference, DocumentScore, Tally, score_document
from pipeline.schema_nodes import Node

NUM_WORST = 20
HEADLINES = {
    "f1_exact": "F1 of fields, exact",
    "f1_normalised": "F1 of fields, normalised",
    "record_exact_match": "records exactly right",
    "record_match": "records right, normalised",
}
_INVALID = ("INVALID_JSON", "SCHEMA_MISMATCH", "TRUNCATED")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run says of one document: a value, or the reason of its reject. Confidences by JSON pointer."""

    value: Any
    reason: str | None = None
    confidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldResult:
    """Scores of one field; list items are ``/orders/*/amount``, their number ``/orders[]``."""

    name: str
    exact: Tally
    normalised: Tally


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """One document's part in the evaluation; ``differences`` are those of normalised values."""

    doc_id: str
    exact: Tally
    normalised: Tally
    is_exact_match: bool
    is_match: bool
    reason: str | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything about one run. Rejected and missing documents count as documents without any value."""

    fields: tuple[FieldResult, ...]
    documents: tuple[DocumentResult, ...]
    num_without_gold: int
    num_missing: int
    num_schema_errors: int
    rejects_by_reason: dict[str, int]
    calibration: Calibration | None

    @property
    def exact(self) -> Tally:
        return _sum([document.exact for document in self.documents])

    @property
    def normalised(self) -> Tally:
        return _sum([document.normalised for document in self.documents])

    @property
    def num_documents(self) -> int:
        return len(self.documents)

    @property
    def reject_rate(self) -> float:
        return sum(self.rejects_by_reason.values()) / max(1, self.num_documents)

    @property
    def invalid_rate(self) -> float:
        """Share of documents whose last output was not valid."""
        return sum(self.rejects_by_reason.get(reason, 0) for reason in _INVALID) / max(1, self.num_documents)

    @property
    def intervals(self) -> dict[str, Interval]:
        """Headline numbers with bootstrap intervals over documents."""
        return {name: bootstrap(rows, statistic) for name, (rows, statistic) in _measures(self.documents).items()}

    @property
    def worst(self) -> tuple[DocumentResult, ...]:
        """The documents with the lowest F1, of equals those with more errors; only documents with differences."""
        wrong = [document for document in self.documents if document.differences]
        return tuple(sorted(wrong, key=lambda d: (d.normalised.f1, -len(d.differences), d.doc_id))[:NUM_WORST])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run B against run A on the documents that have gold: B minus A, paired by document."""

    differences: dict[str, Interval]
    num_documents: int
    num_better: int
    num_worse: int


def evaluate(
    gold: Mapping[str, Any],
    predictions: Mapping[str, Prediction],
    *,
    json_schema: Node | None = None,
    validate: Sequence[str] = (),
) -> Evaluation:
    """Score ``predictions`` against ``gold``, both by document id.

    ``json_schema`` (canonical) gives the keys of lists. ``validate`` names documents whose record does not satisfy the
    schema, as an independent validator found.
    """
    fields: dict[str, tuple[Tally, Tally]] = {}
    documents, pairs = [], []
    for doc_id, right in gold.items():
        found = predictions.get(doc_id)
        value = found.value if found is not None else None
        exact = score_document(right, value, json_schema, mode="exact")
        normal = score_document(right, value, json_schema, mode="normalised")
        for index, score in enumerate((exact, normal)):
            for name, tally in score.fields.items():
                fields.setdefault(name, (Tally(), Tally()))[index].add(tally)
        if found is not None and found.confidence:
            pairs += [(found.confidence[p], ok) for p, ok in normal.leaves if p in found.confidence]
        documents.append(_document(doc_id, exact, normal, found.reason if found else "MISSING"))
    reasons = Counter(p.reason for doc_id, p in predictions.items() if p.reason and doc_id in gold)
    return Evaluation(
        fields=tuple(FieldResult(name, *fields[name]) for name in sorted(fields)),
        documents=tuple(documents),
        num_without_gold=sum(doc_id not in gold for doc_id in predictions),
        num_missing=sum(doc_id not in predictions for doc_id in gold),
        num_schema_errors=len(validate),
        rejects_by_reason={str(reason): number for reason, number in sorted(reasons.items())},
        calibration=calibrate(pairs) if pairs else None,
    )


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """B minus A (``second`` minus ``first``); both must be evaluations against the same gold."""
    before = {document.doc_id: document for document in first.documents}
    both = [(before[d.doc_id], d) for d in second.documents if d.doc_id in before]
    left, right = _measures([a for a, _ in both]), _measures([b for _, b in both])
    differences = {}
    for name, (rows, statistic) in left.items():
        joined = [[*a, *b] for a, b in zip(rows, right[name][0], strict=True)]
        differences[name] = bootstrap(joined, _Difference(statistic, len(rows[0]) if rows else 0))
    return Comparison(
        differences,
        len(both),
        num_better=sum(b.normalised.f1 > a.normalised.f1 for a, b in both),
        num_worse=sum(b.normalised.f1 < a.normalised.f1 for a, b in both),
    )


@dataclass(frozen=True, slots=True)
class _Difference:
    """A statistic of the right columns minus that of the left ones."""

    statistic: Callable[[Any], Any]
    width: int

    def __call__(self, sums: Any) -> Any:
        return self.statistic(sums[:, self.width :]) - self.statistic(sums[:, : self.width])


def _document(doc_id: str, exact: DocumentScore, normal: DocumentScore, reason: str | None) -> DocumentResult:
    return DocumentResult(
        doc_id, exact.total, normal.total, exact.is_match, normal.is_match, reason, tuple(normal.differences)
    )


def _measures(documents: Sequence[DocumentResult]) -> dict[str, tuple[list[list[float]], Any]]:
    """Rows per document and the statistic over their sums, by name of the headline number."""
    return {
        "f1_exact": ([[d.exact.tp, d.exact.fp, d.exact.fn] for d in documents], f1_of),
        "f1_normalised": ([[d.normalised.tp, d.normalised.fp, d.normalised.fn] for d in documents], f1_of),
        "record_exact_match": ([[float(d.is_exact_match), 1.0] for d in documents], share_of),
        "record_match": ([[float(d.is_match), 1.0] for d in documents], share_of),
    }


def _sum(tallies: Sequence[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total
