package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"millrace"
	"millrace/internal/testkit"
	"millrace/task"
)

// ordering is a shop with a database, and no relay.
func ordering(t *testing.T) (*millrace.App, *millrace.Outbox) {
	app := shop(t)
	db := must(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)"))(t)
	t.Cleanup(func() { _ = db.Close() })
	must(db.ExecContext(t.Context(), `CREATE TABLE orders (number TEXT PRIMARY KEY)`))(t)
	box := &millrace.Outbox{App: app, DB: db, Dialect: millrace.SQLite}
	for range 2 {
		if err := box.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return app, box
}

// relaying runs a relay until the returned function is called.
func relaying(t *testing.T, box *millrace.Outbox) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- box.Relay(ctx) }()
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// eventually waits until a query has an answer.
func eventually(t *testing.T, box *millrace.Outbox, query, want string) {
	t.Helper()
	testkit.Eventually(t, query+" is "+want, func() bool {
		var got string
		return box.DB.QueryRowContext(t.Context(), query).Scan(&got) == nil && got == want
	})
}

const left = `SELECT count(*) FROM millrace_outbox`

// A committed order has one task, and an order that was not committed has none; a row that a relay
// has submitted, and died before it removed it, makes no second task.
func TestOutbox(t *testing.T) {
	app, box := ordering(t)
	first, second := must(take(t.Context(), box, "4711"))(t), must(take(t.Context(), box, "4712"))(t)
	if _, err := take(t.Context(), box, "4711"); err == nil {
		t.Error("an order was taken twice")
	}
	if _, err := mail.Run(app, first).Task(t.Context()); !errors.Is(err, millrace.ErrUnknown) {
		t.Errorf("the task before a relay came: %v", err)
	}
	var text string
	if err := box.DB.QueryRowContext(t.Context(), `SELECT submission FROM millrace_outbox WHERE id = ?`, first).Scan(&text); err != nil {
		t.Fatal(err)
	}
	one, two := relaying(t, box), relaying(t, box)
	eventually(t, box, left, "0")
	must(box.DB.ExecContext(t.Context(), `INSERT INTO millrace_outbox (id, submission) VALUES (?, ?)`, first, text))(t)
	eventually(t, box, left, "0")
	one()
	two()
	for _, id := range []millrace.ID{first, second} {
		made := must(mail.Run(app, id).Task(t.Context()))(t)
		if made.State != task.Pending || made.Spec.Retry.Max != 5 {
			t.Errorf("the task is %s with %+v", made.State, made.Spec)
		}
		// A relay that was stopped between birth and offer leaves that to the scheduler.
		testkit.Eventually(t, "the task has its birth and one offer", func() bool {
			return len(must(app.Client().History(t.Context(), id))(t)) == 2
		})
	}
}

// A row that is refused waits aside, with the reason, and others go on.
func TestOutboxRefusals(t *testing.T) {
	app, box := ordering(t)
	put := func(id millrace.ID, submission string) {
		must(box.DB.ExecContext(t.Context(), `INSERT INTO millrace_outbox (id, submission) VALUES (?, ?)`, id, submission))(t)
	}
	put("00000000000000000000000000", "garbage")
	put("00000000000000000000000001", `{"job":"mail-v2"}`)
	good := must(take(t.Context(), box, "4711"))(t)
	end := relaying(t, box)
	eventually(t, box, left, "2")
	eventually(t, box, `SELECT count(*) FROM millrace_outbox WHERE retry_at IS NULL AND refusal LIKE '%JSON%' OR retry_at > 0 AND refusal LIKE '%mail-v2%'`, "2")
	must(mail.Run(app, good).Task(t.Context()))(t)

	// The job comes to be, and an operator mends the other row.
	if err := app.Apply(t.Context(), millrace.Action("mail-v2", func(context.Context, struct{}) error { return nil })); err != nil {
		t.Fatal(err)
	}
	must(box.DB.ExecContext(t.Context(), `UPDATE millrace_outbox SET retry_at = 0, submission = '{"job":"mail-v2"}' WHERE retry_at IS NULL`))(t)
	eventually(t, box, left, "0")
	end()
}

// What is wrong for good fails the transaction, so that no row waits in vain; and a delay counts
// from the call.
func TestSubmitTx(t *testing.T) {
	app, box := ordering(t)
	submit := func(options ...millrace.Option) (millrace.ID, error) {
		return mail.SubmitTx(t.Context(), box, box.DB, Letter{Order: "4711"}, options...)
	}
	for want, option := range map[string]millrace.Option{
		"priority": millrace.Priority(11),
		"id":       millrace.WithID("nonsense"),
		"label":    millrace.Label("", "x"),
	} {
		if _, err := submit(option); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := mail.SubmitTx(t.Context(), &millrace.Outbox{}, box.DB, Letter{}); !errors.Is(err, millrace.ErrInvalid) {
		t.Errorf("no dialect: %v", err)
	}
	before := time.Now()
	id := must(submit(millrace.In(time.Hour)))(t)
	end := relaying(t, box)
	eventually(t, box, left, "0")
	end()
	if due := must(mail.Run(app, id).Task(t.Context()))(t).Due; due.Before(before.Add(time.Hour-time.Second)) || due.After(time.Now().Add(time.Hour)) {
		t.Errorf("due %v after the call", due.Sub(before))
	}
}
