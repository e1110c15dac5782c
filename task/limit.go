package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// Counters returns the limits of a task: concurrency first, then budgets, then rates. The error
// says that a key names a value that the task was not given.
func (w *Work) Counters() ([]limit.Counter, error) {
	if !w.Spec.Limited() {
		return nil, nil
	}
	all := make([]limit.Counter, 0, len(w.Spec.Concurrency)+len(w.Spec.Budget)+len(w.Spec.Rate))
	for i, c := range w.Spec.Concurrency {
		name, err := w.scoped("job:", "key:", c.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", limit.EntryName("concurrency", i, len(w.Spec.Concurrency)), err)
		}
		of := limit.Counter{Name: name, Max: c.Max, OnLimit: c.OnLimit}
		if twin := limit.Named(all, name); twin == nil {
			all = append(all, of)
		} else if c.Max < twin.Max { // two keys became the same: the task takes one place
			*twin = of
		}
	}
	for i, b := range w.Spec.Budget {
		name, err := w.scoped(b.Kind(), b.Kind(), b.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", limit.EntryName("budget", i, len(w.Spec.Budget)), err)
		}
		of := limit.Counter{Name: name, Allows: b.Allowance(w.Spec.Timeout.Run)}
		if twin := limit.Named(all, name); twin == nil {
			all = append(all, of)
		} else {
			twin.Allows = twin.Allows.Tighter(of.Allows)
		}
	}
	slots := len(all)
	for i, r := range w.Spec.Rate {
		name, err := w.scoped("rate:", "rate:", r.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", limit.EntryName("rate", i, len(w.Spec.Rate)), err)
		}
		if limit.Named(all[slots:], name) != nil {
			name += "@" + value.Duration(r.Within()).String() // a bucket has one rate
		}
		if r.Key = ""; limit.Named(all[slots:], name) == nil {
			all = append(all, limit.Counter{Name: name, Rate: r})
		}
	}
	return all, nil
}

// scoped returns the name that tasks share under a limit or a key. Without a key it is alone and the
// task's job. With one it is keyed, the job, a slash and the value of the key; a key that begins
// with / leaves out the job. Tasks without a job have their queue in its place. The error says that
// the key names a value that the task was not given.
func (w *Work) scoped(alone, keyed, key string) (string, error) {
	scope := w.Job
	if scope == "" {
		if key == "" && alone == "job:" {
			return "queue:" + w.homeQueue(), nil
		}
		scope = "queue." + w.homeQueue() // no job has a name with a dot
	}
	if key == "" {
		return alone + scope, nil
	}
	value, err := w.expand(key)
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(key, "/"):
		return keyed + value, nil
	}
	return keyed + scope + "/" + value, nil
}

// homeQueue is the task's queue, even while it waits for certain nodes.
func (w *Work) homeQueue() string {
	if _, own := w.Route.Node(); own && w.Spec != nil && w.Spec.Place.Queue != "" || w.Route.Selected() {
		return w.FallbackQueue()
	}
	return w.Route.Queue()
}

// expand fills in a key.
func (w *Work) expand(key string) (string, error) {
	var b strings.Builder
	rest := key
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("%q: a { is not closed", key)
		}
		value, err := w.given(name)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		rest = tail
	}
	filled := b.String()
	if len(filled) > limit.MaxKey {
		return "", fmt.Errorf("%q becomes %d bytes long, want at most %d", key, len(filled), limit.MaxKey)
	}
	return strings.ToValidUTF8(filled, "\uFFFD"), nil
}

// given returns the task's value under a name such as params.customer.
func (w *Work) given(name string) (string, error) {
	kind, field, _ := strings.Cut(name, ".")
	switch kind {
	case "queue":
		return w.homeQueue(), nil
	case "labels":
		if value, ok := w.Labels[field]; ok {
			return value, nil
		}
		return "", fmt.Errorf("{%s}: the task has no label %q", name, field)
	case "params":
		var params map[string]json.RawMessage
		if len(w.Params) > 0 {
			if err := json.Unmarshal(w.Params, &params); err != nil {
				return "", fmt.Errorf("{%s}: %w", name, value.Plainly(err))
			}
		}
		raw, ok := params[field]
		if !ok {
			return "", fmt.Errorf("{%s}: the task has no parameter %q", name, field)
		}
		var text string
		if w.Spelled || json.Unmarshal(raw, &text) == nil {
			return value.Spell(raw), nil
		}
		return string(raw), nil
	}
	return "", fmt.Errorf("{%s}: want {params.NAME}, {labels.NAME} or {queue}", name)
}

// Granted records that limits admit tasks, or refuse them. It lies on the chain of their scope, so
// any number of schedulers together admit no more tasks than there are places, and never refuse an
// admitted one.
type Granted struct {
	Grants []Grant `json:"grants,omitzero"`
	// Rates are the rate buckets that the grants drew from, with their state afterwards, by
	// counter.
	Rates map[string]time.Time `json:"rates,omitzero" redact:"counter"`
	// Refused are tasks for which a limit of the scope has no place, or that make place for newer
	// ones. The end of each, or the request to stop it, precedes this fact in the same batch.
	Refused []ID `json:"refused,omitzero" redact:"keep"`
}

// Grant admits one task, for its present turn.
type Grant struct {
	Task ID     `json:"task" redact:"keep"`
	Turn uint64 `json:"turn"`
	// Limits are the names of the counters.
	Limits []string `json:"limits,omitempty" redact:"counter"`
	// Rated is the value for the offer to be placed, see [Queued].
	Rated uint64 `json:"rated,omitempty"`
}

