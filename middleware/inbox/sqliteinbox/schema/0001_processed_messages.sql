-- Times are milliseconds since 1970, UTC. The keys must be NOT NULL (SQLite allows many NULLs in a primary key) and TEXT with the BINARY collation.
CREATE TABLE IF NOT EXISTS processed_messages (
    consumer_name TEXT    NOT NULL,
    message_key   TEXT    NOT NULL,
    processed_at  INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('subsec') * 1000) AS INTEGER)),
    fingerprint   BLOB,
    PRIMARY KEY (consumer_name, message_key)
) WITHOUT ROWID;
