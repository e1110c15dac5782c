package metrics

import (
	"sync"
	"time"
)

// Loops measures the rounds of a scheduler's loops. It is a [Source]. Safe for concurrent use.
type Loops struct {
	mu    sync.Mutex
	loops map[string]*loop // guarded by mu
}

type loop struct {
	well, ill uint64
	took      *Histogram
	last      time.Time // of the last round without an error
}

// NewLoops returns a Loops for these loops.
func NewLoops(names ...string) *Loops {
	l := &Loops{loops: map[string]*loop{}}
	for _, name := range names {
		l.loops[name] = &loop{took: newHistogram(lookBounds)}
	}
	return l
}

// Looked records a finished round of a loop. It ignores unexpected loops.
func (l *Loops) Looked(name string, began, ended time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.loops[name]
	if !ok {
		return
	}
	k.took.observe(ended.Sub(began))
	if err != nil {
		k.ill++
		return
	}
	k.well++
	k.last = ended
}

// Last is when a loop last completed a round without an error; zero for never.
func (l *Loops) Last(name string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k, ok := l.loops[name]; ok {
		return k.last
	}
	return time.Time{}
}

// Collect gives the rounds.
func (l *Loops) Collect(emit Emit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, k := range l.loops {
		emit(Looks, float64(k.well), nil, name, "ok")
		emit(Looks, float64(k.ill), nil, name, "error")
		emit(LookTime, 0, k.took, name)
		last := 0.0
		if !k.last.IsZero() {
			last = float64(k.last.UnixMilli()) / 1000
		}
		emit(LastLook, last, nil, name)
	}
}
