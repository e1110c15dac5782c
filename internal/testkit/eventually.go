// Package testkit holds helpers for the tests of several packages.
//
// It keeps the forms that one version of Millrace writes and another
// one reads: facts, files, messages. Each form has a folder with one folder per version, which
// holds what that version wrote. These files never change, and a test reads them all. The package
// never overwrites a file.
package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for expected events; only a failure takes that long.
const Patience = 3 * time.Minute

// Eventually polls until a condition holds, and fails the test if it does not within [Patience].
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Poll(Patience, holds) {
		t.Fatalf("after %v it does not hold that %s", Patience, what)
	}
}

const (
	soonest = 2 * time.Millisecond
	rarest  = 100 * time.Millisecond
)

// Poll checks a condition until it holds or patience is over, and returns whether it holds. The
// interval grows from 2 ms to 100 ms, so that a long wait costs little.
func Poll(patience time.Duration, holds func() bool) bool {
	deadline := time.After(patience)
	for pause := soonest; !holds(); pause = min(pause*5/4, rarest) {
		select {
		case <-deadline:
			return false
		case <-time.After(pause):
		}
	}
	return true
}
