-- Text that the views of `unspool sql` and those of `unspool lake sql` have in common: `$name$` in `views.sql` stands for
-- what is below `-- name`.

-- agent_calls
calls AS (
  SELECT DISTINCT families.family, c.tool_use_id FROM parts.tool_calls c JOIN families USING (source_id)
  WHERE c.tool_use_id IN (SELECT told FROM files UNION SELECT tool_use_id FROM reports)
),

-- agent_links
by_result AS (
  SELECT family, started_agent AS agent_id, tool_use_id FROM starters WHERE started_agent IS NOT NULL
  QUALIFY row_number() OVER (PARTITION BY family, started_agent ORDER BY by_agent, path, "offset") = 1
),
by_progress AS (
  SELECT r.family, r.agent_id, r.tool_use_id FROM reports r JOIN parts.sources s ON s.id = r.source_id
  QUALIFY row_number() OVER (PARTITION BY r.family, r.agent_id ORDER BY s.kind = 'agent', s.path, r."offset") = 1
),
linked AS (
  SELECT f.*, CASE WHEN coalesce(meta.tool_use_id, result.tool_use_id, progress.tool_use_id) IS NULL
      AND f.class NOT IN ('special', 'workflow') THEN nullif(f.forked_from, '') END AS forked,
    coalesce(meta.tool_use_id, result.tool_use_id, progress.tool_use_id) AS call,
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
  FROM linked WHERE call IS NULL AND forked IS NULL AND class = 'task' AND trim(prompt, E' \t\n\r\f\v') <> ''
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

-- linked_agents
l.source_id, l.session_id, l.agent_id, CASE WHEN l.call IS NOT NULL OR l.forked IS NOT NULL THEN 'task' ELSE l.class END AS class,
  coalesce(nullif(l.agent_type, ''), s.type) AS type, coalesce(nullif(l.said, ''), s.description) AS description,
  l.prompt, coalesce(l.call, p.tool_use_id) AS tool_use_id,
  CASE WHEN l.sign IS NOT NULL THEN l.sign WHEN l.forked IS NOT NULL THEN 'fork'
    WHEN p.tool_use_id IS NOT NULL THEN 'prompt' END AS linked_by, l.forked AS forked_from, l.started, l.ended, l.lines
FROM linked l
LEFT JOIN by_prompt p ON p.source_id = l.source_id AND p.family = l.family
LEFT JOIN starters s ON s.family = l.family AND s.tool_use_id = coalesce(l.call, p.tool_use_id)

-- paying_sessions
-- Which session pays (`prices/bill.py`, rules 7 and 8), given `listed`, `files` and `owners`. A `home` is a
-- device in a lake, and a `place` is a path in a home.
named AS (
  SELECT home, session_id, arg_min(place, CASE WHEN gone THEN '1' ELSE '0' END || place) AS place
  FROM listed GROUP BY home, session_id
),
owned AS (
  SELECT o.session_id, f.*, CASE WHEN contains(f.place, '/subagents/')
    THEN regexp_extract(f.place, '(?s)^(.*)/subagents/', 1)
    ELSE regexp_extract(f.place, '(?s)^(.*)/[^/]*$', 1) || '/' || o.session_id END || '.jsonl' AS own
  FROM owners o JOIN files f USING (source_id)
),
paying AS (
  SELECT o.*, coalesce(same.place, own.place, named.place) AS paid_by
  FROM owned o LEFT JOIN listed same ON same.place = o.place LEFT JOIN listed own ON own.place = o.own
  LEFT JOIN named ON named.home = o.home AND named.session_id = o.session_id
),
billed AS (
  SELECT coalesce(p.paid_by, p.own) AS place, sum(r.cost_micros)::BIGINT AS cost_micros,
    sum(r.unpriced_tokens)::BIGINT AS unpriced_tokens
  FROM responses r JOIN paying p ON p.source_id = r.source_id AND p.session_id = r.session_id GROUP BY 1
),
-- Of a session whose own file is missing the first of its agents' files stands for it.
shown AS (
  SELECT * FROM listed
  UNION ALL BY NAME
  SELECT $whose$ home, session_id, own AS place, arg_min(source_id, place) AS source_id,
    arg_min(project_key, place) AS project_key, bool_and(gone) AS gone, '' AS title, 'nobody' AS titled_by,
    '' AS first_prompt, arg_min(project_key, place) AS project, '[]' AS versions, '[]' AS models, '[]' AS pull_requests,
    0.0 AS wall_seconds, 0.0 AS active_seconds, 0 AS turns, 0 AS messages, 0 AS tool_calls, 0 AS errors, 0 AS images,
    0 AS compactions, count(DISTINCT source_id)::INTEGER AS agents, 'only agents' AS hidden
  FROM paying WHERE paid_by IS NULL GROUP BY ALL
)

-- session_columns
i.title, i.titled_by, i.first_prompt, i.project, i.cwd, i.branch, i.slug,
  from_json(i.versions::JSON, '["VARCHAR"]') AS versions, from_json(i.models::JSON, '["VARCHAR"]') AS models,
  i.started, i.ended, i.wall_seconds, i.active_seconds, i.turns, i.command_turns, i.messages, i.tool_calls, i.errors, i.images,
  i.compactions, coalesce(i.agents, helping.agents, 0)::INTEGER AS agents,
  from_json(i.pull_requests::JSON, '["VARCHAR"]') AS pull_requests, i.context_tokens,
  CASE WHEN billed.unpriced_tokens > 0 THEN nullif(coalesce(billed.cost_micros, 0), 0)
    ELSE coalesce(billed.cost_micros, 0) END AS cost_micros,
  coalesce(billed.unpriced_tokens, 0)::BIGINT AS unpriced_tokens, i.hidden

-- message_columns
m.source_id, m.session_id, m.agent_id, m.message_id, m.role, m.speaker, m.turn, m.uuid, m.parent_uuid, m."offset",
  m.lines, m.started, m.ended, m.model, m.stop_reason, m.final, m.is_sidechain, m.cwd, m.branch, m.version, m.blocks,
  m.tool_calls, m.text, r.response_id IS NOT NULL AS counted, r.input_tokens, r.output_tokens, r.cache_read_tokens,
  r.cache_write_5m_tokens + r.cache_write_1h_tokens AS cache_write_tokens, r.cost_micros

-- block_columns
b.source_id, b.session_id, b.agent_id, b.message_id, b.position, b."offset", b.type,
  CASE WHEN b.in_call AND b.type = 'tool_result' THEN c.result ELSE b.text END AS text, b.tool_use_id, b.tool_name,
  (CASE WHEN b.in_call AND b.type = 'tool_use' THEN c.input ELSE b.input END)::JSON AS input, b.is_error, b.media_type,
  b.data_bytes

-- daily_columns
count(*) AS responses, count(*) FILTER (NOT final) AS estimated_responses,
  sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
  sum(cache_read_tokens)::BIGINT AS cache_read_tokens,
  sum(cache_write_5m_tokens + cache_write_1h_tokens)::BIGINT AS cache_write_tokens,
  sum(cache_write_5m_tokens)::BIGINT AS cache_write_5m_tokens,
  sum(cache_write_1h_tokens)::BIGINT AS cache_write_1h_tokens,
  sum(input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens)::BIGINT
    AS total_tokens,
  sum(web_searches)::BIGINT AS web_searches, CASE WHEN sum(unpriced_tokens) > 0
    THEN nullif(sum(cost_micros), 0) ELSE sum(cost_micros) END::BIGINT AS cost_micros,
  sum(unpriced_tokens)::BIGINT AS unpriced_tokens, sum(estimated_output_tokens)::BIGINT AS estimated_output_tokens,
  sum(estimated_cost_micros)::BIGINT AS estimated_cost_micros,
  coalesce(list_sort(list(DISTINCT model) FILTER (model <> '')), []) AS models

-- plan_columns
name AS plan_name, slug, content, TRY_CAST(size AS INTEGER) AS file_size, created AS created_at,
  modified AS modified_at

-- todo_columns
session_id, agent_id, position AS todo_index, content, status, active_form

-- stats_columns
date, TRY_CAST(message_count AS INTEGER) AS message_count, TRY_CAST(session_count AS INTEGER) AS session_count,
  TRY_CAST(tool_call_count AS INTEGER) AS tool_call_count
