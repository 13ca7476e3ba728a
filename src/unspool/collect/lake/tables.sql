-- The tables that only a lake has. Those that `unspool sql` has too are made from its `parts.sql` (`tables.py`).

-- One row per line of every collected session, redacted: `raw` is its text. Nothing here is ever changed.
CREATE TABLE entries (
  org VARCHAR,                     -- the organisation
  user VARCHAR,                    -- whose device it is
  device VARCHAR,                  -- the machine
  project VARCHAR,                 -- the project's key: the name of its folder
  source VARCHAR,                  -- the file's path in the config folder
  kind VARCHAR,                    -- session, agent or journal
  session VARCHAR,                 -- the session that the file belongs to
  agent VARCHAR,                   -- the sub-agent whose file it is
  generation INTEGER,              -- 1, and one more each time the file became another one
  "offset" BIGINT,                 -- where the line begins in the source, in bytes
  length BIGINT,                   -- bytes it had in the source, its end not counted
  type VARCHAR,                    -- as written; null if it has none
  subtype VARCHAR,                 -- of a system line, an attachment or a progress line: which
  uuid VARCHAR,                    -- repeats where a session was forked or resumed
  parent_uuid VARCHAR,             -- the line it follows
  session_id VARCHAR,              -- as written on the line
  agent_id VARCHAR,                -- as written on the line
  timestamp TIMESTAMPTZ,           -- when it was written
  is_sidechain BOOLEAN,            -- whether it is a sub-agent's
  is_meta BOOLEAN,                 -- whether Claude Code wrote it, not the user
  message_id VARCHAR,              -- the API's id of an answer
  request_id VARCHAR,              -- of an answer
  cwd VARCHAR,                     -- the folder
  version VARCHAR,                 -- of Claude Code
  git_branch VARCHAR,              -- of git
  slug VARCHAR,                    -- the name of the session's plan
  user_type VARCHAR,               -- as written
  entrypoint VARCHAR,              -- as written
  bad BOOLEAN,                     -- whether it is not JSON, or not UTF-8
  raw TEXT,                        -- the line after redaction
  stream VARCHAR,                  -- the stream of this file on this device: `source_id` in the other tables
  sequence BIGINT,                 -- the segment it came in
  day DATE                         -- of `timestamp` in UTC; without one, of a line beside it
);

-- The same for all other files: prompts that were typed, todo lists, plans, statistics. A file that is not made of
-- lines is one row, and one more each time it changed.
CREATE TABLE side_files (
  org VARCHAR,                     -- the organisation
  user VARCHAR,                    -- whose device it is
  device VARCHAR,                  -- the machine
  project VARCHAR,                 -- the project's key
  source VARCHAR,                  -- the file's path in the config folder
  kind VARCHAR,                    -- history, todos, plan, stats, index, agent-meta, …
  session VARCHAR,                 -- the session that the file belongs to
  agent VARCHAR,                   -- the sub-agent that the file belongs to
  generation INTEGER,              -- one more each time it changed
  "offset" BIGINT,                 -- where the line begins in the source
  length BIGINT,                   -- bytes it had in the source
  bad BOOLEAN,                     -- whether it is not JSON
  raw TEXT,                        -- its text after redaction
  stream VARCHAR,                  -- the stream of this file on this device
  sequence BIGINT,                 -- the segment it came in
  day DATE                         -- when the segment was made
);

-- One row per billed response, counted once per device whichever lines and files repeat it: the source of every sum.
CREATE TABLE responses (
  org VARCHAR,                     -- the organisation
  user VARCHAR,                    -- whose device it is
  device VARCHAR,                  -- the machine
  source_id VARCHAR,               -- the stream with the line that counts
  response_id VARCHAR,             -- the API's id: `messages.message_id`
  generation INTEGER,              -- of that file
  "offset" BIGINT,                 -- where that line begins, in bytes
  time TIMESTAMPTZ,                -- of the earliest line, to the millisecond
  session_id VARCHAR,              -- the session that pays: that of the file with the line that counts
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
  cost_micros BIGINT,              -- micro-dollars by the price list; null if the model has no price
  unpriced_tokens BIGINT,          -- all its tokens, if the model has no price
  final BOOLEAN,                   -- false: `output_tokens` may be a count from the beginning of the stream
  estimated_output_tokens BIGINT,  -- the output as it probably was
  estimated_cost_micros BIGINT,    -- the cost with that output
  copies INTEGER,                  -- how many files of the device have it
  is_sidechain BOOLEAN,            -- whether the line is a sub-agent's
  retold BOOLEAN,                  -- whether only a progress line tells of it
  speed VARCHAR,                   -- standard or fast
  service_tier VARCHAR,            -- as billed
  inference_geo VARCHAR,           -- where it was computed
  day DATE                         -- of `time` in UTC
);

