package dlq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// The envelope is all of a message but its body, in an encoding of its own: JSON
// has fewer types than AMQP, and a header that comes back with another type can
// stop a consumer. One byte of version, one of flags, then fields in a fixed
// order; texts and byte strings have their length in front, header values a tag.
const (
	envelopeVersion = 1
	flagAMQP        = 1
	// maxDepth of nested arrays and tables; AMQP clients read 32.
	maxDepth = 64
)

// Tags of header values.
const (
	tagNil     = 'n'
	tagFalse   = '0'
	tagTrue    = '1'
	tagInt8    = 'b'
	tagUint8   = 'B'
	tagInt16   = 's'
	tagUint16  = 'u'
	tagInt32   = 'I'
	tagUint32  = 'i'
	tagInt64   = 'l'
	tagFloat32 = 'f'
	tagFloat64 = 'd'
	tagDecimal = 'D'
	tagString  = 'S'
	tagBytes   = 'x'
	tagTime    = 'T'
	tagArray   = 'A'
	tagTable   = 'F'
)

// envelope is what encode keeps of a message.
type envelope struct {
	// AMQP: it came with its types from AMQP; otherwise headers are metadata.
	AMQP bool
	Message
}

// encode writes all but the body. Equal messages have equal bytes.
func (e *envelope) encode() ([]byte, error) {
	b := []byte{envelopeVersion, 0}
	if e.AMQP {
		b[1] |= flagAMQP
	}
	p := &e.Properties
	for _, s := range []string{
		e.UUID, e.Exchange, e.RoutingKey, p.ContentType, p.ContentEncoding, p.CorrelationID, p.ReplyTo, p.Expiration, p.MessageID,
		p.Type, p.UserID, p.AppID,
	} {
		b = putText(b, s)
	}
	b = append(b, p.DeliveryMode, p.Priority)
	b, err := putValue(b, timeOrNil(p.Timestamp), 0)
	if err != nil {
		return nil, err
	}
	return putValue(b, e.Headers, 0)
}

func timeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func putText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putValue(b []byte, v any, depth int) (_ []byte, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("headers are nested deeper than %d", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(b, tagNil), nil
	case bool:
		if v {
			return append(b, tagTrue), nil
		}
		return append(b, tagFalse), nil
	case int8:
		return append(b, tagInt8, byte(v)), nil //nolint:gosec // the same bits
	case uint8:
		return append(b, tagUint8, v), nil
	case int16:
		return binary.BigEndian.AppendUint16(append(b, tagInt16), uint16(v)), nil //nolint:gosec // the same bits
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, tagUint16), v), nil
	case int32:
		return binary.BigEndian.AppendUint32(append(b, tagInt32), uint32(v)), nil //nolint:gosec // the same bits
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, tagUint32), v), nil
	case int64:
		return binary.BigEndian.AppendUint64(append(b, tagInt64), uint64(v)), nil //nolint:gosec // the same bits
	case float32:
		return binary.BigEndian.AppendUint32(append(b, tagFloat32), math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(b, tagFloat64), math.Float64bits(v)), nil
	case Decimal:
		return binary.BigEndian.AppendUint32(append(b, tagDecimal, v.Scale), uint32(v.Value)), nil //nolint:gosec // the same bits
	case string:
		return putText(append(b, tagString), v), nil
	case []byte:
		return putText(append(b, tagBytes), v), nil
	case time.Time:
		b = binary.BigEndian.AppendUint64(append(b, tagTime), uint64(v.Unix())) //nolint:gosec // the same bits
		return binary.BigEndian.AppendUint32(b, uint32(v.Nanosecond())), nil    //nolint:gosec // below a second
	case []any:
		b = binary.AppendUvarint(append(b, tagArray), uint64(len(v)))
		for _, element := range v {
			if b, err = putValue(b, element, depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	case map[string]any:
		b = binary.AppendUvarint(append(b, tagTable), uint64(len(v)))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if b, err = putValue(putText(b, name), v[name], depth+1); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	return nil, fmt.Errorf("a header holds a %T, which AMQP does not know", v)
}

var errEnvelope = errors.New("envelope is damaged")

// decode reads what encode wrote.
func decodeEnvelope(b []byte) (*envelope, error) {
	if len(b) < 2 || b[0] != envelopeVersion {
		return nil, fmt.Errorf("%w, or of a later version than this program", errEnvelope)
	}
	r := reader{b: b[2:]}
	e := &envelope{AMQP: b[1]&flagAMQP != 0}
	p := &e.Properties
	for _, s := range []*string{
		&e.UUID, &e.Exchange, &e.RoutingKey, &p.ContentType, &p.ContentEncoding, &p.CorrelationID, &p.ReplyTo, &p.Expiration, &p.MessageID,
		&p.Type, &p.UserID, &p.AppID,
	} {
		*s = string(r.text())
	}
	p.DeliveryMode, p.Priority = r.byte(), r.byte()
	p.Timestamp, _ = r.value(0).(time.Time)
	e.Headers, _ = r.value(0).(map[string]any)
	if r.bad || len(r.b) > 0 {
		return nil, errEnvelope
	}
	return e, nil
}

// reader walks an envelope; once it met a fault it gives zero values only.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) number(bytes uint64) (n uint64) {
	for _, b := range r.take(bytes) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (r *reader) length() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *reader) text() []byte { return r.take(r.length()) }

//nolint:gosec // the same bits, back to the type they had
func (r *reader) value(depth int) any {
	if depth > maxDepth {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	switch r.byte() {
	case tagNil:
		return nil
	case tagFalse:
		return false
	case tagTrue:
		return true
	case tagInt8:
		return int8(r.number(1))
	case tagUint8:
		return uint8(r.number(1))
	case tagInt16:
		return int16(r.number(2))
	case tagUint16:
		return uint16(r.number(2))
	case tagInt32:
		return int32(r.number(4))
	case tagUint32:
		return uint32(r.number(4))
	case tagInt64:
		return int64(r.number(8))
	case tagFloat32:
		return math.Float32frombits(uint32(r.number(4)))
	case tagFloat64:
		return math.Float64frombits(r.number(8))
	case tagDecimal:
		return Decimal{Scale: r.byte(), Value: int32(r.number(4))}
	case tagString:
		return string(r.text())
	case tagBytes:
		return slices.Clone(r.text())
	case tagTime:
		seconds := int64(r.number(8))
		return time.Unix(seconds, int64(r.number(4))).UTC()
	case tagArray:
		return r.array(depth)
	case tagTable:
		return r.table(depth)
	}
	r.bad = true
	return nil
}

func (r *reader) array(depth int) []any {
	n := r.length()
	if n > uint64(len(r.b)) { // each element takes a byte at least
		r.bad = true
		return nil
	}
	out := make([]any, 0, n)
	for range n {
		out = append(out, r.value(depth+1))
	}
	return out
}

func (r *reader) table(depth int) map[string]any {
	n := r.length()
	if n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	out := make(map[string]any, n)
	for range n {
		name := string(r.text())
		out[name] = r.value(depth + 1)
	}
	return out
}
