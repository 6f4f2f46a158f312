// Command redrivestorm redrives dead letters of all kinds while the process that
// does so is killed with SIGKILL again and again, and checks the books: no effect
// is lost, none is doubled.
//
//	go run ./internal/redrivestorm -letters 10000 -kills 20
//
// It needs PostgreSQL and RabbitMQ, see scripts/services; it makes a database and
// queues of its own and removes them.
package main
