-- What the column files hold, in DuckDB's dialect. `views.sql` makes the tables of `columns.sql` from it. JSON stands
-- here as text.

-- From the lines of a file, and from nothing else. `revision` names one derivation of one file: a file that has changed
-- is derived anew, and the manifest says which revisions are current.

CREATE TABLE lines (
  revision BIGINT, source_id INTEGER, "offset" BIGINT, length BIGINT, number INTEGER, type VARCHAR, subtype VARCHAR,
  uuid VARCHAR, parent_uuid VARCHAR, session_id VARCHAR, agent_id VARCHAR, timestamp TIMESTAMP, is_sidechain BOOLEAN,
  is_meta BOOLEAN, message_id VARCHAR, request_id VARCHAR, cwd VARCHAR, version VARCHAR, git_branch VARCHAR,
  slug VARCHAR, user_type VARCHAR, entrypoint VARCHAR, flaws JSON, content VARCHAR, model VARCHAR, tool_uses JSON,
  token_usage JSON
);

CREATE TABLE messages (
  revision BIGINT, source_id INTEGER, session_id VARCHAR, agent_id VARCHAR, message_id VARCHAR, response_id VARCHAR,
  role VARCHAR, speaker VARCHAR, turn INTEGER, uuid VARCHAR, parent_uuid VARCHAR, "offset" BIGINT, lines INTEGER,
  started TIMESTAMP, ended TIMESTAMP, model VARCHAR, stop_reason VARCHAR, final BOOLEAN, is_sidechain BOOLEAN,
  cwd VARCHAR, branch VARCHAR, version VARCHAR, blocks INTEGER, tool_calls INTEGER, text VARCHAR
);

-- `in_call`: the input of this call, or the text of this result, is in `tool_calls`.
CREATE TABLE blocks (
  revision BIGINT, source_id INTEGER, session_id VARCHAR, agent_id VARCHAR, message_id VARCHAR, position INTEGER,
  "offset" BIGINT, type VARCHAR, text VARCHAR, tool_use_id VARCHAR, tool_name VARCHAR, input JSON, is_error BOOLEAN,
  media_type VARCHAR, data_bytes BIGINT, in_call BOOLEAN
);

CREATE TABLE tool_calls (
  revision BIGINT, source_id INTEGER, session_id VARCHAR, agent_id VARCHAR, tool_use_id VARCHAR, name VARCHAR,
  input JSON, result VARCHAR, error BOOLEAN, structured JSON, started TIMESTAMP, ended TIMESTAMP, duration_ms BIGINT,
  message_id VARCHAR, uuid VARCHAR, result_uuid VARCHAR, "offset" BIGINT, result_offset BIGINT, images INTEGER,
  overflow VARCHAR
);

CREATE TABLE turns (
  revision BIGINT, source_id INTEGER, session_id VARCHAR, number INTEGER, uuid VARCHAR, "offset" BIGINT, prompt VARCHAR,
  queued BOOLEAN, kind VARCHAR, started TIMESTAMP, ended TIMESTAMP, lines INTEGER, answers INTEGER, tool_calls INTEGER,
  errors INTEGER
);

CREATE TABLE files_touched (
  revision BIGINT, source_id INTEGER, session_id VARCHAR, agent_id VARCHAR, tool_use_id VARCHAR, tool VARCHAR,
  path VARCHAR, action VARCHAR, time TIMESTAMP, done BOOLEAN, added INTEGER, removed INTEGER
);

CREATE TABLE compactions (
  revision BIGINT, source_id INTEGER, session_id VARCHAR, agent_id VARCHAR, uuid VARCHAR, "offset" BIGINT,
  time TIMESTAMP, kind VARCHAR, trigger VARCHAR, pre_tokens BIGINT, post_tokens BIGINT, duration_ms BIGINT
);

-- What links agents to calls. `family` is the folder of a session: its files and those of its agents share it.

CREATE TABLE agent_files (
  revision BIGINT, source_id INTEGER, family VARCHAR, session_id VARCHAR, agent_id VARCHAR, class VARCHAR,
  prompt VARCHAR, started TIMESTAMP, ended TIMESTAMP, lines INTEGER, forked_from VARCHAR
);

