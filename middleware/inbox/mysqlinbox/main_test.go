package mysqlinbox_test

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestMain(m *testing.M) {
	// The driver writes of every connection that these tests break.
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
