CREATE INDEX IF NOT EXISTS sekali_dead_letter_events_letter ON sekali_dead_letter_events (letter_id, id);
