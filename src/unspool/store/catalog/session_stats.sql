-- What lists show of sessions beside `sessions`: tools, changed files, how full the context was. It is made from lines
-- while they are indexed; nothing is in here while indexing is off. All of it may be emptied at any time, if the files
-- are put into `unindexed`.

-- What the lines of one file say, as far as they were looked at.
CREATE TABLE digests (
  source_id INTEGER PRIMARY KEY,     -- the file: `sources.id`
  generation INTEGER NOT NULL,       -- of the file
  offset INTEGER NOT NULL,           -- everything before is in here
  whole INTEGER NOT NULL,            -- 0: the lines were gone before anybody looked, so nobody knows
  beginning TEXT,                    -- uuid and time of the first line of the conversation; copies have the same
  forked_from TEXT,                  -- the session that it says it was forked from
  tools TEXT NOT NULL,               -- JSON: how often each tool was called, each call once
  compactions TEXT NOT NULL,         -- JSON: offsets of the lines after which it went on with a summary
  state BLOB NOT NULL                -- what the lines after it need to know, as MessagePack
) STRICT;
CREATE INDEX digests_by_beginning ON digests (beginning);

-- Names of files that tools have changed.
CREATE TABLE paths (
  id INTEGER PRIMARY KEY,            -- named by `path_id`
  path TEXT NOT NULL UNIQUE          -- as the tool was given it
) STRICT;

-- What the tool calls of one file have changed.
CREATE TABLE changed_files (
  source_id INTEGER NOT NULL,        -- the file of lines: `sources.id`
  path_id INTEGER NOT NULL,          -- the file that was changed: `paths.id`
  changes INTEGER NOT NULL,          -- how often
  added INTEGER NOT NULL,            -- lines, as the results say
  removed INTEGER NOT NULL,          -- lines, as the results say
  PRIMARY KEY (source_id, path_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX changed_files_by_path ON changed_files (path_id, source_id);

-- A session with its agents added up, from the tables above and `answers`.
CREATE TABLE tallies (
  source_id INTEGER PRIMARY KEY,     -- the file of the session: `sources.id`
  files INTEGER NOT NULL,            -- how many files were changed
  added INTEGER NOT NULL,            -- lines
  removed INTEGER NOT NULL,          -- lines
  tools TEXT NOT NULL,               -- JSON: how often each tool was called, the most used first
  peak INTEGER,                      -- tokens of the fullest request of the main chain
  curve TEXT NOT NULL                -- JSON: tokens over the requests, in at most 40 points; compactions among them
) STRICT;

INSERT OR IGNORE INTO unindexed SELECT id FROM sources WHERE kind IN ('session', 'agent', 'journal');
