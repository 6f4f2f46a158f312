-- One row a redrive. config and counts are JSON.
CREATE TABLE IF NOT EXISTS sekali_runs (
    id         TEXT    NOT NULL PRIMARY KEY,
    state      TEXT    NOT NULL CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
    reason     TEXT    NOT NULL,
    who        TEXT    NOT NULL,
    why        TEXT    NOT NULL,
    config     TEXT    NOT NULL,
    counts     TEXT    NOT NULL,
    queues     TEXT    NOT NULL,
    bound      INTEGER NOT NULL,
    last_id    INTEGER NOT NULL,
    begun_at   INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER)),
    changed_at INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER))
);
