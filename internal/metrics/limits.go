package metrics

import (
	"strings"
	"sync"

	"millrace/task/quota"
)

// MaxLimits is how many limits have their own names in labels.
const MaxLimits = 100

// Limits emits the usage of limits. It is a [Source]. All keys of one limit are added up, so the
// number of series does not depend on the number of keys.
type Limits struct {
	names *Names

	mu   sync.Mutex
	list func() []quota.CounterState // guarded by mu; nil before the scheduler starts
}

// NewLimits returns a source without limits.
func NewLimits() *Limits { return &Limits{names: NewNames(MaxLimits, Other)} }

// Watch sets the function that lists the counters.
func (l *Limits) Watch(list func() []quota.CounterState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = list
}

// limitSum is the usage under all keys of a limit.
type limitSum struct {
	inUse, places, waiting, left int
	slots, rate, budget          bool
	used                         float64
}

// Collect reads the counters from the scheduler.
func (l *Limits) Collect(emit Emit) {
	l.mu.Lock()
	list := l.list
	l.mu.Unlock()
	if list == nil {
		return
	}
	sums := map[string]*limitSum{}
	for _, c := range list() {
		name := l.names.Of(limitName(c.Name))
		s := sums[name]
		if s == nil {
			s = &limitSum{}
			sums[name] = s
		}
		s.waiting += c.Waiting
		switch {
		case c.Budget != nil:
			s.budget, s.used = true, max(s.used, c.Budget.Share())
		case c.Rate != nil:
			s.rate, s.left = true, s.left+c.Rate.Left
		default:
			s.slots, s.inUse, s.places = true, s.inUse+c.InUse, s.places+c.Max
		}
	}
	for name, s := range sums {
		emit(LimitWaiting, float64(s.waiting), nil, name)
		if s.slots {
			emit(LimitInUse, float64(s.inUse), nil, name)
			emit(LimitPlaces, float64(s.places), nil, name)
		}
		if s.budget {
			emit(LimitBudgetUsed, s.used, nil, name)
		}
		if s.rate {
			emit(LimitRateLeft, float64(s.left), nil, name)
		}
	}
}

// limitName is the name of a limit without its key: "key:crawl" for "key:crawl/example.com". Keys
// common to all jobs keep only the kind: "key:".
func limitName(counter string) string {
	kind, rest, _ := strings.Cut(counter, ":")
	job, _, _ := strings.Cut(rest, "/")
	return kind + ":" + job
}
