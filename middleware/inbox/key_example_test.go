package inbox_test

import (
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

type order struct {
	tenant, messageID, body string
}

func (o order) Header(name string) (any, bool) { return o.tenant, name == "tenant" }
func (o order) MessageID() string              { return o.messageID }
func (o order) Body() []byte                   { return []byte(o.body) }

func ExampleParseKey() {
	key, err := inbox.ParseKey("join(header:tenant, json:/order/id), message-id")
	if err != nil {
		panic(err)
	}
	fmt.Println(key)
	for _, o := range []order{
		{tenant: "acme", messageID: "m1", body: `{"order":{"id":9007199254740993}}`},
		{tenant: "acme", messageID: "m2", body: `{"order":{"id":9007199254740992}}`},
		{tenant: "acme", messageID: "m3", body: `{"order":{}}`},
		{tenant: "acme", body: `{"order":{}}`},
	} {
		fmt.Println(key.Of(o))
	}
	// Output:
	// join(header:tenant, json:/order/id), message-id
	// acme|9007199254740993 <nil>
	// acme|9007199254740992 <nil>
	// m3 <nil>
	//  join: json:/order/id: the body has no such member; message-id is absent: message has no idempotency key: send an event_id header or a message id, or choose a business key
}

func ExampleParseKey_fault() {
	_, err := inbox.ParseKey("header:event_id, json:order/id")
	fmt.Println(err)
	// Output:
	// key rule "header:event_id, json:order/id": position 23: pointer "order/id" must begin with a slash: write for example json:/order/id
}

func ExampleKeyFunc() {
	key := inbox.FirstOf(
		inbox.KeyFunc("payment", func(m inbox.Message) (string, error) {
			if m.MessageID() == "heartbeat" {
				return "", inbox.Skip
			}
			return inbox.FrameKey("payment", m.MessageID()), nil
		}),
		inbox.DefaultKey,
	)
	fmt.Println(key)
	fmt.Println(key.Of(order{messageID: "7"}))
	fmt.Println(key.Of(order{messageID: "heartbeat"}))
	// Output:
	// func:payment, header:event_id, message-id
	// payment|7 <nil>
	//  skip this message
}
