"""The script that a scripted Messages API answers from."""

from unspool.api.scripted import CHUNK, Break, Demand, Failure, Json, Script, Words
from unspool.api.scripted import ScriptPart as Part
from unspool.api.scripted import ScriptStep as Step
from unspool.api.scripted import convert_script as convert
from unspool.api.scripted import load_script as load
from unspool.api.scripted import parse_script as parse

__all__ = ["CHUNK", "Break", "Demand", "Failure", "Json", "Part", "Script", "Step", "Words", "convert", "load", "parse"]
