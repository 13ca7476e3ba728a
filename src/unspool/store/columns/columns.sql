-- The tables that SQL sees, in DuckDB's dialect: names, types and what they mean. `views.sql` says how each is made.
--
-- Times are TIMESTAMP in UTC; one that cannot be read is null. Money is whole micro-dollars. A NUL or half a surrogate
-- pair, which no text in a database may have, is U+FFFD. `source_id` is the file that a row comes from: `sources.id`.

-- One row per session: its file, and what it is about. As `unspool ls` has it.
CREATE TABLE sessions (
  session_id VARCHAR,              -- the session
  source_id INTEGER,               -- its file
  title VARCHAR,                   -- a person's, a model's, or the first prompt; empty if there is none
  titled_by VARCHAR,               -- person, model, summary, prompt or nobody
  first_prompt VARCHAR,            -- cut off after 2,000 characters
  project VARCHAR,                 -- the project's name: the last part of the folder it works in
  cwd VARCHAR,                     -- the folder it works in
  branch VARCHAR,                  -- of git, the last one
  slug VARCHAR,                    -- the name its plan has: `plans.slug`
  versions VARCHAR[],              -- of Claude Code
  models VARCHAR[],                -- the one used most first
  started TIMESTAMP,               -- the earliest line
  ended TIMESTAMP,                 -- the latest line
  wall_seconds DOUBLE,             -- from the first line to the last
  active_seconds DOUBLE,           -- without pauses of more than five minutes
  turns INTEGER,                   -- prompts of a person
  command_turns INTEGER,           -- turns that began with a slash command or with a plan that was accepted
  messages INTEGER,                -- user lines, tool results too, and whole answers
  tool_calls INTEGER,              -- each id once
  errors INTEGER,                  -- failed tool calls and API errors
  images INTEGER,                  -- pictures and documents in prompts
  compactions INTEGER,             -- number of compactions
  agents INTEGER,                  -- files of its sub-agents
  pull_requests VARCHAR[],         -- their addresses
  context_tokens BIGINT,           -- of the last request of the main chain
  cost_micros BIGINT,              -- of the responses that it pays for, its agents' too: these add up to those of `responses`; null if no part has a price
  unpriced_tokens BIGINT,          -- of models without a price, which are not in the cost
  hidden VARCHAR,                  -- why a list leaves it out: empty, warm-up or special fork
  gone BOOLEAN                     -- whether Claude Code deleted the file; the rows then come from the archive
);

-- One row per prompt or other user line, and one per whole answer: all lines with one `message.id` in a file.
CREATE TABLE messages (
  source_id INTEGER,               -- the file
  session_id VARCHAR,              -- the session, also of an agent's messages
  agent_id VARCHAR,                -- the sub-agent; null in the main conversation
  message_id VARCHAR,              -- the API's id of an answer; of a user line its uuid
  role VARCHAR,                    -- user or assistant
  speaker VARCHAR,                 -- of a user line: human, plan, command, output, notification, summary, meta, interrupt, result, agent or warmup; else assistant
  turn INTEGER,                    -- `turns.number`; null before the first turn and in an agent's file
  uuid VARCHAR,                    -- of its first line
  parent_uuid VARCHAR,             -- of its first line
  "offset" BIGINT,                 -- where its first line begins, in bytes
  lines INTEGER,                   -- how many lines it has; those written again are left out
  started TIMESTAMP,               -- when its first line was written
  ended TIMESTAMP,                 -- when its last line was written
  model VARCHAR,                   -- of an answer
  stop_reason VARCHAR,             -- the last one written
  final BOOLEAN,                   -- whether a stop reason was written: without one `output_tokens` may be too low
  is_sidechain BOOLEAN,            -- whether it is a sub-agent's
  cwd VARCHAR,                     -- the folder it was said in
  branch VARCHAR,                  -- of git
  version VARCHAR,                 -- of Claude Code
  blocks INTEGER,                  -- how many blocks it has
  tool_calls INTEGER,              -- how many of them ask for a tool
  text VARCHAR,                    -- its text blocks, joined by line ends; thinking and results are in `blocks`
  counted BOOLEAN,                 -- whether this is the copy that is billed: forks and resumed sessions repeat answers
  input_tokens BIGINT,             -- not cached; null unless counted
  output_tokens BIGINT,            -- the most that a line says; null unless counted
  cache_read_tokens BIGINT,        -- read from the cache; null unless counted
  cache_write_tokens BIGINT,       -- written to the cache; null unless counted
  cost_micros BIGINT               -- micro-dollars; null unless counted, and if the model has no price. Some responses have no message here: sum `responses`
);

