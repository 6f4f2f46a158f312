package inbox

import (
	"errors"
	"strings"
	"testing"
)

func TestCloudEventsKeyIsSourceAndID(t *testing.T) {
	t.Parallel()
	const structured = "application/cloudevents+json"
	k := mustParse(t, "cloudevents")
	for name, c := range map[string]struct {
		m    keyMsg
		want string
		why  string
	}{
		"AMQP, colon":       {m: keyMsg{headers: hdr{"cloudEvents:source": "/shop", "cloudEvents:id": "1"}}, want: "/shop|1"},
		"AMQP, underscore":  {m: keyMsg{headers: hdr{"cloudEvents_source": "/shop", "cloudEvents_id": int64(1)}}, want: "/shop|1"},
		"ce-":               {m: keyMsg{headers: hdr{"ce-source": "/shop", "ce-id": "1"}}, want: "/shop|1"},
		"ce_":               {m: keyMsg{headers: hdr{"ce_source": []byte("/shop"), "ce_id": "1"}}, want: "/shop|1"},
		"another source":    {m: keyMsg{headers: hdr{"ce-source": "/stock", "ce-id": "1"}}, want: "/stock|1"},
		"framed":            {m: keyMsg{headers: hdr{"ce-source": "/shop|1", "ce-id": "~"}}, want: "/shop~11|~0"},
		"first full prefix": {m: keyMsg{headers: hdr{"cloudEvents:id": "9", "ce-source": "/shop", "ce-id": "1"}}, want: "/shop|1"},
		"not the message id": {
			m:   keyMsg{headers: hdr{"ce-source": "/shop"}, id: "1"},
			why: "header:ce-id is absent",
		},
		"prefixes not mixed": {m: keyMsg{headers: hdr{"cloudEvents:source": "/shop", "ce-id": "1"}}, why: "is absent"},
		"blank source":       {m: keyMsg{headers: hdr{"ce-source": " ", "ce-id": "1"}}, why: "header:ce-source is blank"},
		"nothing":            {m: keyMsg{}, why: "no source and id in headers"},
		"JSON body, binary mode": {
			m:   keyMsg{headers: hdr{"content-type": "application/json"}, body: `{"source":"/shop","id":"1"}`},
			why: "no source and id in headers",
		},
		"structured": {
			m:    keyMsg{headers: hdr{"content-type": structured}, body: `{"specversion":"1.0","id":"1","source":"/shop"}`},
			want: "/shop|1",
		},
		"structured, parameters and case": {
			m:    keyMsg{headers: hdr{"contentType": "Application/CloudEvents+JSON ; charset=UTF-8"}, body: `{"id":"1","source":"/shop"}`},
			want: "/shop|1",
		},
		"structured, said by the AMQP property": {
			m:    keyMsg{headers: hdr{"amqp-content-type": structured, "content-type": "text/plain"}, body: `{"id":"1","source":"/shop"}`},
			want: "/shop|1",
		},
		"structured: the body counts": {
			m:    keyMsg{headers: hdr{"Content-Type": structured, "ce-source": "/x", "ce-id": "2"}, body: `{"id":"1","source":"/shop"}`},
			want: "/shop|1",
		},
		"structured, headers do not help": {
			m:   keyMsg{headers: hdr{"content_type": structured, "ce-source": "/x", "ce-id": "2"}, body: `{"id":"1"}`},
			why: "source in the body: the body has no such member",
		},
		"structured, id a number": {m: keyMsg{headers: hdr{"content-type": structured}, body: `{"id":1,"source":"/shop"}`}, why: "id in the body: the value is a number"},
		"structured, id twice": {
			m:   keyMsg{headers: hdr{"content-type": structured}, body: `{"id":"1","source":"/shop","id":"2"}`},
			why: "twice",
		},
		"batch": {m: keyMsg{headers: hdr{"content-type": "application/cloudevents-batch+json"}, body: `[]`}, why: "only the format"},
		"avro":  {m: keyMsg{headers: hdr{"content-type": "application/cloudevents+avro"}}, why: "only the format"},
	} {
		got, err := k.Of(c.m)
		switch {
		case c.want != "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		case c.want == "" && (!errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), c.why)):
			t.Errorf("%s: %q, %v, want ErrNoKey and %q", name, got, err, c.why)
		}
	}
}
