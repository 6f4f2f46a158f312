CREATE INDEX IF NOT EXISTS sekali_dead_letters_claim ON sekali_dead_letters (consumer_name, message_key);
