package main

import (
	"context"
	"time"

	"millrace"
)

// grace is how long a customer may think better of it: here seconds, elsewhere a day.
const grace = 10 * time.Second

// ship charges an order once, waits, and sends a letter, whatever dies meanwhile.
var ship = millrace.Func("ship", func(ctx context.Context, order string) (string, error) {
	receipt, err := millrace.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		millrace.Logger(ctx).Info("charging", "order", order)
		return "receipt of " + order, nil
	}, millrace.Retries(3))
	if err != nil {
		return "", err
	}
	if err := millrace.Sleep(ctx, "grace", grace); err != nil {
		return "", err
	}
	letter, err := millrace.Call(ctx, "thanks", mail, Letter{Order: order, Text: "It is on its way."})
	return receipt + ", " + letter, err
})

// shipped ships an order and returns what came of it.
func shipped(ctx context.Context, app *millrace.App, order string) (string, error) {
	run, err := ship.Submit(ctx, app, order, millrace.Label("order", order))
	if err != nil {
		return "", err
	}
	return run.Result(ctx)
}
