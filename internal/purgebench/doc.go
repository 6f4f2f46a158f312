// Command purgebench measures on PostgreSQL what a purge costs those who claim
// beside it:
//
//	SEKALI_POSTGRES_URL=postgres://... go run ./internal/purgebench
//
// It makes a database of its own with five million claims, a fifth of them old,
// laid out as a service leaves them: rows in the order of their time, keys at
// random. Eight consumers claim at full rate while the purge works and rests in
// turn, a few seconds each, so that both see the same machine, and a table shows
// what a claim takes in either. The database is dropped at the end.
package main
