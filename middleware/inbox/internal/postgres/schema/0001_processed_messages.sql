-- COLLATE "C": keys are compared byte by byte, and no update of the system's collations can damage the index that tells duplicates.
CREATE TABLE IF NOT EXISTS processed_messages (
    consumer_name VARCHAR(100) COLLATE "C" NOT NULL,
    message_key   VARCHAR(200) COLLATE "C" NOT NULL,
    processed_at  TIMESTAMPTZ  NOT NULL DEFAULT CURRENT_TIMESTAMP,
    fingerprint   BYTEA,
    PRIMARY KEY (consumer_name, message_key)
);
