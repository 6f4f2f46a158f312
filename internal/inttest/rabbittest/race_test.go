//go:build race

package rabbittest

func init() { raceDetector = true }
