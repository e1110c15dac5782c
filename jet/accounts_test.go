package jet

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/jet/wire"
	"millrace/node"
	"millrace/task"
	"millrace/task/output"
)

// What an account imports, another one exports to it, each message by one way; and it is all that its users may do.
func TestAccounts(t *testing.T) {
	t.Parallel()
	realm := Realm{Name: "CRAWL", Store: "5GB", Users: []User{
		{Name: "c", Role: RoleOperator}, {Name: "w1", Role: RoleWorker, Node: "w1"}, {Name: "s", Role: RoleServer}, {Name: "w2", Role: RoleWorker, Node: "w2"},
		{Name: "sub", Role: RoleSubmitter}, {Name: "view", Role: RoleViewer},
	}}
	accounts := must(realm.Accounts())(t)
	at := map[string]*Account{}
	var names []string
	for _, a := range accounts {
		at[a.Name], names = a, append(names, a.Name)
		if a.JetStream != (a.Name == "CRAWL") || (a.Store != "") != a.JetStream {
			t.Errorf("%s has JetStream: %t, %q", a.Name, a.JetStream, a.Store)
		}
	}
	if want := []string{"CRAWL", "CRAWL_WORKER", "CRAWL_SUBMITTER", "CRAWL_VIEWER", "CRAWL_OPERATOR"}; !slices.Equal(names, want) {
		t.Fatalf("the accounts are %v, want %v", names, want)
	}
	if w := at["CRAWL_WORKER"]; len(w.Users) != 2 || w.Users[0].Node != "w1" {
		t.Errorf("the workers are %+v", w.Users)
	}
	used := 0
	for _, a := range accounts {
		for i, in := range a.Imports {
			export := slices.IndexFunc(at[in.From].Exports, func(e Export) bool {
				return e.Subject == in.Subject && e.Service == in.Service && slices.Contains(e.To, a.Name)
			})
			if export < 0 {
				t.Errorf("%s imports %s, and %s does not export it", a.Name, in.Subject, in.From)
			}
			used++
			for _, other := range a.Imports[:i] {
				if other.Service == in.Service && other.From == in.From && server.SubjectsCollide(other.Subject, in.Subject) && !strings.HasPrefix(in.Subject, "$JS.ACK.") {
					t.Errorf("%s has %s twice, as %s", a.Name, in.Subject, other.Subject)
				}
			}
			if in.Subject == apiAccount || a.JetStream {
				continue
			}
			granted := slices.ContainsFunc(a.Users, func(u AccountUser) bool {
				rights := u.Subscribe
				if in.Service {
					rights = u.Publish
				}
				return slices.ContainsFunc(rights, func(r Right) bool {
					return slices.ContainsFunc(r.Subjects, func(s string) bool { return server.SubjectsCollide(s, in.Subject) })
				})
			})
			if !granted {
				t.Errorf("%s imports %s, and no user of it may use that", a.Name, in.Subject)
			}
		}
		for _, e := range a.Exports {
			used -= len(e.To)
			if e.Streamed != (strings.Contains(e.Subject, ".MSG.NEXT.") || strings.Contains(e.Subject, ".DIRECT.GET.")) {
				t.Errorf("%s has several answers: %t", e.Subject, e.Streamed)
			}
		}
	}
	if used != 0 {
		t.Errorf("what is imported and what is exported differ by %d", used)
	}
	// What one role says, each other one hears that listens to it: from its account, for what has come into that of
	// the servers goes no further.
	for _, l := range accounts {
		for _, in := range l.Imports {
			if in.Service {
				continue
			}
			for _, says := range accounts {
				if says == l || !slices.ContainsFunc(says.Imports, func(out Import) bool { return out.Service && server.SubjectsCollide(out.Subject, in.Subject) }) {
					continue
				}
				if !slices.Contains(l.Imports, Import{in.Subject, false, says.Name}) {
					t.Errorf("%s does not hear %s of %s", l.Name, in.Subject, says.Name)
				}
			}
		}
	}
	for _, erases := range []string{"$JS.API.STREAM.DELETE." + wire.LogStream, wire.APIPurge + wire.LogStream, wire.APIErase + wire.LogStream} {
		for _, a := range accounts {
			if slices.ContainsFunc(a.Imports, func(in Import) bool { return server.SubjectsCollide(in.Subject, erases) }) {
				t.Errorf("%s reaches %s", a.Name, erases)
			}
		}
	}

	for _, role := range []Role{RoleWorker, RoleOperator} {
		some := Realm{Name: "CRAWL", Users: slices.DeleteFunc(slices.Clone(realm.Users), func(u User) bool { return u.Role == role })}
		for _, a := range must(some.Accounts())(t) {
			if i := slices.IndexFunc(a.Imports, func(in Import) bool { return in.From == some.AccountName(role) }); i >= 0 {
				t.Errorf("%s imports %s of %ss, and there are none", a.Name, a.Imports[i].Subject, role)
			}
		}
	}
	alone := Realm{Name: "CRAWL", Users: []User{{Name: "w1", Role: RoleWorker, Node: "w1"}}}
	fromServers := slices.DeleteFunc(slices.Clone(at["CRAWL_WORKER"].Imports), func(in Import) bool { return in.From != "CRAWL" })
	if one := must(alone.Accounts())(t); len(one) != 1 || !slices.Equal(one[0].Imports, fromServers) {
		t.Errorf("printed alone, workers import %+v", one[0].Imports)
	}

	realm.OneAccount = true
	if one := must(realm.Accounts())(t); len(one) != 1 || len(one[0].Users) != len(realm.Users) || one[0].Imports != nil || one[0].Exports != nil || !one[0].JetStream {
		t.Errorf("in one account there are %d, with %+v", len(one), one[0])
	}
	for _, wrong := range []Realm{{Name: "a b"}, {Name: "A", Store: "5"}, {Name: "A", Users: []User{{Name: "x", Role: "root"}}}} {
		if _, err := wrong.Accounts(); err == nil {
			t.Errorf("%+v has accounts", wrong)
		}
	}
}

