-- What was changed on purpose, by whom and why. Rows are only ever added.
CREATE TABLE IF NOT EXISTS sekali_audit (
    id          BIGINT         NOT NULL AUTO_INCREMENT,
    at          DATETIME(6)    NOT NULL,
    who         TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    why         TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    act         VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    consumer    VARBINARY(100) NOT NULL,
    message_key VARBINARY(200) NOT NULL,
    detail      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB;
