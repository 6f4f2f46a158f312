// Package source opens the databases that an operator names by a DSN, and says
// in one sentence what is wrong with one, or with a broker's URL, and how to
// repair it. No text of this package holds any part of a DSN but the address
// behind it.
package source
