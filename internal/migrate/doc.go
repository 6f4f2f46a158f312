// Package migrate applies the numbered SQL files that each room with tables
// embeds, once each, and remembers them in the table sekali_migrations. It does
// no more than that: whoever has a migration tool pastes the files into it.
package migrate
