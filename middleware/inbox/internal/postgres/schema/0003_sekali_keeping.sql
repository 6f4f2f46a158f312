-- What is asked of a consumer's row at work: held_* is null unless an operator holds the consumer; purger_* is the lease of a purge.
CREATE TABLE IF NOT EXISTS sekali_keeping (
    consumer_name VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
    held_since    TIMESTAMPTZ,
    held_by       TEXT,
    held_why      TEXT,
    purger        TEXT,
    purger_until  TIMESTAMPTZ
);
