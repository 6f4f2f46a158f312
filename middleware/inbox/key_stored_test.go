package inbox

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzStoredKey(f *testing.F) {
	f.Add("k", "k ")
	f.Add("Evt-ABC", "evt-abc")
	f.Add("a\x00b", "a\x01b")
	f.Add("a\xffb", "a\ufffdb")
	f.Add("sha256:", StoredKey("sha256:"))
	f.Add(strings.Repeat("a", 200), strings.Repeat("a", 201))
	f.Add(strings.Repeat("a", 201), StoredKey(strings.Repeat("a", 201)))
	f.Add(strings.Repeat("😀", 50), strings.Repeat("😀", 51))
	f.Add("é", "e\u0301")
	f.Add("a\x7f", "a\u0080")
	f.Fuzz(func(t *testing.T, a, b string) {
		sa, sb := StoredKey(a), StoredKey(b)
		if (sa == sb) != (a == b) {
			t.Errorf("%q and %q are stored as %q and %q", a, b, sa, sb)
		}
		if again := StoredKey(a); again != sa {
			t.Errorf("%q is stored as %q, then as %q", a, sa, again)
		}
		if len(sa) > MaxKeyBytes || !utf8.ValidString(sa) || strings.ContainsFunc(sa, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q is stored as %q, which not every database takes", a, sa)
		}
		if sa != a && !strings.HasPrefix(sa, "sha256:") {
			t.Errorf("%q is stored as %q, neither itself nor a hash", a, sa)
		}
	})
}
