CREATE INDEX IF NOT EXISTS sekali_dead_letters_content ON sekali_dead_letters (content);
