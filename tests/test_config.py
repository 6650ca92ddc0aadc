"""Settings: unknown keys and wrong values fail with their names; the command line wins over the file."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.config import RunConfig, load_config
from pipeline.errors import ConfigError
from pipeline.settings import run_config


def test_values_win_over_the_file_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("engine: {model: from-file, args: {dtype: float32}}\ndecoding: {max_output_tokens: 7}\n")
    config = load_config({"engine": {"model": "from-line"}}, file=file)
    assert config.engine.model == "from-line"
    assert config.engine.args == {"dtype": "float32"}
    assert config.decoding.max_output_tokens == 7


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("engine: {modle: x}", "engine.modle"),
        ("unknown: 1", "unknown"),
        ("decoding: {max_output_tokens: 0}", "decoding.max_output_tokens"),
        ("decoding: {layout: free}", "decoding.layout"),
        ("output: {max_reject_rate: 2}", "output.max_reject_rate"),
        ("engine: {args: {min_tokens: 64}}", "min_tokens"),
        ("chunking: {max_tokens: 64, overlap_tokens: 64}", "overlap_tokens"),
        ('prompt: {instructions: "\\uD800"}', "lone surrogate"),
        ("- a list", "mapping"),
        ("a: [", "cannot be read"),
        ("engine: {args: {max_model_len: 0}}", "max_model_len must be a whole number of at least 1, got 0"),
        ("engine: {args: {max_model_len: abc}}", "max_model_len must be a whole number of at least 1, got 'abc'"),
        ("engine: {args: {tensor_parallel_size: true}}", "tensor_parallel_size must be a whole number"),
        ("engine: {args: {gpu_memory_utilization: 90}}", "gpu_memory_utilization must be a number above 0"),
        ("quiet: true\nengine: {model: a}\nquiet: false", "quiet is set twice, in lines 1 and 3"),
        (
            "engine:\n  args:\n    dtype: float32\n    'dtype': auto\n",
            r"engine\.args\.dtype is set twice, in lines 3 and 4",
        ),
        ("prompt: {template_options: {enable_thinking: true}}", "enable_thinking must be off"),
        ("prompt: {examples: [{text: a, text: b, output: {}}]}", r"prompt\.examples\.0\.text is set twice"),
    ],
)
def test_a_wrong_file_is_one_error_that_names_the_setting(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=named) as caught:
        load_config({}, file=file)
    assert "\n" not in str(caught.value) or "cannot be read" in str(caught.value)


def test_a_fault_says_what_came_what_is_known_and_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("engine: {knd: scripted}\nprompt: {examples: [{txt: a, text: a, output: {}}]}\nfoo: 1\noutput: 5\n")
    with pytest.raises(ConfigError) as caught:
        load_config({}, file=file)
    text = str(caught.value)
    assert f"wrong settings in {file}: " in text
    assert "engine.knd: there is no such setting; did you mean kind" in text
    assert "prompt.examples.0.txt: there is no such setting; did you mean text" in text
    assert "foo: there is no such setting; known: schema_spec, input" in text
    assert "output: expected a mapping of settings" in text

    file.write_text("engine: {kind: scripted}")
    with pytest.raises(ConfigError) as caught:
        load_config({"input": {"limit": 0}, "output": {"formats": ["xml"]}}, file=file)
    assert str(file) not in str(caught.value)
    assert "input.limit: Input should be greater than or equal to 1, got 0" in str(caught.value)
    assert "got 'xml'" in str(caught.value)


def test_aliases_and_merged_mappings_are_no_repeated_keys(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("engine: {args: &common {dtype: auto}}\ndspark: {enabled: true}\noutput: {path: dtype}\n")
    assert load_config({}, file=file).engine.args == {"dtype": "auto"}
    file.write_text("engine: {args: {<<: {dtype: auto, seed: 1}, dtype: float32}}\n")
    assert load_config({}, file=file).engine.args == {"dtype": "float32", "seed": 1}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_config({}, file=tmp_path / "none.yaml")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RunConfig().engine.model = "x"  # type: ignore[misc]


def test_the_articles_knobs_keep_their_names_and_defaults() -> None:
    dspark = RunConfig().dspark
    assert (dspark.enabled, dspark.max_json_depth, dspark.max_token_budget) == (True, 128, 8192)
    assert dspark.max_concurrent_structs is None


def test_a_dict_in_place_of_settings_is_said() -> None:
    with pytest.raises(ConfigError, match=r"config is a dict, not a RunConfig \(pass pipeline\.RunConfig"):
        run_config({"engine": {}})  # type: ignore[arg-type]
