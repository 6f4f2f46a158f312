-- What is asked of a consumer's row at work: held_* is null unless an operator holds the consumer; purger_* is the lease of a purge.
CREATE TABLE IF NOT EXISTS sekali_keeping (
    consumer_name VARBINARY(100) NOT NULL,
    held_since    DATETIME(6),
    held_by       TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    held_why      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    purger        VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    purger_until  DATETIME(6),
    PRIMARY KEY (consumer_name)
) ENGINE = InnoDB;
