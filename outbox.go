package millrace

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"millrace/events"
	"millrace/events/submit"
	"millrace/service/client"
	"millrace/task/value"
)

// Dialect is how a database spells what an [Outbox] asks of it.
type Dialect string

// The dialects. MySQL is from 8.0 on, and MariaDB from 10.6; PostgreSQL and SQLite are of any age.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql"
	SQLite     Dialect = "sqlite"
)

// Outbox is a table of the program's own database, millrace_outbox, by which a transaction submits
// tasks: there is a task if and only if the transaction was committed. [Function.SubmitTx] writes a
// row, and [Outbox.Relay] submits it and removes it. Its methods are safe for concurrent use.
type Outbox struct {
	// App is the connection of the relay, and has what [App.OnSubmit] has added. A program that only
	// writes rows may leave it out, and then needs no server of Millrace.
	App *App
	// DB is the database of the relay and of [Outbox.Ensure].
	DB *sql.DB
	// Dialect is the database's. It must be set.
	Dialect Dialect
	// Every is how often the relay looks for the rows of other processes; those of its own it finds
	// some milliseconds after their commit. Default 1s.
	Every time.Duration
	// Log gets what an operator should know. Default: [slog.Default].
	Log *slog.Logger

	once  sync.Once
	woken chan struct{}
}

// Tx is a transaction that SubmitTx writes into: an [*sql.Tx], or what wraps one.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// SubmitTx is [Function.Submit] as a part of the transaction tx. It writes a row and returns the id
// that the task has once the relay has submitted the row, after the commit: until then the task is
// unknown. [Function.Run] makes a run of the id.
//
// However often a relay submits a row, there is one task of its id. [In] counts from the call.
// With [Unique], the row makes no task if there is one of the key when the relay comes to it. The
// error wraps [ErrInvalid], or is the database's.
func (f *Function[In, Out]) SubmitTx(ctx context.Context, o *Outbox, tx Tx, in In, options ...Option) (ID, error) {
	s, err := f.submission(ctx, o.App, in, options)
	if err != nil {
		return "", err
	}
	if s.ID == "" {
		s.ID = client.NewID()
	}
	now := time.Now()
	if s.Delay > 0 {
		s.At, s.Delay = now.Add(time.Duration(s.Delay)).UTC().Truncate(time.Millisecond), 0
	}
	if err := f.of.check(&s, now); err != nil {
		return "", wrong(f.of.name, err)
	}
	if err := o.put(ctx, tx, &s); err != nil {
		return "", fmt.Errorf("millrace: %s: %w", f.of.name, err)
	}
	return s.ID, nil
}

// check refuses what every relay would set aside.
func (h *handler) check(s *Submission, now time.Time) error {
	if s.Job == "" {
		return submit.Check(s, nil, now)
	}
	of, err := h.asJob()
	if err != nil {
		return err
	}
	return submit.Check(s, &of, now)
}

// schemas are the tables. A row waits until the time retry_at, in milliseconds since 1970; one that
// was set aside has none, and waits for an operator. Refusal says why it waits, and tries how often
// it was refused.
var schemas = map[Dialect]string{
	PostgreSQL: `CREATE TABLE IF NOT EXISTS millrace_outbox (id VARCHAR(26) PRIMARY KEY, submission TEXT NOT NULL, tries INT NOT NULL DEFAULT 0, retry_at BIGINT DEFAULT 0, refusal TEXT)`,
	MySQL:      `CREATE TABLE IF NOT EXISTS millrace_outbox (id VARCHAR(26) CHARACTER SET ascii PRIMARY KEY, submission LONGTEXT CHARACTER SET utf8mb4 NOT NULL, tries INT NOT NULL DEFAULT 0, retry_at BIGINT DEFAULT 0, refusal TEXT CHARACTER SET utf8mb4)`,
	SQLite:     `CREATE TABLE IF NOT EXISTS millrace_outbox (id TEXT PRIMARY KEY, submission TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0, retry_at INTEGER DEFAULT 0, refusal TEXT)`,
}

