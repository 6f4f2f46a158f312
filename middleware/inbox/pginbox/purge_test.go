package pginbox_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/sekali-mq/sekali/internal/testservices"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/middleware/inbox/pginbox"
)

// zoneChild tells a process that it is the one in another zone.
const zoneChild = "SEKALI_TEST_ZONE_CHILD"

// A purge compares times by the server's clock alone: whatever the zone of the
// process, of the session and of the database, what is 50 min old stays and what is
// 70 min old goes.
func TestPurgeInEveryTimeZone(t *testing.T) {
	testservices.Postgres(t)
	if zone := os.Getenv(zoneChild); zone != "" {
		if name, _ := time.Now().Zone(); name == "UTC" {
			t.Fatalf("the process is in UTC, want %s", zone)
		}
		purgeInZone(t, "pgx", zone)
		return
	}
	for _, zone := range []string{"Asia/Tokyo", "America/Los_Angeles"} {
		t.Run("session in "+zone, func(t *testing.T) { purgeInZone(t, "postgres", zone) })
		t.Run("process in "+zone, func(t *testing.T) {
			command := osexec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPurgeInEveryTimeZone$")
			command.Env = append(os.Environ(), "TZ="+zone, zoneChild+"="+zone)
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func purgeInZone(t *testing.T, driver, zone string) {
	t.Helper()
	dsn := testservices.NewPostgresDatabase(t)
	admin := open(t, driver, dsn)
	var name string
	if err := admin.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	exec(t, admin, "ALTER DATABASE "+name+" SET timezone = 'America/Los_Angeles'")
	db := open(t, driver, withOption(dsn, "-ctimezone="+zone))
	if err := pginbox.Migrate(t.Context(), db, pginbox.Config{}); err != nil {
		t.Fatal(err)
	}
	box, err := pginbox.Open(t.Context(), db, pginbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Register(t.Context(), inbox.Consumer{Name: "stock"}); err != nil {
		t.Fatal(err)
	}
	for _, age := range []int{50, 70} {
		exec(t, db, fmt.Sprintf("INSERT INTO processed_messages VALUES ('stock', '%d', now() - interval '%d minutes')", age, age))
	}
	p, err := box.Purge(t.Context(), "stock", inbox.PurgeOptions{Keep: time.Hour})
	if err != nil || p.Deleted != 1 {
		t.Errorf("purged %+v, %v", p, err)
	}
	recs, err := box.Lookup(t.Context(), inbox.Claim{Consumer: "stock", Key: "50"}, inbox.Claim{Consumer: "stock", Key: "70"})
	if err != nil || !recs[0].Found || recs[1].Found {
		t.Errorf("%+v, %v", recs, err)
	}
	if age := time.Since(p.Cutoff); age < time.Hour-time.Minute || age > time.Hour+time.Minute {
		t.Errorf("cut-off %s is %s ago", p.Cutoff, age)
	}
}
