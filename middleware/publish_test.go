package middleware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/middleware"
)

type panicking struct{}

func (panicking) Publish(string, ...*message.Message) error { panic("no channel") }
func (panicking) Close() error                              { return nil }

func TestTrustMakesAnErrorOfAPanic(t *testing.T) {
	errs := middleware.Trust(panicking{}).PublishEach(context.Background(), "letters", message.NewMessage("m", nil))
	if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), "no channel") {
		t.Errorf("errors %v", errs)
	}
}
