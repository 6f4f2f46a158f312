package main

import (
	"fmt"
	"strings"
)

// allowance is a skip that does not fail the run.
type allowance struct{ pkg, test, reason string }

// parseAllowed reads lines of package, test and reason, separated by spaces. Lines that begin with # are comments.
func parseAllowed(text string) ([]allowance, error) {
	var all []allowance
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		const most = 3 // the reason is the rest of the line
		if len(fields) < most {
			return nil, fmt.Errorf("line %d: want a package, a test and a reason, got %q", n+1, line)
		}
		all = append(all, allowance{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return all, nil
}

// allows returns the reason for which the test may be skipped. A test allows its subtests too.
func allows(all []allowance, pkg, test string) (string, bool) {
	for _, a := range all {
		if a.pkg == pkg && (a.test == test || strings.HasPrefix(test, a.test+"/")) {
			return a.reason, true
		}
	}
	return "", false
}
