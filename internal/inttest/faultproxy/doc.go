// Package faultproxy puts faults on real connections: a TCP proxy between a client and a server that can cut, refuse, hold or
// slow connections, and lose exactly one request or one answer.
//
//	proxy := faultproxy.New(t, "127.0.0.1:5432")
//	lost := proxy.LoseAnswer("COMMIT", 1)
//	// ... a client that connects to proxy.Addr() commits: the server has committed, the client sees a broken connection
//	<-lost.Struck()
//
// It runs in the test's process, on Toxiproxy as a library. All faults are one toxic of our own, installed once in each
// direction: adding and removing Toxiproxy's built-in ones while data flows can leave goroutines behind that wait for a writer
// which has gone.
package faultproxy
