"""The process behind :mod:`pipeline.compiling`: reads a task, compiles it, measures it, answers in JSON."""

from __future__ import annotations

import base64
import importlib.util
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

LARGE_VOCABULARY = "large vocabulary"
"""Stands for a tokenizer folder: the vocabulary of :func:`large_vocabulary_file`."""
_WALK_TOKENS = 400
_MOVE_ON = 0.3


def main() -> None:
    task = json.loads(sys.stdin.readline())
    import xgrammar as xgr

    info = _tokenizer_info(xgr, task["tokenizer"])
    print("ready", flush=True)
    sys.stdin.readline()  # nothing more is written until the other side has read "ready"
    _limit_memory(task["memory_mb"])
    before = _memory_mb()
    start = time.perf_counter()
    try:
        compiler = xgr.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        compiled = compiler.compile_grammar(xgr.Grammar.from_ebnf(task["grammar"]))
    except MemoryError:
        sys.exit(3)
    except Exception as error:
        print(json.dumps({"error": str(error).strip().splitlines()[-1][:300]}))
        return
    report: dict[str, Any] = {
        "compile_ms": (time.perf_counter() - start) * 1000.0,
        "memory_mb": max(_memory_mb() - before, 0.0),
        "vocab_size": 0 if task["tokenizer"] is None else info.vocab_size,
    }
    if task["num_tokens"]:
        costs = _walk_costs(xgr, compiled, info, task["num_tokens"])
        report |= {"mask_mean_us": sum(costs) / len(costs), "mask_max_us": max(costs), "num_tokens": len(costs)}
    print(json.dumps(report))


def _tokenizer_info(xgr: Any, tokenizer: str | None) -> Any:
    if tokenizer is None:
        return _raw_info(xgr, [bytes([code]) for code in range(256)])
    if tokenizer == LARGE_VOCABULARY:
        file = large_vocabulary_file()
        assert file is not None, "asked for only where it is there"
        entries = json.loads(file.read_text(encoding="utf-8"))["vocab"]
        return _raw_info(xgr, [base64.b64decode(entry["token_bytes"]) for entry in entries])
    from transformers import AutoTokenizer

    return xgr.TokenizerInfo.from_huggingface(AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False))


def _raw_info(xgr: Any, tokens: list[bytes]) -> Any:
    return xgr.TokenizerInfo([*tokens, b"</s>"], xgr.VocabType.RAW, stop_token_ids=[len(tokens)])


def large_vocabulary_file() -> Path | None:
    """A vocabulary of 150,000 real tokens in many languages, from a package that vLLM brings; None without it."""
    spec = importlib.util.find_spec("mistral_common")
    folder = Path(spec.origin).parent / "data" if spec is not None and spec.origin else None
    return max(folder.glob("tekken_*.json"), default=None) if folder is not None else None


def _walk_costs(xgr: Any, compiled: Any, info: Any, num_tokens: int) -> list[float]:
    """Microseconds for each mask along random outputs that the grammar allows.

    Any allowed token may come next; a token that ends a string or moves on is preferred now and then, so that the
    walk reaches every field.
    """
    import numpy as np
    import torch

    random = np.random.default_rng(0)
    texts = info.decoded_vocab
    ends = np.array([text[:1] in (b'"', b"]", b"}") or b'"' in text for text in texts], dtype=bool)
    bitmask = xgr.allocate_token_bitmask(1, info.vocab_size)
    costs: list[float] = []
    while len(costs) < num_tokens:
        matcher = xgr.GrammarMatcher(compiled, terminate_without_stop_token=True)
        for _ in range(_WALK_TOKENS):
            start = time.perf_counter()
            matcher.fill_next_token_bitmask(bitmask)
            costs.append((time.perf_counter() - start) * 1e6)
            words = bitmask[0].view(torch.uint8).numpy()
            allowed = np.unpackbits(words, bitorder="little")[: len(texts)].astype(bool)
            closing = np.flatnonzero(allowed & ends)
            options = closing if len(closing) and random.random() < _MOVE_ON else np.flatnonzero(allowed)
            if not len(options) or not matcher.accept_token(int(random.choice(options))) or matcher.is_terminated():
                break
        if len(costs) == 1:
            break
    return costs


def _limit_memory(extra_mb: int) -> None:
    limit = _pages(0) * resource.getpagesize() + extra_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _memory_mb() -> float:
    return _pages(1) * resource.getpagesize() / 2**20


def _pages(column: int) -> int:
    """Of this process: 0 address space, 1 resident."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[column])


if __name__ == "__main__":
    main()
