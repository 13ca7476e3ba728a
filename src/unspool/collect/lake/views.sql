-- The tables that `unspool lake sql` sees, from those of the lake, which are views in the schema `parts`: those of
-- `unspool sql` with `org`, `user` and `device`, and a few that only many devices together have.

CREATE VIEW entries AS SELECT stream AS source_id, * FROM parts.entries;

CREATE VIEW side_files AS SELECT stream AS source_id, * FROM parts.side_files;

CREATE VIEW responses AS SELECT * FROM parts.responses;

-- A session that was copied to another machine was billed once: here each response counts once per organisation.
CREATE VIEW org_responses AS
SELECT * FROM parts.responses
QUALIFY row_number() OVER (
  PARTITION BY org, response_id ORDER BY output_tokens DESC, is_sidechain, input_tokens + cache_read_tokens
    + cache_write_5m_tokens + cache_write_1h_tokens DESC, time NULLS LAST, device, source_id
) = 1;

CREATE VIEW sources AS
SELECT
  org, user, device, id, path, kind, project_key, session_id, agent_id, generation, read_bytes AS size, read_bytes,
  lines, written AS modified, all_lines, sequence, digest, redactions, rules, made_with
FROM parts.sources;

CREATE VIEW sessions AS
WITH billed AS (
  SELECT org, device, session_id, sum(cost_micros)::BIGINT AS cost_micros FROM parts.responses
  GROUP BY org, device, session_id
),
helping AS (
  SELECT o.org, o.device, o.session_id, s.project_key, count(*)::INTEGER AS agents
  FROM parts.agent_owners o JOIN parts.sources s ON s.id = o.source_id GROUP BY ALL
)
SELECT
  i.org, i.user, i.device, i.session_id, i.source_id, i.title, i.titled_by, i.first_prompt, i.project, i.cwd, i.branch,
  i.slug, from_json(i.versions::JSON, '["VARCHAR"]') AS versions, from_json(i.models::JSON, '["VARCHAR"]') AS models,
  i.started, i.ended, i.wall_seconds, i.active_seconds, i.turns, i.messages, i.tool_calls, i.errors, i.images,
  i.compactions, coalesce(helping.agents, 0)::INTEGER AS agents,
  from_json(i.pull_requests::JSON, '["VARCHAR"]') AS pull_requests, i.context_tokens,
  coalesce(billed.cost_micros, 0) AS cost_micros, i.hidden, i.day
FROM parts.sessions i
JOIN parts.sources s ON s.id = i.source_id
LEFT JOIN billed ON billed.org = i.org AND billed.device = i.device AND billed.session_id = i.session_id
LEFT JOIN helping ON helping.org = i.org AND helping.device = i.device AND helping.session_id = i.session_id
  AND helping.project_key IS NOT DISTINCT FROM s.project_key;

CREATE VIEW messages AS
SELECT
  m.org, m.user, m.device, m.source_id, m.session_id, m.agent_id, m.message_id, m.role, m.speaker, m.turn, m.uuid,
  m.parent_uuid, m."offset", m.lines, m.started, m.ended, m.model, m.stop_reason, m.final, m.is_sidechain, m.cwd,
  m.branch, m.version, m.blocks, m.tool_calls, m.text, r.response_id IS NOT NULL AS counted, r.input_tokens,
  r.output_tokens, r.cache_read_tokens, r.cache_write_5m_tokens + r.cache_write_1h_tokens AS cache_write_tokens,
  r.cost_micros, m.day
FROM parts.messages m
LEFT JOIN (SELECT a.* FROM parts.responses a JOIN parts.sources s ON s.id = a.source_id AND s.generation = a.generation
  WHERE NOT a.retold) r
ON r.source_id = m.source_id AND r.response_id = m.response_id;

CREATE VIEW tool_calls AS
SELECT * REPLACE (input::JSON AS input, structured::JSON AS structured) FROM parts.tool_calls;

CREATE VIEW blocks AS
SELECT
  b.org, b.user, b.device, b.source_id, b.session_id, b.agent_id, b.message_id, b.position, b."offset", b.type,
  CASE WHEN b.in_call AND b.type = 'tool_result' THEN c.result ELSE b.text END AS text, b.tool_use_id, b.tool_name,
  (CASE WHEN b.in_call AND b.type = 'tool_use' THEN c.input ELSE b.input END)::JSON AS input, b.is_error, b.media_type,
  b.data_bytes, b.day
FROM parts.blocks b
LEFT JOIN parts.tool_calls c ON b.in_call AND c.source_id = b.source_id AND c.tool_use_id = b.tool_use_id;

CREATE VIEW turns AS SELECT * FROM parts.turns;

CREATE VIEW files_touched AS SELECT * FROM parts.files_touched;

CREATE VIEW compactions AS SELECT * FROM parts.compactions;

