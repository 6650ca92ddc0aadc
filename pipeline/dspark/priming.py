"""What a prompt's few-shot examples teach: the history of a schema need not begin empty."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dspark.drafting import Matcher, RequestDrafter
from pipeline.dspark.memory import Memory
from pipeline.dspark.tokens import Tokenizer

MAX_EXAMPLES = 16
"""Beyond that the first records teach the same; an example costs about as long as drafting for one record."""

_DRAFT_TOKENS = 16


def prime(
    memory: Memory, examples: Sequence[tuple[str, Sequence[int]]], *, tokenizer: Tokenizer, matcher: Matcher
) -> None:
    """Write each example's output as a model would that agrees with it, drafting on the way.

    ``examples`` are (document, output token ids). ``matcher`` stands at the start of a record and is left there. An
    output that the grammar refuses teaches as far as it is taken. ``memory.num_records`` grows with each example.
    """
    for document, output in examples[:MAX_EXAMPLES]:
        drafter = RequestDrafter(document=document, tokenizer=tokenizer, memory=memory)
        trial = matcher.fork()
        position = 0
        while position < len(output):
            draft = drafter.propose(trial, _DRAFT_TOKENS).token_ids
            ahead = output[position : position + len(draft)]
            agreed = next(
                (i for i, pair in enumerate(zip(draft, ahead, strict=False)) if pair[0] != pair[1]), len(ahead)
            )
            written = list(output[position : position + agreed + 1])
            if not all(trial.accept_token(token_id) for token_id in written):
                break
            drafter.observe(written)
            position += len(written)
        drafter.finish()
