-- The store: what is known of every file of lines ever seen, and what was billed in it.
-- Times are milliseconds since 1970 (UTC) unless they are text as it was written. Money is micro-dollars.

-- Folders that were asked for. A response is counted once in each.
CREATE TABLE homes (
  id INTEGER PRIMARY KEY,            -- named by `home_id`
  path TEXT NOT NULL UNIQUE,         -- absolute, links resolved
  synced INTEGER                     -- when all of it was last read; nothing until it was read once
) STRICT;

-- Every file, by the place it was found at.
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,            -- named by `source_id`
  home_id INTEGER NOT NULL REFERENCES homes (id), -- the folder it is in
  path TEXT NOT NULL UNIQUE,         -- absolute
  kind TEXT NOT NULL,                -- session, agent, history, todos, plan, …
  project TEXT,                      -- the project's key: the name of its folder
  session_id TEXT,                   -- as its place says
  agent_id TEXT,                     -- as its name says
  generation INTEGER NOT NULL,       -- 1, and one more each time the file at this place became another one
  size INTEGER NOT NULL,             -- bytes, when last looked at
  modified INTEGER NOT NULL,         -- nanoseconds since 1970, when last looked at
  device INTEGER NOT NULL,           -- where it lies, when last looked at
  inode INTEGER NOT NULL,            -- another one: another file
  offset INTEGER NOT NULL DEFAULT 0, -- how far it was read: everything before is in the tables
  head BLOB NOT NULL DEFAULT x'',    -- hash of the first bytes
  boundary BLOB NOT NULL DEFAULT x'', -- hash of the last bytes before the offset
  archived INTEGER NOT NULL DEFAULT 0, -- 1: the archive has everything before the offset
  lines INTEGER NOT NULL DEFAULT 0,  -- entries and bad lines read, of this generation
  gone INTEGER                       -- when it was found missing
) STRICT;
CREATE INDEX sources_by_home ON sources (home_id);
CREATE INDEX sources_by_session ON sources (session_id);
CREATE INDEX sources_not_archived ON sources (path) WHERE archived = 0; -- few, if any

