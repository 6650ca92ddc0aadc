"""A document's record as a line of the run's profile."""

from __future__ import annotations

from pipeline.data import RejectReason
from pipeline.errors import ConfigError
from pipeline.profiles import Loss, load_profile
from pipeline.udf.merge import DocumentRecord, DocumentReject
from pipeline.udf.stage import Stage


class LineFormatter:
    """Writes ``{id_field: doc_id, ...fields}`` in the run's profile, one object a line."""

    def __init__(self, stage: Stage) -> None:
        self._id_field = stage.config.output.id_field
        self._profile = load_profile(stage.config.output.profile, stage.schema.json_schema)

    def format(self, record: DocumentRecord) -> str | DocumentReject:
        """The line, or a reject where the profile cannot carry the value (PROFILE_LOSS)."""
        line = self._profile.to_line(record.doc_id, self._id_field, record.value)
        if not isinstance(line, Loss):
            return line
        row = {
            "doc_id": record.doc_id,
            "reason": str(RejectReason.PROFILE_LOSS),
            "detail": str(line),
            "chunk_index": 0,
            "char_start": None,
            "char_end": None,
            "finish_reason": record.meta["finish_reason"],
            "raw_output": record.json,
            "errors": None,
            "attempts": None,
            "meta": record.meta,
        }
        return DocumentReject(record.doc_id, row)


def check_lines(stage: Stage) -> None:
    """Check on the driver that records can be written as lines.

    Raises:
        ConfigError: unknown profile, or the schema has a field of the id field's name.
        SchemaError: the schema cannot be written in the profile.
    """
    LineFormatter(stage)
    name = stage.config.output.id_field
    if name and name in stage.schema.json_schema.get("properties", {}):
        raise ConfigError(
            f"the schema has a field {name!r} of its own, which the document's id would replace",
            hint='pass --id-field with another name, or "" to leave the id out of records.jsonl',
        )
