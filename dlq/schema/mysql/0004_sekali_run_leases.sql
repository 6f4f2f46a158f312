-- Which process redrives letters of a queue, and until when nobody else may.
CREATE TABLE IF NOT EXISTS sekali_run_leases (
    queue  VARBINARY(255) NOT NULL PRIMARY KEY,
    run_id VARBINARY(64)  NOT NULL,
    owner  VARBINARY(64)  NOT NULL,
    until  DATETIME(6)    NOT NULL
) ENGINE = InnoDB;
