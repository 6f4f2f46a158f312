-- VARBINARY: keys are compared byte by byte; collations fold case or ignore trailing blanks, and those that do not differ between MySQL and MariaDB.
-- processed_at is UTC, by the server's clock.
CREATE TABLE IF NOT EXISTS processed_messages (
    consumer_name VARBINARY(100) NOT NULL,
    message_key   VARBINARY(200) NOT NULL,
    processed_at  DATETIME(6)    NOT NULL,
    fingerprint   VARBINARY(255),
    PRIMARY KEY (consumer_name, message_key)
) ENGINE = InnoDB;
