-- What was changed on purpose, by whom and why. Rows are only ever added.
CREATE TABLE IF NOT EXISTS sekali_audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL,
    who         TEXT    NOT NULL,
    why         TEXT    NOT NULL,
    act         TEXT    NOT NULL,
    consumer    TEXT    NOT NULL,
    message_key TEXT    NOT NULL,
    detail      TEXT    NOT NULL
);
