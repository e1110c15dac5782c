package jet

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/placement"
)

// Subscribers of one role receive at once what users of another role publish, though each role has
// an account of its own.
func TestRolesHearEachOther(t *testing.T) {
	t.Parallel()
	srv := newStrict(t)
	s, c, w := srv.as("s"), srv.as("c"), srv.as("w")
	id := newTask()
	heard := make(chan string, 64)
	say := func(what string) func() { return func() { heard <- what } }
	listen := func(stop func(), err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	listen(w.OnHint("w", func(id task.ID) { heard <- "hint " + string(id) }))
	listen(w.OnDeclared(func(d placement.Declaration) { heard <- "selector " + d.Route() }))
	listen(c.WatchTask(id, say("task")))
	listen(c.WatchNode("w", say("node")))
	listen(c.WatchLive(id, func(output.Live) { heard <- "live" }))
	sub := must(w.NC.Subscribe(names.LanesPrefix+"q", func(*nats.Msg) { heard <- "lanes" }))(t)
	defer func() { _ = sub.Unsubscribe() }()
	for _, listens := range []*Store{c, w} {
		if err := listens.NC.Flush(); err != nil { // now the server knows of it
			t.Fatal(err)
		}
	}
	hear := func() string {
		t.Helper()
		select {
		case what := <-heard:
			return what
		case <-within(t).Done():
			t.Fatal("nothing is heard")
			return ""
		}
	}
	for _, says := range []*Store{s, c} {
		if err := errors.Join(says.Hint("w", id), says.Hint("w", ""), says.NC.Publish(names.LanesPrefix+"q", nil)); err != nil {
			t.Fatal(err)
		}
		got := []string{hear(), hear(), hear()}
		slices.Sort(got)
		if want := []string{"hint ", "hint " + string(id), "lanes"}; !slices.Equal(got, want) {
			t.Fatalf("the worker hears %q, want %q", got, want)
		}
	}
	chosen := selectorWork(t, "zone=eu")
	born(t, c, chosen)
	if got := hear(); got != "selector "+chosen.Route.Queue() {
		t.Errorf("the worker hears %q of a selector", got)
	}
	must(w.Append(within(t), newFact(id, note("x")), 0))(t)
	if got := hear(); got != "task" {
		t.Errorf("the operator hears %q of a task", got)
	}
	if err := w.SaveLive(within(t), output.Live{Task: id}); err != nil {
		t.Fatal(err)
	}
	if got := hear(); got != "live" {
		t.Errorf("the operator hears %q of how it stands", got)
	}
	must(w.Append(within(t), &events.Fact{ID: newID(), At: time.Now(), Type: events.NodeOnline, Node: "w", Event: node.WentOnline{Session: "s1"}}, 0))(t)
	if got := hear(); got != "node" {
		t.Errorf("the operator hears %q of the node", got)
	}
}

// The accounts of a realm hold on three servers, whichever of them a user is connected to and
// whichever leads: each task is delivered once, at the first request, and no answer erases
// anything.
func TestAccountsOnACluster(t *testing.T) {
	t.Parallel()
	c := clusterWith(t, strictRealm(t, rights.Realm{Name: "A"}))
	at := func(server int, user string) *nats.Conn {
		return connect(t, c.Servers[server].ClientURL(), nats.UserInfo(user, user), nats.CustomInboxPrefix(rights.DefaultInbox(user)))
	}
	// An offer that got lost would not come again while the test has patience.
	s := openStore(t, at(0, "s"), streams.Layout{Replicas: 3, AckWait: 10 * patience})
	if err := s.Takes(within(t), 0); err != nil {
		t.Fatal(err)
	}
	var workers []*Store
	var readers []*offers
	for i := range c.Servers {
		w := openStore(t, at(i, "w"), streams.Layout{})
		workers, readers = append(workers, w), append(readers, offersOf(t, w, "a"))
	}
	takenOnce(t, readers, 300, func(i int) { submit(t, workers[i%len(workers)], "a") })
	for i, w := range workers {
		id := submit(t, w, "b")
		o := offersOf(t, w, "b", "@w")
		offer := next(t, o)
		if offer.Fact.Task != id {
			t.Errorf("on server %d: %s came, want %s", i, offer.Fact.Task, id)
		}
		if err := offer.Extend(within(t)); err != nil {
			t.Errorf("on server %d: %v", i, err)
		}
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
		prove(t, o)
		o.Close()
		if records := must(w.Task(within(t), id))(t); len(records) != 1 {
			t.Errorf("on server %d: the task has %d records", i, len(records))
		}
	}
	end := must(s.End(within(t)))(t)
	for i := range c.Servers {
		byReply(t, at(i, "w"), names.APIPurge+names.LogStream)
		byReply(t, at(i, "c"), "$JS.API.STREAM.DELETE."+names.LogStream)
	}
	if all := logged(t, s); uint64(len(all)) < end {
		t.Errorf("%d messages of %d are left", len(all), end)
	}
}
