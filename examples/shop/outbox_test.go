package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"millrace/task"
)

// Whatever process dies at any point, a committed order has one task, and an order that was not
// committed has none.
func TestOutbox(t *testing.T) {
	c := shop(t).Client()
	db := must(sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db")))(t)
	t.Cleanup(func() { _ = db.Close() })
	must(db.ExecContext(t.Context(), schema))(t)

	first, second := must(take(t.Context(), db, "4711"))(t), must(take(t.Context(), db, "4712"))(t)
	if _, err := take(t.Context(), db, "4711"); err == nil {
		t.Error("an order was taken twice")
	}
	var text string
	if err := db.QueryRowContext(t.Context(), `SELECT submission FROM outbox WHERE id = ?`, first).Scan(&text); err != nil {
		t.Fatal(err)
	}
	receipts := must(relay(t.Context(), db, c))(t)
	if len(receipts) != 2 || receipts[0].ID != first || receipts[1].ID != second || receipts[0].Again || receipts[1].Again {
		t.Errorf("the relay has submitted %+v, want %s and %s", receipts, first, second)
	}
	if left := must(relay(t.Context(), db, c))(t); len(left) > 0 {
		t.Errorf("the outbox still held %+v", left)
	}

	// A relay that dies behind its submission leaves the row.
	must(db.ExecContext(t.Context(), `INSERT INTO outbox (id, submission) VALUES (?, ?)`, first, text))(t)
	if again := must(relay(t.Context(), db, c))(t); len(again) != 1 || again[0].ID != first || !again[0].Again || again[0].Seq != receipts[0].Seq {
		t.Errorf("the relay has submitted %+v again, want the receipt %+v with again", again, receipts[0])
	}
	if made := must(c.Task(t.Context(), first))(t); made.State != task.Pending || string(made.Params) != `{"order":"4711"}` {
		t.Errorf("the task is %s with %s", made.State, made.Params)
	}
	if history := must(c.History(t.Context(), first))(t); len(history) != 2 { // its birth, and the offer
		t.Errorf("the task has %d facts, want 2", len(history))
	}
}