// What a user of one role says, those of another who listen hear at once, though each is in an account of its own.
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
	listen(w.OnDeclared(func(d task.Declaration) { heard <- "selector " + d.Route() }))
	listen(c.WatchTask(id, say("task")))
	listen(c.WatchNode("w", say("node")))
	listen(c.WatchLive(id, func(output.Live) { heard <- "live" }))
	sub := must(w.NC.Subscribe(wire.LanesPrefix+"q", func(*nats.Msg) { heard <- "lanes" }))(t)
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
		if err := errors.Join(says.Hint("w", id), says.Hint("w", ""), says.NC.Publish(wire.LanesPrefix+"q", nil)); err != nil {
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

// The accounts of a realm hold on three servers, whichever of them a user is connected to and whichever leads: each task is
// handed out once, at the first time of asking, and no answer erases anything.
func TestAccountsOnACluster(t *testing.T) {
	t.Parallel()
	c := clusterWith(t, strictRealm(t, Realm{Name: "A"}))
	at := func(server int, user string) *nats.Conn {
		return connect(t, c.servers[server].ClientURL(), nats.UserInfo(user, user), nats.CustomInboxPrefix(DefaultInbox(user)))
	}
	// An offer that got lost would not come again while the test has patience.
	s := openStore(t, at(0, "s"), Layout{Replicas: 3, AckWait: 10 * patience})
	if err := s.Takes(within(t), 0); err != nil {
		t.Fatal(err)
	}
	var workers []*Store
	var readers []*offers
	for i := range c.servers {
		w := openStore(t, at(i, "w"), Layout{})
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
	for i := range c.servers {
		byReply(t, at(i, "w"), wire.APIPurge+wire.LogStream)
		byReply(t, at(i, "c"), "$JS.API.STREAM.DELETE."+wire.LogStream)
	}
	if all := logged(t, s); uint64(len(all)) < end {
		t.Errorf("%d messages of %d are left", len(all), end)
	}
}
