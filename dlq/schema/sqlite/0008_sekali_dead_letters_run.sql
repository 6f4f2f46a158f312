CREATE INDEX IF NOT EXISTS sekali_dead_letters_run ON sekali_dead_letters (run_id, state, id);
