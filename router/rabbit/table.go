package rabbit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/sekali-mq/sekali/internal/letter"
)

// maxDepth is how deep the client reads nested arrays and tables.
const maxDepth = 32

// neutral gives a header table in the form that knows no client. t is not
// changed; what needs no conversion is shared with it.
func neutral(t amqp.Table) map[string]any {
	var out map[string]any
	for name, v := range t {
		converted, changed := neutralValue(v)
		if !changed {
			continue
		}
		if out == nil {
			out = maps.Clone(map[string]any(t))
		}
		out[name] = converted
	}
	if out == nil {
		return t
	}
	return out
}

func neutralValue(v any) (_ any, changed bool) {
	switch v := v.(type) {
	case amqp.Table:
		return neutral(v), true
	case []any:
		var out []any
		for i := range v {
			converted, changed := neutralValue(v[i])
			if !changed {
				continue
			}
			if out == nil {
				out = slices.Clone(v)
			}
			out[i] = converted
		}
		if out != nil {
			return out, true
		}
	case amqp.Decimal:
		return letter.Decimal{Scale: v.Scale, Value: v.Value}, true
	}
	return v, false
}

// deepClone copies a header table, or a value in one, with all that it holds.
func deepClone(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		if v == nil {
			return v
		}
		out := make(amqp.Table, len(v))
		for name, element := range v {
			out[name] = deepClone(element)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = deepClone(out[i])
		}
		return out
	case []byte:
		return slices.Clone(v)
	}
	return v
}

// wire gives headers as the client writes them, and their size on the wire. It
// refuses what cannot be carried without loss, naming the header.
func wire(headers map[string]any) (amqp.Table, int, error) {
	if len(headers) == 0 {
		return nil, 0, nil
	}
	return wireTable(headers, 0)
}

func wireTable(m map[string]any, depth int) (amqp.Table, int, error) {
	if depth > maxDepth {
		return nil, 0, fmt.Errorf("nested deeper than %d: %w", maxDepth, ErrBadHeader)
	}
	t, size := make(amqp.Table, len(m)), 4
	for name, v := range m {
		if len(name) > maxShort {
			return nil, 0, fmt.Errorf("header name %.40q... has %d bytes, at most %d fit: %w", name, len(name), maxShort, ErrTooLarge)
		}
		converted, n, err := wireValue(v, depth)
		if err != nil {
			return nil, 0, fmt.Errorf("header %q: %w", name, err)
		}
		t[name] = converted
		size += 1 + len(name) + 1 + n
	}
	return t, size, nil
}

func wireValue(v any, depth int) (any, int, error) {
	switch v := v.(type) {
	case nil:
		return v, 0, nil
	case bool, int8, uint8:
		return v, 1, nil
	case int16, uint16:
		return v, 2, nil
	case int32, uint32, float32:
		return v, 4, nil
	case int64, float64, time.Time:
		return v, 8, nil
	case int:
		return int64(v), 8, nil // the client would cut it to 32 bits
	case string:
		return v, 4 + len(v), nil
	case []byte:
		return v, 4 + len(v), nil
	case amqp.Decimal:
		return v, 5, nil
	case letter.Decimal:
		return amqp.Decimal{Scale: v.Scale, Value: v.Value}, 5, nil
	case amqp.Table:
		return wireNested(v, depth)
	case map[string]any:
		return wireNested(v, depth)
	case []any:
		if depth >= maxDepth {
			return nil, 0, fmt.Errorf("nested deeper than %d: %w", maxDepth, ErrBadHeader)
		}
		out, size := make([]any, len(v)), 4
		for i := range v {
			converted, n, err := wireValue(v[i], depth+1)
			if err != nil {
				return nil, 0, fmt.Errorf("element %d: %w", i, err)
			}
			out[i], size = converted, size+1+n
		}
		return out, size, nil
	}
	return nil, 0, fmt.Errorf("type %T: use string, bool, a sized integer up to int64, float32, float64, time.Time, []byte, []any or a table: %w", v, ErrBadHeader)
}

func wireNested(m map[string]any, depth int) (any, int, error) {
	t, n, err := wireTable(m, depth+1)
	return t, n, err
}
