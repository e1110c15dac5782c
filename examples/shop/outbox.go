package main

import (
	"context"
	"database/sql"

	"millrace"
)

// take takes an order, and asks in the same transaction for the mail that confirms it: there is a
// mail if and only if there is an order. The program runs box.Relay beside, here or elsewhere.
func take(ctx context.Context, box *millrace.Outbox, number string) (millrace.ID, error) {
	tx, err := box.DB.BeginTx(ctx, &sql.TxOptions{})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (number) VALUES (?)`, number); err != nil {
		return "", err
	}
	id, err := mail.SubmitTx(ctx, box, tx, Letter{Order: number, Text: "Thank you!"}, millrace.Label("order", number))
	if err != nil {
		return "", err
	}
	return id, tx.Commit()
}
