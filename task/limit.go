package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"millrace/task/value"
)

// Concurrency bounds how many tasks may be under way at once: of one job, or with a key of
// all that have the key's value in common.
type Concurrency struct {
	// Max is how many, 1 or more. It is the task's own: a task starts while fewer than
	// its Max of the same counter are under way, whatever theirs says.
	Max int `json:"max,omitempty"`
	// Key splits the bound: each value has its own. {params.NAME} and {labels.NAME} stand for
	// what the task was given, {queue} for its queue. A key that begins with / is common to all
	// jobs. Default: one bound for the job, or for what is run in a queue without a job.
	Key string `json:"key,omitempty"`
	// OnLimit is what becomes of a task that finds no place: [LimitWait], the default,
	// [LimitSkip], [LimitCancelOld] or [LimitFail]. A task that comes back for another attempt
	// always waits.
	OnLimit string `json:"on_limit,omitempty"`
}

// What becomes of a task for which its limit has no place.
const (
	LimitWait      = "wait"       // it waits, by priority and then by age
	LimitSkip      = "skip"       // it ends as cancelled/limit
	LimitCancelOld = "cancel_old" // the oldest one is cancelled, and it starts when that has ended
	LimitFail      = "fail"       // it ends as abnormal/limit
)

// OnLimits lists the values of [Concurrency.OnLimit].
var OnLimits = []string{LimitWait, LimitSkip, LimitCancelOld, LimitFail}

// Rate bounds how often tasks may start.
type Rate struct {
	// Limit is how many attempts may start in Per, evenly spread: 1 or more.
	Limit int `json:"limit,omitempty"`
	// Per is the time to which Limit refers. Default 1s.
	Per value.Duration `json:"per,omitempty"`
	// Burst is how many may start at once after a quiet time. Default 1.
	Burst int `json:"burst,omitempty"`
	// Key is as that of [Concurrency].
	Key string `json:"key,omitempty"`
}

// Limited tells whether a limit has to admit the tasks of a spec.
func (s *Spec) Limited() bool {
	return s != nil && (len(s.Concurrency) > 0 || len(s.Budget) > 0 || len(s.Rate) > 0) && !s.Parental() // its children stand under them
}

// Counter is one limit that a task stands under. Exactly one of Max, Allows and Rate is set.
type Counter struct {
	// Name is common to all tasks that share the limit: "job:<job>", "queue:<queue>" for what
	// runs without a job, "key:<job>/<key>", "rate:<job>" or "rate:<job>/<key>". A second rate
	// with the same key has its time behind an @. A budget is "budget:<period>:<job>" or "budget:<period>:<job>/<key>",
	// see [Budget]. The rate of a queue is "rate:queue:<queue>", and in the log
	// has the sequence of the fact that set it behind a #.
	Name string
	// Max is how many tasks may hold it at once.
	Max int
	// OnLimit is what becomes of the task if it has no place.
	OnLimit string
	// Allows is how much of a budget the task may find used up.
	Allows Allowance
	// Rate is how often it admits.
	Rate Rate
}

// Counters returns the limits that a task stands under, those on its concurrency first, and then budgets. The
// error says that a key names something that the task was not given.
func (w *Work) Counters() ([]Counter, error) {
	if !w.Spec.Limited() {
		return nil, nil
	}
	all := make([]Counter, 0, len(w.Spec.Concurrency)+len(w.Spec.Budget)+len(w.Spec.Rate))
	for i, c := range w.Spec.Concurrency {
		name, err := w.counter("job:", "key:", c.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", entryName("concurrency", i, len(w.Spec.Concurrency)), err)
		}
		of := Counter{Name: name, Max: c.Max, OnLimit: c.OnLimit}
		if twin := counterNamed(all, name); twin == nil {
			all = append(all, of)
		} else if c.Max < twin.Max { // keys that became the same: one place is taken, not two
			*twin = of
		}
	}
	for i, b := range w.Spec.Budget {
		name, err := w.counter(b.kind(), b.kind(), b.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", entryName("budget", i, len(w.Spec.Budget)), err)
		}
		of := Counter{Name: name, Allows: b.allowance(w.Spec.Timeout.Run)}
		if twin := counterNamed(all, name); twin == nil {
			all = append(all, of)
		} else {
			twin.Allows = twin.Allows.tighter(of.Allows)
		}
	}
	slots := len(all)
	for i, r := range w.Spec.Rate {
		name, err := w.counter("rate:", "rate:", r.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.key: %w", entryName("rate", i, len(w.Spec.Rate)), err)
		}
		if counterNamed(all[slots:], name) != nil {
			name += "@" + value.Duration(r.Within()).String() // a bucket stands for one rate
		}
		if r.Key = ""; counterNamed(all[slots:], name) == nil {
			all = append(all, Counter{Name: name, Rate: r})
		}
	}
	return all, nil
}

