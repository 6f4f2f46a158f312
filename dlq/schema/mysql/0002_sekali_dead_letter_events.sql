-- Only added to. The events of a letter go with it.
CREATE TABLE IF NOT EXISTS sekali_dead_letter_events (
    id        BIGINT        NOT NULL AUTO_INCREMENT PRIMARY KEY,
    letter_id BIGINT        NOT NULL,
    at        DATETIME(6)   NOT NULL,
    what      VARBINARY(16) NOT NULL,
    state     VARBINARY(16) NOT NULL,
    run_id    VARBINARY(64) NOT NULL,
    n         BIGINT        NOT NULL,
    who       MEDIUMBLOB    NOT NULL,
    why       MEDIUMBLOB    NOT NULL,
    note      MEDIUMBLOB    NOT NULL,
    INDEX sekali_dead_letter_events_letter (letter_id, id)
) ENGINE = InnoDB;
