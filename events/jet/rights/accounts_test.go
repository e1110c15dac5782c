package rights

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	wire "millrace/events/jet/names"
)

// What an account imports, another one exports to it, each message by one way; and its users may do
// nothing else.
func TestAccounts(t *testing.T) {
	t.Parallel()
	realm := Realm{Name: "CRAWL", Store: "5GB", Users: []User{
		{Name: "c", Role: Operator}, {Name: "w1", Role: Worker, Node: "w1"}, {Name: "s", Role: Server}, {Name: "w2", Role: Worker, Node: "w2"},
		{Name: "sub", Role: Submitter}, {Name: "view", Role: Viewer},
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
	// Each role that subscribes to a subject receives it from the account of the publishing role,
	// for what has come into the account of the servers goes no further.
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

	for _, role := range []Role{Worker, Operator} {
		some := Realm{Name: "CRAWL", Users: slices.DeleteFunc(slices.Clone(realm.Users), func(u User) bool { return u.Role == role })}
		for _, a := range must(some.Accounts())(t) {
			if i := slices.IndexFunc(a.Imports, func(in Import) bool { return in.From == some.AccountName(role) }); i >= 0 {
				t.Errorf("%s imports %s of %ss, and there are none", a.Name, a.Imports[i].Subject, role)
			}
		}
	}
	alone := Realm{Name: "CRAWL", Users: []User{{Name: "w1", Role: Worker, Node: "w1"}}}
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
