package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick of the times in /proc: 100 a second wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// process is a number in /proc; 0 is none, of which nothing is known. On systems without /proc all are.
type process int

func self() process { return process(os.Getpid()) }

// serverOf finds the process that listens on the URL's port; 0 when it is none of this machine, or another program, such as
// the proxy of a container.
func serverOf(rawURL, program string) process {
	u, err := url.Parse(rawURL)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0
	}
	sockets := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, _ := os.ReadFile(file) // absent: nothing listens
		for line := range strings.Lines(string(content)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !sockets[to] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		if name, err := os.ReadFile(filepath.Join(dir, "comm")); err != nil || strings.TrimSpace(string(name)) != program {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		return process(pid)
	}
	return 0
}

// stat is what /proc says of a process.
type stat struct {
	parent process
	cpu    time.Duration // its own and that of the children it has buried
}

func (p process) stat() (s stat, ok bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", int(p)))
	if err != nil {
		return s, false
	}
	// The name in parentheses may hold anything.
	f := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(f) < 15 {
		return s, false
	}
	parent, _ := strconv.Atoi(f[1])
	s.parent = process(parent)
	for _, field := range f[11:15] {
		n, _ := strconv.Atoi(field)
		s.cpu += time.Duration(n) * tick
	}
	return s, true
}

// cpu is the time of the process and all below it.
func (p process) cpu() (sum time.Duration) {
	if p == 0 {
		return 0
	}
	all := map[process]stat{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if s, ok := process(pid).stat(); ok {
			all[process(pid)] = s
		}
	}
	for q := range all {
		for up := q; up != 0; up = all[up].parent {
			if up == p {
				sum += all[q].cpu
				break
			}
		}
	}
	return sum
}

// loadAverage is the machine's load average of the last minute; 0 where it is not known.
func loadAverage() (l float64) {
	content, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(content)); len(f) > 0 {
		l, _ = strconv.ParseFloat(f[0], 64)
	}
	return l
}

// resident is the memory of the process, bytes; 0 where it is not known.
func (p process) resident() int64 {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", int(p)))
	f := strings.Fields(string(content))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n * int64(os.Getpagesize())
}
