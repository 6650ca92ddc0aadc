"""Exceptions of the pipeline, one tree.

::

    PipelineError
      ConfigError             bad setting, found on the driver before any work
        SchemaError           schema cannot be expressed as grammar / Arrow / profile
      InputError              unreadable source, missing column, duplicate document id
      EngineError             the engine cannot continue; the Spark task must fail
        EngineStartError      model did not load
        EngineStalledError    no progress within the limit
      OutputError             value cannot be written; commit failed
      InternalError           an invariant of ours broke (grammar and matcher out of step)

A message names the thing, what was expected, what came, and what to do. Bad *rows* are never exceptions: they are
:class:`pipeline.data.Reject` values. Every class pickles, because Spark carries exceptions between processes.
"""


class PipelineError(Exception):
    """Base of everything this package raises on purpose.

    ``hint`` says what the reader can do about it; it is part of ``str(error)``.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _rebuild(cls: type[PipelineError], message: str, state: dict[str, object]) -> PipelineError:
    """Rebuild without calling a subclass's ``__init__``, whose keyword-only arguments pickle cannot see."""
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class ConfigError(PipelineError):
    """A setting is wrong; raised on the driver before any work starts."""


class SchemaError(ConfigError):
    """The schema cannot be expressed as a grammar, as Arrow or for a profile.

    ``path`` is the JSON pointer-like place in the schema, ``keyword`` the JSON Schema keyword at fault.
    """

    def __init__(
        self, message: str, *, path: str | None = None, keyword: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.keyword = keyword

    def __str__(self) -> str:
        place = [f"at {self.path}" if self.path else "", f"keyword {self.keyword!r}" if self.keyword else ""]
        where = ", ".join(part for part in place if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class InputError(PipelineError):
    """The source cannot be read, lacks a column, or names one document twice."""


class EngineError(PipelineError):
    """The engine cannot continue; the Spark task must fail so that Spark starts it elsewhere."""


class EngineStartError(EngineError):
    """The model did not load."""


class EngineStalledError(EngineError):
    """The engine made no progress within ``engine.stall_timeout_s``."""


class OutputError(PipelineError):
    """A value cannot be written, or the commit of an output failed."""


class InternalError(PipelineError):
    """An invariant of this package broke; please report it."""
