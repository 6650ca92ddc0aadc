"""vLLM's plugin entry: ``vllm serve MODEL --additional-config '{"dspark": {"enabled": true}}'`` turns DSpark on.

vLLM calls :func:`register` in each of its processes, before it reads its arguments. On a command line of vLLM that does
not mention DSpark nothing of vLLM is touched. Otherwise ``EngineArgs.create_engine_config``, which every way to start
an engine goes through, first turns the one argument into those that it stands for; without the argument it passes
through. The same works for programs that build ``EngineArgs`` themselves (``LLM(..., additional_config=...)``).
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.dspark.arguments import SCHEDULER, engine_arguments

logger = logging.getLogger(__name__)

KEY = "dspark"
SETTINGS = ("enabled", "max_json_depth", "max_token_budget", "max_concurrent_structs", "draft_model")


def register() -> None:
    """The entry point in the group ``vllm.general_plugins``; vLLM may call it more than once in a process."""
    if may_ask(sys.argv):
        _install()


def may_ask(argv: Sequence[str]) -> bool:
    """Whether this process might be told to turn DSpark on. False only for vLLM's own command line without a word of
    it; a settings file (``--config``) and other programs may hold it."""
    program = Path(argv[0]) if argv else Path()
    is_vllm = "vllm" in program.parts or program.name == "vllm"
    return not is_vllm or any(KEY in argument or argument.startswith("--config") for argument in argv[1:])


def turn_on(engine_args: Any, *, device: str) -> bool:
    """Replace ``additional_config["dspark"]`` by the arguments that it stands for; False where nothing is asked for.

    ``engine_args`` is vLLM's ``EngineArgs`` and changed in place.

    Raises:
        ValueError: an unknown setting, or an argument that excludes DSpark.
    """
    config = engine_args.additional_config
    given = config.get(KEY) if isinstance(config, Mapping) else None
    if given is None or engine_args.scheduler_cls == SCHEDULER:  # the second: turned on already
        return False
    settings = {"enabled": given} if isinstance(given, bool) else given
    if not isinstance(settings, Mapping) or set(settings) - set(SETTINGS):
        raise ValueError(f'dspark in --additional-config must be {{"enabled": true}}; settings: {", ".join(SETTINGS)}')
    if not settings.get("enabled", True):
        return False
    taken = {
        "--speculative-config": engine_args.speculative_config,
        "--scheduler-cls": engine_args.scheduler_cls,
        "--async-scheduling": engine_args.async_scheduling,
    }
    for option, value in taken.items():
        if value:
            raise ValueError(f"dspark and {option} exclude each other: leave one of them out")
    arguments = engine_arguments(settings, model=engine_args.model, device=device)
    rest = {name: value for name, value in config.items() if name != KEY}
    arguments["additional_config"] = rest | arguments.get("additional_config", {})
    for name, value in arguments.items():
        setattr(engine_args, name, value)
    return True


def _install() -> None:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.logger import init_logger

    log = logger if logger.hasHandlers() else init_logger(f"vllm.{__name__}")
    original = EngineArgs.create_engine_config
    if getattr(original, KEY, False):
        return

    @functools.wraps(original)
    def create_engine_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.additional_config, Mapping) and self.additional_config.get(KEY):
            _turn_on(self, log)
        return original(self, *args, **kwargs)

    setattr(create_engine_config, KEY, True)
    EngineArgs.create_engine_config = create_engine_config


def _turn_on(engine_args: Any, log: logging.Logger) -> None:
    from vllm.platforms import current_platform

    from pipeline.dspark.contract import contract_faults

    asked = engine_args.additional_config
    if not turn_on(engine_args, device=str(current_platform.device_type)):
        return
    trained = engine_args.scheduler_cls != SCHEDULER
    faults = [] if trained else contract_faults()
    if faults:
        plain = {"speculative_config": None, "scheduler_cls": None, "async_scheduling": None}
        for name, value in plain.items():
            setattr(engine_args, name, value)
        engine_args.additional_config = {name: value for name, value in asked.items() if name != KEY}
        log.warning("dspark is off, decoding goes on plainly: %s", "; ".join(faults))
        return
    how = "the model's trained head" if trained else "structured output only; plain text is decoded as ever"
    log.info("dspark enabled: %s", how)
