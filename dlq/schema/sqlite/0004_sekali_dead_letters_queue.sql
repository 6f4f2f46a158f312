CREATE INDEX IF NOT EXISTS sekali_dead_letters_queue ON sekali_dead_letters (queue, state, id);
