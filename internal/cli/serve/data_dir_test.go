package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/cli/term"
)

// A log is laid only into a directory of its own; the refusal says what to do.
func TestLaidIntoADirectoryOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "else"), nil, 0o600), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	_, err := Lay(dir, streams.Layout{}, time.Time{}, func(func(events.Record, error) bool) {}, func(func(embed.Message, error) bool) {})
	if f := (*term.Fault)(nil); !errors.As(err, &f) || f.Code != term.ExitRefused || f.Hint == "" {
		t.Errorf("it says %v", err)
	}
}

// A log that was laid into a directory can be opened at once, however long it is: the NATS server
// need not look through all of it for what it has sourced.
func TestLaidLogOpensAtOnce(t *testing.T) {
	const facts, subjects = 100_000, 30_000
	log := func(yield func(events.Record, error) bool) {
		for i := range uint64(facts) {
			r := events.Record{Seq: i + 1, Stored: time.Unix(1_700_000_000, 0), Kind: events.KindTick, Place: fmt.Sprint(names.TickPrefix, "s", i%subjects), Raw: []byte("{}")}
			if !yield(r, nil) {
				return
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Lay(dir, streams.Layout{}, time.Time{}, log, func(func(embed.Message, error) bool) {}); err != nil {
		t.Fatal(err)
	}
	server, err := embed.Start(embed.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	began := time.Now()
	store, err := jet.Open(t.Context(), nc, streams.Layout{})
	if err != nil {
		t.Fatalf("after %v: %v", time.Since(began), err)
	}
	defer store.Close()
	if last, err := store.Last(t.Context()); err != nil || last != facts+1 {
		t.Errorf("the log ends at %d, %v, want a mark behind %d facts", last, err, facts)
	}
}
