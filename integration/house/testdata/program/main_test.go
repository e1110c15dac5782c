package main

import (
	"context"
	"errors"
	"testing"

	"example.org/millrace"
)

func TestShout(t *testing.T) {
	t.Setenv("NATS_URL", "nats://127.0.0.1:1")
	if err := run(context.Background()); !errors.Is(err, millrace.ErrNoServer) {
		t.Errorf("without a server: %v", err)
	}
}
