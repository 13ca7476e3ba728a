-- Brings the store from version 6 to 7: what the status line asks for, without reading all responses.
CREATE INDEX answers_by_time ON answers (home_id, time) WHERE counted = 1;

-- The most that a 5-hour window of a folder has used, without its newest window (`sync/write_rows.py`). A row may be
-- deleted at any time: the next sync makes it again.
CREATE TABLE largest_windows (
  home_id INTEGER PRIMARY KEY,       -- the folder: `homes.id`
  newest INTEGER NOT NULL,           -- start of the newest window: those before it are taken into account
  cost_micros INTEGER NOT NULL,      -- micro-dollars of the one that cost most
  total_tokens INTEGER NOT NULL      -- of the one that has most
) STRICT;
