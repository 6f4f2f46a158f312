package pginbox_test

import (
	"context"
	"testing"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

// A connection on which nothing can be written, as to a server that was demoted
// in a failover, is not used again: the next one may lead to the new primary.
func TestReadOnlyConnectionIsGivenUp(t *testing.T) {
	// lib/pq begins every transaction READ WRITE, which only a standby refuses.
	box := boxOn(t, "pgx", testservices.NewPostgresDatabase(t), pginbox.Config{})
	if out, err := box.Do(t.Context(), inbox.Claim{Consumer: "c", Key: "a"}, func(ctx context.Context) error {
		return send(ctx, "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
	}); out != inbox.Processed {
		t.Fatalf("%s, %v", out, err)
	}
	c := inbox.Claim{Consumer: "c", Key: "b"}
	none := func(context.Context) error { return nil }
	if out, err := box.Do(t.Context(), c, none); out != inbox.Failed || inbox.ClassOf(err) != inbox.ClassDown {
		t.Errorf("on the read-only connection: %s, class %s: %v", out, inbox.ClassOf(err), err)
	}
	if out, err := box.Do(t.Context(), c, none); out != inbox.Processed {
		t.Errorf("afterwards: %s, %v", out, err)
	}
}
