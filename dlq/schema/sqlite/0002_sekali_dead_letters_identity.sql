CREATE UNIQUE INDEX IF NOT EXISTS sekali_dead_letters_identity ON sekali_dead_letters (identity);