-- One row per content block of a message, in the order of the file.
CREATE TABLE blocks (
  source_id INTEGER,               -- the file
  session_id VARCHAR,              -- the session
  agent_id VARCHAR,                -- the sub-agent; null in the main conversation
  message_id VARCHAR,              -- `messages.message_id`
  position INTEGER,                -- place in the message, from 0
  "offset" BIGINT,                 -- where its line begins, in bytes
  type VARCHAR,                    -- text, thinking, tool_use, tool_result, image, document, …; any other as it is written
  text VARCHAR,                    -- words, thinking, or the text of a result
  tool_use_id VARCHAR,             -- of a call or a result
  tool_name VARCHAR,               -- of a call
  input JSON,                      -- of a call
  is_error BOOLEAN,                -- of a result
  media_type VARCHAR,              -- of a picture or document
  data_bytes BIGINT                -- characters of base64 or of a signature, which are left out here
);

-- One row per tool call, with its result if it came. A call that is written twice is one.
CREATE TABLE tool_calls (
  source_id INTEGER,               -- the file
  session_id VARCHAR,              -- the session
  agent_id VARCHAR,                -- the sub-agent that made it; null in the main conversation
  tool_use_id VARCHAR,             -- the call
  name VARCHAR,                    -- the tool, as the model wrote it
  input JSON,                      -- what the tool was given
  result VARCHAR,                  -- the text it gave back; null if no result came
  error BOOLEAN,                   -- whether the result is an error; null if no result came
  structured JSON,                 -- the tool's own structured result, without pictures
  started TIMESTAMP,               -- when the call was written
  ended TIMESTAMP,                 -- when the result was written
  duration_ms BIGINT,              -- between the two: run time, and waiting for permission
  message_id VARCHAR,              -- the answer it stands in: `messages.message_id`
  uuid VARCHAR,                    -- of the call's line
  result_uuid VARCHAR,             -- of the result's line
  "offset" BIGINT,                 -- where the call's line begins, in bytes
  result_offset BIGINT,            -- where the result's line begins
  images INTEGER,                  -- pictures in the result
  overflow VARCHAR                 -- the file with the full output, if it was too long
);

-- One row per turn: a prompt, an accepted plan or a command that started work, and what followed it up to the next.
CREATE TABLE turns (
  source_id INTEGER,               -- the file
  session_id VARCHAR,              -- the session
  number INTEGER,                  -- in the order of the file, from 1, as in `unspool show --turn`
  uuid VARCHAR,                    -- of the prompt's line
  "offset" BIGINT,                 -- where it begins, in bytes
  prompt VARCHAR,                  -- the typed prompt, or the plan
  queued BOOLEAN,                  -- whether it was typed while the model worked
  kind VARCHAR,                    -- human, queued, plan or command; only the first two are counted in `sessions.turns`
  started TIMESTAMP,               -- when it was typed
  ended TIMESTAMP,                 -- the latest line of the turn
  lines INTEGER,                   -- lines after the prompt
  answers INTEGER,                 -- whole answers that begin in it
  tool_calls INTEGER,              -- calls that are made in it, each once
  errors INTEGER                   -- how many of them failed
);

-- One row per sub-agent and session, linked to the call that started it.
CREATE TABLE agents (
  source_id INTEGER,               -- its file; one of before 2.1.2 may be of several sessions
  session_id VARCHAR,              -- the session it belongs to
  agent_id VARCHAR,                -- the agent
  class VARCHAR,                   -- task, warmup, special, workflow, teammate or orphan
  type VARCHAR,                    -- as in `Explore`
  description VARCHAR,             -- what it was asked for, in a few words
  prompt VARCHAR,                  -- what it was asked for
  tool_use_id VARCHAR,             -- the call that started it: `tool_calls.tool_use_id`
  linked_by VARCHAR,               -- how that is known: meta, result, progress, prompt; or fork, which has no call
  forked_from VARCHAR,             -- the line of its parent after which a person forked it: `entries.uuid`
  started TIMESTAMP,               -- its earliest line
  ended TIMESTAMP,                 -- its latest line
  lines INTEGER                    -- lines of this session in its file
);

