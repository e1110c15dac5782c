package metrics

import (
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// Bounds of what is counted for the plots.
const (
	// Every is how much time a point of the plots covers.
	Every   = 10 * time.Second
	buckets = 180
)

// Series counts recent ends and failures, and how long tasks wait for their start, by the log's
// time. It is a [projections.Observer], and so covers what the read model has folded since it was
// opened.
type Series struct {
	mu    sync.Mutex
	of    [buckets]bucket // guarded by mu; by the number of the bucket, modulo
	since time.Time       // guarded by mu; the time of the first counted record
}

type bucket struct {
	n                    int64 // its number since 1970
	done, failed, starts int
	waited               time.Duration // all of those that started
	// oldest is how long the task had waited that had waited longest, when it was last asked for; asked tells whether it was.
	oldest time.Duration
	asked  bool
}

// Observe counts records.
func (s *Series) Observe(steps []events.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range steps {
		s.add(&steps[i])
	}
}

// add is called with mu held.
func (s *Series) add(step *events.Step) {
	was, is, at := &step.Was, &step.Is, step.Record.Stored
	if s.since.IsZero() {
		s.since = at
	}
	if step.Record.Retold() || is.State == task.Unknown || was.State == is.State && was.Epoch == is.Epoch {
		return
	}
	b := s.at(at)
	if b == nil {
		return
	}
	switch {
	case was.State == task.Pending && is.State == task.Running:
		b.starts++
		b.waited += max(is.StartedAt.Sub(was.Since), 0)
	case is.State == task.Finished:
		b.done++
	case is.State == task.Error, is.State == task.Abnormal, is.State == task.Retrying:
		b.failed++
	}
}

// at is the bucket of a time, nil if that is older than all that is kept. It must be called with mu held.
func (s *Series) at(t time.Time) *bucket {
	n := t.UnixNano() / int64(Every)
	b := &s.of[n%buckets]
	if b.n > n {
		return nil
	}
	if b.n < n {
		*b = bucket{n: n}
	}
	return b
}

// Wait notes since when the task has been pending that has waited longest; the zero time if none waits.
func (s *Series) Wait(now, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = now
	}
	if b := s.at(now); b != nil {
		b.asked, b.oldest = true, 0
		if !oldest.IsZero() {
			b.oldest = max(now.Sub(oldest), 0)
		}
	}
}

// Point is a bucket as it is plotted.
type Point struct {
	At int64 // seconds since 1970
	// Done and Failed are per second, and Wait is the mean in milliseconds, -1 if nothing has
	// started.
	Done, Failed, Wait, Oldest float64
}

// Points returns the complete buckets in order, from the first one with data on.
func (s *Series) Points(now time.Time) (all []Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := now.UnixNano() / int64(Every)
	first := max(last-buckets+1, s.since.UnixNano()/int64(Every))
	if s.since.IsZero() {
		return nil
	}
	for n := first; n < last; n++ {
		p := Point{At: n * int64(Every/time.Second), Wait: -1, Oldest: -1}
		if b := &s.of[n%buckets]; b.n == n {
			p.Done, p.Failed = float64(b.done)/Every.Seconds(), float64(b.failed)/Every.Seconds()
			if b.starts > 0 {
				p.Wait = float64(b.waited) / float64(time.Millisecond) / float64(b.starts)
			}
			if b.asked {
				p.Oldest = b.oldest.Seconds()
			}
		}
		all = append(all, p)
	}
	return all
}
