-- The queries of `unspool insights`, in DuckDB's dialect over the tables of `store/columns/columns.sql`.
-- `$name$` is a value: `since`, `until`, `project`, `session`, `limit`, or how the result of a rejected call begins.
--
-- `-- name: part` begins a section, which is made over a part. In its rows `places` are the lines that weigh most, of
-- equal ones the first, so that two runs name the same. `of` is how many rows there are without the limit.

-- filters
filters AS (SELECT $since$ AS since, $until$ AS until, $project$ AS project, $session$ AS session),
chosen AS (
  SELECT s.session_id, min(s.project) AS project
  FROM sessions s LEFT JOIN sources f ON f.id = s.source_id, filters
  WHERE (filters.session IS NULL OR s.session_id = filters.session)
    AND (filters.project IS NULL OR contains(lower(concat_ws(chr(10), s.project, s.cwd, f.project_key)), filters.project))
  GROUP BY s.session_id
)

-- requests
-- Billed responses, each once. Without `--project` and `--session` those whose session file is missing are among them.
requests AS (
  SELECT r.*, r.input_tokens + r.cache_read_tokens + r.cache_write_5m_tokens + r.cache_write_1h_tokens AS prompt_tokens
  FROM responses r, filters
  WHERE (filters.since IS NULL OR r.time >= filters.since) AND (filters.until IS NULL OR r.time < filters.until)
    AND (r.session_id IN (SELECT session_id FROM chosen) OR (filters.project IS NULL AND filters.session IS NULL))
)

-- calls
-- Tool calls, each once: a call that forks and copies repeat belongs to the file whose session pays for it. The cost of
-- a response is divided among the calls that it makes, to the last micro-dollar.
copies AS (
  SELECT f.path, c.source_id, c.session_id, c.agent_id, c.tool_use_id, c.name, c.error, c.started, c.ended,
    greatest(c.duration_ms, 0) AS duration_ms, c."offset", c.result_offset, r.response_id, r.cost_micros AS whole,
    coalesce(c.uuid, concat(c.source_id, ' ', c."offset")) AS line_id
  FROM tool_calls c JOIN sources f ON f.id = c.source_id
  LEFT JOIN responses r ON r.source_id = c.source_id AND r.response_id = c.message_id
),
once AS (
  SELECT * FROM copies
  QUALIFY row_number() OVER (PARTITION BY tool_use_id, line_id
    ORDER BY response_id IS NULL, error IS NULL, path, "offset") = 1
),
shares AS (
  SELECT *, count(*) OVER (PARTITION BY source_id, response_id) AS together,
    row_number() OVER (PARTITION BY source_id, response_id ORDER BY "offset", tool_use_id) AS place
  FROM once
),
calls AS (
  SELECT s.* EXCLUDE (path, whole, together, place, line_id),
    CASE WHEN response_id IS NOT NULL THEN whole // together + (place <= whole % together)::INTEGER END AS cost_micros,
    {'source_id': source_id, 'session_id': session_id, 'agent_id': agent_id, 'offset': "offset",
      'time': epoch_ms(started)} AS line
  FROM shares s, filters
  WHERE (filters.since IS NULL OR started >= filters.since) AND (filters.until IS NULL OR started < filters.until)
    AND (session_id IN (SELECT session_id FROM chosen) OR (filters.project IS NULL AND filters.session IS NULL))
)

-- turns_once
-- Turns, each once: of several files with a turn the one whose path comes first.
turns_once AS (
  SELECT t.* FROM turns t JOIN sources f ON f.id = t.source_id
  QUALIFY row_number() OVER (PARTITION BY coalesce(t.uuid, concat(t.source_id, ' ', t."offset"))
    ORDER BY f.path, t."offset") = 1
)

-- totals: requests calls
WITH billed AS (
  SELECT count(*) AS responses, coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros,
    coalesce(sum(unpriced_tokens), 0)::BIGINT AS unpriced_tokens, count(DISTINCT session_id) AS billed_sessions
  FROM requests
)
SELECT billed.*, count(DISTINCT session_id) AS sessions, count(tool_use_id) AS calls,
  count(*) FILTER (error) AS failed, coalesce(sum(duration_ms), 0)::BIGINT AS duration_ms,
  coalesce(sum(calls.cost_micros), 0)::BIGINT AS calls_cost_micros,
  count(tool_use_id) FILTER (duration_ms IS NULL) AS untimed_calls
FROM billed LEFT JOIN calls ON true GROUP BY ALL

