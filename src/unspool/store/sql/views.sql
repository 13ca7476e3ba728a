-- How the tables of `columns.sql` are made from the column files, which are views and tables in the schema `parts`.
-- `$day$` is the day of `time` in a person's time zone.

CREATE VIEW responses AS
SELECT
  response_id, source_id, generation, "offset", time, session_id, agent_id, project, cwd, branch, version, model,
  input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, web_searches,
  cost_micros, unpriced_tokens, final, estimated_output_tokens, estimated_cost_micros, copies, is_sidechain, retold,
  speed, service_tier, inference_geo
FROM parts.answers WHERE counted;

CREATE VIEW sources AS SELECT * FROM parts.sources;

CREATE VIEW sessions AS
WITH files AS (SELECT id AS source_id, 0 AS home, path AS place, project_key, gone FROM parts.sources),
listed AS (
  SELECT i.*, f.* EXCLUDE (source_id) FROM parts.sessions i JOIN files f USING (source_id)
  QUALIFY NOT f.gone OR row_number() OVER (PARTITION BY i.session_id ORDER BY f.gone, f.place) = 1
),
owners AS (SELECT source_id, session_id FROM parts.agent_owners UNION SELECT source_id, session_id FROM responses),
$paying_sessions$,
helping AS (
  SELECT o.session_id, s.project_key, count(*)::INTEGER AS agents
  FROM parts.agent_owners o JOIN parts.sources s ON s.id = o.source_id GROUP BY o.session_id, s.project_key
)
SELECT
  i.session_id, i.source_id, $session_columns$, i.gone
FROM shown i
LEFT JOIN billed ON billed.place = i.place
LEFT JOIN helping ON helping.session_id = i.session_id AND helping.project_key IS NOT DISTINCT FROM i.project_key;

CREATE VIEW messages AS
SELECT
  $message_columns$
FROM parts.messages m
LEFT JOIN (SELECT a.* FROM parts.answers a JOIN parts.sources s ON s.id = a.source_id AND s.generation = a.generation
  WHERE a.counted AND NOT a.retold) r
ON r.source_id = m.source_id AND r.response_id = m.response_id;

CREATE VIEW tool_calls AS
SELECT
  source_id, session_id, agent_id, tool_use_id, name, input::JSON AS input, result, error,
  structured::JSON AS structured, started, ended, duration_ms, message_id, uuid, result_uuid, "offset", result_offset,
  images, overflow
FROM parts.tool_calls;

CREATE VIEW blocks AS
SELECT
  $block_columns$
FROM parts.blocks b
LEFT JOIN parts.tool_calls c ON b.in_call AND c.revision = b.revision AND c.tool_use_id = b.tool_use_id;

CREATE VIEW turns AS SELECT * EXCLUDE (revision) FROM parts.turns;

CREATE VIEW files_touched AS SELECT * EXCLUDE (revision) FROM parts.files_touched;

CREATE VIEW compactions AS SELECT * EXCLUDE (revision) FROM parts.compactions;

-- An agent is linked by the surest sign: what is said beside its file, the result of a call, progress lines, its prompt
-- word for word. Of calls and agents with one prompt the first is linked to the first, and so on.
CREATE VIEW agents AS
WITH files AS (
  SELECT f.*, s.path, m.agent_type, m.description AS said, m.tool_use_id AS told
  FROM parts.agent_files f JOIN parts.sources s ON s.id = f.source_id
  LEFT JOIN parts.agent_meta m ON m.agent_path = s.path
),
families AS (
  SELECT DISTINCT source_id, family FROM parts.agent_files
  UNION SELECT id, regexp_replace(path, '\.jsonl$', '') FROM parts.sources WHERE kind = 'session'
),
reports AS (SELECT * FROM parts.reports),
$agent_calls$
starters AS (
  SELECT c.*, s.kind = 'agent' AS by_agent, s.path FROM parts.starters c JOIN parts.sources s ON s.id = c.source_id
  QUALIFY row_number() OVER (
    PARTITION BY c.family, c.tool_use_id ORDER BY NOT c.answered, s.kind = 'agent', s.path, c."offset"
  ) = 1
),
$agent_links$
SELECT
  $linked_agents$;

CREATE VIEW prices AS SELECT * FROM parts.prices;

CREATE VIEW entries AS
SELECT
  source_id, "offset", length, number, type, subtype, uuid, parent_uuid, session_id, agent_id, timestamp, is_sidechain,
  is_meta, message_id, request_id, cwd, version, git_branch, slug, user_type, entrypoint,
  from_json(flaws::JSON, '["VARCHAR"]') AS flaws
FROM parts.lines;

CREATE VIEW bad_lines AS SELECT * FROM parts.bad_lines;

CREATE VIEW history AS
SELECT h.source_id, h.time, h.display, h.project, h.session_id, h.pasted::JSON AS pasted
FROM parts.history h JOIN parts.sources s ON s.id = h.source_id AND s.generation = h.generation;

CREATE VIEW todos AS SELECT * FROM parts.todos;

CREATE VIEW plans AS SELECT * FROM parts.plans;

CREATE VIEW daily AS
SELECT
  $day$ AS date, $daily_columns$
FROM responses GROUP BY ALL ORDER BY date NULLS LAST;

CREATE VIEW claude_conversations AS
SELECT
  session_id, cwd AS project_path, uuid AS message_uuid, parent_uuid, type AS message_type, timestamp, content, model,
  tool_uses::JSON AS tool_uses, token_usage::JSON AS token_usage, slug, git_branch, cwd
FROM parts.lines WHERE type IN ('user', 'assistant', 'system');

CREATE VIEW claude_plans AS
SELECT
  $plan_columns$
FROM parts.plans;

CREATE VIEW claude_todos AS
SELECT $todo_columns$ FROM parts.todos;

CREATE VIEW claude_history AS
SELECT time AS timestamp, project, session_id, display, pasted AS pasted_contents FROM history;

CREATE VIEW claude_stats AS
SELECT
  $stats_columns$
FROM parts.stats_days;
