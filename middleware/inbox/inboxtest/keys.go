package inboxtest

import (
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// distinct keys: each names a message of its own on every database.
func distinct() []string {
	long := strings.Repeat("x", 10_000)
	keys := []string{
		"k", "K", "k ", " k", "k  ", "k\t", "k\n", "k\u00a0", // case and blanks
		"é", "e\u0301", "e", "E\u0301", "ß", "ss", "ı", "i", "İ", "I", "Å", "\u212b", // accents, folding, normal forms
		"😀", "😁", "\U0010ffff", "\ufeffk", "k\u200b", "０", // emoji, the last code point, BOM, zero width, full width
		"a\x00b", "a\x00", "a\x00c", "ab", "\x7f", "a\x1fb", // NUL and control characters
		"a\xffb", "a\xfeb", "a\ufffdb", "\xc3\x28", "\xed\xa0\x80", // not UTF-8
		"'", "''", `"`, "`", `\`, `\\`, `\'`, `';--`, "%", "_", "$1", "?", ":k", "${k}", "/*", "[k]", // SQL
		"7", "07", "007", "7.0", "7e0", "0x7", "+7", "null", "NULL", "true", "1", // numbers and words
		long[:199], long[:200], long[:201], long[:199] + "y", long[:200] + "y", long, long[:9_999] + "y", // length
		strings.Repeat("é", 100), strings.Repeat("é", 100) + "x", strings.Repeat("😀", 50), strings.Repeat("😀", 51),
		"sha256:", "sha256:k", "SHA256:k",
	}
	// What another key is stored as is a key too.
	return append(keys, inbox.StoredKey("a\x00b"), inbox.StoredKey(long), inbox.StoredKey("sha256:k"))
}

// Keys are compared byte by byte: case, accents, blanks, control characters,
// invalid UTF-8, length and look-alikes of stored hashes never merge two
// messages, and every key finds its own claim again.
func keysAreBytes(h *test) {
	keys := distinct()
	for _, k := range keys {
		h.want(inbox.Processed, h.claim(k), h.write("k"))
	}
	for _, k := range keys {
		h.want(inbox.Duplicate, h.claim(k), h.never)
	}
	h.effects("k", len(keys))
}

// An empty or blank key is no key: the message is given up, never claimed under
// "".
func blankKeys(h *test) {
	for _, k := range []string{"", " ", "\t", " \t "} {
		h.wantErr(inbox.ClassPermanent, inbox.ErrNoKey, h.claim(k), h.never)
	}
}

// Consumer names are compared byte by byte too, up to their full length; longer
// ones are refused, not cut.
func consumerNames(h *test) {
	full := h.consumer + strings.Repeat("n", inbox.MaxConsumerBytes-len(h.consumer))
	names := []string{
		h.consumer + "-a", h.consumer + "-A", h.consumer + "-a ", h.consumer + "-é", h.consumer + "-e\u0301",
		h.consumer + `-'"\%`, full, full[:len(full)-1],
	}
	for _, name := range names {
		h.register(h.box, name)
		h.want(inbox.Processed, inbox.Claim{Consumer: name, Key: "k"}, h.write("k"))
	}
	for _, name := range names {
		h.want(inbox.Duplicate, inbox.Claim{Consumer: name, Key: "k"}, h.never)
	}
	h.effects("k", len(names))
	if err := h.box.Register(h.ctx, inbox.Consumer{Name: full + "n"}); inbox.ClassOf(err) != inbox.ClassConfig {
		h.Errorf("register a name of %d bytes: %v", len(full)+1, err)
	}
}
