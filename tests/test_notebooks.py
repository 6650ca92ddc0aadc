"""The notebooks run from top to bottom, on the real chain, and give what they say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
ALL = ("01_explore.ipynb", "02_tune_and_evaluate.ipynb", "03_dspark.ipynb")


def execute(name: str, folder: Path) -> tuple[Any, list[set[str]]]:
    """The notebook with fresh outputs, and the engines that each of its extractions used, in their order.

    UPDATE_NOTEBOOKS=1 writes the outputs back.
    """
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(NOTEBOOKS.parent)}})
    environment = {**os.environ, "TMPDIR": str(folder), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    with client.setup_kernel(env=environment):
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        runs = sorted(folder.glob("extract-*"), key=lambda run: run.stat().st_mtime)
        engines = [{json.loads(f.read_bytes())["engine_id"] for f in run.rglob("progress/*.json")} for run in runs]
    if os.environ.get("UPDATE_NOTEBOOKS"):
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)
            kept = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
            if cell.cell_type == "code":
                cell.outputs = kept  # warnings name folders of the machine
        nbformat.write(notebook, NOTEBOOKS / name)
    return notebook, engines


def printed(cell: Any) -> str:
    """Everything a cell shows, as text."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        texts.append(str(output.get("text", "")) + str(data.get("text/html", data.get("text/plain", ""))))
    return "\n".join(texts)


def pictures(notebook: Any) -> int:
    return sum("image/png" in output.get("data", {}) for c in notebook.cells for output in c.get("outputs", []))


def counts(shown: str) -> list[tuple[int, int]]:
    return [(int(r), int(j)) for r, j in re.findall(r"(\d+) records, (\d+) rejects in", shown)]


@pytest.mark.vllm
@pytest.mark.spark
@pytest.mark.slow
def test_explore_shows_records_spans_and_rejects_with_one_model_load(tmp_path: Path) -> None:
    notebook, engines = execute("01_explore.ipynb", tmp_path)
    shown = "\n".join(printed(cell) for cell in notebook.cells)
    assert len(counts(shown)) == 2
    assert all(records + rejects == 10 and records >= 6 and rejects >= 1 for records, rejects in counts(shown))
    assert "<mark" in shown
    assert "EMPTY_INPUT" in shown
    assert "unbounded text" in shown
    assert len(engines) == 2
    assert len(engines[0]) == 1
    assert engines[0] == engines[1], "the second cell found the engine loaded"


@pytest.mark.vllm
@pytest.mark.spark
@pytest.mark.slow
def test_tune_and_evaluate_compares_two_prompts_on_one_model_load(tmp_path: Path) -> None:
    notebook, engines = execute("02_tune_and_evaluate.ipynb", tmp_path)
    shown = "\n".join(printed(cell) for cell in notebook.cells)
    assert [records + rejects for records, rejects in counts(shown)] == [10, 10]
    assert "95 % interval" in shown
    assert pictures(notebook) == 2
    assert len(engines) == 2
    assert engines[0] == engines[1]


@pytest.mark.vllm
@pytest.mark.slow
def test_dspark_shows_equal_texts_and_who_drafts(tmp_path: Path) -> None:
    notebook, _ = execute("03_dspark.ipynb", tmp_path)
    shown = "\n".join(printed(cell) for cell in notebook.cells)
    assert shown.count("4 of 4") == 3
    assert "grammar" in shown
    assert pictures(notebook) == 3


def test_notebooks_are_committed_with_their_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    assert {file.name for file in NOTEBOOKS.glob("*.ipynb")} == set(ALL)
    for name in ALL:
        notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
        shown = "\n".join(printed(cell) for cell in notebook.cells)
        assert shown.strip(), name
        assert not re.search(r"/tmp/|/root/|/home/", shown), name
        assert "Traceback" not in shown, name
    assert pictures(nbformat.read(NOTEBOOKS / "02_tune_and_evaluate.ipynb", as_version=4)) == 2
    assert pictures(nbformat.read(NOTEBOOKS / "03_dspark.ipynb", as_version=4)) == 3
