// Package picture holds the project's shape in tests: which package may import which, and the modules that a user of each public
// package links. docs/design.md draws the same picture; a change of either is a decision, made here first.
package picture
