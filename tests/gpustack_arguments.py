"""Run with GPUStack's own Python: model files to what GPUStack makes of them, as JSON on stdout.

``python gpustack_arguments.py PORT FILE...``; each file gives its ``errors``, or ``arguments``, ``script`` and ``env``.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

from gpustack.schemas.deployment_document import load_deployments  # type: ignore[import-not-found]
from gpustack.worker.backends.vllm import VLLMServer  # type: ignore[import-not-found]


class Server(VLLMServer):  # type: ignore[misc]
    """GPUStack's builder of the vLLM command without the machines around it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._model_path = "/models/" + model.name
        self._worker = SimpleNamespace(
            id=1, name="worker", ip="127.0.0.1", ifname="lo", status=SimpleNamespace(gpu_devices=[])
        )
        self._model_instance = SimpleNamespace(
            id=1,
            model_name=model.name,
            mounted_loras=None,
            role=None,
            worker_id=1,
            gpu_indexes=list(range(2 if "tensor" in str(model.backend_parameters) else 1)),
            gpu_type=None,
            distributed_servers=None,
            computed_resource_claim=None,
            cache_config=None,
            ports=[40000],
            port=40000,
        )
        self.inference_backend = None


def main(port: int, files: list[str]) -> None:
    found = {}
    for file in files:
        with open(file, encoding="utf-8") as opened:
            (entry,) = load_deployments(opened.read())
        if entry.entry is None or entry.errors:
            found[file] = {"errors": entry.errors}
            continue
        server = Server(entry.entry)
        arguments, _ = server._build_command_args(port=port, is_distributed=False)
        script = server._get_serving_command_script(dict(entry.entry.env or {}))
        found[file] = {"errors": [], "arguments": arguments, "script": script, "env": entry.entry.env}
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
