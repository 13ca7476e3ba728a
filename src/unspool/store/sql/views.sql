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
WITH billed AS (SELECT session_id, sum(cost_micros)::BIGINT AS cost_micros FROM responses GROUP BY session_id),
helping AS (
  SELECT o.session_id, s.project_key, count(*)::INTEGER AS agents
  FROM parts.agent_owners o JOIN parts.sources s ON s.id = o.source_id GROUP BY o.session_id, s.project_key
)
SELECT
  i.session_id, i.source_id, i.title, i.titled_by, i.first_prompt, i.project, i.cwd, i.branch, i.slug,
  from_json(i.versions::JSON, '["VARCHAR"]') AS versions, from_json(i.models::JSON, '["VARCHAR"]') AS models,
  i.started, i.ended, i.wall_seconds, i.active_seconds, i.turns, i.messages, i.tool_calls, i.errors, i.images,
  i.compactions, coalesce(helping.agents, 0)::INTEGER AS agents,
  from_json(i.pull_requests::JSON, '["VARCHAR"]') AS pull_requests, i.context_tokens,
  coalesce(billed.cost_micros, 0) AS cost_micros, i.hidden, s.gone
FROM parts.sessions i
JOIN parts.sources s ON s.id = i.source_id
LEFT JOIN billed ON billed.session_id = i.session_id
LEFT JOIN helping ON helping.session_id = i.session_id AND helping.project_key IS NOT DISTINCT FROM s.project_key
QUALIFY NOT s.gone OR row_number() OVER (PARTITION BY i.session_id ORDER BY s.gone, s.path) = 1;

CREATE VIEW messages AS
SELECT
  m.source_id, m.session_id, m.agent_id, m.message_id, m.role, m.speaker, m.turn, m.uuid, m.parent_uuid, m."offset",
  m.lines, m.started, m.ended, m.model, m.stop_reason, m.final, m.is_sidechain, m.cwd, m.branch, m.version, m.blocks,
  m.tool_calls, m.text, r.response_id IS NOT NULL AS counted, r.input_tokens, r.output_tokens, r.cache_read_tokens,
  r.cache_write_5m_tokens + r.cache_write_1h_tokens AS cache_write_tokens, r.cost_micros
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
  b.source_id, b.session_id, b.agent_id, b.message_id, b.position, b."offset", b.type,
  CASE WHEN b.in_call AND b.type = 'tool_result' THEN c.result ELSE b.text END AS text, b.tool_use_id, b.tool_name,
  (CASE WHEN b.in_call AND b.type = 'tool_use' THEN c.input ELSE b.input END)::JSON AS input, b.is_error, b.media_type,
  b.data_bytes
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
calls AS (
  SELECT DISTINCT families.family, c.tool_use_id FROM parts.tool_calls c JOIN families USING (source_id)
  WHERE c.tool_use_id IN (SELECT told FROM files UNION SELECT tool_use_id FROM parts.reports)
),
starters AS (
  SELECT c.*, s.kind = 'agent' AS by_agent, s.path FROM parts.starters c JOIN parts.sources s ON s.id = c.source_id
  QUALIFY row_number() OVER (
    PARTITION BY c.family, c.tool_use_id ORDER BY NOT c.answered, s.kind = 'agent', s.path, c."offset"
  ) = 1
),
by_result AS (
  SELECT family, started_agent AS agent_id, tool_use_id FROM starters WHERE started_agent IS NOT NULL
  QUALIFY row_number() OVER (PARTITION BY family, started_agent ORDER BY by_agent, path, "offset") = 1
),
by_progress AS (
  SELECT r.family, r.agent_id, r.tool_use_id FROM parts.reports r JOIN parts.sources s ON s.id = r.source_id
  QUALIFY row_number() OVER (PARTITION BY r.family, r.agent_id ORDER BY s.kind = 'agent', s.path, r."offset") = 1
),
linked AS (
  SELECT f.*, coalesce(meta.tool_use_id, result.tool_use_id, progress.tool_use_id) AS call,
    CASE WHEN meta.tool_use_id IS NOT NULL THEN 'meta' WHEN result.tool_use_id IS NOT NULL THEN 'result'
      WHEN progress.tool_use_id IS NOT NULL THEN 'progress' END AS sign
  FROM files f
  LEFT JOIN calls meta ON meta.family = f.family AND meta.tool_use_id = f.told
  LEFT JOIN by_result result ON result.family = f.family AND result.agent_id = f.agent_id
  LEFT JOIN by_progress p ON p.family = f.family AND p.agent_id = f.agent_id
  LEFT JOIN calls progress ON progress.family = f.family AND progress.tool_use_id = p.tool_use_id
),
left_over AS (
  SELECT source_id, family, trim(prompt, E' \t\n\r\f\v') AS prompt,
    row_number() OVER (PARTITION BY family, trim(prompt, E' \t\n\r\f\v') ORDER BY path) AS number
  FROM linked WHERE call IS NULL AND class = 'task' AND trim(prompt, E' \t\n\r\f\v') <> ''
),
free AS (
  SELECT s.family, s.tool_use_id, s.prompt,
    row_number() OVER (PARTITION BY s.family, s.prompt ORDER BY s.by_agent, s.path, s."offset") AS number
  FROM starters s
  WHERE NOT EXISTS (SELECT 1 FROM linked l WHERE l.family = s.family AND l.call = s.tool_use_id)
),
by_prompt AS (
  SELECT l.source_id, l.family, f.tool_use_id FROM left_over l
  JOIN free f ON f.family = l.family AND f.prompt = l.prompt AND f.number = l.number
)
SELECT
  l.source_id, l.session_id, l.agent_id, CASE WHEN l.call IS NOT NULL THEN 'task' ELSE l.class END AS class,
  coalesce(nullif(l.agent_type, ''), s.type) AS type, coalesce(nullif(l.said, ''), s.description) AS description,
  l.prompt, coalesce(l.call, p.tool_use_id) AS tool_use_id,
  coalesce(l.sign, CASE WHEN p.tool_use_id IS NOT NULL THEN 'prompt' END) AS linked_by, l.started, l.ended, l.lines
