"""The journal and the output files on an object store: ``moto_server``, which speaks S3, on this machine.

Runs where ``moto_server`` is on the path (``pip install 'moto[s3,server]'``, in an environment of its own).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from pipeline.config import JournalConfig, load_config
from pipeline.data import Attempt, Chunk, Record
from pipeline.errors import ConfigError
from pipeline.journal import OUTCOMES, JournalWriter, count_outcomes, keys_of
from pipeline.markers import Marker, load_suspects, read_markers, save_suspects
from pipeline.run_folder import check_folder, claim_folder, load_run, only_run
from pipeline.storage import Storage
from pipeline.udf.stage import build_stage
from pipeline.writers import RECORD_LINES, LinesPart, Part, commit, staged_path
from tests.scripts import PEOPLE_SCHEMA

SERVER = shutil.which("moto_server")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SERVER is None, reason="no local S3 server: pip install 'moto[server]'"),
]
BUCKET = "results"


@pytest.fixture(scope="module", autouse=True)
def bucket() -> Iterator[None]:
    """An empty bucket, and the variables that lead to it."""
    from pyarrow.fs import S3FileSystem

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([str(SERVER), "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        try:
            _wait_for(address)
            S3FileSystem(endpoint_override=address, region="us-east-1", allow_bucket_creation=True).create_dir(BUCKET)
            yield
        finally:
            server.terminate()
            server.wait()


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address, timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("moto_server does not answer")


def _record(number: int) -> Record:
    chunk = Chunk(f"d{number}", 0, 1, "text", 0, 4, f"key{number}")
    return Record(chunk, {"n": number}, json.dumps({"n": number}), (Attempt(1, "raw", "stop", 10, 5, 1.0),))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_what_a_worker_appends_is_there_for_the_next(scheme: str) -> None:
    journal = Storage(f"{scheme}://{BUCKET}/{scheme}-run/_journal")
    assert not journal.is_local
    assert journal.files(OUTCOMES) == []
    writer = JournalWriter(journal, prefix="r1-p00000-t1", config=JournalConfig(flush_outcomes=10))
    for number in range(25):
        writer.add(_record(number))
    writer.close()
    assert count_outcomes(journal) == writer.num_outcomes == 25
    assert len(journal.files(OUTCOMES)) == writer.num_files <= 3
    assert keys_of(journal, prefix="r1-p00000-") == {f"key{n}" for n in range(25)}
    assert keys_of(journal, prefix="r1-p00001-") == set()
    (first, *_) = journal.files(OUTCOMES)
    with journal.open_input_file(first.path) as source:
        assert pq.ParquetFile(source).read().column("json")[0].as_py() == '{"n": 0}'


def test_markers_come_and_go_and_suspects_are_kept() -> None:
    journal = Storage(f"s3://{BUCKET}/marked/_journal")
    marker = Marker(journal, prefix="r1-p00000-t1")
    marker.start(["a", "b"])
    marker.start(["c"], alone=True)
    marker.finish("c")
    marker.close()
    found = read_markers(journal, prefix="r1-")
    assert sorted(found) == ["a", "b"]
    save_suspects(journal, found)
    assert (load_suspects(journal), read_markers(journal)) == (found, {})


def test_a_run_finds_its_folder_again_and_refuses_that_of_another() -> None:
    def settings(instructions: str) -> dict[str, object]:
        return {
            "engine": {"kind": "scripted", "script": "tests.scripts:people"},
            "input": {"path": "s3a://elsewhere/in.jsonl"},
            "output": {"path": f"s3://{BUCKET}/claimed"},
            "prompt": {"instructions": instructions},
        }

    output = Storage(f"s3://{BUCKET}/claimed")
    config = load_config(settings("Extract."))
    stage = build_stage(config.model_copy(update={"schema_spec": json.dumps(PEOPLE_SCHEMA)}))
    check_folder(output, stage)
    with only_run(output):  # no lock there: nobody is kept out, and nothing fails
        claim_folder(output, stage)
    check_folder(output, stage)
    assert load_run(output.root).input.path == "s3a://elsewhere/in.jsonl"
    other = build_stage(load_config(settings("Other.")).model_copy(update={"schema_spec": json.dumps(PEOPLE_SCHEMA)}))
    with pytest.raises(ConfigError, match="other settings: prompt"):
        check_folder(output, other)


def test_results_appear_with_their_manifest_and_replace_the_ones_before() -> None:
    output = Storage(f"s3://{BUCKET}/results")
    for round_id in ("one", "two"):
        parts = []
        for partition in range(3):
            path = staged_path(round_id, partition, attempt=0, dataset=RECORD_LINES)
            lines = LinesPart(output, path)
            lines.add(f"{round_id} {partition}")
            lines.close()
            parts.append(Part(RECORD_LINES, path, 1))
        commit(output, parts, datasets=[RECORD_LINES], manifest={"run": round_id})
        files = output.files(RECORD_LINES)
        assert [output.read(file.path) for file in files] == [f"{round_id} {n}\n".encode() for n in range(3)]
        assert json.loads(output.read("manifest.json") or b"") == {"run": round_id}
    assert output.files("_staging", recursive=True) == []