func counterNamed(counters []Counter, name string) *Counter {
	for i := range counters {
		if counters[i].Name == name {
			return &counters[i]
		}
	}
	return nil
}

func (w *Work) counter(alone, keyed, key string) (string, error) {
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

// homeQueue is the task's queue, also while it waits for certain nodes.
func (w *Work) homeQueue() string {
	if _, own := w.Route.Node(); own && w.Spec != nil && w.Spec.Place.Queue != "" || w.Route.Selected() {
		return w.sharedName()
	}
	return w.Route.Queue()
}

// maxKey is how long a key may be when it is filled in, in bytes.
const maxKey = 256

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
	if len(filled) > maxKey {
		return "", fmt.Errorf("%q becomes %d bytes long, want at most %d", key, len(filled), maxKey)
	}
	return strings.ToValidUTF8(filled, "\uFFFD"), nil
}

// given is what the task was given under a name such as params.customer.
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
				return "", fmt.Errorf("{%s}: %w", name, err)
			}
		}
		raw, ok := params[field]
		if !ok {
			return "", fmt.Errorf("{%s}: the task has no parameter %q", name, field)
		}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text, nil
		}
		return string(raw), nil
	}
	return "", fmt.Errorf("{%s}: want {params.NAME}, {labels.NAME} or {queue}", name)
}

// validKey refuses what [Work.expand] could fill in for no task.
func validKey(field, key string) error {
	if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%s is %.40q, want up to %d bytes of text without control characters", field, key, maxKey)
	}
	for rest := key; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return nil
		}
		name, tail, closed := strings.Cut(after, "}")
		kind, of, _ := strings.Cut(name, ".")
		if !closed || name != "queue" && (of == "" || kind != "params" && kind != "labels") {
			return fmt.Errorf("%s is %q, want text with {params.NAME}, {labels.NAME} or {queue} in it", field, key)
		}
		rest = tail
	}
}

func (c Concurrency) validate(field string) error {
	switch {
	case c.Max < 0:
		return fmt.Errorf("%s.max is %d, want 1 or more", field, c.Max)
	case c.Max == 0:
		return fmt.Errorf("%s.max is missing: how many may run at once", field)
	case c.OnLimit != "" && !slices.Contains(OnLimits, c.OnLimit):
		return fmt.Errorf("%s.on_limit is %q, want one of %v", field, c.OnLimit, OnLimits)
	}
	return validKey(field+".key", c.Key)
}

func (r Rate) validate(field string) error {
	switch {
	case r.Limit < 0:
		return fmt.Errorf("%s.limit is %d, want 1 or more", field, r.Limit)
	case r.Limit == 0:
		return fmt.Errorf("%s.limit is missing: how many may start", field)
	case r.Per < 0:
		return fmt.Errorf("%s.per is %v, want more than 0", field, r.Per)
	case r.Limit > 0 && r.Every() <= 0:
		return fmt.Errorf("%s.limit is %d in %v, want at most one in a nanosecond", field, r.Limit, r.Within())
	case r.Burst < 0:
		return fmt.Errorf("%s.burst is %d, want 1 or more, or 0 for the default", field, r.Burst)
	case r.Burst > maxBurst:
		return fmt.Errorf("%s.burst is %d, want at most %d", field, r.Burst, maxBurst)
	}
	return validKey(field+".key", r.Key)
}

// maxBurst keeps the arithmetic of buckets in bounds.
const maxBurst = 1_000_000

// Within is the time in which so many may start.
func (r Rate) Within() time.Duration {
	if r.Per == 0 {
		return time.Second
	}
	return r.Per.Std()
}

// Every is the time between two starts at the full rate.
func (r Rate) Every() time.Duration {
	if r.Limit <= 0 {
		return 0
	}
	return r.Within() / time.Duration(r.Limit)
}