-- What one file says of one billed response: its lines made one (`prices/responses.py`). Several files may have the
-- same response; the one that counts in a home is marked, and has the time and the cost.
CREATE TABLE answers (
  id TEXT NOT NULL,                  -- message.id, else the line's uuid
  source_id INTEGER NOT NULL,        -- the file: `sources.id`
  generation INTEGER NOT NULL,       -- of the file
  home_id INTEGER NOT NULL,          -- the folder: `homes.id`
  counted INTEGER NOT NULL,          -- 1: this is the one that counts
  copies INTEGER NOT NULL,           -- how many files of the home have it
  offset INTEGER NOT NULL,           -- of the line that counts
  time INTEGER,                      -- of the earliest line
  timestamp TEXT,                    -- the same as it was written
  counted_at TEXT,                   -- time of the line that counts, if it is another
  model TEXT,                        -- as the line has it
  session_id TEXT,                   -- the session that pays: `prices/bill.py`
  agent_id TEXT,                     -- nothing for the main chain
  project TEXT,                      -- the project's name
  cwd TEXT,                          -- the folder it worked in
  branch TEXT,                       -- of git
  version TEXT,                      -- of Claude Code
  input_tokens INTEGER NOT NULL,     -- not cached
  output_tokens INTEGER NOT NULL,    -- the most that a line says
  cache_read_tokens INTEGER NOT NULL, -- read from the cache
  cache_write_5m_tokens INTEGER NOT NULL, -- written to the cache for 5 minutes
  cache_write_1h_tokens INTEGER NOT NULL, -- written to the cache for an hour
  web_searches INTEGER NOT NULL,     -- billed by the piece
  final INTEGER NOT NULL,            -- 0: the output may be a count from the beginning of the stream
  size INTEGER NOT NULL,             -- bytes of its content, if it is not final
  estimated_output_tokens INTEGER NOT NULL, -- the output as it probably was
  cost_micros INTEGER NOT NULL,      -- micro-dollars
  estimated_cost_micros INTEGER NOT NULL, -- the cost with the estimated output
  unpriced_tokens INTEGER NOT NULL,  -- all its tokens, if the model has no price
  marks INTEGER NOT NULL,            -- 1: of a sidechain; 2: told by a progress line; 4: in the file of its session
  speed TEXT,                        -- standard or fast
  service_tier TEXT,                 -- as billed
  inference_geo TEXT,                -- where it was computed
  PRIMARY KEY (source_id, generation, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_id ON answers (id);

-- One row per billed response and home: the source of every sum.
CREATE VIEW responses AS SELECT * FROM answers WHERE counted = 1;

-- The responses that count, added up by file, quarter of an hour and what reports tell apart. Made from `answers` when
-- a report asks for it and many files are in `unsummed`; it may be emptied at any time if these are all put there.
CREATE TABLE spent (
  source_id INTEGER NOT NULL,        -- the file: `sources.id`
  home_id INTEGER NOT NULL,          -- the folder: `homes.id`
  time INTEGER,                      -- of the first
  session_id TEXT,                   -- the session that pays
  agent_id TEXT,                     -- nothing for the main chain
  project TEXT,                      -- the project's name
  branch TEXT,                       -- of git
  model TEXT,                        -- as the lines have it
  responses INTEGER NOT NULL,        -- how many
  estimated_responses INTEGER NOT NULL, -- how many are not final
  input_tokens INTEGER NOT NULL,     -- not cached
  output_tokens INTEGER NOT NULL,    -- as counted
  cache_read_tokens INTEGER NOT NULL, -- read from the cache
  cache_write_5m_tokens INTEGER NOT NULL, -- written to the cache for 5 minutes
  cache_write_1h_tokens INTEGER NOT NULL, -- written to the cache for an hour
  web_searches INTEGER NOT NULL,     -- billed by the piece
  cost_micros INTEGER NOT NULL,      -- micro-dollars
  unpriced_tokens INTEGER NOT NULL,  -- of models without a price
  estimated_output_tokens INTEGER NOT NULL, -- the output as it probably was
  estimated_cost_micros INTEGER NOT NULL -- the cost with the estimated output
) STRICT;
CREATE INDEX spent_by_source ON spent (source_id);

-- Files whose rows in `spent` are out of date: their answers are added up when a report asks.
CREATE TABLE unsummed (
  source_id INTEGER PRIMARY KEY      -- the file: `sources.id`
) STRICT;

-- Answers to questions that reports ask again and again, of the files that are not in `unsummed`. Emptied when another
-- one is put there.
CREATE TABLE remembered (
  question TEXT PRIMARY KEY,         -- the query
  answer TEXT NOT NULL               -- its rows, as JSON
) STRICT, WITHOUT ROWID;

-- When the program said that a limit was reached.
CREATE TABLE limits (
  source_id INTEGER NOT NULL REFERENCES sources (id), -- the file
  generation INTEGER NOT NULL,       -- of the file
  offset INTEGER NOT NULL,           -- of the line
  time INTEGER,                      -- when it was said
  notice TEXT NOT NULL,              -- what was said
  PRIMARY KEY (source_id, generation, offset)
) STRICT, WITHOUT ROWID;

-- What a list of sessions shows of one: a row per file of a session.
CREATE TABLE sessions (
  source_id INTEGER PRIMARY KEY REFERENCES sources (id), -- the file
  session_id TEXT NOT NULL,          -- the session; two files may be of one
  title TEXT NOT NULL,               -- empty if it has none
  titled_by TEXT NOT NULL,           -- person, model, summary, prompt or nobody
  first_prompt TEXT NOT NULL,        -- cut off after 2,000 characters
  cwd TEXT,                          -- the folder it works in
  project TEXT,                      -- the project's name
  branch TEXT,                       -- of git
  slug TEXT,                         -- the name its plan has
  versions TEXT NOT NULL,            -- JSON: of Claude Code
  models TEXT NOT NULL,              -- JSON, the one used most first
  started TEXT,                      -- as written
  last TEXT,                         -- as written
  wall_seconds REAL NOT NULL,        -- from the first line to the last
  active_seconds REAL NOT NULL,      -- without pauses of more than five minutes
  turns INTEGER NOT NULL,            -- prompts of a person
  messages INTEGER NOT NULL,         -- user lines, tool results too, and whole answers
  tool_calls INTEGER NOT NULL,       -- each id once
  errors INTEGER NOT NULL,           -- failed tool calls and API errors
  images INTEGER NOT NULL,           -- pictures and documents in prompts
  compactions INTEGER NOT NULL,      -- how often it was summed up to go on
  pull_requests TEXT NOT NULL,       -- JSON: their addresses
  context_tokens INTEGER,            -- of the last request of the main chain
  hidden TEXT                        -- why a list leaves it out: empty, warm-up or special fork
) STRICT;
CREATE INDEX sessions_by_id ON sessions (session_id);
CREATE INDEX sessions_by_slug ON sessions (slug);

-- Where the gathering of a file's facts stands, so that only new lines need be read.
CREATE TABLE states (
  source_id INTEGER PRIMARY KEY REFERENCES sources (id), -- the file
  state BLOB NOT NULL                -- `graph.facts.Gathering`, as MessagePack
) STRICT;

-- Whose a sub-agent's file is; a file of before 2.1.2 may be of several sessions.
CREATE TABLE agents (
  source_id INTEGER NOT NULL REFERENCES sources (id), -- the agent's file
  session_id TEXT NOT NULL,          -- the session that started it
  agent_id TEXT NOT NULL,            -- the agent
  PRIMARY KEY (source_id, session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_by_session ON agents (session_id);

-- Lines that could not be read, kept by place; and side files that could not, with offset 0.
CREATE TABLE bad_lines (
  source_id INTEGER NOT NULL REFERENCES sources (id), -- the file
  generation INTEGER NOT NULL,       -- of the file
  offset INTEGER NOT NULL,           -- where it begins, in bytes
  length INTEGER NOT NULL,           -- bytes
  reason TEXT NOT NULL,              -- why it could not be read
  PRIMARY KEY (source_id, generation, offset)
) STRICT, WITHOUT ROWID;

-- What the numbers were made with.
CREATE TABLE made_with (
  name TEXT PRIMARY KEY,             -- prices; archive: that all it has was taken in
  value TEXT NOT NULL                -- the edition of them
) STRICT, WITHOUT ROWID;

-- Side files: what Claude Code keeps beside the sessions. A file is a source; when it has changed, all its rows are
-- replaced. Rows stay when the file is gone. Nothing here is as true as the session files are.
--
-- Flags are 0 or 1. Times and durations in numbers are milliseconds (times since 1970); those in words are as written
-- in the file. What the file does not say is null.

-- The sessions a project's `sessions-index.json` lists. A third of the sessions are in no index.
CREATE TABLE index_entries (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  position INTEGER NOT NULL,       -- place in the list, from 0
  project TEXT,                    -- the project's key: the name of its folder
  index_version INTEGER,           -- version of the index
  original_path TEXT,              -- the project's folder, as the index says
  session_id TEXT NOT NULL,        -- the session; empty if the entry names none
  full_path TEXT,                  -- the session's file, as the index says
  file_mtime INTEGER,              -- when that file had last changed
  first_prompt TEXT,               -- its first prompt, cut
  summary TEXT,                    -- title made by a model
  custom_title TEXT,               -- title given by a person
  message_count INTEGER,           -- messages, as the program counts them
  created TEXT,                    -- when it began, in words
  modified TEXT,                   -- when it last went on, in words
  git_branch TEXT,                 -- branch it began on
  project_path TEXT,               -- folder it worked in
  is_sidechain INTEGER,            -- whether it is an agent's
  PRIMARY KEY (source_id, position)
) STRICT;

-- Todo lists, `todos/<session>-agent-<agent>.json` (gone by 2.1.70).
CREATE TABLE todos (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  session_id TEXT,                 -- whose list it is
  agent_id TEXT,                   -- the session's id again if the list is the session's own
  position INTEGER NOT NULL,       -- place in the list, from 0
  content TEXT NOT NULL,           -- what is to be done
  status TEXT,                     -- `pending`, `in_progress` or `completed`
  active_form TEXT,                -- the same, as it reads while it is being done
  id TEXT,                         -- number of the item (1.0.x)
  priority TEXT,                   -- `high`, `medium` or `low` (1.0.x)
  PRIMARY KEY (source_id, position)
) STRICT;

-- Tasks, which came after todos: `tasks/<list>/<n>.json`.
CREATE TABLE tasks (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  list_id TEXT,                    -- the list: the name of the folder, mostly a session's id
  id TEXT NOT NULL,                -- number of the task in its list
  subject TEXT NOT NULL,           -- what is to be done
  description TEXT,                -- more about it
  status TEXT,                     -- `pending`, `in_progress` or `completed`
  active_form TEXT,                -- the subject as it reads while it is being done
  owner TEXT,                      -- the agent that took it
  blocks TEXT,                     -- tasks that wait for it: a JSON list of ids
  blocked_by TEXT,                 -- tasks it waits for: a JSON list of ids
  metadata TEXT,                   -- anything else, as JSON
  PRIMARY KEY (source_id)
) STRICT;

-- Plans, `plans/<slug>.md`. A session's lines carry the slug of its plan.
CREATE TABLE plans (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  name TEXT NOT NULL,              -- name of the file
  slug TEXT NOT NULL,              -- the name without `.md`: joins to a session's slug
  title TEXT,                      -- the first heading
  content TEXT NOT NULL,           -- the text
  size INTEGER NOT NULL,           -- bytes of the file
  created INTEGER,                 -- when the file was made; null where the system does not tell
  modified INTEGER,                -- when the file last changed
  PRIMARY KEY (source_id)
) STRICT;
CREATE INDEX plans_by_slug ON plans (slug);

-- Headings of a plan: sections, and phases. A phase on the second level is both.
CREATE TABLE plan_sections (
  source_id INTEGER NOT NULL,      -- the plan: `plans.source_id`
  position INTEGER NOT NULL,       -- place among the plan's rows here, from 0
  kind TEXT NOT NULL,              -- `section` (second level) or `phase` (any level)
  level INTEGER NOT NULL,          -- level of the heading, 1 to 6
  text TEXT NOT NULL,              -- the heading
  line INTEGER NOT NULL,           -- its line in the file, from 1
  PRIMARY KEY (source_id, position)
) STRICT;

-- The `- [ ]` lines of a plan.
CREATE TABLE plan_tasks (
  source_id INTEGER NOT NULL,      -- the plan: `plans.source_id`
  position INTEGER NOT NULL,       -- place among the plan's tasks, from 0
  text TEXT NOT NULL,              -- what is to be done
  done INTEGER NOT NULL,           -- whether it is ticked
  section TEXT,                    -- the section it stands in
  phase TEXT,                      -- the phase it stands in
  line INTEGER NOT NULL,           -- its line in the file, from 1
  PRIMARY KEY (source_id, position)
) STRICT;

-- Claude Code's own statistics, `stats-cache.json`: whole days, up to the day before they were computed.
CREATE TABLE stats (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  version INTEGER,                 -- version of the file, 1 to 3
  last_computed_date TEXT,         -- the last day counted
  total_sessions INTEGER,          -- sessions
  total_messages INTEGER,          -- messages, as the program counts them
  longest_session_id TEXT,         -- the session that took the longest
  longest_session_duration INTEGER, -- how long it took
  longest_session_message_count INTEGER, -- its messages
  longest_session_timestamp TEXT,  -- when it began, in words
  first_session_date TEXT,         -- when the first session began, in words
  total_speculation_time_saved_ms INTEGER, -- time saved by guessing prompts
  PRIMARY KEY (source_id)
) STRICT;

-- What was done on each day, by `stats-cache.json`.
CREATE TABLE stats_days (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  date TEXT NOT NULL,              -- the day, as in 2026-01-05
  message_count INTEGER,           -- messages, as the program counts them
  session_count INTEGER,           -- sessions begun
  tool_call_count INTEGER,         -- tool calls
  PRIMARY KEY (source_id, date)
) STRICT;

-- Tokens of each day by model, by `stats-cache.json`.
CREATE TABLE stats_day_models (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  date TEXT NOT NULL,              -- the day, as in 2026-01-05
  model TEXT NOT NULL,             -- the model
  tokens INTEGER,                  -- tokens, added up per line and so too many
  PRIMARY KEY (source_id, date, model)
) STRICT;

-- Tokens of each model, by `stats-cache.json`, added up per line and so too many.
CREATE TABLE stats_models (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  model TEXT NOT NULL,             -- the model
  input_tokens INTEGER,            -- tokens sent, not from the cache
  output_tokens INTEGER,           -- tokens answered
  cache_read_input_tokens INTEGER, -- tokens read from the cache
  cache_creation_input_tokens INTEGER, -- tokens written to the cache
  web_search_requests INTEGER,     -- web searches
  cost_microdollars INTEGER,       -- cost in millionths of a dollar, as the program reckons it
  context_window INTEGER,          -- tokens the model takes
  max_output_tokens INTEGER,       -- tokens it may answer
  PRIMARY KEY (source_id, model)
) STRICT;

-- Sessions begun in each hour of the day, by `stats-cache.json`.
CREATE TABLE stats_hours (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  hour INTEGER NOT NULL,           -- the hour, 0 to 23
  count INTEGER,                   -- sessions
  PRIMARY KEY (source_id, hour)
) STRICT;

-- Memory of a project: `memory/MEMORY.md` and the files it points to.
CREATE TABLE memory (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  name TEXT NOT NULL,              -- name of the file
  project TEXT,                    -- the project's key: the name of its folder
  content TEXT NOT NULL,           -- the text
  size INTEGER NOT NULL,           -- bytes of the file
  modified INTEGER,                -- when the file last changed
  front_matter TEXT,               -- what stands before the text, as a JSON object
  PRIMARY KEY (source_id)
) STRICT;

-- Headings of a memory file.
CREATE TABLE memory_headings (
  source_id INTEGER NOT NULL,      -- the file: `memory.source_id`
  position INTEGER NOT NULL,       -- place among the headings, from 0
  text TEXT NOT NULL,              -- the heading
  level INTEGER NOT NULL,          -- its level, 1 to 6
  line INTEGER NOT NULL,           -- its line in the file, from 1
  PRIMARY KEY (source_id, position)
) STRICT;

-- Links of a memory file.
CREATE TABLE memory_links (
  source_id INTEGER NOT NULL,      -- the file: `memory.source_id`
  position INTEGER NOT NULL,       -- place among the links, from 0
  text TEXT NOT NULL,              -- what is shown
  target TEXT NOT NULL,            -- where it leads: a file, an address or the name of another memory
  line INTEGER NOT NULL,           -- its line in the file, from 1
  PRIMARY KEY (source_id, position)
) STRICT;

-- Settings, one row for each value that is set. What may hold a secret is masked: it is `"***"`.
CREATE TABLE settings (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  name TEXT NOT NULL,              -- `settings.json` or `settings.local.json`
  key TEXT NOT NULL,               -- the way to the value, as in `permissions.defaultMode`
  value TEXT NOT NULL,             -- the value, as JSON
  PRIMARY KEY (source_id, key)
) STRICT;

-- Permission rules of the settings. Deny goes before ask, ask before allow.
CREATE TABLE permissions (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  behaviour TEXT NOT NULL,         -- `allow`, `ask` or `deny`
  position INTEGER NOT NULL,       -- place in its list, from 0
  rule TEXT NOT NULL,              -- the rule, as in `Bash(git diff:*)`
  PRIMARY KEY (source_id, behaviour, position)
) STRICT;

-- Hooks of the settings. Addresses, headers and inputs are masked.
CREATE TABLE hooks (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  event TEXT NOT NULL,             -- when it runs, as in `PreToolUse`
  matcher TEXT,                    -- for what; null is for anything
  position INTEGER NOT NULL,       -- place among the file's hooks, from 0
  type TEXT,                       -- `command`, `prompt`, `agent`, `http` or `mcp_tool`
  target TEXT,                     -- the command, or else the prompt, address or tool
  timeout REAL,                    -- seconds it may take
  details TEXT NOT NULL,           -- all that the hook says, as a JSON object
  PRIMARY KEY (source_id, position)
) STRICT;

-- What is said about an agent beside its file, `agent-<id>.meta.json`.
CREATE TABLE agent_meta (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  agent_id TEXT,                   -- the agent
  session_id TEXT,                 -- the session it belongs to
  agent_type TEXT,                 -- its type, as in `Explore`
  description TEXT,                -- what it was asked for, in a few words
  tool_use_id TEXT,                -- the tool call that started it
  worktree_path TEXT,              -- the worktree it worked in
  spawn_depth INTEGER,             -- how many agents are above it
  is_built_in INTEGER,             -- whether the program brought its type along
  launched_with_defaults INTEGER,  -- whether it was started without options
  request_shape TEXT,              -- how its requests are built
  request_non_interactive INTEGER, -- whether nobody can be asked
  picked_effort_model TEXT,        -- the model that was picked for it
  finished INTEGER,                -- whether it came to its end
  PRIMARY KEY (source_id)
) STRICT;

-- Runs of workflows, `<session>/workflows/<run>.json`.
CREATE TABLE workflows (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  session_id TEXT,                 -- the session it ran in
  run_id TEXT NOT NULL,            -- the run
  task_id TEXT,                    -- the background task it ran as
  status TEXT,                     -- how it ended, or that it runs
  workflow_name TEXT,              -- its name
  timestamp TEXT,                  -- when it was written down, in words
  duration_ms INTEGER,             -- how long it took
  agent_count INTEGER,             -- agents that ran
  total_tokens INTEGER,            -- tokens they used
  total_tool_calls INTEGER,        -- tool calls they made
  default_model TEXT,              -- model of agents that name none
  script_path TEXT,                -- the workflow's script
  phases TEXT,                     -- its phases: a JSON list of titles and details
  result TEXT,                     -- what came of it, as JSON
  PRIMARY KEY (source_id)
) STRICT;

-- What happened in a run of a workflow: phases that began, agents that ran.
CREATE TABLE workflow_steps (
  source_id INTEGER NOT NULL,      -- the run: `workflows.source_id`
  position INTEGER NOT NULL,       -- place in the list, from 0
  type TEXT,                       -- `workflow_phase` or `workflow_agent`
  step_index INTEGER,              -- its number, as the file says
  title TEXT,                      -- title of the phase
  label TEXT,                      -- name of the agent in the script
  phase_index INTEGER,             -- number of the phase the agent ran in
  phase_title TEXT,                -- title of that phase
  agent_id TEXT,                   -- the agent
  model TEXT,                      -- its model
  state TEXT,                      -- how far it came
  attempt INTEGER,                 -- which attempt it was
  tokens INTEGER,                  -- tokens it used
  tool_calls INTEGER,              -- tool calls it made
  duration_ms INTEGER,             -- how long it took
  result_preview TEXT,             -- the beginning of its result
  PRIMARY KEY (source_id, position)
) STRICT;

-- Names that people gave sessions, `<session>/custom-title.json`.
CREATE TABLE titles (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  session_id TEXT,                 -- the session
  custom_title TEXT NOT NULL,      -- its name
  PRIMARY KEY (source_id)
) STRICT;

-- The registry of running programs, `sessions/<pid>.json`. One that was killed leaves its entry.
CREATE TABLE processes (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  pid INTEGER,                     -- the process
  session_id TEXT,                 -- the session that is open in it
  cwd TEXT,                        -- the folder it works in
  started_at INTEGER,              -- when it was started
  proc_start TEXT,                 -- the same in clock ticks since boot: pids come again
  version TEXT,                    -- version of Claude Code
  kind TEXT,                       -- as in `interactive`
  entrypoint TEXT,                 -- as in `cli`
  status TEXT,                     -- `idle`, `busy` or `waiting`
  waiting_for TEXT,                -- what it waits for
  updated_at INTEGER,              -- when the entry last changed
  status_updated_at INTEGER,       -- when the status last changed
  name TEXT,                       -- the session's name
  name_source TEXT,                -- who gave the name
  name_since INTEGER,              -- since when it has the name
  peer_protocol INTEGER,           -- version of how programs talk to each other
  peer_features TEXT,              -- what it can do then: a JSON list
  pid_domain TEXT,                 -- where the pid counts
  messaging_socket_path TEXT,      -- where it can be reached
  PRIMARY KEY (source_id)
) STRICT;

-- Files as they were before a session changed them, `file-history/<session>/<hash>@v<n>`: where and how large.
CREATE TABLE file_backups (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  session_id TEXT,                 -- the session
  name TEXT NOT NULL,              -- name of the backup: `file-history-snapshot` lines say of which file
  hash TEXT,                       -- the part that stands for the file's path
  version INTEGER,                 -- which version of the file it is, from 1
  size INTEGER NOT NULL,           -- bytes
  modified INTEGER,                -- when it was written
  PRIMARY KEY (source_id)
) STRICT;

-- Tool results too long for the session's file, `<session>/tool-results/<name>`: where and how large.
CREATE TABLE tool_results (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  session_id TEXT,                 -- the session
  name TEXT NOT NULL,              -- name of the file: a tool call's id, a background task's, or a server and tool
  size INTEGER NOT NULL,           -- bytes
  modified INTEGER,                -- when it was written
  PRIMARY KEY (source_id)
) STRICT;

-- Prompts typed in a terminal, `history.jsonl`. This file is read a line at a time; 2.0.50 wrote some lines again.
CREATE TABLE history (
  source_id INTEGER NOT NULL,      -- the file: `sources.id`
  generation INTEGER NOT NULL,     -- of the file
  offset INTEGER NOT NULL,         -- where in the file the line begins, in bytes
  time INTEGER,                    -- when it was typed
  display TEXT NOT NULL,           -- what was typed; something pasted is a placeholder
  project TEXT,                    -- folder it was typed in
  session_id TEXT,                 -- the session (from 2.0.50 on)
  pasted TEXT,                     -- what was pasted, by its number: a JSON object of texts or their hashes
  PRIMARY KEY (source_id, generation, offset)
) STRICT;
CREATE INDEX history_by_session ON history (session_id);
