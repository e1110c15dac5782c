package projections

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// rowsAtOnce is how many rows one statement writes. With fewer, the statement costs more than the
// rows; with more, the driver's search for arguments does.
const rowsAtOnce = 8

// errExists: a task that was assumed to be new has a row.
var errExists = errors.New("the task has a row already")

// writer is the one writing connection. It is for one goroutine.
type writer struct {
	conn  *sql.Conn
	args  []any
	named []driver.NamedValue // args in the driver's form
}

// The statements that run for every task, each for rowsAtOnce rows and for a single row.
//
// A failure ends the transaction at once, so SQLite need not be able to undo the statement alone; but
// nothing may be written after it.
var loads, inserts, upserts = func() (load, insert, upsert [2]string) {
	var news []string
	for _, name := range columnNames[1:] {
		news = append(news, name+" = excluded."+name)
	}
	for i, n := range []int{rowsAtOnce, 1} {
		load[i] = "SELECT number, " + rowColumns + " FROM tasks WHERE id IN (" + repeat("?", n) + ")"
		insert[i] = "INSERT OR ROLLBACK INTO tasks (" + strings.Join(columnNames, ", ") + ") VALUES " + repeat("("+repeat("?", len(columnNames))+")", n)
		upsert[i] = insert[i] + " ON CONFLICT DO UPDATE SET " + strings.Join(news, ", ")
	}
	return load, insert, upsert
}()

// newWriter holds the store's writing connection.
func newWriter(ctx context.Context, s *Store) (*writer, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.write == nil {
		return nil, ErrClosed
	}
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &writer{conn: conn, args: make([]any, 0, rowsAtOnce*len(columnNames))}, nil
}

func repeat(s string, n int) string { return strings.Repeat(s+",", n-1) + s }

func (w *writer) close() error { return w.conn.Close() }

// transact runs f in a transaction, which ends before transact returns. After an error f must
// return: SQLite may have ended the transaction already, and further writes would be committed at
// once. The context of the statements never ends, because the driver would otherwise start a
// goroutine for each to watch it.
func (w *writer) transact(ctx context.Context, f func(ctx context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f(ctx)
	if err == nil {
		err = w.exec(ctx, "COMMIT")
	}
	if err != nil {
		_ = w.exec(ctx, "ROLLBACK") // fails if SQLite has rolled back by itself
	}
	return err
}

func (w *writer) exec(ctx context.Context, query string, args ...any) error {
	_, err := w.conn.ExecContext(ctx, query, args...)
	return err
}

// loadTasks replaces the tasks that have a row by their rows' content.
func (w *writer) loadTasks(ctx context.Context, form *rowForm, tasks []*change) error {
	for len(tasks) > 0 {
		load, n := loads[0], rowsAtOnce
		if len(tasks) < rowsAtOnce {
			load, n = loads[1], 1
		}
		w.args = w.args[:0]
		for _, c := range tasks[:n] {
			w.args = append(w.args, string(c.task.ID))
		}
		rows, err := w.conn.QueryContext(ctx, load, w.args...)
		if err != nil {
			return err
		}
		for rows.Next() {
			var number uint32
			t, err := scanTask(led[uint32]{rows, &number}, form)
			if err != nil {
				return errors.Join(err, rows.Close())
			}
			for _, c := range tasks[:n] {
				if c.task.ID == t.ID {
					c.task, c.has.Number = t, number
				}
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		tasks = tasks[n:]
	}
	return nil
}

// taskRows collects rows for one kind of statement and writes them when there are enough.
type taskRows struct {
	w    *writer
	stmt [2]string
	form *rowForm
	// docs holds the documents of the tasks, one behind the other; ends has the end of each.
	docs  []byte
	tasks [rowsAtOnce]*change
	ends  [rowsAtOnce]int
	n     int
}

func (r *taskRows) add(ctx context.Context, c *change) error {
	docs, err := r.form.Append(r.docs, &c.task)
	if err != nil {
		return fmt.Errorf("task %s: %w", c.task.ID, err)
	}
	r.docs = docs
	r.tasks[r.n], r.ends[r.n] = c, len(docs)
	if r.n++; r.n < rowsAtOnce {
		return nil
	}
	docText := r.take()
	r.w.args = r.w.args[:0]
	start := 0
	for i, c := range r.tasks {
		r.w.args = appendRow(r.w.args, c, docText[start:r.ends[i]])
		start = r.ends[i]
	}
	return r.w.execRows(ctx, r.stmt[0], r.w.args)
}

// flush writes the rows that are too few for a statement of many.
func (r *taskRows) flush(ctx context.Context) error {
	n := r.n
	docText := r.take()
	start := 0
	for i, c := range r.tasks[:n] {
		r.w.args = appendRow(r.w.args[:0], c, docText[start:r.ends[i]])
		start = r.ends[i]
		if err := r.w.execRows(ctx, r.stmt[1], r.w.args); err != nil {
			return err
		}
	}
	return nil
}

// take returns the documents, in one allocation, and clears the rows.
func (r *taskRows) take() string {
	text := string(r.docs)
	r.docs, r.n = r.docs[:0], 0
	return text
}

// execRows executes a statement with arguments in the types of the driver: package database/sql would copy
// them all.
func (w *writer) execRows(ctx context.Context, query string, args []any) error {
	w.named = w.named[:0]
	for i, v := range args {
		w.named = append(w.named, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	err := w.conn.Raw(func(conn any) error {
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, query, w.named)
		return err
	})
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
		return fmt.Errorf("%w: %w", errExists, err)
	}
	return err
}

// keptStatements is how many prepared statements a connection keeps. There are some 40 queries; a
// list with filters has a text for each kind of filter.
const keptStatements = 64

// preparing opens connections that keep their statements prepared: preparing one takes longer than
// looking up or writing a row with it.
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

// preparedConn is a connection that keeps its latest statements. Like every connection of a driver
// it is for one goroutine at a time.
type preparedConn struct {
	sqliteConn
	kept map[string]*keptStmt
	used uint64 // counts the uses of statements
}

// rowStmt is what a statement of the driver must be.
type rowStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type keptStmt struct {
	rowStmt
	busy bool   // its rows are being read
	last uint64 // its last use
}

// ExecContext implements [driver.ExecerContext].
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if s.busy {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	return s.ExecContext(ctx, args)
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

// statement returns the statement of a text, and prepares it if needed.
func (c *preparedConn) statement(ctx context.Context, query string) (*keptStmt, error) {
	c.used++
	s := c.kept[query]
	if s == nil {
		made, err := c.PrepareContext(ctx, query)
		if err != nil {
			return nil, err
		}
		taking, ok := made.(rowStmt)
		if !ok {
			return nil, errors.Join(errors.New("the SQLite driver's statements take no context"), made.Close())
		}
		s = &keptStmt{rowStmt: taking}
		if err := c.makeRoom(); err != nil {
			return nil, errors.Join(err, s.Close())
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
	return s.Close()
}

// Close implements [driver.Conn].
func (c *preparedConn) Close() error {
	var err error
	for _, s := range c.kept {
		err = errors.Join(err, s.Close())
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
