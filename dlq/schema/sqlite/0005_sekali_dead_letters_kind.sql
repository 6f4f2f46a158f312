CREATE INDEX IF NOT EXISTS sekali_dead_letters_kind ON sekali_dead_letters (kind, id);
