package projections

import (
	"context"
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
)

// keptStatements is how many prepared statements a connection keeps. There are some 40 queries; a
// list with filters has a text for each kind of filter.
const keptStatements = 64

// preparing opens connections that keep the statements of their queries prepared: preparing one
// takes longer than looking up a row with it.
type preparing struct{ driver.Connector }

// newPreparing is the connector for [database/sql.OpenDB].
func newPreparing(dsn string) (driver.Connector, error) {
	c, err := sqlite.NewConnector(dsn)
	return preparing{c}, err
}

// Connect implements [driver.Connector].
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := c.(sqliteConn)
	if !ok {
		return nil, errors.Join(errors.New("the SQLite driver lacks what the read model needs"), c.Close())
	}
	return &preparedConn{sqliteConn: whole, kept: map[string]*keptStmt{}}, nil
}

// sqliteConn is what package database/sql uses of a connection.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// preparedConn is a connection that keeps the statements of its latest queries. Like every
// connection of a driver it is for one goroutine at a time.
type preparedConn struct {
	sqliteConn
	kept map[string]*keptStmt
	used uint64 // counts the queries
}

type keptStmt struct {
	driver.StmtQueryContext
	close func() error
	busy  bool   // its rows are being read
	last  uint64 // the query that used it last
}

// QueryContext implements [driver.QueryerContext]. A query that runs while the rows of the same
// query are being read is prepared anew.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s.busy {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &keptRows{rows, s}, nil
}

// statement returns the statement of a query, and prepares it if needed.
func (c *preparedConn) statement(ctx context.Context, query string) (*keptStmt, error) {
	c.used++
	s := c.kept[query]
	if s == nil {
		made, err := c.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		asks, ok := made.(driver.StmtQueryContext)
		if !ok {
			return nil, errors.Join(errors.New("the SQLite driver's statements take no context"), made.Close())
		}
		s = &keptStmt{StmtQueryContext: asks, close: made.Close}
		if err := c.makeRoom(); err != nil {
			return nil, errors.Join(err, s.close())
		}
		c.kept[query] = s
	}
	s.last = c.used
	return s, nil
}

// makeRoom closes the statement that was not used for the longest time, if there are enough.
func (c *preparedConn) makeRoom() error {
	if len(c.kept) < keptStatements {
		return nil
	}
	oldest := ""
	for query, s := range c.kept {
		if !s.busy && (oldest == "" || s.last < c.kept[oldest].last) {
			oldest = query
		}
	}
	s := c.kept[oldest]
	if s == nil {
		return nil // all are being read: one more does no harm
	}
	delete(c.kept, oldest)
	return s.close()
}

// Close implements [driver.Conn].
func (c *preparedConn) Close() error {
	var err error
	for _, s := range c.kept {
		err = errors.Join(err, s.close())
	}
	return errors.Join(err, c.sqliteConn.Close())
}

// keptRows are rows of a kept statement.
type keptRows struct {
	driver.Rows
	of *keptStmt
}

// Close implements [driver.Rows].
func (r *keptRows) Close() error {
	r.of.busy = false
	return r.Rows.Close()
}
