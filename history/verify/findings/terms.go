package findings

import (
	"slices"

	"millrace/task"
	"millrace/task/limit"
)

// Bounds are the limits of a task: concurrency, then budgets, then rates.
type Bounds []bound

// bound is one limit. Its counter is the number of a word. A rate or a budget has the number of its
// allowance, and max 0.
type bound struct {
	counter  Word
	max, how uint32
	onLimit  string
}

// Max is how many may run at once under the i-th bound.
func (b Bounds) Max(i int) int { return int(b[i].max) }

// OnLimit is what happens to a task that has no place under the i-th bound; "" where it waits.
func (b Bounds) OnLimit(i int) string { return b[i].onLimit }

// Terms holds the words and allowances in bounds, which many tasks share.
type Terms struct {
	words      *Words
	allowances allowances
}

// NewTerms returns Terms that take the names of counters from words.
func NewTerms(words *Words) *Terms {
	return &Terms{words: words, allowances: allowances{index: map[allowed]uint32{}}}
}

// Index is the index of a counter among bounds; -1 if it is missing.
func (t *Terms) Index(of Bounds, counter string) int {
	return slices.IndexFunc(of, func(b bound) bool { return t.words.Text(b.counter) == counter })
}

// allowed is the allowance of a rate or of a budget; the other one is zero.
type allowed struct {
	rate   limit.Rate
	budget limit.Allowance
}

// allowances numbers the allowances of rates and budgets, which many tasks share.
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

// rate returns the rate of a limit; false if it is not a rate.
func (t *Terms) rate(b bound) (limit.Rate, bool) {
	how := t.allowances.list[b.how].rate
	return how, how.Limit > 0
}

// Of returns the limits of a task born with w.
func (t *Terms) Of(w *task.Work) Bounds {
	if !w.Spec.Limited() {
		return nil
	}
	counters, err := w.Counters()
	if err != nil {
		return nil // it cannot have been admitted
	}
	var all Bounds
	for _, c := range counters {
		all = append(all, bound{t.words.Number(c.Name), uint32(c.Max), t.allowances.number(allowed{c.Rate, c.Allows}), onLimit(c.OnLimit)})
	}
	return all
}

// onLimit is the constant for a text. It shares no memory with a record.
func onLimit(s string) string {
	if i := slices.Index(limit.OnLimits, s); i >= 0 {
		return limit.OnLimits[i]
	}
	return ""
}

// OnNode returns the per_node bounds of a task.
func (t *Terms) OnNode(w *task.Work) Bounds {
	counters, err := w.OnNode()
	if err != nil {
		return nil // no worker can have claimed it
	}
	var all Bounds
	for _, c := range counters {
		all = append(all, bound{counter: t.words.Number(c.Name), max: uint32(c.Max)})
	}
	return all
}

// counters returns the limits in the form of a task's.
func (t *Terms) counters(l Bounds) (all []limit.Counter) {
	for _, b := range l {
		all = append(all, limit.Counter{
			Name:    t.words.Text(b.counter),
			Max:     int(b.max),
			OnLimit: b.onLimit,
			Rate:    t.allowances.list[b.how].rate,
			Allows:  t.allowances.list[b.how].budget,
		})
	}
	return all
}
