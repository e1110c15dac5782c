package external

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// crashing returns a database whose driver calls step before and after each thing that it asks the
// database for.
func crashing(of driver.Driver, dsn string, step func()) *sql.DB {
	return sql.OpenDB(connector{of, dsn, step})
}

type connector struct {
	of   driver.Driver
	dsn  string
	step func()
}

func (c connector) Driver() driver.Driver { return c.of }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	is, err := c.of.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return conn{is, c.step}, nil
}

type conn struct {
	driver.Conn
	step func()
}

// around does something between two steps.
func around[T any](step func(), do func() (T, error)) (T, error) {
	step()
	defer step()
	return do()
}

func (c conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return around(c.step, func() (driver.Tx, error) {
		is, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
		return tx{is, c.step}, err
	})
}

func (c conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	is, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return stmt{is, c.step}, err
}

type stmt struct {
	driver.Stmt
	step func()
}

func (s stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return around(s.step, func() (driver.Result, error) { return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

func (s stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return around(s.step, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

type tx struct {
	driver.Tx
	step func()
}

func (t tx) Commit() error {
	_, err := around(t.step, func() (struct{}, error) { return struct{}{}, t.Tx.Commit() })
	return err
}