// OutboxSchema returns the statement that makes the table of an [Outbox], for the program's own
// migrations; "" for an unknown dialect.
func OutboxSchema(d Dialect) string { return schemas[d] }

// Ensure makes the table if it is not there.
func (o *Outbox) Ensure(ctx context.Context) error {
	_, err := o.DB.ExecContext(ctx, OutboxSchema(o.Dialect))
	if err != nil { // another process may have made it meanwhile, which PostgreSQL takes for an error
		if _, there := o.DB.ExecContext(ctx, `SELECT id FROM millrace_outbox WHERE id = ''`); there != nil {
			return fmt.Errorf("millrace: outbox: %w", err)
		}
	}
	return nil
}

// spelled returns a statement with the dialect's marks of arguments in place of ?.
func (d Dialect) spelled(statement string) string {
	for n := 1; d == PostgreSQL && strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprintf("$%d", n), 1)
	}
	return statement
}

func (o *Outbox) put(ctx context.Context, tx Tx, s *Submission) error {
	if OutboxSchema(o.Dialect) == "" {
		return fmt.Errorf("outbox: %w: the dialect is %q, want %s, %s or %s", ErrInvalid, o.Dialect, PostgreSQL, MySQL, SQLite)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("outbox: %w", client.Wrong(err))
	}
	if _, err := tx.ExecContext(ctx, o.Dialect.spelled(`INSERT INTO millrace_outbox (id, submission) VALUES (?, ?)`), string(s.ID), string(text)); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	select {
	case o.wake() <- struct{}{}:
	default:
	}
	return nil
}

// wake returns the channel by which SubmitTx tells the relay that a commit may be near.
func (o *Outbox) wake() chan struct{} {
	o.once.Do(func() { o.woken = make(chan struct{}, 1) })
	return o.woken
}

const (
	// outboxBatch is how many rows a relay takes at once.
	outboxBatch = 100
	// outboxPatience is how long a relay waits for the log, and how long it works on a batch; the
	// database holds its rows meanwhile.
	outboxPatience = 10 * time.Second
	// soon is how long after SubmitTx the relay looks first.
	soon = 2 * time.Millisecond
)

// Relay submits what is committed to the outbox, by the order of ids, until ctx ends; then it
// returns nil. Any number of relays may run in any processes, and each may die anywhere: PostgreSQL
// and MySQL give each other rows, and a row that is submitted again makes no second task.
//
// A refused row never blocks others. One whose refusal may pass (the queue is full, another task
// has its key, its job is not stored yet) is tried again, up to a minute later each time. One that
// is wrong for good is set aside, with retry_at NULL and the reason in refusal: an operator deletes
// it, or mends it and sets retry_at to 0. So is one that waited until the log had forgotten the time
// of its id. If server or database cannot be reached, the relay says so in Log and goes on trying.
func (o *Outbox) Relay(ctx context.Context) error {
	if o.App == nil || o.DB == nil || OutboxSchema(o.Dialect) == "" {
		return fmt.Errorf("millrace: outbox: %w: a relay needs App, DB and Dialect", ErrInvalid)
	}
	every, log := o.Every, o.Log
	if every <= 0 {
		every = time.Second
	}
	if log == nil {
		log = slog.Default()
	}
	wait, failing := soon, false
	for {
		more, err := o.pass(ctx, log)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				log.Warn("the relay of the outbox cannot go on, and tries again", "error", err)
			}
			wait = every
		case failing:
			log.Info("the relay of the outbox goes on")
		}
		failing = err != nil
		if more && err == nil {
			continue
		}
		next := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-next.C:
			wait = min(2*wait, every)
		case <-o.wake():
			wait = soon
		}
		next.Stop()
	}
}

// row is a row of the outbox.
type row struct {
	id    ID
	text  string
	tries int
}

