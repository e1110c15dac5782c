package external

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"millrace"
	"millrace/internal/testkit"
)

// steps is more than what a relay asks its database for until two rows are removed.
const steps = 12

func each(t *testing.T, test func(t *testing.T, s *shop)) {
	for _, dialect := range []millrace.Dialect{millrace.PostgreSQL, millrace.MySQL, millrace.SQLite} {
		t.Run(string(dialect), func(t *testing.T) { test(t, open(t, dialect)) })
	}
}

// A relay is killed before and after each thing that it asks the database for, so also right behind
// each submission. The next one finds the rest.
func TestKilledRelay(t *testing.T) {
	each(t, func(t *testing.T, s *shop) {
		killed := 0
		for step := range steps + 1 {
			s.order(2)
			r := exec.Command(os.Args[0])
			r.Env = append(os.Environ(), relayFor+"="+string(s.dialect), "OUTBOX_DSN="+s.dsn, fmt.Sprint("OUTBOX_STEP=", steps-step))
			out, err := r.CombinedOutput()
			if err != nil && r.ProcessState.ExitCode() != -1 || step == steps && err != nil {
				t.Fatalf("step %d: %v\n%s", steps-step, err, out)
			}
			if err != nil {
				killed++
			}
		}
		if killed < 6 {
			t.Errorf("relays were killed at %d steps only", killed)
		}
		s.judge()
	})
}

// The database is killed at each step of a relay, which goes on when it is there again.
func TestKilledDatabase(t *testing.T) {
	each(t, func(t *testing.T, s *shop) {
		if s.dialect == millrace.SQLite {
			return // it lives and dies with the relay
		}
		var asked atomic.Int64
		var last int64
		db := crashing(drivers[s.dialect], s.dsn, func() {
			if asked.Add(1) == last {
				s.again()
			}
		})
		defer db.Close()
		for last = 1; last <= steps; last++ {
			s.order(2)
			asked.Store(0)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			box := &millrace.Outbox{App: s.app, DB: db, Dialect: s.dialect, Every: 10 * time.Millisecond}
			go func() { ended <- box.Relay(ctx) }()
			testkit.Eventually(t, "the outbox is empty", func() bool { return rows(t.Context(), s.db) == 0 })
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		s.judge()
	})
}

// Three relays share the rows, while orders come, with none left and none twice.
func TestManyRelays(t *testing.T) {
	each(t, func(t *testing.T, s *shop) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 3)
		for range cap(ended) {
			go func() { ended <- s.box.Relay(ctx) }()
		}
		began := time.Now()
		s.order(200)
		testkit.Eventually(t, "the outbox is empty", func() bool { return rows(t.Context(), s.db) == 0 })
		t.Logf("200 orders of 400 in %v", time.Since(began))
		stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		s.judge()
	})
}
