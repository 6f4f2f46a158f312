-- Only added to. The events of a letter go with it.
CREATE TABLE IF NOT EXISTS sekali_dead_letter_events (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    letter_id INTEGER NOT NULL,
    at        INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER)),
    what      TEXT    NOT NULL,
    state     TEXT    NOT NULL,
    run_id    TEXT    NOT NULL,
    n         INTEGER NOT NULL,
    who       TEXT    NOT NULL,
    why       TEXT    NOT NULL,
    note      TEXT    NOT NULL
);
