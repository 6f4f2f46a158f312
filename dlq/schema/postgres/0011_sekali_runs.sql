-- One row a redrive. config and counts are JSON.
CREATE TABLE IF NOT EXISTS sekali_runs (
    id         VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    state      VARCHAR(16) COLLATE "C" NOT NULL CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
    reason     TEXT        COLLATE "C" NOT NULL,
    who        TEXT        COLLATE "C" NOT NULL,
    why        TEXT        COLLATE "C" NOT NULL,
    config     TEXT        NOT NULL,
    counts     TEXT        NOT NULL,
    queues     TEXT        NOT NULL,
    bound      BIGINT      NOT NULL,
    last_id    BIGINT      NOT NULL,
    begun_at   TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT CURRENT_TIMESTAMP
);