// LimitEvent is a fact about limits as such. The set is closed.
type LimitEvent interface{ isLimitEvent() }

func (Granted) isLimitEvent() {}

// Refuse ends a task for which its limit has no place, as on_limit demands.
type Refuse struct {
	// Limit is the name of the counter whose on_limit applies.
	Limit string
	// Detail names the limit in words.
	Detail string
}

func (Refuse) isCommand() {}

func refuse(t *Task, c Refuse) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case !t.Admissible():
		return nil, ErrNotWaiting
	}
	counters, err := t.Counters()
	if err != nil {
		return nil, err
	}
	if of := limit.Named(counters, c.Limit); of != nil && of.OnLimit == limit.Fail {
		return GivenUp{Reason: value.Limit, Detail: c.Detail}, nil
	}
	return CancelConfirmed{Code: value.Limit, Reason: c.Detail}, nil
}

// Admissible tells whether the limits may admit the task: only they hold it.
func (t *Task) Admissible() bool {
	return t.Waiting() && len(t.Holds) == 1 && t.Holds[0] == HoldLimit
}

// HoldsPlaces tells whether a task has a place in each of its limits, given its state, whether only
// these hold it, its turn, and the turn of its latest grant, if there is one. It holds the places
// from that grant until it ends or waits for another attempt. A lost attempt keeps its places for
// the next one.
func HoldsPlaces(s State, held bool, turn, granted uint64, ok bool) bool {
	switch s {
	case Pending, Running, Cancelling:
		return true
	}
	return ok && held && turn == granted
}

// AdmittedOffer is the offer of a task that its limits have admitted in its present turn, by a
// grant with this [Grant.Rated].
func AdmittedOffer(t Task, rated uint64) Queued {
	t.Holds = nil
	return Queued{Work: t.Work, Attempt: t.Attempt + 1, After: t.Turn, Reason: "admitted", Due: t.Due, Rated: rated}
}

// ValidKeys refuses a key of a rule that names a value that the task was not given. The rules of a
// parent apply to its children.
func (w *Work) ValidKeys() error {
	if w.Spec == nil || w.Spec.Parental() {
		return nil
	}
	for i := range job.Rules {
		r := &job.Rules[i]
		if r.Keys == nil || !r.Has(w.Spec) {
			continue
		}
		for _, key := range r.Keys(w.Spec) {
			if _, err := w.expand(key.Text); err != nil {
				return fmt.Errorf("%s: %w", key.Field, err)
			}
		}
	}
	return nil
}

// Budgeted tells whether the task has a budget.
func (w *Work) Budgeted() bool { return w.Spec.Limited() && len(w.Spec.Budget) > 0 }

// Course is how far a task is with its attempts.
type Course struct {
	State State
	Epoch uint64
	// StartedAt is when the current or latest attempt began.
	StartedAt time.Time
}

func (c Course) runs() bool { return c.State == Running || c.State == Cancelling }

// Course returns how far the task is with its attempts.
func (t *Task) Course() Course { return Course{t.State, t.Epoch, t.StartedAt} }

// Shift applies a record to the task and returns how that changed its attempts.
func (t *Task) Shift(r Recorded) limit.Shift {
	was := t.Course()
	t.Apply(r)
	return ShiftOf(was, t.Course(), r)
}

// ShiftOf is [Task.Shift] from the task's course before and after the record.
func ShiftOf(was, is Course, r Recorded) limit.Shift {
	s := limit.Shift{Ended: was.runs() && (!is.runs() || was.Epoch != is.Epoch), Began: is.runs() && was.Epoch != is.Epoch}
	if !s.None() {
		s.At = r.At
	}
	if s.Ended {
		s.From = was.StartedAt
	}
	return s
}

// OnNode returns the counters of the task's per_node bounds, named like those of [Work.Counters].
// The error says that a key names a value that the task was not given.
func (w *Work) OnNode() ([]limit.Counter, error) {
	if w.Spec == nil || w.Spec.Parental() { // the bounds apply to its children
		return nil, nil
	}
	var all []limit.Counter
	for i, p := range w.Spec.PerNode {
		name, err := w.scoped("job:", "key:", p.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", limit.EntryName(value.PerNode, i, len(w.Spec.PerNode)), err)
		}
		if twin := limit.Named(all, name); twin == nil {
			all = append(all, limit.Counter{Name: name, Max: p.Max})
		} else {
			twin.Max = min(twin.Max, p.Max)
		}
	}
	return all, nil
}

// StickyName is the name that tasks share which stick to one node; "" if this task does not stick,
// or only to its own last node. The error says that the key names a value that the task was not
// given.
func (w *Work) StickyName() (string, error) {
	key := ""
	switch {
	case w.Spec == nil || w.Spec.Place.Sticky == "" || w.Spec.Place.Sticky == job.StickyAttempt:
		return "", nil
	case w.Spec.Place.Sticky != job.StickyJob:
		key = w.Spec.Place.Sticky
	}
	name, err := w.scoped("sticky:", "sticky:", key)
	if err != nil {
		return "", fmt.Errorf("place.sticky: %w", err)
	}
	return name, nil
}

// UniqueKey is the task's expanded key with its scope in front; "" if it has none. The error says
// that the key names a value that the task was not given.
func (w *Work) UniqueKey() (string, error) {
	if w.Spec == nil || w.Spec.Lock().Key == "" {
		return "", nil
	}
	field := "unique.key"
	if w.Spec.Collapse != nil {
		field = "collapse.key"
	}
	name, err := w.scoped("unique:", "unique:", w.Spec.Lock().Key)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return strings.TrimPrefix(name, "unique:"), nil
}