-- One row per tool call that names a file it reads or changes. What shell commands do is not known.
CREATE TABLE files_touched (
  source_id INTEGER,               -- the file of the session
  session_id VARCHAR,              -- the session
  agent_id VARCHAR,                -- the sub-agent; null in the main conversation
  tool_use_id VARCHAR,             -- the call: `tool_calls.tool_use_id`
  tool VARCHAR,                    -- as in `Edit`
  path VARCHAR,                    -- as the model wrote it
  action VARCHAR,                  -- read, write or edit
  time TIMESTAMP,                  -- when the call was written
  done BOOLEAN,                    -- whether a result came that is no error
  added INTEGER,                   -- lines added, where the result tells
  removed INTEGER                  -- lines removed, where the result tells
);

-- One row per compaction of a conversation, or clearing of old results.
CREATE TABLE compactions (
  source_id INTEGER,               -- the file
  session_id VARCHAR,              -- the session
  agent_id VARCHAR,                -- the sub-agent; null in the main conversation
  uuid VARCHAR,                    -- of the line
  "offset" BIGINT,                 -- where it begins, in bytes
  time TIMESTAMP,                  -- when it was done
  kind VARCHAR,                    -- compact or microcompact
  trigger VARCHAR,                 -- auto or manual
  pre_tokens BIGINT,               -- tokens before
  post_tokens BIGINT,              -- tokens after, where that is written
  duration_ms BIGINT               -- how long it took, where that is written
);

-- One row per billed response, each counted once whichever lines and files repeat it: the source of every sum.
-- Files that were rewritten count with what they held before.
CREATE TABLE responses (
  response_id VARCHAR,             -- the API's id: `messages.message_id`
  source_id INTEGER,               -- the file with the line that counts
  generation INTEGER,              -- of that file
  "offset" BIGINT,                 -- where that line begins, in bytes
  time TIMESTAMP,                  -- of the earliest line, to the millisecond
  session_id VARCHAR,              -- the session that pays: that of the file with the line that counts: `sessions.session_id`
  agent_id VARCHAR,                -- null for the main conversation
  project VARCHAR,                 -- the project's name
  cwd VARCHAR,                     -- the folder it worked in
  branch VARCHAR,                  -- of git
  version VARCHAR,                 -- of Claude Code
  model VARCHAR,                   -- as the line has it
  input_tokens BIGINT,             -- not cached
  output_tokens BIGINT,            -- the most that a line says
  cache_read_tokens BIGINT,        -- read from the cache
  cache_write_5m_tokens BIGINT,    -- written to the cache for 5 minutes
  cache_write_1h_tokens BIGINT,    -- written to the cache for an hour
  web_searches BIGINT,             -- billed by the piece
  cost_micros BIGINT,              -- micro-dollars; null if the model has no price
  unpriced_tokens BIGINT,          -- all its tokens, if the model has no price
  final BOOLEAN,                   -- false: `output_tokens` may be a count from the beginning of the stream
  estimated_output_tokens BIGINT,  -- the output as it probably was
  estimated_cost_micros BIGINT,    -- the cost with that output
  copies INTEGER,                  -- how many files have it
  is_sidechain BOOLEAN,            -- whether the line is a sub-agent's
  retold BOOLEAN,                  -- whether only a progress line tells of it
  speed VARCHAR,                   -- standard or fast
  service_tier VARCHAR,            -- as billed
  inference_geo VARCHAR            -- where it was computed
);

