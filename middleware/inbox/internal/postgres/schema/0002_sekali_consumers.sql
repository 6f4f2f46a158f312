-- horizon: before this time an absent claim proves nothing. former_names: a JSON array.
CREATE TABLE IF NOT EXISTS sekali_consumers (
    name         VARCHAR(100) COLLATE "C" NOT NULL PRIMARY KEY,
    service      TEXT         NOT NULL,
    queue        TEXT         NOT NULL,
    key_rule     TEXT         NOT NULL,
    mode         TEXT         NOT NULL CHECK (mode IN ('enforce', 'observe')),
    horizon      TIMESTAMPTZ  NOT NULL DEFAULT CURRENT_TIMESTAMP,
    former_names TEXT         NOT NULL DEFAULT '[]'
);