-- tools: calls
SELECT name AS tool, count(*) AS calls, count(*) FILTER (error) AS failed,
  count(*) FILTER (error IS NULL) AS unanswered, coalesce(sum(duration_ms), 0)::BIGINT AS duration_ms,
  max(duration_ms) AS longest_ms, coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros,
  max_by(line, [coalesce(duration_ms, -1), -line.source_id, -line."offset"], 5) AS places, max(coalesce(duration_ms, -1), 5) AS weights, count(*) OVER () AS of
FROM calls GROUP BY name ORDER BY 7 DESC, 5 DESC, 2 DESC, 1 LIMIT $limit$

-- files: calls
SELECT t.path, count(*) FILTER (action = 'read') AS reads, count(*) FILTER (action <> 'read') AS changes,
  count(*) FILTER (NOT done) AS not_done, coalesce(sum(added), 0)::BIGINT AS added,
  coalesce(sum(removed), 0)::BIGINT AS removed, coalesce(sum(duration_ms), 0)::BIGINT AS duration_ms,
  coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros, count(DISTINCT c.session_id) AS sessions,
  max_by(line, [coalesce(cost_micros, -1), -line.source_id, -line."offset"], 5) AS places, max(coalesce(cost_micros, -1), 5) AS weights, count(*) OVER () AS of
FROM calls c JOIN files_touched t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
GROUP BY t.path ORDER BY 8 DESC, count(*) DESC, 1 LIMIT $limit$

-- projects: requests turns_once
WITH worked AS (
  SELECT t.session_id, sum(greatest(epoch_ms(t.ended) - epoch_ms(t.started), 0)) AS turns_ms
  FROM turns_once t, filters
  WHERE (filters.since IS NULL OR t.started >= filters.since) AND (filters.until IS NULL OR t.started < filters.until)
  GROUP BY t.session_id
),
billed AS (
  SELECT r.session_id, count(*) AS responses, sum(r.cost_micros) AS cost_micros,
    sum(r.unpriced_tokens) AS unpriced_tokens, min(r.project) AS project,
    max_by({'source_id': source_id, 'session_id': r.session_id, 'agent_id': agent_id, 'offset': "offset",
      'time': epoch_ms(time)}, [coalesce(cost_micros, -1), -source_id, -"offset"]) AS line, max(cost_micros) AS most
  FROM requests r GROUP BY r.session_id
)
SELECT coalesce(c.project, b.project) AS project, count(*) AS sessions, sum(responses)::BIGINT AS responses,
  coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros, coalesce(sum(unpriced_tokens), 0)::BIGINT AS unpriced_tokens,
  coalesce(sum(turns_ms), 0)::BIGINT AS turns_ms, max_by(line, [coalesce(cost_micros, -1), -line.source_id, -line."offset"], 5) AS places, max(coalesce(cost_micros, -1), 5) AS weights,
  count(*) OVER () AS of
FROM billed b LEFT JOIN chosen c USING (session_id) LEFT JOIN worked w USING (session_id)
GROUP BY 1 ORDER BY 4 DESC, 3 DESC, 1 LIMIT $limit$

-- failed_calls: calls
-- Failed calls with the beginning of their results: `store/search/failures.py` groups them by kind.
SELECT c.name AS tool, c.cost_micros, c.duration_ms, c.line, left(t.result, 4000) AS words, count(*) OVER () AS of
FROM calls c JOIN tool_calls t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
WHERE c.error ORDER BY c.started DESC NULLS LAST, c.source_id, c."offset" LIMIT 5000

-- api_errors: filters
SELECT e.session_id, count(*) AS errors,
  max_by({'source_id': e.source_id, 'session_id': e.session_id, 'agent_id': e.agent_id, 'offset': e."offset",
    'time': epoch_ms(e.timestamp)}, [coalesce(epoch_ms(e.timestamp), 0), -e.source_id, -e."offset"], 5) AS places, count(*) OVER () AS of
FROM (SELECT n.* FROM entries n JOIN sources f ON f.id = n.source_id
  WHERE n.type = 'system' AND n.subtype = 'api_error'
  QUALIFY row_number() OVER (PARTITION BY coalesce(n.uuid, concat(n.source_id, ' ', n."offset"))
    ORDER BY f.path, n."offset") = 1) e, filters
WHERE (filters.since IS NULL OR e.timestamp >= filters.since) AND (filters.until IS NULL OR e.timestamp < filters.until)
  AND (e.session_id IN (SELECT session_id FROM chosen) OR (filters.project IS NULL AND filters.session IS NULL))
GROUP BY e.session_id ORDER BY 2 DESC, 1 LIMIT $limit$

