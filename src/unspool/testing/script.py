"""The script that a scripted Messages API answers from."""

from unspool.api.scripted.script import (
    CHUNK,
    Break,
    Demand,
    Failure,
    Json,
    Part,
    Script,
    Step,
    Words,
    convert,
    load,
    parse,
)

__all__ = ["CHUNK", "Break", "Demand", "Failure", "Json", "Part", "Script", "Step", "Words", "convert", "load", "parse"]