FROM linked l
LEFT JOIN by_prompt p ON p.source_id = l.source_id AND p.family = l.family
LEFT JOIN starters s ON s.family = l.family AND s.tool_use_id = coalesce(l.call, p.tool_use_id);

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
  $day$ AS date, count(*) AS responses, count(*) FILTER (NOT final) AS estimated_responses,
  sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
  sum(cache_read_tokens)::BIGINT AS cache_read_tokens,
  sum(cache_write_5m_tokens + cache_write_1h_tokens)::BIGINT AS cache_write_tokens,
  sum(cache_write_5m_tokens)::BIGINT AS cache_write_5m_tokens,
  sum(cache_write_1h_tokens)::BIGINT AS cache_write_1h_tokens,
  sum(input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens)::BIGINT
    AS total_tokens,
  sum(web_searches)::BIGINT AS web_searches, sum(cost_micros)::BIGINT AS cost_micros,
  sum(unpriced_tokens)::BIGINT AS unpriced_tokens, sum(estimated_output_tokens)::BIGINT AS estimated_output_tokens,
  sum(estimated_cost_micros)::BIGINT AS estimated_cost_micros,
  coalesce(list_sort(list(DISTINCT model) FILTER (model <> '')), []) AS models
FROM responses GROUP BY ALL ORDER BY date NULLS LAST;

CREATE VIEW claude_conversations AS
SELECT
  session_id, cwd AS project_path, uuid AS message_uuid, parent_uuid, type AS message_type, timestamp, content, model,
  tool_uses::JSON AS tool_uses, token_usage::JSON AS token_usage, slug, git_branch, cwd
FROM parts.lines WHERE type IN ('user', 'assistant', 'system');

CREATE VIEW claude_plans AS
SELECT
  name AS plan_name, slug, content, TRY_CAST(size AS INTEGER) AS file_size, created AS created_at,
  modified AS modified_at
FROM parts.plans;

CREATE VIEW claude_todos AS
SELECT session_id, agent_id, position AS todo_index, content, status, active_form FROM parts.todos;

CREATE VIEW claude_history AS
SELECT time AS timestamp, project, session_id, display, pasted AS pasted_contents FROM history;

CREATE VIEW claude_stats AS
SELECT
  date, TRY_CAST(message_count AS INTEGER) AS message_count, TRY_CAST(session_count AS INTEGER) AS session_count,
  TRY_CAST(tool_call_count AS INTEGER) AS tool_call_count
FROM parts.stats_days;