-- commands: calls
SELECT trim(t.input->>'command') AS command, count(*) AS runs, count(*) FILTER (c.error) AS failed,
  coalesce(sum(c.duration_ms) FILTER (c.error), 0)::BIGINT AS failed_ms,
  coalesce(sum(c.cost_micros) FILTER (c.error), 0)::BIGINT AS failed_cost_micros,
  count(DISTINCT c.session_id) FILTER (c.error) AS sessions,
  max_by(c.line, [coalesce(epoch_ms(c.started), 0), -c.source_id, -c."offset"], 5) FILTER (c.error) AS places, count(*) OVER () AS of
FROM calls c JOIN tool_calls t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
WHERE c.name IN ('Bash', 'PowerShell') AND t.input->>'command' IS NOT NULL
GROUP BY 1 HAVING count(*) FILTER (c.error) > 0
ORDER BY 3 DESC, 5 DESC, 4 DESC, 1 LIMIT $limit$

-- retries: calls
-- A retry is a call whose last call with the same tool and input in the same file had failed.
WITH tried AS (
  SELECT c.*, lag(c.error) OVER (PARTITION BY c.source_id, c.agent_id, c.name, t.input ORDER BY c."offset") AS before
  FROM calls c JOIN tool_calls t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
)
SELECT name AS tool, count(*) AS retries, count(*) FILTER (NOT error) AS succeeded,
  count(*) FILTER (error) AS failed_again, coalesce(sum(duration_ms), 0)::BIGINT AS duration_ms,
  coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros, max_by(line, [coalesce(epoch_ms(started), 0), -line.source_id, -line."offset"], 5) AS places, count(*) OVER () AS of
FROM tried WHERE before GROUP BY name ORDER BY 2 DESC, 6 DESC, 1 LIMIT $limit$

-- repeated_reads: calls
-- A read is repeated if one before it in the same file had the same input and the same result, and nothing was
-- compacted in between. Its tokens are estimated: 3.6 bytes of the result are one.
WITH requests_after AS (
  SELECT source_id, agent_id, "offset" FROM responses r
  WHERE NOT retold AND generation = (SELECT generation FROM sources WHERE id = r.source_id)
),
reads AS (
  SELECT c.*, t.input->>'file_path' AS path, strlen(t.result) AS bytes, md5(concat(t.input, chr(0), t.result)) AS text,
    (SELECT count(*) FROM compactions k WHERE k.source_id = c.source_id AND k."offset" < c."offset") AS compactions
  FROM calls c JOIN tool_calls t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
  WHERE c.name IN ('Read', 'NotebookRead') AND NOT c.error AND strlen(t.result) > 0
    AND coalesce(t.structured->>'type', '') <> 'file_unchanged'
),
again AS (
  SELECT *, round(bytes / 3.6)::BIGINT AS tokens FROM reads
  QUALIFY row_number() OVER (PARTITION BY source_id, agent_id, text, compactions ORDER BY "offset") > 1
)
SELECT path, count(*) AS reads, sum(bytes)::BIGINT AS bytes, sum(tokens)::BIGINT AS tokens,
  sum(tokens * (SELECT count(*) FROM requests_after r WHERE r.source_id = a.source_id AND r."offset" > a."offset"
    AND r.agent_id IS NOT DISTINCT FROM a.agent_id
    AND r."offset" < coalesce((SELECT min(k."offset") FROM compactions k WHERE k.source_id = a.source_id
      AND k."offset" > a."offset"), 9223372036854775807)))::BIGINT AS carried_tokens,
  coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros, max_by(line, [tokens, -line.source_id, -line."offset"], 5) AS places, max(tokens, 5) AS weights,
  count(*) OVER () AS of
FROM again a GROUP BY path ORDER BY 4 DESC, 1 LIMIT $limit$

-- lost_caches: filters
-- A request lost the cache if it reads less than half of what the one before it had in its context, and nothing was
-- compacted in between: `page/analysis/lost_cache.py`, which decides, and prices what was sent again.
WITH following AS (
  SELECT r.*, input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens AS prompt,
    lag(struct_pack(model := model, time := time, "offset" := "offset", hour := cache_write_1h_tokens,
      prompt := input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens)) OVER w AS before
  FROM responses r WHERE NOT retold
  WINDOW w AS (PARTITION BY source_id, generation, agent_id, is_sidechain ORDER BY "offset")
)
SELECT f.session_id, f.model, epoch_ms(f.time) AS time, f.input_tokens, f.output_tokens, f.cache_read_tokens,
  f.cache_write_5m_tokens, f.cache_write_1h_tokens, f.web_searches, f.speed, f.inference_geo,
  before.model AS before_model, epoch_ms(before.time) AS before_time, before.prompt AS before_prompt,
  before.hour AS before_hour, least(before.prompt, f.prompt) - f.cache_read_tokens AS lost_tokens,
  {'source_id': f.source_id, 'session_id': f.session_id, 'agent_id': f.agent_id, 'offset': f."offset",
    'time': epoch_ms(f.time)} AS line, count(*) OVER () AS of