// Bucket is how much of a rate is used up: the time at which it would be as good as
// untouched (the theoretical arrival time of the generic cell rate algorithm). The zero
// value is untouched.
type Bucket time.Time

// Opens is when the bucket admits one more.
func (b Bucket) Opens(r Rate) time.Time {
	if time.Time(b).IsZero() {
		return time.Time{}
	}
	spare := time.Duration(max(r.Burst, 1)-1) * r.Every()
	return time.Time(b).Add(-spare)
}

// Left is how many the bucket would admit now.
func (b Bucket) Left(r Rate, now time.Time) int {
	if r.Every() <= 0 {
		return 0
	}
	full := max(r.Burst, 1)
	opens := b.Opens(r)
	if opens.After(now) {
		return 0
	}
	if time.Time(b).IsZero() {
		return full
	}
	return min(full, 1+int(now.Sub(opens)/r.Every()))
}

// Take is the bucket after it has admitted one.
func (b Bucket) Take(r Rate, now time.Time) Bucket {
	return Bucket(later(now, time.Time(b)).Add(r.Every()))
}

// Pause is the bucket if it is to admit nothing before a time.
func (b Bucket) Pause(r Rate, until time.Time) Bucket {
	spare := time.Duration(max(r.Burst, 1)-1) * r.Every()
	return Bucket(later(until.Add(spare), time.Time(b)))
}

// Granted says that limits admit tasks, or refuse them. It is recorded on the chain of their scope, so
// that any number of schedulers admit no more than there is place for, and nobody is refused who is admitted.
type Granted struct {
	Grants []Grant `json:"grants,omitzero"`
	// Rates are the buckets from which was taken, as they are then, by counter.
	Rates map[string]time.Time `json:"rates,omitzero"`
	// Refused are tasks for which a limit of the scope has no place, or that make place for newer ones: the end of
	// each, or the request to stop it, is recorded in the same batch, before this.
	Refused []ID `json:"refused,omitzero"`
}

// Grant admits one task, for its present turn.
type Grant struct {
	Task ID     `json:"task"`
	Turn uint64 `json:"turn"`
	// Limits are the names of the counters.
	Limits []string `json:"limits,omitempty"`
	// Rated is that of the offer to be placed, see [Queued].
	Rated uint64 `json:"rated,omitempty"`
}

// LimitEvent is a fact about limits as such. The set is closed.
type LimitEvent interface{ isLimitEvent() }

func (Granted) isLimitEvent() {}

// Refuse ends a task for which its limit has no place, as its on_limit says.
type Refuse struct {
	// Limit is the name of the counter, whose on_limit counts.
	Limit string
	// Detail says in words which limit it is.
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
	if of := counterNamed(counters, c.Limit); of != nil && of.OnLimit == LimitFail {
		return GivenUp{Reason: ReasonLimit, Detail: c.Detail}, nil
	}
	return CancelConfirmed{Code: ReasonLimit, Reason: c.Detail}, nil
}

// Admissible tells whether the limits may admit the task: nothing else holds it.
func (t *Task) Admissible() bool {
	return t.Waiting() && len(t.Holds) == 1 && t.Holds[0] == HoldLimit
}

// Holding tells whether the task has a place in each of its limits when the latest
// grant was for a turn: from that grant on until it ends or waits for another attempt. An
// attempt that was lost keeps the place for the next one.
func (t *Task) Holding(granted uint64, ok bool) bool {
	return HoldsPlaces(t.State, t.Admissible(), t.Turn, granted, ok)
}

// HoldsPlaces tells the same of what is known of a task: its state, whether only its limits hold it, its turn, and
// the turn of the latest grant.
func HoldsPlaces(s State, held bool, turn, granted uint64, ok bool) bool {
	switch s {
	case Pending, Running, Cancelling:
		return true
	}
	return ok && held && turn == granted
}

// AdmittedOffer is the offer of a task that its limits have admitted for its present turn, by a grant
// with this [Grant.Rated].
func AdmittedOffer(t Task, rated uint64) Queued {
	t.Holds = nil
	return Queued{Work: t.Work, Attempt: t.Attempt + 1, After: t.Turn, Reason: "admitted", Due: t.Due, Rated: rated}
}
