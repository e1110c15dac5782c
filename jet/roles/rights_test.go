package roles

import (
	"slices"
	"strings"
	"testing"

	"millrace/jet/wire"
	"millrace/node"
)

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	subjects := func(list []Right) (all []string) {
		for _, r := range list {
			if r.Why == "" {
				t.Errorf("%v: no reason is given", r.Subjects)
			}
			all = append(all, r.Subjects...)
		}
		return all
	}
	has := func(u User) (publish, subscribe []string) {
		r := must(u.Rights())(t)
		return subjects(r.Publish), subjects(r.Subscribe)
	}
	w, hears := has(User{Name: "crawler-7", Role: Worker, Node: "crawler-7"})
	for _, own := range []string{"mr.node.crawler-7", "$KV.MR_NODES.crawler-7"} {
		if !slices.Contains(w, own) {
			t.Errorf("a worker may not publish to %s", own)
		}
	}
	for _, others := range []string{"mr.node.*", "$KV.MR_NODES.*", wire.SweepSubject, "mr.files.>", "mr.api.>", "mr.admit.>", "mr.queue_state.*", ">", "mr.>", "$JS.API.>", "$KV.MR_DEFS.*", "mr.job.*", "mr.schedule.*", "mr.bundle.*", "mr.copies"} {
		if slices.Contains(w, others) {
			t.Errorf("a worker may publish to %s", others)
		}
	}
	if !slices.Contains(hears, "_INBOX_crawler-7.>") || slices.Contains(hears, "_INBOX.>") {
		t.Errorf("a worker hears %v", hears)
	}
	want := []string{"mr.api.sue.task.submit", "mr.api.sue.task.bulk", "mr.api.sue.task.copy", "mr.api.sue.schedule.run", "mr.api.sue.schedule.backfill", "mr.api.sue.task.get", "mr.api.sue.server.health",
		"mr.api.sue.own.wait", "mr.api.sue.own.why", "mr.api.sue.own.output", "mr.api.sue.own.records"}
	if p, s := has(User{Name: "sue", Role: Submitter, Inbox: "_INBOX"}); !slices.Equal(p, want) || !slices.Equal(s, []string{"_INBOX.>"}) {
		t.Errorf("a submitter has %v and %v", p, s)
	}
	for _, r := range All() {
		u := User{Name: "x", Role: r}
		if r == Worker {
			u.Node = "x"
		}
		p, s := has(u)
		all := slices.Concat(p, s)
		slices.Sort(all)
		for i, subject := range p {
			if slices.Contains(p[:i], subject) {
				t.Errorf("%s is granted %s twice", r, subject)
			}
		}
		for _, subject := range all {
			if strings.ContainsAny(subject, "{} ") || subject == ">" {
				t.Errorf("%s has the right to %q", r, subject)
			}
		}
	}
	for _, wrong := range []User{{Name: "x", Role: "root"}, {Name: "a b", Role: Operator}, {Role: Operator}, {Name: "scheduler", Role: Viewer}, {Name: "server", Role: Operator}, {Name: "x", Role: Worker}, {Name: "x", Role: Operator, Node: "n"}, {Name: "x", Role: Worker, Node: node.ID("a.b")}} {
		if _, err := wrong.Rights(); err == nil {
			t.Errorf("%+v has rights", wrong)
		}
	}
}
