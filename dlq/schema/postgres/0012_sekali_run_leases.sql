-- Which process redrives letters of a queue, and until when nobody else may.
CREATE TABLE IF NOT EXISTS sekali_run_leases (
    queue  VARCHAR(255) COLLATE "C" NOT NULL PRIMARY KEY,
    run_id VARCHAR(64)  COLLATE "C" NOT NULL,
    owner  VARCHAR(64)  COLLATE "C" NOT NULL,
    until  TIMESTAMPTZ  NOT NULL
);
