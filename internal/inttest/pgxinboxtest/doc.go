// Package pgxinboxtest counts what pgxinbox costs on the wire.
package pgxinboxtest
