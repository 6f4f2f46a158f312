package inboxtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/sekali-mq/sekali/middleware/inbox"
)

// A handler that ends the transaction itself, past the guard, is found out,
// whatever it returns: the run failed, for an operator. A claim that was
// committed so is marked: later copies are conflicts, never duplicates.
func handlerEndsTheTransaction(h *test) {
	if h.db.Raw == nil {
		h.Skip("the store gives no raw transaction")
	}
	type ending struct {
		statements []string
		committed  bool
	}
	endings := []ending{
		{[]string{"COMMIT"}, true},
		{[]string{"ROLLBACK"}, false},
		{[]string{"COMMIT", "BEGIN"}, true},
		{[]string{"ROLLBACK", "BEGIN"}, false},
		{[]string{"COMMIT", "BEGIN", h.fail("k")}, true},
	}
	for _, s := range h.s.c.Commits {
		endings = append(endings, ending{[]string{s}, true})
	}
	for i, c := range endings {
		for _, ret := range []error{nil, errors.New("no")} {
			name := fmt.Sprintf("%d-%v", i, ret == nil)
			h.wantErr(inbox.ClassPermanent, inbox.ErrSplit, h.claim(name), func(ctx context.Context) error {
				if err := h.write(name)(ctx); err != nil {
					return err
				}
				for _, s := range c.statements {
					_ = h.db.Raw(ctx, s) // the last one may fail
				}
				return ret
			})
			h.after(name, c.committed)
		}
	}
}

// The same with the raw transaction's own Commit and Rollback, where it is one
// of database/sql.
func handlerEndsTheRawTransaction(h *test) {
	if h.db.Raw == nil {
		h.Skip("the store gives no raw transaction")
	}
	for _, commit := range []bool{true, false} {
		for _, ret := range []error{nil, errors.New("no")} {
			name := fmt.Sprintf("%v-%v", commit, ret == nil)
			out, err := h.do(h.box, h.claim(name), func(ctx context.Context) error {
				tx, err := inbox.SQLTx(ctx)
				if err != nil {
					return err
				}
				if err := h.write(name)(ctx); err != nil {
					return err
				}
				if commit {
					err = tx.Commit()
				} else {
					err = tx.Rollback()
				}
				return errors.Join(err, ret)
			})
			h.checkErr(out, err, inbox.ClassPermanent, inbox.ErrSplit)
			h.after(name, commit)
		}
	}
}

// after checks what a later copy becomes.
func (h *test) after(name string, committed bool) {
	h.Helper()
	if !committed {
		h.effects(name, 0)
		h.want(inbox.Processed, h.claim(name), h.write(name))
		h.effects(name, 1)
		return
	}
	recs, err := h.box.Lookup(h.ctx, h.claim(name))
	if err != nil || !recs[0].Split() {
		h.Errorf("look up %s: %+v, %v; want a split claim", name, recs, err)
	}
	out, err := h.do(h.box, h.claim(name), h.never)
	if out != inbox.Conflict || !errors.Is(err, inbox.ErrSplit) {
		h.Errorf("later copy of %s: %s, %v", name, out, err)
	}
	h.effects(name, 1)
}

// A handler that uses the raw transaction as it should is committed and undone
// like any other, also when its deadline or an error comes between.
func rawTransactionWorks(h *test) {
	if h.db.Raw == nil {
		h.Skip("the store gives no raw transaction")
	}
	h.want(inbox.Processed, h.claim("k"), func(ctx context.Context) error { return h.db.Raw(ctx, h.insert("k")) })
	h.want(inbox.Duplicate, h.claim("k"), h.never)
	h.effects("k", 1)
	cause := errors.New("no")
	h.wantErr(inbox.ClassPlain, cause, h.claim("undone"), func(ctx context.Context) error {
		return errors.Join(cause, h.db.Raw(ctx, h.insert("undone")))
	})
	h.wantErr(inbox.ClassPermanent, nil, h.claim("undone"), func(ctx context.Context) error {
		return h.db.Raw(ctx, h.fail("undone"))
	})
	h.absent(h.claim("undone"))
	h.effects("undone", 0)
	h.want(inbox.Processed, h.claim("undone"), h.write("undone"))
}
