"""Bounded history of one schema in this engine."""

from __future__ import annotations


class Memory:
    """What the records of one schema have taught so far."""
