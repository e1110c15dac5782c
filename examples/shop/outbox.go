package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// schema is the outbox beside the tables of the shop. The transaction of an order writes the submission
// of its mail into a table, and a relay submits it: there is a task if and only if the transaction was
// committed. The key of a row is the id of its task.
const schema = `
CREATE TABLE orders (number TEXT PRIMARY KEY);
CREATE TABLE outbox (id TEXT PRIMARY KEY, submission TEXT NOT NULL);`

// take takes an order, and asks for the mail that confirms it in the same transaction.
func take(ctx context.Context, db *sql.DB, number string) (task.ID, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (number) VALUES (?)`, number); err != nil {
		return "", err
	}
	order, err := json.Marshal(number)
	if err != nil {
		return "", err
	}
	submission, err := json.Marshal(birth.Submission{
		Spec:   &job.Spec{Handler: "mail", Retry: job.Retry{Max: 5}},
		Queue:  "mail",
		Params: map[string]json.RawMessage{"order": order},
	})
	if err != nil {
		return "", err
	}
	id := client.NewID()
	if _, err := tx.ExecContext(ctx, `INSERT INTO outbox (id, submission) VALUES (?, ?)`, id, submission); err != nil {
		return "", err
	}
	return id, tx.Commit()
}

// relay submits what the outbox holds, the oldest first, and removes each entry when the log has
// it. Any number of relays may run, and each may die anywhere: submitting an entry again under its
// id makes no second task.
func relay(ctx context.Context, db *sql.DB, c *client.Client) (receipts []client.Receipt, err error) {
	for {
		var id task.ID
		var text []byte
		err := db.QueryRowContext(ctx, `SELECT id, submission FROM outbox ORDER BY id LIMIT 1`).Scan(&id, &text)
		if errors.Is(err, sql.ErrNoRows) {
			return receipts, nil
		}
		var s birth.Submission
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return receipts, err
		}
		s.ID = id
		receipt, err := c.Submit(ctx, s)
		if err != nil {
			return receipts, err // the row stays, and the next call tries again
		}
		receipts = append(receipts, receipt) // with Again, if a relay was here and died before the next line
		if _, err := db.ExecContext(ctx, `DELETE FROM outbox WHERE id = ?`, id); err != nil {
			return receipts, err
		}
	}
}
