"""A document's record as a line of the run's profile."""

from __future__ import annotations

from pipeline.data import RejectReason
from pipeline.errors import ConfigError
from pipeline.profiles import Loss, load_profile
from pipeline.schema import arrow_type
from pipeline.udf.merge import DocumentRecord, DocumentReject, reject_of
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
        return reject_of(record, RejectReason.PROFILE_LOSS, str(line))


def check_writable(stage: Stage) -> None:
    """Check on the driver that records can be written, as lines and as columns.

    Raises:
        ConfigError: unknown profile, or the schema has a field of the id field's name.
        SchemaError: the schema cannot be written in the profile, or has no columns.
    """
    LineFormatter(stage)
    if "parquet" in stage.config.output.formats:
        arrow_type(stage.schema)
    name = stage.config.output.id_field
    if name and name in stage.schema.json_schema.get("properties", {}):
        raise ConfigError(
            f"the schema has a field {name!r} of its own, which the document's id would replace",
            hint='pass --id-field with another name, or "" to leave the id out of records.jsonl',
        )