-- What models cost: the dated list that sums are made with, and a person's own prices.
CREATE TABLE prices (
  model VARCHAR,                   -- its name without a date
  since DATE,                      -- from when on; null is from the beginning
  above_tokens BIGINT,             -- for requests with a longer prompt than this, as a whole
  input_micros BIGINT,             -- micro-dollars for a million tokens, here and below
  output_micros BIGINT,            -- answered
  cache_read_micros BIGINT,        -- read from the cache
  cache_write_5m_micros BIGINT,    -- written to the cache for 5 minutes
  cache_write_1h_micros BIGINT,    -- written to the cache for an hour
  web_search_micros BIGINT,        -- micro-dollars for one web search
  us_factor DOUBLE,                -- multiplies tokens when `inference_geo` is `us`
  fast_factor DOUBLE,              -- multiplies tokens when `speed` is `fast`
  own BOOLEAN,                     -- whether it is a person's own price: it comes before the list
  source VARCHAR                   -- where it is from
);

-- One row per line: its place and its envelope, as written. Lines that cannot be read are in `bad_lines`.
CREATE TABLE entries (
  source_id INTEGER,               -- the file
  "offset" BIGINT,                 -- where it begins, in bytes
  length BIGINT,                   -- bytes, line end included
  number INTEGER,                  -- which entry of the file it is, from 1
  type VARCHAR,                    -- as written; null if it has none
  subtype VARCHAR,                 -- of a system line, an attachment or a progress line: which
  uuid VARCHAR,                    -- repeats where a session was forked or resumed
  parent_uuid VARCHAR,             -- the line it follows
  session_id VARCHAR,              -- as written on the line
  agent_id VARCHAR,                -- as written on the line
  timestamp TIMESTAMP,             -- when it was written
  is_sidechain BOOLEAN,            -- whether it is a sub-agent's
  is_meta BOOLEAN,                 -- whether Claude Code wrote it in the user's name
  message_id VARCHAR,              -- of an answer: the API's id
  request_id VARCHAR,              -- of an answer: the request
  cwd VARCHAR,                     -- the folder
  version VARCHAR,                 -- of Claude Code
  git_branch VARCHAR,              -- of git
  slug VARCHAR,                    -- the name of the session's plan
  user_type VARCHAR,               -- as in `external`
  entrypoint VARCHAR,              -- as in `cli`
  flaws VARCHAR[]                  -- what unspool replaced to read it
);

-- One row per file that was ever seen.
CREATE TABLE sources (
  id INTEGER,                      -- what `source_id` names
  path VARCHAR,                    -- absolute
  kind VARCHAR,                    -- session, agent, history, todos, plan, …
  project_key VARCHAR,             -- the name of the project's folder in `projects`
  session_id VARCHAR,              -- as its place says
  agent_id VARCHAR,                -- as its name says
  generation INTEGER,              -- 1, and one more each time the file at this place became another one
  size BIGINT,                     -- bytes
  read_bytes BIGINT,               -- how far it was read: after that there is a torn line at most
  lines INTEGER,                   -- entries and bad lines
  modified TIMESTAMP,              -- when it last changed
  archived BOOLEAN,                -- whether the archive has all of it
  gone BOOLEAN,                    -- whether the file is deleted
  gone_since TIMESTAMP             -- when unspool noticed the deletion
);

-- One row per line that could not be read, and per side file that could not.
CREATE TABLE bad_lines (
  source_id INTEGER,               -- the file
  generation INTEGER,              -- of the file
  "offset" BIGINT,                 -- where it begins, in bytes
  length BIGINT,                   -- bytes
  reason VARCHAR                   -- why it could not be read
);

-- One row per prompt typed in a terminal, from `history.jsonl`.
CREATE TABLE history (
  source_id INTEGER,               -- the file
  time TIMESTAMP,                  -- when it was typed
  display VARCHAR,                 -- the typed text, with placeholders for pasted text
  project VARCHAR,                 -- the folder it was typed in
  session_id VARCHAR,              -- the session (from 2.0.50 on)
  pasted JSON                      -- pasted text by number
);

-- One row per item of a todo list, from `todos/`.
CREATE TABLE todos (
  source_id INTEGER,               -- the file
  session_id VARCHAR,              -- whose list it is
  agent_id VARCHAR,                -- the session's id again if the list is the session's own
  position INTEGER,                -- place in the list, from 0
  content VARCHAR,                 -- the task
  status VARCHAR,                  -- pending, in_progress or completed
  active_form VARCHAR,             -- the same, as it reads while it is being done
  id VARCHAR,                      -- number of the item (1.0.x)
  priority VARCHAR                 -- high, medium or low (1.0.x)
);

