package verify

import (
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
)

// I-4, the limits of tasks: an admission lies on the chains of all scopes whose limits it takes from. At no sequence run more epochs under one counter than the most
// that a task among them allows. Slots are freed by the end of an epoch only, so there is
// no epoch that is open in the log and whose place somebody else may have.

// limited are the limits that a task stands under: the bounds on its concurrency, then its budgets, and then its rates.
type limited []bound

// bound is one of them. Its counter is the number of a word; a rate and a budget have the number of what they allow, and max is 0.
type bound struct {
	counter, max, how uint32
	onLimit           string
}

// allowed is what a rate or a budget allows; the other one is zero.
type allowed struct {
	rate   task.Rate
	budget task.Allowance
}

// allowances are what rates and budgets allow: few for many tasks.
type allowances struct {
	index map[allowed]uint32
	list  []allowed
}

func (r *allowances) number(how allowed) uint32 {
	n, ok := r.index[how]
	if !ok {
		n = uint32(len(r.list))
		r.index[how], r.list = n, append(r.list, how)
	}
	return n
}

// rate is the rate that a limit is; false if it is none.
func (v *Verifier) rate(b bound) (task.Rate, bool) {
	how := v.tasks.allowances.list[b.how].rate
	return how, how.Limit > 0
}

func (t *tasks) limited(w *task.Work) limited {
	if !w.Spec.Limited() {
		return nil
	}
	counters, err := w.Counters()
	if err != nil {
		return nil // nobody can have admitted it
	}
	var all limited
	for _, c := range counters {
		all = append(all, bound{uint32(t.words.number(c.Name)), uint32(c.Max), t.allowances.number(allowed{c.Rate, c.Allows}), onLimit(c.OnLimit)})
	}
	return all
}

// onLimit is the constant of a text, which shares no memory with a record.
func onLimit(s string) string {
	if i := slices.Index(task.OnLimits, s); i >= 0 {
		return task.OnLimits[i]
	}
	return ""
}

// use is who runs under a counter: epochs, and what each of them allows.
type use map[uint64]uint32

// occupy opens an epoch under its limits.
func (v *Verifier) occupy(s *story, epoch uint64) {
	for _, b := range s.limit {
		v.occupyOne(s, b, epoch)
	}
}

func (v *Verifier) occupyOne(s *story, b bound, epoch uint64) {
	if b.max == 0 {
		return
	}
	v.checked[Limits]++
	u := v.uses[b.counter]
	if u == nil {
		u = use{}
		v.uses[b.counter] = u
	}
	u[epoch] = b.max
	most := uint32(0)
	seqs := make([]uint64, 0, len(u))
	for e, allowed := range u {
		most = max(most, allowed)
		seqs = append(seqs, e)
	}
	if len(u) <= int(most) {
		return
	}
	slices.Sort(seqs)
	name := v.tasks.words.list[b.counter]
	v.find(Limits, Finding{Task: s.id, Seqs: seqs,
		What: fmt.Sprintf("at %d the limit %s has %d attempts under way, and allows %d", epoch, name, len(u), most),
		Look: "`millrace events show` of each epoch, and the `limit.granted` before them"})
}

// vacate closes an epoch under its limits.
func (v *Verifier) vacate(s *story, epoch uint64) {
	for _, b := range s.limit {
		if u := v.uses[b.counter]; u != nil {
			if delete(u, epoch); len(u) == 0 {
				delete(v.uses, b.counter)
			}
		}
	}
}

// admissions are those that lie directly one behind the other: a task under limits of several scopes is admitted on
// the chains of all of them in one batch. So whoever takes from one of its counters has seen it.
type admissions struct {
	first, last uint64
	missing     map[granted][]task.Scope // of those seen so far, on which chains they have not been
}

// granted is an admission of a task.
type granted struct {
	task task.ID
	turn uint64
}

// admissionsAt reads the next record of any kind.
func (v *Verifier) admissionsAt(r *events.Record) {
	a := &v.admitted
	if len(a.missing) > 0 && (r.Kind != events.KindLimit || r.Seq != a.last+1) {
		v.judgeAdmissions()
	}
	if r.Kind != events.KindLimit {
		return
	}
	if r.Seq != a.last+1 {
		a.first = r.Seq
	}
	a.last = r.Seq
	e, _ := r.Fact.Event.(task.Granted)
	for _, g := range e.Grants {
		v.checked[Limits]++
		v.admittedOn(r, &g)
	}
}

func (v *Verifier) admittedOn(r *events.Record, g *task.Grant) {
	a := &v.admitted
	key := granted{g.Task, g.Turn}
	open, seen := a.missing[key]
	if !seen {
		for _, name := range g.Limits {
			if of := task.ScopeOf(name); !slices.Contains(open, of) {
				open = append(open, of)
			}
		}
		if len(open) == 0 {
			return // it is under none any more
		}
	}
	at := slices.Index(open, r.Fact.Scope)
	if at < 0 {
		v.find(Limits, Finding{Task: g.Task, Seqs: []uint64{r.Seq},
			What: fmt.Sprintf("it is admitted on the chain of %s, and stands under %v", r.Fact.Scope, g.Limits),
			Look: "`millrace events show` of the `limit.granted`"})
		return
	}
	if open = slices.Delete(open, at, at+1); len(open) == 0 {
		delete(a.missing, key)
		return
	}
	if a.missing == nil {
		a.missing = map[granted][]task.Scope{}
	}
	key.task = task.ID(strings.Clone(string(key.task)))
	a.missing[key] = open
}

// judgeAdmissions finds those that lie on some of their chains only.
func (v *Verifier) judgeAdmissions() {
	a := &v.admitted
	for key, open := range a.missing {
		if a.first == v.first && !v.whole() {
			continue // the others may lie before the range
		}
		v.find(Limits, Finding{Task: key.task, Seqs: []uint64{a.first, a.last},
			What: fmt.Sprintf("it is admitted for turn %d, and that is missing on the chains of %v", key.turn, open),
			Look: "`millrace events show` of the `limit.granted` from the first to the last sequence"})
	}
	a.missing = nil
}
