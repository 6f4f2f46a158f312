package main

import "syscall"

// dieWithParent has the kernel kill a child when its parent dies, however it
// dies. A process group of their own keeps Ctrl-C from the children: the parent
// ends them.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
