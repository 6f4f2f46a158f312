package letter

import "strings"

// slashes keeps consumer names with slashes apart: without it "a/b/k" would be
// key "b/k" of consumer "a" as well.
var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// GivenKey is the value of HeaderKey: a key for one consumer only.
func GivenKey(consumer, key string) string { return slashes.Replace(consumer) + "/" + key }

// KeyFor reads a value of HeaderKey as the consumer with these names, present
// and former ones, reads it. False when it is for somebody else.
func KeyFor(value string, names ...string) (key string, ok bool) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if key, ok := strings.CutPrefix(value, slashes.Replace(name)+"/"); ok && strings.Trim(key, " \t") != "" {
			return key, true
		}
	}
	return "", false
}