-- One row per plan, from `plans/`.
CREATE TABLE plans (
  source_id INTEGER,               -- the file
  name VARCHAR,                    -- name of the file
  slug VARCHAR,                    -- the name without `.md`: `sessions.slug`
  title VARCHAR,                   -- the first heading
  content VARCHAR,                 -- the text
  size BIGINT,                     -- bytes of the file
  created TIMESTAMP,               -- when the file was made; null where the system does not tell
  modified TIMESTAMP               -- when the file last changed
);

-- One row per day, as `unspool usage daily` has it: responses added up by the days of the time zone in the settings,
-- else of the machine's own.
CREATE TABLE daily (
  date DATE,                       -- the day; null for responses without a time
  responses BIGINT,                -- how many
  estimated_responses BIGINT,      -- how many of them are not final
  input_tokens BIGINT,             -- not cached
  output_tokens BIGINT,            -- as counted
  cache_read_tokens BIGINT,        -- read from the cache
  cache_write_tokens BIGINT,       -- written to the cache
  cache_write_5m_tokens BIGINT,    -- of these for 5 minutes
  cache_write_1h_tokens BIGINT,    -- of these for an hour
  total_tokens BIGINT,             -- all of them
  web_searches BIGINT,             -- billed by the piece
  cost_micros BIGINT,              -- micro-dollars
  unpriced_tokens BIGINT,          -- of models without a price
  estimated_output_tokens BIGINT,  -- the output as it probably was
  estimated_cost_micros BIGINT,    -- the cost with that output
  models VARCHAR[]                 -- in order
);

-- One row per user, assistant and system line. Lines repeat where sessions were forked or resumed, and so do uuids.
CREATE TABLE claude_conversations (
  session_id VARCHAR,              -- as written on the line
  project_path VARCHAR,            -- the folder: the same as `cwd`
  message_uuid VARCHAR,            -- of the line; not unique, several files can contain it
  parent_uuid VARCHAR,             -- the line it follows
  message_type VARCHAR,            -- user, assistant or system
  timestamp TIMESTAMP,             -- when it was written, in UTC
  content TEXT,                    -- its text, joined by line ends
  model VARCHAR,                   -- of an answer
  tool_uses JSON,                  -- every tool_use block of the line, as a list; null if there is none
  token_usage JSON,                -- as written on the line. Do not sum it: each line of an answer repeats it, and forks repeat the lines. Sum `responses`
  slug VARCHAR,                    -- the name of the session's plan
  git_branch VARCHAR,              -- of git
  cwd VARCHAR                      -- the folder
);

-- One row per plan file.
CREATE TABLE claude_plans (
  plan_name VARCHAR,               -- name of the file
  slug VARCHAR,                    -- the name without `.md`
  content TEXT,                    -- the text
  file_size INTEGER,               -- bytes
  created_at TIMESTAMP,            -- when the file was made, in UTC; null where the system does not tell
  modified_at TIMESTAMP            -- when the file last changed, in UTC
);

-- One row per item of a todo list.
CREATE TABLE claude_todos (
  session_id VARCHAR,              -- whose list it is
  agent_id VARCHAR,                -- the session's id again if the list is the session's own
  todo_index INTEGER,              -- place in the list, from 0
  content TEXT,                    -- the task
  status VARCHAR,                  -- pending, in_progress or completed
  active_form VARCHAR              -- the same, as it reads while it is being done
);

-- One row per prompt typed in a terminal.
CREATE TABLE claude_history (
  timestamp TIMESTAMP,             -- when it was typed, in UTC
  project VARCHAR,                 -- the folder it was typed in
  session_id VARCHAR,              -- the session (from 2.0.50 on)
  display TEXT,                    -- the typed text, with placeholders for pasted text
  pasted_contents JSON             -- pasted text by number
);

-- One row per day of Claude Code's own statistics, from `stats-cache.json`.
CREATE TABLE claude_stats (
  date DATE,                       -- the day
  message_count INTEGER,           -- number of messages, as Claude Code counts them
  session_count INTEGER,           -- sessions begun
  tool_call_count INTEGER          -- tool calls
);
