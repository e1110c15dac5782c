package quota

import (
	"fmt"
	"millrace/task"
	"millrace/task/limit"
	"slices"
	"strings"
	"testing"
	"time"
)

// parted writes parts as text: the scopes, the grants on each chain, the rates, and the refused
// tasks.
func parted(parts []Decision) string {
	var all []string
	for _, p := range parts {
		var records []string
		for _, r := range slices.Concat(p.Refused, p.Replaced) {
			p.Refuse(r)
		}
		for i, of := range p.Scopes {
			r := fmt.Sprint(of, ":")
			for _, g := range p.Records[i].Grants {
				r += " " + string(g.Task)
			}
			for name := range p.Records[i].Rates {
				r += " " + name
			}
			for _, id := range p.Records[i].Refused {
				r += " no " + string(id)
			}
			records = append(records, r)
		}
		all = append(all, strings.Join(records, ", "))
	}
	return strings.Join(all, "; ")
}

// of makes a task of a job that waits for several limits.
func of(job string, n int, c ...limit.Concurrency) *task.Task {
	t := under(n, c...)
	t.Job = job
	return t
}

// Tasks that share a scope, directly or through another task, are one part; others are separate
// parts.
func TestParts(t *testing.T) {
	own := func(max int) limit.Concurrency { return limit.Concurrency{Max: max} }
	x, skip := limit.Concurrency{Max: 5, Key: "/x"}, limit.Concurrency{Max: 1, OnLimit: limit.Skip}
	shared := string(limit.ScopeOf("key:/x"))
	for name, c := range map[string]struct {
		tasks []*task.Task
		want  string
	}{
		"nothing":       {nil, ""},
		"one":           {[]*task.Task{of("a", 1, own(5)), of("a", 2, own(5))}, "job.a: T0001 T0002"},
		"two":           {[]*task.Task{of("a", 1, own(5)), of("b", 2, own(5)), of("a", 3, own(5))}, "job.a: T0001 T0003; job.b: T0002"},
		"keys of a job": {[]*task.Task{of("a", 1, own(5), limit.Concurrency{Max: 1, Key: "k"}), of("a", 2, limit.Concurrency{Max: 1, Key: "l"})}, "job.a: T0001 T0002"},
		"under both":    {[]*task.Task{of("a", 1, own(5), x)}, "job.a: T0001, " + shared + ": T0001"},
		"joined": {[]*task.Task{of("a", 1, own(5)), of("c", 2, own(5)), of("b", 3, own(5), x), of("a", 4, own(5), x)},
			"job.a: T0001 T0004, job.b: T0003, " + shared + ": T0003 T0004; job.c: T0002"},
		"refused":                     {[]*task.Task{of("a", 1, skip), of("a", 2, skip), of("b", 3, own(1))}, "job.a: T0001 no T0002; job.b: T0003"},
		"refused under another scope": {[]*task.Task{of("a", 1, x, skip), of("b", 2, x), of("a", 3, skip)}, "job.a: T0001 no T0003, " + shared + ": T0001 T0002"},
	} {
		l := NewLimiter()
		for _, k := range c.tasks {
			l.Put(k)
		}
		d := l.Decide(noon, 100)
		if got := parted(l.Parts(&d)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A part that only refuses or replaces is recorded on the chain of its scope as well, from which no
// other decision draws until then. A refused task is not admitted again; if the record fails, it is
// refused again.
func TestPartsThatRefuse(t *testing.T) {
	for name, c := range map[string]struct{ onLimit, want, freed string }{
		"skip":    {limit.Skip, "job.a: no T0002", ""},
		"fail":    {limit.Fail, "job.a: no T0002", ""},
		"replace": {limit.CancelOld, "job.a: no T0001", "job.a: T0002"},
	} {
		l := NewLimiter()
		first := of("a", 1, limit.Concurrency{Max: 1})
		l.Put(first)
		d := l.Decide(noon, 100)
		l.Confirm(&d, 0)
		l.Put(of("a", 2, limit.Concurrency{Max: 1, OnLimit: c.onLimit}))
		for range 2 {
			d := l.Decide(noon, 100)
			parts := l.Parts(&d)
			if got := parted(parts); got != c.want {
				t.Fatalf("%s: %s, want %s", name, got, c.want)
			}
			l.Send(&parts[0])
			if l.Put(of("a", 3, limit.Concurrency{Max: 1, OnLimit: limit.Skip})); !l.Out("job:a") || !empty(l) {
				t.Errorf("%s: the scope is not closed", name)
			}
			l.Put(ended(3))
			l.Undo(&parts[0])
			l.Repeat(slices.Concat(parts[0].Refused, parts[0].Replaced))
			l.Settle(&parts[0])
		}
		d = l.Decide(noon, 100)
		l.Confirm(&d, 0)
		l.Put(ended(1)) // before the outcome of the other is reported
		if d = l.Decide(noon, 100); parted(l.Parts(&d)) != c.freed {
			t.Errorf("%s: then %s, want %s", name, parted(l.Parts(&d)), c.freed)
		}
	}
}

func empty(l *Limiter) bool {
	d := l.Decide(noon, 100)
	return d.Empty()
}

func ended(n int) *task.Task {
	t := of("a", n)
	t.State, t.Seq = task.Finished, 1000
	return t
}

// One decision refuses as many tasks as a batch holds, and the next refuses the rest.
func TestRefusedAtOnce(t *testing.T) {
	for _, onLimit := range []string{limit.Skip, limit.CancelOld} {
		l := NewLimiter()
		const many = 2*refusedAtOnce + 10
		for n := range many {
			l.Put(of("a", n+1, limit.Concurrency{Max: many, OnLimit: onLimit}))
		}
		d := l.Decide(noon, 1000)
		l.Confirm(&d, 0)
		for n := range many {
			l.Put(of("a", many+n+1, limit.Concurrency{Max: many, OnLimit: onLimit}))
		}
		refused := map[task.ID]bool{}
		for _, want := range []int{refusedAtOnce, refusedAtOnce, 10, 0} {
			d := l.Decide(noon, 1000)
			for _, r := range slices.Concat(d.Refused, d.Replaced) {
				refused[r.Task] = true
			}
			if got := len(d.Refused) + len(d.Replaced); got != want || want == refusedAtOnce && !d.Next.Equal(noon) {
				t.Errorf("%s: %d are refused and the next look is at %v, want %d", onLimit, got, d.Next, want)
			}
			l.Confirm(&d, 0)
		}
		if len(refused) != many {
			t.Errorf("%s: %d are refused, want %d", onLimit, len(refused), many)
		}
	}
}

// A rate goes onto the chain of its own scope, with the draws and the delay that a task asked for.
func TestRatesOfParts(t *testing.T) {
	l := NewLimiter()
	k := of("a", 1, limit.Concurrency{Max: 1})
	k.Spec.Rate = limit.Rates{{Limit: 1, Key: "/x"}}
	l.Put(k)
	other := of("b", 2)
	other.Spec.Rate = limit.Rates{{Limit: 1}}
	d := l.Decide(noon, 1)
	for name, b := range l.Pause(&other.Work, noon.Add(time.Minute)) {
		d.Rates[name] = time.Time(b)
	}
	if got, want := parted(l.Parts(&d)), "job.a: T0001, "+string(limit.ScopeOf("rate:/x"))+": T0001 rate:/x; job.b: rate:b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// While an admission of a scope is on its way, no other decision draws from its counters or refuses
// there. All other scopes continue, and waiting tasks go once it is settled.
func TestScopeThatIsOut(t *testing.T) {
	x, skip := limit.Concurrency{Max: 1, Key: "/x"}, limit.Concurrency{Max: 2, OnLimit: limit.Skip}
	l := NewLimiter()
	l.Put(of("a", 1, skip))
	d := l.Decide(noon, 100)
	first := l.Parts(&d)[0]
	if heads := l.Send(&first); fmt.Sprint(heads) != "[0]" {
		t.Fatalf("the chain ends at %v", heads)
	}
	if !l.Shut() || !l.Out("job:a") {
		t.Error("nothing else is there, and the limiter is not shut")
	}
	l.Put(of("a", 2, skip, x))
	l.Put(of("a", 3, skip))
	l.Put(of("a", 4, skip))
	l.Put(of("b", 5, x))
	if l.Shut() {
		t.Error("the limiter is shut though another scope is not")
	}
	d = l.Decide(noon, 100)
	if got := parted(l.Parts(&d)); got != string(limit.ScopeOf("key:/x"))+": T0005" {
		t.Errorf("meanwhile %s", got)
	}
	l.Confirm(&first, 0)
	l.Learn("job.a", 17)
	l.Settle(&first)
	d = l.Decide(noon, 100)
	next := l.Parts(&d)
	if got := parted(next); got != "job.a: T0003 no T0002 no T0004" {
		t.Errorf("then %s", got)
	}
	if heads := l.Send(&next[0]); fmt.Sprint(heads) != "[17]" {
		t.Errorf("then the chain ends at %v", heads)
	}
	l.Undo(&next[0])
	l.Settle(&next[0])
	if d = l.Decide(noon, 100); grants(d) != "T0003" {
		t.Errorf("what was taken back is admitted as %s", grants(d))
	}
}

// Only a bounded number of scopes without counters is remembered.
func TestScopesAreForgotten(t *testing.T) {
	l := NewLimiter()
	l.Put(of("a", 1, limit.Concurrency{Max: 1}))
	l.Learn("job.a", 3)
	for i := range keepScopes + 10 {
		l.Learn(limit.Scope(fmt.Sprint("job.", i)), 1)
	}
	l.Prune(noon)
	if len(l.scopes) != keepScopes || l.Head("job.a") != 3 {
		t.Errorf("%d scopes are known, the head of one that is used is %d", len(l.scopes), l.Head("job.a"))
	}
}

// Each scope has its own bound on grants per decision, so a busy one does not delay another.
func TestGrantsByScope(t *testing.T) {
	l := NewLimiter()
	for n := range 10 {
		l.Put(of("a", n, limit.Concurrency{Max: 100}))
	}
	for n := range 3 {
		l.Put(of("b", 10+n, limit.Concurrency{Max: 100}))
	}
	for _, want := range []string{
		"job.a: T0000 T0001 T0002 T0003; job.b: T0010 T0011 T0012", "job.a: T0004 T0005 T0006 T0007", "job.a: T0008 T0009", "",
	} {
		d := l.Decide(noon, 4)
		if got := parted(l.Parts(&d)); got != want {
			t.Errorf("%q is admitted, want %q", got, want)
		}
	}
}

// The scopes of one decision are no more than the chains that fit into one batch.
func TestScopesAtOnce(t *testing.T) {
	l := NewLimiter()
	for n := range 1000 {
		l.Put(of(fmt.Sprint("j", n), n, limit.Concurrency{Max: 1}, limit.Concurrency{Max: 2000, Key: "/all"}))
	}
	d := l.Decide(noon, 5000)
	if p := l.Parts(&d); len(p) != 1 || len(p[0].Scopes) != scopesAtOnce {
		t.Errorf("%d parts, the first of %d scopes", len(p), len(p[0].Scopes))
	}
}
