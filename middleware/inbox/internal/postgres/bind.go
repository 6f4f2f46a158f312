package postgres

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/sekali-mq/sekali/middleware/inbox/internal/sqlstore"
)

// Parameters binds values as $1, $2.
func Parameters() *sqlstore.Binder {
	return &sqlstore.Binder{Mark: func(n int) string { return "$" + strconv.Itoa(n) }}
}

// Literals writes values into the text.
func Literals() *sqlstore.Binder { return &sqlstore.Binder{Literal: literal} }

// literal writes a value into the text so that it means the same whatever
// standard_conforming_strings says. Both drivers speak UTF-8 to the server, where
// no byte of a longer character can be a quote.
func literal(v any) string {
	switch v := v.(type) {
	case string:
		q := "'" + strings.ReplaceAll(v, "'", "''") + "'"
		if strings.Contains(v, `\`) {
			return " E" + strings.ReplaceAll(q, `\`, `\\`)
		}
		return q
	case []byte:
		if v == nil {
			return "NULL"
		}
		return "decode('" + hex.EncodeToString(v) + "', 'hex')"
	default:
		return fmt.Sprint(v)
	}
}