// pass submits one batch and tells whether there may be more rows. What is submitted is removed
// also if ctx ends.
func (o *Outbox) pass(ctx context.Context, log *slog.Logger) (more bool, err error) {
	all, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*outboxPatience)
	defer cancel()
	var on interface {
		Tx
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	} = o.DB
	query, end := `SELECT id, submission, tries FROM millrace_outbox WHERE retry_at <= ? ORDER BY id LIMIT ?`, func() error { return nil }
	if o.Dialect != SQLite { // which would keep the program from writing meanwhile
		tx, err := o.DB.BeginTx(all, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // another one locks gaps, too
		if err != nil {
			return false, err
		}
		defer func() { _ = tx.Rollback() }() // no effect after Commit
		on, query, end = tx, query+` FOR UPDATE SKIP LOCKED`, tx.Commit
	}
	found, err := on.QueryContext(all, o.Dialect.spelled(query), time.Now().UnixMilli(), outboxBatch)
	if err != nil {
		return false, err
	}
	defer found.Close()
	var rows []row
	for found.Next() {
		var r row
		if err := found.Scan(&r.id, &r.text, &r.tries); err != nil {
			return false, err
		}
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		return false, err
	}
	more = len(rows) == outboxBatch
	var failed error
	for began := time.Now(); len(rows) > 0; rows = rows[1:] {
		r := &rows[0]
		if failed = ctx.Err(); failed != nil {
			break
		}
		if time.Since(began) > outboxPatience { // so that a slow log does not keep all from being removed
			more = true
			break
		}
		fate, wait, err := r.fate(o.submit(ctx, r, log))
		if fate == rowStays {
			failed = err
			break
		}
		if err := o.settle(all, on, r, fate, wait, err, log); err != nil {
			return false, err
		}
	}
	return more, errors.Join(failed, end())
}

func (o *Outbox) submit(ctx context.Context, r *row, log *slog.Logger) error {
	var s Submission
	if err := json.Unmarshal([]byte(r.text), &s); err != nil {
		return client.Wrongf("the submission is no JSON of one: %w", value.Plainly(err))
	}
	s.ID = r.id
	ctx, cancel := context.WithTimeout(ctx, outboxPatience)
	defer cancel()
	made, err := o.App.client.Submit(ctx, s)
	if err == nil && made.Existing {
		log.Info("a row of the outbox makes no task: another one has its unique key", "row", r.id, "task", made.ID)
	}
	return err
}

// fate is what becomes of a row.
type fate int

const (
	rowStays fate = iota // as it is: the log cannot be reached
	rowGoes              // the log has it
	rowWaits
	rowAside
)

// fate says what becomes of the row after a submission that ended with err, and how long it waits.
func (r *row) fate(err error) (fate, time.Duration, error) {
	switch {
	case err == nil:
		return rowGoes, 0, nil
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrOther), errors.Is(err, ErrTooLarge), errors.Is(err, events.ErrForgotten):
		return rowAside, 0, err
	case client.Unreachable(err), errors.Is(err, context.Canceled):
		return rowStays, 0, err
	}
	return rowWaits, min(time.Second<<min(r.tries, 6), time.Minute), err
}

// settle writes down what became of a row.
func (o *Outbox) settle(ctx context.Context, on Tx, r *row, is fate, wait time.Duration, why error, log *slog.Logger) error {
	if is == rowGoes {
		_, err := on.ExecContext(ctx, o.Dialect.spelled(`DELETE FROM millrace_outbox WHERE id = ?`), string(r.id))
		return err
	}
	var at any
	if is == rowWaits {
		at = time.Now().Add(wait).UnixMilli()
	} else {
		log.Error("a row of the outbox is set aside", "row", r.id, "error", why)
	}
	_, err := on.ExecContext(ctx, o.Dialect.spelled(`UPDATE millrace_outbox SET tries = tries + 1, retry_at = ?, refusal = ? WHERE id = ?`), at, stored(why), string(r.id))
	return err
}

// stored returns the text of an error as every database takes it: a refusal that cannot be written
// would block all rows.
func stored(err error) string {
	const most = 2000 // bytes
	text := err.Error()
	if len(text) > most {
		text = text[:most]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
