package definitions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/job"
)

// copying is a store with a keeper of copies that looks on request.
type copying struct {
	*testing.T
	*jet.Store
	k    *definitions.CopyKeeper
	told []task.CopiesRestored
	kv   jetstream.KeyValue
}

func newCopying(t *testing.T) *copying {
	c := &copying{T: t, Store: newStore(t)}
	c.k = definitions.NewCopyKeeper(c.Registry, c.tell)
	c.kv = must(c.JS.KeyValue(within(t), names.DefsBucket))(t)
	return c
}

func (c *copying) tell(e task.CopiesRestored) { c.told = append(c.told, e) }

func (c *copying) look() {
	c.Helper()
	if err := c.k.Look(within(c.T)); err != nil {
		c.Fatal(err)
	}
}

// same checks that the copies equal the log's definitions.
func (c *copying) same(keys ...task.Def) {
	c.Helper()
	ctx := within(c.T)
	copies := map[task.Def][]byte{}
	for key, is := range must(c.Copies(ctx))(c.T) {
		if len(is.Text) > 0 {
			copies[key] = is.Text
		}
	}
	if len(copies) != len(keys) {
		c.Errorf("there are %d copies, want those of %v", len(copies), keys)
	}
	for def, d := range must(c.Definitions(ctx, ""))(c.T) {
		if !bytes.Equal(copies[def], d.Text) {
			c.Errorf("the copy of %s is %q, the log has %q", def, copies[def], d.Text)
		}
	}
	for _, key := range keys {
		if copies[key] == nil {
			c.Errorf("there is no copy %s", key)
		}
	}
}

func TestCopiesFollowTheLog(t *testing.T) {
	t.Parallel()
	c := newCopying(t)
	ctx := within(t)
	for _, name := range []string{"a", "b"} {
		must(first(c.PutJob(ctx, testJob(name), "ada")))(t)
	}
	must(first(c.PutSchedule(ctx, testSchedule("a"), "ada")))(t)
	c.look()
	c.same("job.a", "job.b", "schedule.a")
	if e := must(c.kv.Get(ctx, "job.a"))(t); json.Unmarshal(e.Value(), &job.Job{}) != nil {
		t.Errorf("a person reads %q", e.Value())
	}
	other := testJob("a")
	other.Title = "another"
	must(first(c.PutJob(ctx, other, "ada")))(t)
	must(c.PauseSchedule(ctx, "a", "ada", "noise"))(t)
	if err := c.RemoveJob(ctx, "b", "ada"); err != nil {
		t.Fatal(err)
	}
	c.look()
	c.same("job.a", "schedule.a")
	before := must(c.k.State(ctx))(t)
	c.look()
	if after := must(c.k.State(ctx))(t); after != before {
		t.Errorf("a look that had nothing to do has written: %+v, %+v", before, after)
	}
	// A lost bucket comes back with its whole content, and nothing counts as changed by hand.
	if err := c.JS.DeleteStream(ctx, definitions.CopyStream); err != nil {
		t.Fatal(err)
	}
	if err := streams.NewRestorer(c.JS, timersOf(t, c.Store), func(string) {}).Look(ctx, streams.Layout{}); err != nil {
		t.Fatal(err)
	}
	c.look()
	c.same("job.a", "schedule.a")
	// A server that begins later finds old copies, which are late.
	must(first(c.PutJob(ctx, testJob("a"), "ada")))(t)
	c.k = definitions.NewCopyKeeper(c.Registry, c.tell)
	c.look()
	c.same("job.a", "schedule.a")
	if len(c.told) > 0 {
		t.Errorf("the log was told %+v; nobody has done anything by hand", c.told)
	}
}