FROM following f, filters
WHERE before.prompt - f.cache_read_tokens >= 5000 AND f.cache_read_tokens * 2 < before.prompt
  AND f.prompt * 2 >= before.prompt
  AND (filters.since IS NULL OR f.time >= filters.since) AND (filters.until IS NULL OR f.time < filters.until)
  AND (f.session_id IN (SELECT session_id FROM chosen) OR (filters.project IS NULL AND filters.session IS NULL))
  AND NOT EXISTS (SELECT 1 FROM compactions k WHERE k.kind = 'compact' AND k.source_id = f.source_id
    AND k."offset" BETWEEN before."offset" AND f."offset")
ORDER BY lost_tokens DESC, f.source_id, f."offset" LIMIT 50000

-- growth: calls
-- What a context grew by from one request to the next: the answer, then what came in before the next request, by the
-- tools that the answer called. A context that shrank was compacted, cleared or rewound.
WITH following AS (
  SELECT r.source_id, r.session_id, r.agent_id, r."offset", r.time, r.response_id, r.output_tokens,
    input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens AS prompt,
    lead(input_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens) OVER w AS next,
    lag("offset") OVER w AS before
  FROM responses r WHERE NOT retold
  WINDOW w AS (PARTITION BY source_id, generation, agent_id, is_sidechain ORDER BY "offset")
),
used AS (
  SELECT source_id, response_id, CASE WHEN count(DISTINCT name) = 1 THEN min(name) ELSE 'several tools' END AS tool
  FROM once WHERE response_id IS NOT NULL GROUP BY source_id, response_id
),
steps AS (
  SELECT f.*, next - prompt AS grown, u.tool,
    {'source_id': f.source_id, 'session_id': f.session_id, 'agent_id': f.agent_id, 'offset': f."offset",
      'time': epoch_ms(f.time)} AS line
  FROM following f LEFT JOIN used u USING (source_id, response_id), filters
  WHERE (filters.since IS NULL OR f.time >= filters.since) AND (filters.until IS NULL OR f.time < filters.until)
    AND (f.session_id IN (SELECT session_id FROM chosen) OR (filters.project IS NULL AND filters.session IS NULL))
),
parts AS (
  SELECT 'start' AS kind, NULL AS tool, prompt AS tokens, line FROM steps WHERE before IS NULL
  UNION ALL SELECT 'answer', NULL, least(grown, output_tokens), line FROM steps WHERE grown > 0
  UNION ALL SELECT CASE WHEN tool IS NULL THEN 'prompt' ELSE 'result' END, tool, grown - output_tokens, line
    FROM steps WHERE grown > output_tokens
  UNION ALL SELECT 'dropped', NULL, grown, line FROM steps WHERE grown < 0
)
SELECT kind, tool, sum(tokens)::BIGINT AS tokens, count(*) AS steps, max(abs(tokens)) AS largest,
  max_by(line, [abs(tokens), -line.source_id, -line."offset"], 5) AS places, max(abs(tokens), 5) AS weights, count(*) OVER () AS of
FROM parts GROUP BY kind, tool HAVING sum(tokens) <> 0 ORDER BY 3 DESC, 1, 2 LIMIT $limit$

-- contexts: requests
-- The sessions whose context was fullest, in the main conversation.
SELECT r.session_id, count(*) AS requests, max(prompt_tokens) AS peak_tokens,
  max_by(prompt_tokens, "offset") AS last_tokens, coalesce(sum(cost_micros), 0)::BIGINT AS cost_micros,
  max_by({'source_id': source_id, 'session_id': r.session_id, 'agent_id': agent_id, 'offset': "offset",
    'time': epoch_ms(time)}, [prompt_tokens, -source_id, -"offset"], 1) AS places, max(prompt_tokens, 1) AS weights, count(*) OVER () AS of
FROM requests r WHERE agent_id IS NULL AND NOT is_sidechain AND NOT retold AND prompt_tokens > 0
GROUP BY r.session_id ORDER BY 3 DESC, 1 LIMIT $limit$