CREATE TABLE starters (
  revision BIGINT, source_id INTEGER, family VARCHAR, "offset" BIGINT, tool_use_id VARCHAR, started_agent VARCHAR,
  answered BOOLEAN, type VARCHAR, description VARCHAR, prompt VARCHAR
);

CREATE TABLE reports (
  revision BIGINT, source_id INTEGER, family VARCHAR, "offset" BIGINT, agent_id VARCHAR, tool_use_id VARCHAR
);

-- From the store, by file: what it says of each response, and whether that counts in its home.

CREATE TABLE answers (
  revision BIGINT, source_id INTEGER, response_id VARCHAR, generation INTEGER, counted BOOLEAN, "offset" BIGINT,
  time TIMESTAMP, session_id VARCHAR, agent_id VARCHAR, project VARCHAR, cwd VARCHAR, branch VARCHAR, version VARCHAR,
  model VARCHAR, input_tokens BIGINT, output_tokens BIGINT, cache_read_tokens BIGINT, cache_write_5m_tokens BIGINT,
  cache_write_1h_tokens BIGINT, web_searches BIGINT, cost_micros BIGINT, unpriced_tokens BIGINT, final BOOLEAN,
  estimated_output_tokens BIGINT, estimated_cost_micros BIGINT, copies INTEGER, is_sidechain BOOLEAN, retold BOOLEAN,
  speed VARCHAR, service_tier VARCHAR, inference_geo VARCHAR
);

-- From the store, whole: each is written again when a file of its kind has changed.

CREATE TABLE sources (
  id INTEGER, path VARCHAR, kind VARCHAR, project_key VARCHAR, session_id VARCHAR, agent_id VARCHAR, generation INTEGER,
  size BIGINT, read_bytes BIGINT, lines INTEGER, modified TIMESTAMP, archived BOOLEAN, gone BOOLEAN,
  gone_since TIMESTAMP
);

CREATE TABLE sessions (
  source_id INTEGER, session_id VARCHAR, title VARCHAR, titled_by VARCHAR, first_prompt VARCHAR, cwd VARCHAR,
  project VARCHAR, branch VARCHAR, slug VARCHAR, versions JSON, models JSON, started TIMESTAMP, ended TIMESTAMP,
  wall_seconds DOUBLE, active_seconds DOUBLE, turns INTEGER, messages INTEGER, tool_calls INTEGER, errors INTEGER,
  images INTEGER, compactions INTEGER, pull_requests JSON, context_tokens BIGINT, hidden VARCHAR,
  command_turns INTEGER
);

CREATE TABLE agent_owners (source_id INTEGER, session_id VARCHAR);

CREATE TABLE agent_meta (
  source_id INTEGER, agent_path VARCHAR, agent_type VARCHAR, description VARCHAR, tool_use_id VARCHAR
);

CREATE TABLE bad_lines (
  source_id INTEGER, generation INTEGER, "offset" BIGINT, length BIGINT, reason VARCHAR
);

CREATE TABLE history (
  source_id INTEGER, generation INTEGER, "offset" BIGINT, time TIMESTAMP, display VARCHAR, project VARCHAR,
  session_id VARCHAR, pasted JSON
);

CREATE TABLE todos (
  source_id INTEGER, session_id VARCHAR, agent_id VARCHAR, position INTEGER, content VARCHAR, status VARCHAR,
  active_form VARCHAR, id VARCHAR, priority VARCHAR
);

CREATE TABLE plans (
  source_id INTEGER, name VARCHAR, slug VARCHAR, title VARCHAR, content VARCHAR, size BIGINT, created TIMESTAMP,
  modified TIMESTAMP
);

CREATE TABLE stats_days (
  source_id INTEGER, date DATE, message_count BIGINT, session_count BIGINT, tool_call_count BIGINT
);

CREATE TABLE prices (
  model VARCHAR, since DATE, above_tokens BIGINT, input_micros BIGINT, output_micros BIGINT, cache_read_micros BIGINT,
  cache_write_5m_micros BIGINT, cache_write_1h_micros BIGINT, web_search_micros BIGINT, us_factor DOUBLE,
  fast_factor DOUBLE, own BOOLEAN, source VARCHAR
);

-- Only in exports that ask for it.

CREATE TABLE raw_lines (source_id INTEGER, "offset" BIGINT, raw VARCHAR);
