-- One row a redrive. config and counts are JSON.
CREATE TABLE IF NOT EXISTS sekali_runs (
    id         VARBINARY(64) NOT NULL PRIMARY KEY,
    state      VARBINARY(16) NOT NULL CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
    reason     MEDIUMBLOB    NOT NULL,
    who        MEDIUMBLOB    NOT NULL,
    why        MEDIUMBLOB    NOT NULL,
    config     MEDIUMBLOB    NOT NULL,
    counts     MEDIUMBLOB    NOT NULL,
    queues     MEDIUMBLOB    NOT NULL,
    bound      BIGINT        NOT NULL,
    last_id    BIGINT        NOT NULL,
    begun_at   DATETIME(6)   NOT NULL,
    changed_at DATETIME(6)   NOT NULL
) ENGINE = InnoDB;