-- waits: calls turns_once
-- What waited for a person: a prompt after the end of a turn, an answer to a question, the approval of a plan, and
-- calls that the person rejected. A wait needs the times of both lines.
WITH prompts AS (
  SELECT t.*, max(ended) OVER (PARTITION BY source_id ORDER BY "offset"
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached FROM turns_once t
),
waits AS (
  SELECT 'prompt' AS kind, epoch_ms(started) - epoch_ms(reached) AS waited_ms,
    {'source_id': source_id, 'session_id': session_id, 'agent_id': NULL::VARCHAR, 'offset': "offset",
      'time': epoch_ms(started)} AS line
  FROM prompts, filters
  WHERE started > reached AND NOT queued
    AND (filters.since IS NULL OR started >= filters.since) AND (filters.until IS NULL OR started < filters.until)
    AND (session_id IN (SELECT session_id FROM chosen) OR (filters.project IS NULL AND filters.session IS NULL))
  UNION ALL
  SELECT CASE c.name WHEN 'AskUserQuestion' THEN 'question' WHEN 'ExitPlanMode' THEN 'plan' ELSE 'rejected' END,
    c.duration_ms, c.line
  FROM calls c LEFT JOIN tool_calls t ON c.error AND t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
  WHERE c.duration_ms > 0 AND (c.name IN ('AskUserQuestion', 'ExitPlanMode')
    OR (c.error AND ($rejected$)))
)
SELECT kind, count(*) AS waits, sum(waited_ms)::BIGINT AS waited_ms, max(waited_ms) AS longest_ms,
  median(waited_ms)::BIGINT AS median_ms, max_by(line, [waited_ms, -line.source_id, -line."offset"], 5) AS places, max(waited_ms, 5) AS weights,
  count(*) OVER () AS of
FROM waits GROUP BY kind ORDER BY 3 DESC, 1 LIMIT $limit$

-- places
-- Where lines stand: the path of their file, and the turn that they are in, or that an agent worked in at the time.
WITH asked AS (SELECT unnest($asked$, recursive := true))
SELECT DISTINCT n.source_id, n."offset", s.path, CASE WHEN s.kind = 'agent'
  THEN (SELECT max(t.number) FROM turns t WHERE t.session_id = n.session_id AND epoch_ms(t.started) <= n.time)
  ELSE (SELECT max(t.number) FROM turns t WHERE t.source_id = n.source_id AND t."offset" <= n."offset") END AS turn
FROM asked n LEFT JOIN sources s ON s.id = n.source_id

-- shell_runs: calls
-- The commands that ran in files in which one failed, in their order: what succeeded after a failure.
SELECT c.source_id, c.agent_id, c.error, trim(t.input->>'command') AS command, c.duration_ms, c.cost_micros, c.line,
  (SELECT max(number) FROM turns u WHERE u.source_id = c.source_id AND u."offset" <= c."offset") AS turn,
  coalesce(h.project, '') AS project, count(*) OVER () AS of
FROM calls c JOIN tool_calls t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
LEFT JOIN chosen h ON h.session_id = c.session_id
WHERE c.name IN ('Bash', 'PowerShell') AND c.error IS NOT NULL AND length(t.input->>'command') <= 500
  AND (t.source_id) IN (SELECT source_id FROM calls WHERE error AND name IN ('Bash', 'PowerShell'))
  AND NOT (c.error AND ($rejected$))
ORDER BY c.source_id, c.agent_id, c."offset" LIMIT 50000

-- approved: calls
-- Calls that took a second or longer, so that a person may have approved them.
SELECT c.name AS tool, t.input, c.duration_ms, c.cost_micros, c.line, m.cwd, f.path, u."offset" AS prompt_offset,
  u.source_id AS prompt_source, c.error AS failed, c.error AND ($rejected$) AS rejected,
  coalesce(t.structured->>'durationMs', t.structured->>'totalDurationMs') AS ran_ms, count(*) OVER () AS of
FROM calls c JOIN tool_calls t ON t.source_id = c.source_id AND t.tool_use_id = c.tool_use_id
LEFT JOIN messages m ON m.source_id = c.source_id AND m.message_id = t.message_id
LEFT JOIN sources f ON f.id = c.source_id
ASOF LEFT JOIN turns u ON u.session_id = c.session_id AND u.started <= c.started
WHERE c.duration_ms >= 1000 AND c.error IS NOT NULL AND length(t.input) <= 4000
  AND (c.name IN ('Bash', 'Read', 'Glob', 'Grep', 'LS', 'Write', 'Edit', 'MultiEdit', 'NotebookEdit', 'WebFetch',
    'WebSearch', 'PowerShell') OR c.name LIKE 'mcp\_\_%' ESCAPE '\')
ORDER BY c.started DESC NULLS LAST, c.source_id, c."offset" LIMIT 4000