// A change of the copies by hand changes no definition; it is undone, and recorded, at most once a
// minute.
func TestCopiesChangedByHand(t *testing.T) {
	t.Parallel()
	c := newCopying(t)
	ctx := within(t)
	for _, name := range []string{"changed", "removed", "purged", "kept"} {
		must(first(c.PutJob(ctx, testJob(name), "ada")))(t)
	}
	c.look()
	nonsense := []byte("nonsense")
	must(c.kv.Put(ctx, "job.changed", nonsense))(t)
	must(c.kv.Put(ctx, "job.mine", nonsense))(t)
	must(c.kv.Put(ctx, "mine", nonsense))(t)
	if err := c.kv.Delete(ctx, "job.removed"); err != nil {
		t.Fatal(err)
	}
	if err := c.kv.Purge(ctx, "job.purged"); err != nil {
		t.Fatal(err)
	}
	if j, err := c.Job(ctx, "changed"); err != nil || j.Title != "A job" {
		t.Errorf("what was put by hand is taken for the job: %+v, %v", j, err)
	}
	c.look()
	c.same("job.changed", "job.removed", "job.purged", "job.kept")
	if len(c.told) != 1 || len(c.told[0].Copies) != 5 || c.told[0].More != 0 {
		t.Fatalf("the log was told %+v, want five copies, once", c.told)
	}
	for _, r := range c.told[0].Copies {
		want := map[string]task.Restored{
			"changed": {Of: "job", Name: "changed", Found: task.DigestOf(nonsense), Revision: 1},
			"removed": {Of: "job", Name: "removed", Revision: 1}, "purged": {Of: "job", Name: "purged", Revision: 1},
			"mine": {Of: "job", Name: "mine", Found: task.DigestOf(nonsense)}, "": {Of: "mine", Found: task.DigestOf(nonsense)},
		}[r.Name]
		if r != want {
			t.Errorf("told was %+v, want %+v", r, want)
		}
	}
	last, found, err := c.LeaderGet(ctx, map[string]any{"last_by_subj": names.CopiesSubject})
	if e, ok := last.Fact.Event.(task.CopiesRestored); !found || err != nil || !ok || last.Kind != events.KindCopies || last.Fact.Actor != events.PartServer || len(e.Copies) != 5 {
		t.Fatalf("the log has %+v, %v", last, err)
	}
	for i := range 50 { // a person in a loop
		must(c.kv.Put(ctx, "job.changed", fmt.Appendf(nil, "nonsense %d", i)))(t)
		c.look()
	}
	c.same("job.changed", "job.removed", "job.purged", "job.kept")
	if again, _, err := c.LeaderGet(ctx, map[string]any{"last_by_subj": names.CopiesSubject}); err != nil || again.Seq != last.Seq || len(c.told) != 1 {
		t.Errorf("the log was told again within a minute, at %d: %v", again.Seq, err)
	}
	untold := c.k.Untold()
	if n := len(untold.Copies); n != task.MaxRestored || untold.More != 50-n {
		t.Errorf("%d copies wait to be told, and %d more; want %d in all", n, untold.More, 50)
	}
}

// Two servers that copy at once write each copy once or as often as they meet, and never an older
// one over a newer.
func TestCopiersAtOnce(t *testing.T) {
	t.Parallel()
	c := newCopying(t)
	ctx := within(t)
	other := definitions.NewCopyKeeper(c.Registry, c.tell)
	done := make(chan error, 1)
	go func() {
		for i := range 40 {
			if _, _, err := c.PutJob(ctx, func() job.Job { j := testJob("a"); j.Title = fmt.Sprint(i); return j }(), "ada"); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	looked := make(chan error, 1)
	go func() {
		for range 40 {
			if err := other.Look(ctx); err != nil {
				looked <- err
				return
			}
		}
		looked <- nil
	}()
	for range 40 {
		c.look()
	}
	for _, err := range []error{<-done, <-looked} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.look()
	c.same("job.a")
	if len(c.told) > 0 {
		t.Errorf("copiers took each other for a person: %+v", c.told)
	}
}

func TestKeepCopies(t *testing.T) {
	t.Parallel()
	c := newCopying(t)
	ctx := within(t)
	told := make(chan task.CopiesRestored, 1)
	ran := runKeeper(t, c.Store, told)
	defer ran()
	must(first(c.PutJob(ctx, testJob("a"), "ada")))(t)
	watch := must(c.kv.Watch(ctx, "job.a"))(t)
	defer func() { _ = watch.Stop() }()
	value := func(want func(e jetstream.KeyValueEntry) bool) {
		t.Helper()
		for {
			select {
			case e := <-watch.Updates():
				if e != nil && want(e) {
					return
				}
			case <-ctx.Done():
				t.Fatal("the copy does not become what it should")
			}
		}
	}
	ours := func(e jetstream.KeyValueEntry) bool { return bytes.HasPrefix(e.Value(), []byte(`{"name":"a"`)) }
	value(ours)
	must(c.kv.Put(ctx, "job.a", []byte("mine")))(t)
	value(ours)
	if e := <-told; len(e.Copies) != 1 || e.Copies[0].Name != "a" {
		t.Errorf("told was %+v", e)
	}
}

func runKeeper(t *testing.T, s *jet.Store, told chan<- task.CopiesRestored) (stop func()) {
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.KeepCopies(ctx, 50*time.Millisecond, func() bool { return true }, func(e task.CopiesRestored) { told <- e }, func(err error) { t.Error(err) })
	}()
	return func() { cancel(); <-done }
}

// first leaves out whether a definition was changed.
func first(revision uint64, _ bool, err error) (uint64, error) { return revision, err }

// A copy may claim to be of a revision that its definition never had, and may change while its
// definition is on its way to it.
func TestCopyFromTheFuture(t *testing.T) {
	t.Parallel()
	c := newCopying(t)
	ctx := within(t)
	must(first(c.PutJob(ctx, testJob("a"), "ada")))(t)
	c.look()
	forged := &nats.Msg{Subject: "$KV." + names.DefsBucket + ".job.a", Header: nats.Header{"Mr-Revision": {"99"}}, Data: []byte("nonsense")}
	must(c.JS.PublishMsg(ctx, forged))(t)
	other := testJob("a")
	other.Title = "another"
	must(first(c.PutJob(ctx, other, "ada")))(t)
	c.look()
	c.same("job.a")
	if len(c.told) != 1 || len(c.told[0].Copies) != 1 || c.told[0].Copies[0].Name != "a" {
		t.Errorf("the log was told %+v, want the copy of a", c.told)
	}
}
