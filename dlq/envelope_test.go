package dlq

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"
)

// every is a message with every type that AMQP has.
func every() *envelope {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	return &envelope{AMQP: true, Message: Message{
		UUID: "uuid", Exchange: "ex", RoutingKey: "rk",
		Properties: Properties{
			ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 9, CorrelationID: "c", ReplyTo: "r",
			Expiration: "60000", MessageID: "m\xff", Timestamp: at, Type: "t", UserID: "u", AppID: "a",
		},
		Headers: map[string]any{
			"nil": nil, "true": true, "false": false, "i8": int8(-8), "u8": uint8(200), "i16": int16(-16), "u16": uint16(65535),
			"i32": int32(-32), "u32": uint32(1 << 31), "i64": int64(math.MinInt64), "f32": float32(0.1), "f64": math.Inf(-1),
			"dec": Decimal{Scale: 3, Value: -12345}, "text": "\x00not \xff UTF-8", "bytes": []byte{0, 255}, "at": at, "early": time.Unix(-1<<40, 0).UTC(),
			"list": []any{int32(1), nil, "x", []any{}, map[string]any{"in": []byte{1}}}, "table": map[string]any{"": map[string]any{}}, "": "no name",
		},
	}}
}

func TestEveryHeaderTypeComesBackAsItWas(t *testing.T) {
	e := every()
	b, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeEnvelope(b)
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Fatalf("%v\n got %#v\nwant %#v", err, got, e)
	}
	e.Headers["nan"] = math.Float64frombits(0x7ff8000000000abc) // not equal to itself: its bits count
	b, _ = e.encode()
	got, err = decodeEnvelope(b)
	if f, ok := got.Headers["nan"].(float64); err != nil || !ok || math.Float64bits(f) != 0x7ff8000000000abc {
		t.Errorf("NaN came back as %v, %v", got.Headers["nan"], err)
	}
}

func TestWhatAMQPDoesNotKnowIsRefusedNotChanged(t *testing.T) {
	deep := any("x")
	for range maxDepth + 2 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{"uint64": uint64(1), "strings": []string{"a"}, "deep": deep, "func": func() {}} {
		if _, err := (&envelope{Message: Message{Headers: map[string]any{name: v}}}).encode(); err == nil {
			t.Errorf("%s was stored", name)
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	b, _ := every().encode()
	f.Add(b)
	f.Add([]byte{envelopeVersion, 0})
	f.Add(bytes.Repeat([]byte{envelopeVersion, tagArray, 255}, 9))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEnvelope(b)
		if err != nil {
			return
		}
		again, err := e.encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		twice, err := decodeEnvelope(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		// Bytes, since NaN is not equal to itself.
		if b, _ := twice.encode(); !bytes.Equal(again, b) {
			t.Fatalf("changed: %x, then %x", again, b)
		}
	})
}