-- What each file says of each response, counted or not: what `responses` is made from.
CREATE TABLE answers (
  org VARCHAR,                     -- the organisation
  user VARCHAR,                    -- whose device it is
  device VARCHAR,                  -- the machine
  source_id VARCHAR,               -- the stream
  source VARCHAR,                  -- its path
  response_id VARCHAR,             -- the API's id
  generation INTEGER,              -- of the file
  "offset" BIGINT,                 -- of the line that counts in this file
  timestamp VARCHAR,               -- of the earliest line, as it was written
  counted_at VARCHAR,              -- of the line that counts
  model VARCHAR,                   -- as the line has it
  session_id VARCHAR,              -- the session that pays: that of the file with the line that counts
  agent_id VARCHAR,                -- nothing for the main chain
  project_key VARCHAR,             -- the name of the project's folder
  cwd VARCHAR,                     -- the folder it worked in
  branch VARCHAR,                  -- of git
  version VARCHAR,                 -- of Claude Code
  input_tokens BIGINT,             -- not cached
  output_tokens BIGINT,            -- the most that a line says
  cache_read_tokens BIGINT,        -- read from the cache
  cache_write_5m_tokens BIGINT,    -- written to the cache for 5 minutes
  cache_write_1h_tokens BIGINT,    -- written to the cache for an hour
  web_searches BIGINT,             -- billed by the piece
  final BOOLEAN,                   -- whether a stop reason was written
  size BIGINT,                     -- bytes of its content, if it is not final
  speed VARCHAR,                   -- standard or fast
  service_tier VARCHAR,            -- as billed
  inference_geo VARCHAR,           -- where it was computed
  is_sidechain BOOLEAN,            -- whether the line is a sub-agent's
  retold BOOLEAN,                  -- whether a progress line tells of it
  at_home BOOLEAN,                 -- whether it is in the file of its session
  bucket INTEGER                   -- of the device
);

-- One row per stream: a file on a device, and how far it is in the tables.
CREATE TABLE sources (
  org VARCHAR,                     -- the organisation
  user VARCHAR,                    -- whose device it is
  device VARCHAR,                  -- the machine
  id VARCHAR,                      -- the stream: `source_id` elsewhere
  path VARCHAR,                    -- the file's path in the config folder
  kind VARCHAR,                    -- session, agent, history, todos, plan, …
  project_key VARCHAR,             -- the project's key
  session_id VARCHAR,              -- the session that it belongs to
  agent_id VARCHAR,                -- the sub-agent that it belongs to
  generation INTEGER,              -- the last one
  read_bytes BIGINT,               -- how far the last generation was collected
  lines BIGINT,                    -- of the last generation
  all_lines BIGINT,                -- of all generations: so many rows there are
  sequence BIGINT,                 -- the last segment that is in all tables
  digest VARCHAR,                  -- of that segment: with the chain of names, it stands for all of them
  redactions BIGINT,               -- secrets that were replaced, in all segments
  written TIMESTAMPTZ,             -- when that segment was made
  rules VARCHAR,                   -- the version of the rules it was redacted by
  made_with VARCHAR,               -- the version of the derivation and of the price list
  stored TIMESTAMPTZ,              -- when that segment was put, by the object store's clock
  bucket INTEGER                   -- of the device
);

-- Objects among the segments that could not be read, or that fit nowhere. They are left where they are.
CREATE TABLE quarantine (
  name VARCHAR,                    -- of the object
  org VARCHAR,                     -- as its name says
  device VARCHAR,                  -- as its name says
  stream VARCHAR,                  -- as its name says
  sequence BIGINT,                 -- as its name says
  size BIGINT,                     -- bytes
  reason VARCHAR,                  -- what is wrong with it
  seen TIMESTAMPTZ                 -- when that was found
);
