"""The rules of the Messages API, by what they speak of; `testing/strict.py` asks them all."""
