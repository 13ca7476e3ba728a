"""The JSON documents that commands write with `--json`, as types; `unspool schema` and docs/json.md are made of them.

Rules
  1. One type for each document, one name for each thing: `session_id`, `agent_id`, `path`, `time`, `started_at`,
     `ended_at`; money is in millionths of a US dollar and says so (`cost_micros`).
  2. A list has the envelope of `JsonListDocument`; anything else has `schema` and its own fields.
  3. The sentence below a field is its description. A name of an older version is kept beside the new one if that costs
     little; its sentence begins with `Deprecated`.
  4. Commands build plain dicts and do not import these types: `ls`, `usage` and `search` answer without msgspec, whose
     import takes 3.7 times as long as `python -c pass`. The tests decode what every command writes by its type, which
     refuses a field that is missing, unknown or of another type.
"""
