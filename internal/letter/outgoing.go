package letter

import (
	"maps"
	"strconv"
	"strings"
	"time"
)

// MaxHistory is the longest HeaderHistory, in bytes. Older lines are dropped.
const MaxHistory = 4 << 10

// Broker reports whether a header belongs to the broker and must not be sent
// again: x-death, x-first-death-*, x-last-death-*, x-delivery-count, CC, BCC.
func Broker(name string) bool {
	switch name {
	case headerDeath, headerDeliveryCount, headerCC, headerBCC:
		return true
	}
	return strings.HasPrefix(name, prefixFirstDeath) || strings.HasPrefix(name, prefixLastDeath)
}

// Ours reports whether a header is one of Sekali's.
func Ours(name string) bool { return strings.HasPrefix(name, Prefix) }

// Outgoing gives properties and headers with which d is published again.
//
// Headers keep their types; those of the broker are left out and what x-death
// told goes into HeaderHistory. The properties user-id and expiration are moved
// into headers of our own. set holds the message's present text headers: of
// those, the ones of Sekali replace what the delivery carried, and ours that are
// not in it are dropped. Neither d nor set is changed.
func Outgoing(d *Delivery, set map[string]string) (Properties, map[string]any) {
	props, headers := d.Properties, make(map[string]any, len(d.Headers)+len(set))
	maps.Copy(headers, d.Headers)
	maps.DeleteFunc(headers, func(name string, v any) bool {
		if Broker(name) {
			return true
		}
		text, hasText := Text(v)
		now, kept := set[name]
		return Ours(name) && hasText && (!kept || now != text)
	})
	for name, v := range set {
		if _, kept := headers[name]; Ours(name) && !kept {
			headers[name] = v
		}
	}
	move(headers, HeaderUserID, &props.UserID)
	move(headers, HeaderExpiration, &props.Expiration)
	if lines := history(d.Headers[headerDeath]); lines != "" {
		old, _ := Text(headers[HeaderHistory])
		headers[HeaderHistory] = CutHistory(lines + old)
	}
	return props, headers
}

func move(headers map[string]any, name string, property *string) {
	if *property != "" {
		headers[name] = *property
		*property = ""
	}
}

// history turns x-death into lines, newest first as the broker orders them.
func history(death any) string {
	entries, _ := death.([]any)
	var b strings.Builder
	for _, e := range entries {
		table, ok := e.(map[string]any)
		if !ok {
			continue
		}
		at, _ := table["time"].(time.Time)
		reason, _ := Text(table["reason"])
		queue, _ := Text(table["queue"])
		count, _ := Int(table["count"])
		b.WriteString(at.UTC().Format(time.RFC3339) + " " + reason + " " + strconv.Quote(queue) + " " + strconv.FormatInt(count, 10) + "\n")
	}
	return b.String()
}

// CutHistory keeps whole lines from the front, at most MaxHistory bytes.
func CutHistory(s string) string {
	if len(s) <= MaxHistory {
		return s
	}
	return s[:strings.LastIndexByte(s[:MaxHistory], '\n')+1]
}
