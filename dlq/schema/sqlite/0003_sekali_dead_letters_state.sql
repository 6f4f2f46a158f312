CREATE INDEX IF NOT EXISTS sekali_dead_letters_state ON sekali_dead_letters (state, id);
