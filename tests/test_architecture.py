"""Architecture: imports point downwards, the package imports lightly, files stay small, exceptions travel."""

from __future__ import annotations

import ast
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline
from pipeline import errors

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("pyspark", "pyarrow", "torch", "vllm")
LAYERS: list[set[str]] = [
    {"data", "errors", "setting_faults", "settings_file"},
    {"config"},
    set(),  # pure modules: everything in pipeline/ that no other layer names
    {"extractor", "testing", "tokenizer", "demo_model", "models"},
    {"engine", "engine_loading", "remote_engine", "probe", "dspark.plugin", "dspark.scheduler", "dspark.proposer"},
    {
        "storage",
        "session",
        "faults",
        "journal",
        "markers",
        "line_ranges",
        "sources",
        "parquet_files",
        "input_source",
        "readers",
    }
    | {"writers", "udf"},
    {"plan", "scheduling", "rounds", "compaction", "run_folder", "warming"},
    {"results", "report_data", "display"},
    {"run", "dry_run", "api", "decode_benchmark", "decode_gold", "decode_passes", "decode_workload"},
    {"decode_run", "decode_report", "decode_formats", "seed_benchmark", "serve_benchmark", "simulate_run", "overhead"},
]
PURE = 2
PACKAGES = ("pipeline", "jobs", "schemas")


def _files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _layer(module: str) -> int:
    name = module.removeprefix("pipeline.")
    for number, names in enumerate(LAYERS):
        if name in names or name.partition(".")[0] in names:
            return number
    return PURE


def _imports(path: Path) -> set[str]:
    """Modules that a file imports at any depth, except for type checking only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped.update(child for statement in node.body for child in ast.walk(statement))
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found.add(module)
            found.update(f"{module}.{alias.name}" for alias in node.names)
    return found


def _own(path: Path) -> set[str]:
    modules = {_module(file) for file in _files("pipeline")}
    return {name for name in _imports(path) if name in modules and name not in ("pipeline", "pipeline.udf")}


@pytest.mark.parametrize("path", _files("pipeline"), ids=_module)
def test_a_layer_imports_no_higher_layer(path: Path) -> None:
    module = _module(path)
    if module == "pipeline":
        return
    higher = {name for name in _own(path) if _layer(name) > _layer(module)}
    assert not higher, f"{module} (layer {_layer(module)}) imports {sorted(higher)}"


@pytest.mark.parametrize("path", _files("pipeline/dspark"), ids=_module)
def test_drafting_stands_alone(path: Path) -> None:
    module = _module(path)
    allowed_vllm = module in ("pipeline.dspark.scheduler", "pipeline.dspark.proposer", "pipeline.dspark.plugin")
    own = {name for name in _own(path) if not name.startswith("pipeline.dspark")}
    assert not own, f"{module} imports {sorted(own)}"
    heavy = {name.partition(".")[0] for name in _imports(path)} & {"pyspark", "pyarrow", "torch", "vllm"}
    assert allowed_vllm or not heavy - _allowed_in_dspark(module), f"{module} imports {sorted(heavy)}"


def _allowed_in_dspark(module: str) -> set[str]:
    return {"vllm", "torch"} if module.endswith((".counters", ".adapter", ".runtime")) else set()


@pytest.mark.parametrize("path", _files(*PACKAGES), ids=_module)
def test_only_the_engine_side_imports_vllm(path: Path) -> None:
    module = _module(path)
    if any(name.partition(".")[0] == "vllm" for name in _imports(path)):
        assert module in ("pipeline.engine", "pipeline.engine_loading") or module.startswith(
            ("pipeline.dspark.", "jobs.")
        ), module


@pytest.mark.parametrize("path", _files(*PACKAGES, "tests"), ids=_module)
def test_a_file_fits_in_the_head(path: Path) -> None:
    num_lines = len(path.read_text(encoding="utf-8").splitlines())
    assert num_lines <= 300, f"{path.relative_to(ROOT)} has {num_lines} lines"


@pytest.mark.parametrize("path", _files(*PACKAGES), ids=_module)
def test_a_module_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{path.relative_to(ROOT)} has no docstring"


def test_importing_the_package_is_light() -> None:
    code = f"import sys, pipeline, pipeline.udf; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_job_checks_its_arguments_without_spark() -> None:
    code = f"import sys, jobs.extract; print([m for m in {HEAVY!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_exports_are_sorted_and_importable() -> None:
    assert pipeline.__all__ == sorted(pipeline.__all__)
    assert set(pipeline.__all__) == set(pipeline._HOME)
    for name in pipeline.__all__:
        assert getattr(pipeline, name) is not None
    with pytest.raises(AttributeError):
        pipeline.nothing  # noqa: B018


@pytest.mark.parametrize(
    "cls", [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.PipelineError)]
)
def test_every_exception_survives_the_way_between_processes(cls: type[errors.PipelineError]) -> None:
    error = cls("message", hint="do this")
    if isinstance(error, errors.SchemaError):
        error = errors.SchemaError("message", path="#/a", keyword="enum", hint="do this")
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert arrived.__dict__ == error.__dict__
