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
WITH files AS (
  SELECT id AS source_id, org, user, device, org || '/' || device AS home, org || '/' || device || '/' || path AS place,
    project_key, false AS gone
  FROM parts.sources
),
listed AS (
  SELECT i.*, f.* EXCLUDE (source_id, org, user, device) FROM parts.sessions i JOIN files f USING (source_id)
),
owners AS (
  SELECT source_id, session_id FROM parts.agent_owners UNION SELECT source_id, session_id FROM parts.responses
),
$paying_sessions$,
helping AS (
  SELECT o.org, o.device, o.session_id, s.project_key, count(*)::INTEGER AS agents
  FROM parts.agent_owners o JOIN parts.sources s ON s.id = o.source_id GROUP BY ALL
)
SELECT
  i.org, i.user, i.device, i.session_id, i.source_id, $session_columns$, i.day
FROM shown i
LEFT JOIN billed ON billed.place = i.place
LEFT JOIN helping ON helping.org = i.org AND helping.device = i.device AND helping.session_id = i.session_id
  AND helping.project_key IS NOT DISTINCT FROM i.project_key;

CREATE VIEW messages AS
SELECT
  m.org, m.user, m.device, $message_columns$, m.day
FROM parts.messages m
LEFT JOIN (SELECT a.* FROM parts.responses a JOIN parts.sources s ON s.id = a.source_id AND s.generation = a.generation
  WHERE NOT a.retold) r
ON r.source_id = m.source_id AND r.response_id = m.response_id;

CREATE VIEW tool_calls AS
SELECT * REPLACE (input::JSON AS input, structured::JSON AS structured) FROM parts.tool_calls;

CREATE VIEW blocks AS
SELECT
  b.org, b.user, b.device, $block_columns$, b.day
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
$agent_calls$
starters AS (
  SELECT c.* REPLACE (c.org || '/' || c.device || '/' || c.family AS family), s.kind = 'agent' AS by_agent, s.path
  FROM parts.starters c JOIN parts.sources s ON s.id = c.source_id
  QUALIFY row_number() OVER (
    PARTITION BY c.org, c.device, c.family, c.tool_use_id
    ORDER BY NOT c.answered, s.kind = 'agent', s.path, c."offset"
  ) = 1
),
$agent_links$
SELECT
  l.org, l.user, l.device, $linked_agents$;

CREATE VIEW bad_lines AS SELECT * EXCLUDE (bucket) FROM parts.bad_lines;

CREATE VIEW history AS SELECT * EXCLUDE (bucket) REPLACE (pasted::JSON AS pasted) FROM parts.history;

CREATE VIEW todos AS SELECT * EXCLUDE (bucket) FROM parts.todos;

CREATE VIEW plans AS SELECT * EXCLUDE (bucket) FROM parts.plans;

CREATE VIEW quarantine AS SELECT * FROM parts.quarantine;

-- Of all devices together, by days in UTC.
CREATE VIEW daily AS
SELECT
  CAST(time AS DATE) AS date, $daily_columns$
FROM parts.responses GROUP BY ALL ORDER BY date NULLS LAST;

CREATE VIEW daily_by_user AS
SELECT
  CAST(time AS DATE) AS date, org, user, count(DISTINCT device) AS devices, count(DISTINCT session_id) AS sessions,
  count(*) AS responses, sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
  sum(cache_read_tokens)::BIGINT AS cache_read_tokens,
  sum(cache_write_5m_tokens + cache_write_1h_tokens)::BIGINT AS cache_write_tokens,
  CASE WHEN sum(unpriced_tokens) > 0 THEN nullif(sum(cost_micros), 0) ELSE sum(cost_micros) END::BIGINT AS cost_micros,
  sum(unpriced_tokens)::BIGINT AS unpriced_tokens
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
  org, user, device, $plan_columns$
FROM parts.plans;

CREATE VIEW claude_todos AS
SELECT org, user, device, $todo_columns$ FROM parts.todos;

CREATE VIEW claude_history AS
SELECT org, user, device, time AS timestamp, project, session_id, display, pasted::JSON AS pasted_contents
FROM parts.history;

CREATE VIEW claude_stats AS
SELECT
  org, user, device, $stats_columns$
FROM parts.stats_days;
