package pgxinbox

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Exec is that of pgx.Tx, guarded.
func (g *guard) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := g.enter(); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer g.leave()
	return g.exec(ctx, sql, args)
}

// exec runs a statement with the turn held.
func (g *guard) exec(ctx context.Context, sql string, args []any) (pgconn.CommandTag, error) {
	ms, err := g.s.admit(sql)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	g.s.points.Send(ms, g.s.doomed)
	ctx, release := g.s.bound(ctx)
	defer release()
	tag, err := g.s.tx.Exec(ctx, sql, g.s.judging(args)...)
	return tag, g.s.seen(ms, err)
}

// Query is that of pgx.Tx, guarded. What is left open when the handler returns is
// closed.
func (g *guard) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return g.query(ctx, sql, args)
}

// QueryRow is that of pgx.Tx, guarded. A refusal comes out of Scan, as every error
// of a pgx.Row does.
func (g *guard) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := g.query(ctx, sql, args) // they bear the error
	return &row{rows}
}

func (g *guard) query(ctx context.Context, sql string, args []any) (*rows, error) {
	if err := g.enter(); err != nil {
		return failedRows(err), err
	}
	defer g.leave()
	ms, err := g.s.admit(sql)
	if err != nil {
		return failedRows(err), err
	}
	g.s.points.Send(ms, g.s.doomed)
	ctx, release := g.s.bound(ctx)
	inner, err := g.s.tx.Query(ctx, sql, g.s.judging(args)...)
	if err != nil {
		release()
		err = g.s.doom(err)
		return failedRows(err), err
	}
	r := &rows{s: g.s, inner: inner, marks: ms, release: release}
	g.s.open = r
	return r, nil
}

// Prepare is that of pgx.Tx, guarded: the text is judged now.
func (g *guard) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := g.enter(); err != nil {
		return nil, err
	}
	defer g.leave()
	if _, err := g.s.admit(sql); err != nil {
		return nil, err
	}
	ctx, release := g.s.bound(ctx)
	defer release()
	sd, err := g.s.tx.Prepare(ctx, name, sql)
	return sd, g.s.seen(nil, err)
}

// CopyFrom is that of pgx.Tx, guarded.
func (g *guard) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := g.enter(); err != nil {
		return 0, err
	}
	defer g.leave()
	if _, err := g.s.admit("copy"); err != nil {
		return 0, err
	}
	ctx, release := g.s.bound(ctx)
	defer release()
	n, err := g.s.tx.CopyFrom(ctx, table, columns, src)
	return n, g.s.seen(nil, err)
}

// judging has the text judged that a rewriter among the arguments makes.
func (s *session) judging(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			continue
		case pgx.QueryRewriter:
			args = slices.Clone(args)
			args[i] = &rewriter{s: s, inner: arg}
			continue
		}
		break // options come first
	}
	return args
}

// rewriter is a handler's, with its result judged.
type rewriter struct {
	s     *session
	inner pgx.QueryRewriter
}

// RewriteQuery runs with the turn held, on the way to the server.
func (r *rewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	switch r.inner.(type) {
	case pgx.NamedArgs, pgx.StrictNamedArgs:
	default:
		r.s.raw.Store(true) // it is given the connection
	}
	sql, args, err := r.inner.RewriteQuery(ctx, conn, sql, args)
	if err == nil {
		_, err = r.s.admit(sql)
	}
	return sql, args, err
}
