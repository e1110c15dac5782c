package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
)

// Of what limits admit is decided here what needs no other task: that each stands under the counters that its admission
// names, and what is left of the rates. Only a pause of a rate, which a task that fails asks for, may have come before and
// not be heeded. Who is admitted, and who is not, comes of all tasks: [lineup].

// bucket is what is kept of a rate.
type bucket struct {
	used   time.Time
	seq    uint64      // of the admission that has left it so
	paused []time.Time // what it became when tasks asked for a pause, as long as that is more
}

// standing follows how tasks stand before their limits, and which pauses were asked for. The story is that after the record.
func (s *story) standing(v *Verifier, r *events.Record) {
	if !v.asked[Decisions] || !v.whole() {
		return
	}
	if e, ok := r.Fact.Event.(task.AttemptFailed); ok && r.Err == nil && e.RetryAfter > 0 {
		k := v.tasks.task(s.id, &s.now)
		s.pauses(v, &k, r.Fact.At.Add(e.RetryAfter.Std()))
	}
	v.lineup.stands(v, s, r)
}

// pauses shuts the rates of a task until a time.
func (s *story) pauses(v *Verifier, k *task.Task, until time.Time) {
	for _, b := range s.limit {
		if how, ok := v.rate(b); ok {
			v.pause(v.tasks.words.list[b.counter], how, until)
		}
	}
	if queue := k.RateQueue(); queue != "" {
		if past := v.queuePast[queue]; len(past) > 0 {
			if q := &past[len(past)-1]; q.Rate.Limit > 0 {
				v.pause(task.RateOf(q).Counter(), q.Rate, until)
			}
		}
	}
}

func (v *Verifier) pause(name string, how task.Rate, until time.Time) {
	b := v.bucket(name)
	if p := time.Time(task.Bucket{}.Pause(how, until)); p.After(b.used) && !slices.ContainsFunc(b.paused, p.Equal) {
		b.paused = append(b.paused, p)
	}
}

func (v *Verifier) bucket(name string) *bucket {
	n := v.tasks.words.number(name)
	b := v.buckets[n]
	if b == nil {
		b = &bucket{}
		v.buckets[n] = b
	}
	return b
}

// limitFact decides an admission again.
func (v *Verifier) limitFact(r *events.Record) {
	e, ok := r.Fact.Event.(task.Granted)
	if r.Err != nil || !ok || !v.asked[Decisions] || !v.whole() {
		return
	}
	v.checked[Decisions]++
	found := v.violations[Decisions]
	if by(r).Seen == 0 {
		v.granted(r, "", 0, "it does not say up to where tasks were known")
	}
	takes := map[string][]task.Rate{} // by what each is taken from in turn
	for i := range e.Grants {
		v.grantAgain(r, &e.Grants[i], takes)
	}
	for _, name := range slices.Sorted(maps.Keys(takes)) {
		if _, told := e.Rates[name]; !told {
			v.granted(r, "", 0, "it takes from "+name+", and does not say what is left")
		}
	}
	from := map[string]time.Time{}
	for _, name := range slices.Sorted(maps.Keys(e.Rates)) {
		from[name] = v.rateAgain(r, name, e.Rates[name], takes[name])
	}
	v.lineup.admits(v, r, &e, from, v.violations[Decisions] > found)
}

// granted tells what is wrong with an admission.
func (v *Verifier) granted(r *events.Record, id task.ID, other uint64, what string) {
	seqs := []uint64{r.Seq}
	if other > 0 {
		seqs = []uint64{other, r.Seq}
	}
	v.find(Decisions, Finding{Task: task.ID(strings.Clone(string(id))), Seqs: seqs,
		What: fmt.Sprintf("%s of %s, decided again, is another one: %s", r.Fact.Type, strings.Clone(string(r.Fact.Scope)), what),
		Look: "`millrace events show " + number(r.Seq) + "`"})
}

// grantAgain judges one grant, and adds what it takes from the rates of the scope.
func (v *Verifier) grantAgain(r *events.Record, g *task.Grant, takes map[string][]task.Rate) {
	s := v.tasks.known(g.Task)
	switch {
	case s == nil || s.now.seq == 0:
		v.granted(r, g.Task, 0, "there was no such task")
		return
	case g.Turn > s.now.turn:
		v.granted(r, g.Task, 0, fmt.Sprintf("no turn of the task had begun at %d", g.Turn))
		return
	}
	if wrong := v.counts(s, g, r, takes); wrong != "" {
		v.granted(r, g.Task, 0, wrong)
	}
}

// counts compares the counters of a grant with those of its task: its own, and the rate of the queue.
func (v *Verifier) counts(s *story, g *task.Grant, r *events.Record, takes map[string][]task.Rate) (wrong string) {
	left := g.Limits
	for _, b := range s.limit {
		name := v.tasks.words.list[b.counter]
		if len(left) == 0 || left[0] != name {
			return fmt.Sprintf("the task stands under %s, and it is admitted under %v", name, g.Limits)
		}
		left = left[1:]
		if how, ok := v.rate(b); ok && task.ScopeOf(name) == r.Fact.Scope {
			takes[name] = append(takes[name], how)
		}
	}
	if len(left) == 0 {
		return ""
	}
	queue, _ := task.QueueOfLimit(left[0])
	q, known := v.queuePast[queue].at(g.Rated)
	switch {
	case !known && len(v.queuePast[queue]) == manyPasts && g.Rated < v.queuePast[queue][0].Head:
		v.forgotten++
	case len(left) > 1 || !known || task.RateOf(&q).Counter() != left[0]:
		return fmt.Sprintf("it is admitted under %v, and no fact at %d has set that", left, g.Rated)
	case task.ScopeOf(left[0]) == r.Fact.Scope:
		takes[left[0]] = append(takes[left[0]], q.Rate)
	}
	return ""
}

// rateAgain judges what is left of a rate from which so much was taken, and returns how it stood before.
func (v *Verifier) rateAgain(r *events.Record, name string, left time.Time, takes []task.Rate) (from time.Time) {
	b, at := v.bucket(name), r.Fact.At
	from = b.used
	before := append([]time.Time{b.used}, b.paused...)
	wrong := ""
	for i, used := range before {
		is := task.Bucket(used)
		shut := time.Time{}
		for _, how := range takes {
			if opens := is.Opens(how); opens.After(at) && shut.IsZero() {
				shut = opens
			}
			is = is.Take(how, at)
		}
		switch {
		case shut.IsZero() && time.Time(is).Equal(left):
			wrong, from = "", used
		case slices.ContainsFunc(b.paused, left.Equal):
			wrong, from = "", left
		case i > 0:
			continue
		case !shut.IsZero():
			wrong = fmt.Sprintf("%d are admitted by %s at %s, and it opens at %s", len(takes), name, at.UTC().Format(time.RFC3339Nano), shut.UTC().Format(time.RFC3339Nano))
			continue
		default:
			wrong = fmt.Sprintf("%s is used up until %s, and should be until %s", name, left.UTC().Format(time.RFC3339Nano), time.Time(is).UTC().Format(time.RFC3339Nano))
			continue
		}
		break
	}
	if wrong != "" {
		v.granted(r, "", b.seq, wrong)
	}
	b.used, b.seq = left, r.Seq
	b.paused = slices.DeleteFunc(b.paused, func(p time.Time) bool { return !p.After(left) || !p.After(at) })
	return from
}
