package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// exactly wants one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if err := atLeast(len(names), names...)(nil, args); err != nil {
			return err
		}
		if len(args) > len(names) {
			return usagef("unexpected argument %q: give %s only, and quote what has blanks in it", args[len(names)], strings.Join(names, " "))
		}
		return nil
	}
}

// atLeast wants the first n arguments.
func atLeast(n int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s is missing", names[len(args)])
		}
		for i, arg := range args {
			if strings.TrimSpace(arg) == "" {
				return usagef("argument %d is empty", i+1)
			}
		}
		return nil
	}
}
