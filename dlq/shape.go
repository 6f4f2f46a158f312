package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/sekali-mq/sekali/internal/letter"
)

const (
	// maxShape is the longest shape, in bytes.
	maxShape = 400
	// idLength: words with a digit are ids from that length on; shorter ones keep
	// their letters.
	idLength = 6
	kindSize = 8
	// maskedTime is what shape makes of a time in UTC as time.RFC3339.
	maskedTime = "#T#Z"
)

// shape masks what differs between errors of one kind: the key, words with
// digits that look like ids, and numbers.
func shape(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, "#")
	}
	var b strings.Builder
	for len(text) > 0 && b.Len() <= 2*maxShape {
		n := strings.IndexFunc(text, func(r rune) bool { return !wordRune(r) })
		if n < 0 {
			n = len(text)
		}
		if n == 0 {
			_, n = utf8.DecodeRuneInString(text)
			b.WriteString(text[:n])
		} else {
			b.WriteString(maskWord(text[:n]))
		}
		text = text[n:]
	}
	out := b.String()
	for _, joint := range []string{"#-#", "#.#", "#:#", "##"} {
		for strings.Contains(out, joint) {
			out = strings.ReplaceAll(out, joint, "#")
		}
	}
	return clean(out, maxShape)
}

func wordRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r >= utf8.RuneSelf
}

func maskWord(word string) string {
	if !strings.ContainsAny(word, "0123456789") {
		return word
	}
	if len(word) >= idLength {
		return "#"
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, word)
}

// kind is the name of a group.
func kindOf(queue string, reason Reason, shape string) string {
	sum := sha256.Sum256([]byte(queue + "\x00" + string(reason) + "\x00" + shape))
	return hex.EncodeToString(sum[:kindSize])
}

// clean makes text that every database keeps: UTF-8 without NUL, at most n bytes.
func clean(text string, n int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// maxText bounds the texts of letters and of their events.
const maxText = letter.MaxReason
