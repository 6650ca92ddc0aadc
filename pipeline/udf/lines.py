"""A document's record as the lines of its profile."""

from __future__ import annotations

from pipeline.errors import ConfigError
from pipeline.strict_json import dumps
from pipeline.udf.merge import DocumentRecord, DocumentReject
from pipeline.udf.stage import Stage


class LineFormatter:
    """Writes ``{id_field: doc_id, ...fields}`` in the run's profile, one object a line."""

    def __init__(self, stage: Stage) -> None:
        self._id_field = stage.config.output.id_field
        check_id_field(stage)

    def format(self, record: DocumentRecord) -> str | DocumentReject:
        """The line, or a reject where the profile cannot carry the value (PROFILE_LOSS)."""
        if not self._id_field:
            return record.json
        return dumps({self._id_field: record.doc_id, **record.value})


def check_id_field(stage: Stage) -> None:
    """Raise ConfigError where the schema has a field of that name already."""
    name = stage.config.output.id_field
    if name and name in stage.schema.json_schema.get("properties", {}):
        raise ConfigError(
            f"the schema has a field {name!r} of its own, which the document's id would replace",
            hint='pass --id-field with another name, or "" to leave the id out of records.jsonl',
        )
