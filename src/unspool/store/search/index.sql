-- The text index: which words stand where. It holds no text; that is read again from the file or the archive. All of it
-- is made from lines that `sources` says were read, and may be emptied at any time.

-- Texts that are indexed, and where they stand.
CREATE TABLE passages (
  id INTEGER PRIMARY KEY,            -- the row of `words`
  source_id INTEGER NOT NULL,        -- the file: `sources.id`
  generation INTEGER NOT NULL,       -- of the file
  offset INTEGER NOT NULL,           -- of the line
  number INTEGER NOT NULL,           -- which passage of its line it is, from 0
  kind TEXT NOT NULL,                -- prompt, answer, thinking, tool_input, tool_result, …
  tool TEXT,                         -- the tool's name, of inputs and results
  target TEXT,                       -- the file that the tool call was aimed at
  failed INTEGER NOT NULL,           -- 1: the result of a failed call, or an error of the API
  time INTEGER                       -- of the line
) STRICT;

-- The words of each passage, and the parts of the identifiers in it.
CREATE VIRTUAL TABLE words USING fts5 (text, parts, content='', tokenize='unicode61 remove_diacritics 0');
INSERT INTO words (words, rank) VALUES ('hashsize', 33554432); -- bytes held before they are written as one segment
INSERT INTO words (words, rank) VALUES ('automerge', 8); -- segments of a size that are merged into one

-- In how many passages a word stands.
CREATE VIRTUAL TABLE vocabulary USING fts5vocab (words, row);

-- Lines with which a turn begins.
CREATE TABLE prompts (
  source_id INTEGER NOT NULL,        -- the file: `sources.id`
  generation INTEGER NOT NULL,       -- of the file
  offset INTEGER NOT NULL,           -- of the line
  time INTEGER,                      -- of the line
  PRIMARY KEY (source_id, generation, offset)
) STRICT, WITHOUT ROWID;

-- How far each file is indexed.
CREATE TABLE indexed (
  source_id INTEGER NOT NULL,        -- the file: `sources.id`
  generation INTEGER NOT NULL,       -- of the file
  offset INTEGER NOT NULL,           -- everything before is in the index
  state BLOB,                        -- what the lines after it need to know, as MessagePack; nothing: no more will come
  PRIMARY KEY (source_id, generation)
) STRICT, WITHOUT ROWID;

-- Files that were read further than they are indexed, or may have been.
CREATE TABLE unindexed (
  source_id INTEGER PRIMARY KEY      -- the file: `sources.id`
) STRICT;
INSERT INTO unindexed SELECT id FROM sources WHERE kind IN ('session', 'agent', 'journal');
