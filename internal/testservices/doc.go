// Package testservices gives tests the real servers they need.
//
// The shared servers are those whose URLs the environment names; scripts/services starts them and prints the environment:
//
//	scripts/services up && eval "$(scripts/services env)"
//
// Each test takes a database or virtual host of its own from them, so that tests may run side by side and be repeated:
//
//	url := testservices.NewPostgresDatabase(t)
//
// A test that stops or kills a server starts a private one, through the same script:
//
//	server := testservices.Start(t, "rabbitmq")
//	server.Kill()
//	server.Start() // the same URL, the same data
//
// Without the environment every one of these functions skips the test and says what is missing, so that "go test ./..." passes
// anywhere; "make test" brings the servers up and allows no such skip.
package testservices
