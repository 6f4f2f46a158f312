//go:build !linux

package main

import "syscall"

// dieWithParent: a child notices the end of its parent by the end of its standard
// input.
func dieWithParent() *syscall.SysProcAttr { return nil }
