package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/sekali-mq/sekali/internal/letter"
	"github.com/sekali-mq/sekali/middleware/inbox"
	"github.com/sekali-mq/sekali/router/rabbit"
)

// kind of a letter, by what must become of it.
type kind int

const (
	fresh     kind = iota // new: one effect
	failsOnce             // new, and dies once more after its first redrive: one effect
	keyless               // no key: one effect
	unproven              // a key, and no proof: one effect
	done                  // processed before it died: its one effect stays
	conflict              // its key was used for another body: none
	kinds
)

// name of the effect of a letter.
func name(i int) string { return fmt.Sprintf("effect-%06d", i) }

func kindOf(i int) kind { return kind(i % int(kinds)) }

// effects that a letter must have in the end.
func (k kind) effects() int {
	if k == conflict {
		return 0
	}
	return 1
}

// die puts letters into the dead letter queue, as a consumer's stack would have.
func (s *storming) die(ctx context.Context, pub *rabbit.Publisher) error {
	stats, err := s.box.Stats(ctx, s.queue)
	if err != nil {
		return err
	}
	claimedAt := stats.Now.UTC().Format(time.RFC3339Nano)
	msgs := make([]*message.Message, s.letters)
	for i := range msgs {
		body, key := []byte(name(i)), fmt.Sprintf("key-%d", i)
		switch kindOf(i) {
		case done:
			if err := s.claim(ctx, key, body, true); err != nil {
				return err
			}
		case conflict:
			if err := s.claim(ctx, key, []byte("another body"), false); err != nil {
				return err
			}
		case fresh, failsOnce, keyless, unproven, kinds:
		}
		h := map[string]any{
			"event_id": key, "n": int64(i), letter.HeaderReason: "died in a storm", letter.HeaderConsumer: s.queue, letter.HeaderQueue: s.queue,
			letter.HeaderLetterKey: key, letter.HeaderFingerprint: hex.EncodeToString(inbox.Fingerprint(body)), letter.HeaderClaimedAt: claimedAt,
		}
		switch kindOf(i) {
		case keyless:
			delete(h, "event_id")
			delete(h, letter.HeaderLetterKey)
			delete(h, letter.HeaderClaimedAt)
		case unproven:
			delete(h, letter.HeaderClaimedAt)
		case fresh, failsOnce, done, conflict, kinds:
		}
		msgs[i] = message.NewMessage("", body)
		for name, v := range h {
			if text, ok := letter.Text(v); ok {
				msgs[i].Metadata[name] = text
			}
		}
		msgs[i].SetContext(letter.WithDelivery(ctx, &letter.Delivery{Headers: h, Body: body}))
	}
	return errors.Join(pub.PublishEach(ctx, rabbit.DeadLetterQueue(s.queue), msgs...)...)
}

// claim is what a consumer did before.
func (s *storming) claim(ctx context.Context, key string, body []byte, effect bool) error {
	_, err := s.box.Do(ctx, inbox.Claim{Consumer: s.queue, Key: key, Fingerprint: inbox.Fingerprint(body)}, func(ctx context.Context) error {
		if !effect {
			return nil
		}
		return s.effect(ctx, string(body))
	})
	return err
}

func (s *storming) effect(ctx context.Context, name string) error {
	tx, err := inbox.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1)", name)
	return err
}

// handle is the consumer: some letters die once more.
func (s *storming) handle(msg *message.Message) error {
	effect := string(msg.Payload)
	var i int
	if _, err := fmt.Sscanf(effect, "effect-%d", &i); err == nil && kindOf(i) == failsOnce {
		if _, again := s.failed.LoadOrStore(i, true); !again {
			return inbox.Permanent(errors.New("dies once more"))
		}
	}
	return s.effect(msg.Context(), effect)
}
