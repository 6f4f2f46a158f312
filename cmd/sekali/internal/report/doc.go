// Package report prints results: tables for people, one JSON object a line for
// scripts. What comes from messages and databases is printed so that it cannot
// steer a terminal.
package report
