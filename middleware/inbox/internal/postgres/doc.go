// Package postgres is what the inbox stores in PostgreSQL share, whatever their
// driver: the tables and their check at start, the text of the statements, what
// handlers may not send, and what SQLSTATEs mean.
package postgres
