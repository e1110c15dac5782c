package rights

import (
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/names"
	"millrace/task/node"
	"millrace/task/placement"
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
	for _, others := range []string{"mr.node.*", "$KV.MR_NODES.*", names.SweepSubject, "mr.files.>", "mr.api.>", "mr.admit.>", "mr.queue_state.*", ">", "mr.>", "$JS.API.>", "$KV.MR_DEFS.*", "mr.job.*", "mr.schedule.*", "mr.bundle.*", "mr.copies"} {
		if slices.Contains(w, others) {
			t.Errorf("a worker may publish to %s", others)
		}
	}
	if !slices.Contains(hears, "_INBOX_crawler-7.>") || slices.Contains(hears, "_INBOX.>") {
		t.Errorf("a worker hears %v", hears)
	}
	any := func(subject string) bool {
		return strings.HasPrefix(subject, names.APIMake+names.LogStream+".*") || slices.Contains([]string{names.APIDrop + names.LogStream + ".*",
			names.APIPause + names.LogStream + ".*", names.APINext + names.LogStream + ".*", "$JS.ACK.MR_LOG.*.>", "$JS.ACK.*.*.MR_LOG.*.>"}, subject)
	}
	if i := slices.IndexFunc(w, any); i < 0 {
		t.Error("a worker of any queue may not touch consumers")
	}
	bound, _ := has(User{Name: "crawler-7", Role: Worker, Node: "crawler-7", Queues: []string{"crawl"}})
	if i := slices.IndexFunc(bound, any); i >= 0 {
		t.Errorf("a worker of one queue may publish to %s", bound[i])
	}
	for _, own := range []string{"$JS.API.CONSUMER.CREATE.MR_LOG.queue_crawl.mr.queue.crawl.>", "$JS.API.CONSUMER.CREATE.MR_LOG.lane_08_16_crawl.mr.queue.crawl~16.8.>",
		"$JS.API.CONSUMER.CREATE.MR_LOG.MR_NODE_crawler-7.mr.queue.@crawler-7.>", "$JS.API.CONSUMER.MSG.NEXT.MR_LOG.queue_crawl", "$JS.ACK.MR_LOG.lane_10_00_crawl.>"} {
		if !slices.Contains(bound, own) {
			t.Errorf("a worker of the queue crawl may not publish to %s", own)
		}
	}
	want := []string{"mr.api.sue.task.submit", "mr.api.sue.task.bulk", "mr.api.sue.task.copy", "mr.api.sue.schedule.run", "mr.api.sue.monitor.ping", "mr.api.sue.schedule.backfill", "mr.api.sue.task.get", "mr.api.sue.server.health",
		"mr.api.sue.own.wait", "mr.api.sue.own.why", "mr.api.sue.own.output", "mr.api.sue.own.records", "mr.api.sue.own.signal", "mr.api.sue.own.reject"}
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
	for _, wrong := range []User{{Name: "x", Role: "root"}, {Name: "a b", Role: Operator}, {Role: Operator}, {Name: "scheduler", Role: Viewer}, {Name: "server", Role: Operator}, {Name: "x", Role: Worker}, {Name: "x", Role: Operator, Node: "n"}, {Name: "x", Role: Worker, Node: node.ID("a.b")},
		{Name: "x", Role: Operator, Queues: []string{"crawl"}}, {Name: "x", Role: Worker, Node: "n", Queues: []string{"a.b"}}, {Name: "x", Role: Worker, Node: "n", Selectors: []placement.Selector{{}}}} {
		if _, err := wrong.Rights(); err == nil {
			t.Errorf("%+v has rights", wrong)
		}
	}
}