-- As in `unspool sql`, within a device: an agent is linked by the surest sign.
CREATE VIEW agents AS
WITH files AS (
  SELECT f.* REPLACE (f.org || '/' || f.device || '/' || f.family AS family), s.path, m.agent_type,
    m.description AS said, m.tool_use_id AS told
  FROM parts.agent_files f JOIN parts.sources s ON s.id = f.source_id
  LEFT JOIN parts.agent_meta m ON m.org = f.org AND m.device = f.device AND m.agent_path = s.path
),
families AS (
  SELECT DISTINCT source_id, family FROM files
  UNION SELECT id, org || '/' || device || '/' || regexp_replace(path, '\.jsonl$', '') FROM parts.sources
    WHERE kind = 'session'
),
reports AS (
  SELECT * REPLACE (org || '/' || device || '/' || family AS family) FROM parts.reports
),
calls AS (
  SELECT DISTINCT families.family, c.tool_use_id FROM parts.tool_calls c JOIN families USING (source_id)
  WHERE c.tool_use_id IN (SELECT told FROM files UNION SELECT tool_use_id FROM reports)
),
starters AS (
  SELECT c.* REPLACE (c.org || '/' || c.device || '/' || c.family AS family), s.kind = 'agent' AS by_agent, s.path
  FROM parts.starters c JOIN parts.sources s ON s.id = c.source_id
  QUALIFY row_number() OVER (
    PARTITION BY c.org, c.device, c.family, c.tool_use_id
    ORDER BY NOT c.answered, s.kind = 'agent', s.path, c."offset"
  ) = 1
),
by_result AS (
  SELECT family, started_agent AS agent_id, tool_use_id FROM starters WHERE started_agent IS NOT NULL
  QUALIFY row_number() OVER (PARTITION BY family, started_agent ORDER BY by_agent, path, "offset") = 1
),
by_progress AS (
  SELECT r.family, r.agent_id, r.tool_use_id FROM reports r JOIN parts.sources s ON s.id = r.source_id
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
  l.org, l.user, l.device, l.source_id, l.session_id, l.agent_id,
  CASE WHEN l.call IS NOT NULL THEN 'task' ELSE l.class END AS class,
  coalesce(nullif(l.agent_type, ''), s.type) AS type, coalesce(nullif(l.said, ''), s.description) AS description,
  l.prompt, coalesce(l.call, p.tool_use_id) AS tool_use_id,
  coalesce(l.sign, CASE WHEN p.tool_use_id IS NOT NULL THEN 'prompt' END) AS linked_by, l.started, l.ended, l.lines
FROM linked l
LEFT JOIN by_prompt p ON p.source_id = l.source_id AND p.family = l.family
LEFT JOIN starters s ON s.family = l.family AND s.tool_use_id = coalesce(l.call, p.tool_use_id);

CREATE VIEW bad_lines AS SELECT * EXCLUDE (bucket) FROM parts.bad_lines;

CREATE VIEW history AS SELECT * EXCLUDE (bucket) REPLACE (pasted::JSON AS pasted) FROM parts.history;

CREATE VIEW todos AS SELECT * EXCLUDE (bucket) FROM parts.todos;

CREATE VIEW plans AS SELECT * EXCLUDE (bucket) FROM parts.plans;

CREATE VIEW quarantine AS SELECT * FROM parts.quarantine;

-- Of all devices together, by days in UTC.
CREATE VIEW daily AS
SELECT
  CAST(time AS DATE) AS date, count(*) AS responses, count(*) FILTER (NOT final) AS estimated_responses,
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
FROM parts.responses GROUP BY ALL ORDER BY date NULLS LAST;

CREATE VIEW daily_by_user AS
SELECT
  CAST(time AS DATE) AS date, org, user, count(DISTINCT device) AS devices, count(DISTINCT session_id) AS sessions,
  count(*) AS responses, sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
  sum(cache_read_tokens)::BIGINT AS cache_read_tokens,
  sum(cache_write_5m_tokens + cache_write_1h_tokens)::BIGINT AS cache_write_tokens,
  sum(cost_micros)::BIGINT AS cost_micros
FROM parts.responses GROUP BY ALL ORDER BY date NULLS LAST, org, user;

CREATE VIEW claude_conversations AS
WITH told AS (
  SELECT *, replace(CASE WHEN json_valid(raw) THEN raw
      ELSE regexp_replace(raw, '\\u[dD][89a-fA-F][0-9a-fA-F]{2}', '\\ufffd', 'g') END, '\u0000', '\ufffd') AS text
  FROM parts.entries WHERE type IN ('user', 'assistant', 'system')
),
parsed AS (
  SELECT *, CASE WHEN json_valid(text) THEN text::JSON END AS line FROM told
),
cut AS (
  SELECT *, line->'$.message.content' AS said,
    CASE WHEN json_type(line, '$.message.content') = 'ARRAY' THEN from_json(line->'$.message.content', '["JSON"]') END
      AS blocks
  FROM parsed
)
SELECT
  org, user, device, session_id, cwd AS project_path, uuid AS message_uuid, parent_uuid, type AS message_type,
  timestamp, CASE WHEN blocks IS NOT NULL
    THEN array_to_string([one->>'$.text' FOR one IN blocks IF one->>'$.type' = 'text'], chr(10))
    WHEN json_type(said) = 'VARCHAR' THEN said->>'$' ELSE line->>'$.content' END AS content,
  line->>'$.message.model' AS model,
  CASE WHEN len([one FOR one IN blocks IF one->>'$.type' = 'tool_use']) > 0
    THEN to_json([one FOR one IN blocks IF one->>'$.type' = 'tool_use']) END AS tool_uses,
  line->'$.message.usage' AS token_usage, slug, git_branch, cwd
FROM cut;

CREATE VIEW claude_plans AS
SELECT
  org, user, device, name AS plan_name, slug, content, TRY_CAST(size AS INTEGER) AS file_size, created AS created_at,
  modified AS modified_at
FROM parts.plans;

CREATE VIEW claude_todos AS
SELECT org, user, device, session_id, agent_id, position AS todo_index, content, status, active_form FROM parts.todos;

CREATE VIEW claude_history AS
SELECT org, user, device, time AS timestamp, project, session_id, display, pasted::JSON AS pasted_contents
FROM parts.history;

CREATE VIEW claude_stats AS
SELECT
  org, user, device, date, TRY_CAST(message_count AS INTEGER) AS message_count,
  TRY_CAST(session_count AS INTEGER) AS session_count, TRY_CAST(tool_call_count AS INTEGER) AS tool_call_count
FROM parts.stats_days;
