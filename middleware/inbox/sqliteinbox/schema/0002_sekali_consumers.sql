-- horizon: before this time an absent claim proves nothing. former_names: a JSON array.
CREATE TABLE IF NOT EXISTS sekali_consumers (
    name         TEXT    NOT NULL PRIMARY KEY,
    service      TEXT    NOT NULL,
    queue        TEXT    NOT NULL,
    key_rule     TEXT    NOT NULL,
    mode         TEXT    NOT NULL CHECK (mode IN ('enforce', 'observe')),
    horizon      INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER)),
    former_names TEXT    NOT NULL DEFAULT '[]'
) WITHOUT ROWID;
