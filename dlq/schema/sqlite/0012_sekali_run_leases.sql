-- Which process redrives letters of a queue, and until when nobody else may.
CREATE TABLE IF NOT EXISTS sekali_run_leases (
    queue  TEXT    NOT NULL PRIMARY KEY,
    run_id TEXT    NOT NULL,
    owner  TEXT    NOT NULL,
    until  INTEGER NOT NULL
);
