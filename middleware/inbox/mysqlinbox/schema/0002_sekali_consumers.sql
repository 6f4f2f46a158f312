-- horizon: before this time (UTC) an absent claim proves nothing. former_names: a JSON array.
CREATE TABLE IF NOT EXISTS sekali_consumers (
    name         VARBINARY(100) NOT NULL,
    service      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    queue        TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    key_rule     TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    mode         VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (mode IN ('enforce', 'observe')),
    horizon      DATETIME(6)    NOT NULL,
    former_names TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB;
