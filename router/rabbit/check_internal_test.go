package rabbit

import (
	"strings"
	"testing"
)

// What a delivery limit means differs from version to version.
func TestDeliveryLimitsAreReadAsTheServerReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		major    int
		argument any
		policy   any
		want     string // part of the DLQ's fault; "" for none
	}{
		"3, nothing said":                    {3, nil, nil, ""},
		"3, policy":                          {3, nil, 5.0, `"delivery-limit":1000000000`},
		"3, policy that repaired":            {3, nil, 1e9, ""},
		"3, -1 drops at once":                {3, -1.0, nil, "crashed with it once"},
		"4, nothing said is 20":              {4, nil, nil, `crashed with it 21 times: rabbitmqctl set_policy -p 'v' --priority 100 --apply-to queues 'q' '^q$' '{"delivery-limit":-1}'`},
		"4, -1":                              {4, -1.0, nil, ""},
		"4, -1 by policy":                    {4, nil, -1.0, ""},
		"4, -1 by policy beside an argument": {4, 10.0, -1.0, "crashed with it 11 times"},
		"4, argument":                        {4, 10.0, nil, "declare it without x-delivery-limit or with -1"},
	} {
		t.Run(name, func(t *testing.T) {
			q := queueInfo{Name: "q", Type: "quorum", server: serverVersion{major: c.major}, vhost: "v", Arguments: map[string]any{}, Policies: map[string]any{}}
			if c.argument != nil {
				q.Arguments["x-delivery-limit"] = c.argument
			}
			if c.policy != nil {
				q.Policies["delivery-limit"] = c.policy
			}
			k := &checker{}
			k.letters(q)
			got := ""
			for _, f := range k.found {
				got += f.String()
			}
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
